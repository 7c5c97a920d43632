//! Values as people type them: durations, sizes, attributes, names of profiles.
//!
//! Everything that comes from the command line is parsed here, once, into a type, and refused
//! with a sentence that says what would be right. What this file does not do: it does not know
//! the limits of queues and nodes; those refuse what they do not take by themselves.

use std::time::Duration;

use bytes::Bytes;
use gaggle_wire::Attributes;

/// Parses `30s`, `250ms`, `1h 30m` or a plain `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| "a duration is written 30s, 250ms, 5m or 1h30m".to_owned())
}

/// Parses `64KiB`, `1MiB`, `512B` or plain bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const WRONG: &str = "a size is written 512B, 64KiB, 1MiB or 2GiB";
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| WRONG.to_owned())?;
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(WRONG.to_owned()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is more than can be counted"))
}

/// A size that fits the settings of a queue.
pub(crate) fn small_size(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("{text} is more than any message may have"))
}

/// One `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    key: String,
    value: String,
}

/// Parses one attribute; its key is checked like that of any message.
pub(crate) fn attribute(text: &str) -> Result<Attribute, String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| "an attribute is written key=value".to_owned())?;
    let mut probe = Attributes::default();
    probe.insert(key, value).map_err(|error| error.to_string())?;
    Ok(Attribute { key: key.to_owned(), value: value.to_owned() })
}

/// All attributes of a message, or why they are too many.
pub(crate) fn attributes(parsed: &[Attribute]) -> Result<Attributes, String> {
    let mut attributes = Attributes::default();
    for Attribute { key, value } in parsed {
        if attributes.value(key).is_some() {
            return Err(format!("the attribute {key} is given twice"));
        }
        attributes.insert(key.clone(), value.clone()).map_err(|error| error.to_string())?;
    }
    Ok(attributes)
}

/// Parses an ordering key: 1 to 256 bytes.
pub(crate) fn ordering_key(text: &str) -> Result<Bytes, String> {
    if text.is_empty() || text.len() > gaggle_wire::KEY_LENGTH_MAX {
        return Err("an ordering key has 1 to 256 bytes".to_owned());
    }
    Ok(Bytes::copy_from_slice(text.as_bytes()))
}

/// Milliseconds of a duration, as they go on the wire.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes milliseconds the way they are typed.
pub(crate) fn show_milliseconds(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// Writes an age with no more than a person reads: two units from a second on.
pub(crate) fn show_age(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        _ => show_milliseconds(ms / 1000 * 1000),
    }
}

/// Writes how far a clock is off: in milliseconds, with its sign.
pub(crate) fn show_offset(offset_ns: i64) -> String {
    let micros = offset_ns / 1000;
    format!(
        "{}{}.{:03}ms",
        if micros < 0 { "-" } else { "+" },
        micros.abs() / 1000,
        micros.abs() % 1000
    )
}

/// Writes bytes with the unit in which they have up to four digits.
pub(crate) fn show_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut rest = 0;
    let mut unit = 0;
    while value >= 1024 && unit + 1 < units.len() {
        rest = value % 1024;
        value /= 1024;
        unit += 1;
    }
    match rest * 10 / 1024 {
        0 => format!("{value}{}", units[unit]),
        tenth => format!("{value}.{tenth}{}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1024"), Ok(1024));
        assert_eq!(size("3 MiB"), Ok(3 << 20));
    }

    #[test]
    fn what_is_no_duration_or_size_is_refused_with_an_example() {
        for bad in ["", "soon", "30", "-1s"] {
            assert!(duration(bad).is_err_and(|why| why.contains("30s")), "{bad}");
        }
        for bad in ["", "KiB", "1KB", "1.5MiB", "-1"] {
            assert!(size(bad).is_err_and(|why| why.contains("64KiB")), "{bad}");
        }
        assert!(size("99999999999GiB").is_err());
        assert!(small_size("5GiB").is_err());
    }

    #[test]
    fn an_attribute_has_a_checked_key_and_any_value() {
        assert!(attribute("a=b=c").is_ok_and(|a| a.value == "b=c"));
        assert!(attribute("a").is_err());
        assert!(attribute("a b=c").is_err());
        let twice = [attribute("a=1").unwrap(), attribute("a=2").unwrap()];
        assert!(attributes(&twice).is_err());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(show_size(0), "0B");
        assert_eq!(show_size(1536), "1.5KiB");
        assert_eq!(show_size(16 << 20), "16MiB");
        assert_eq!(show_age(12), "12ms");
        assert_eq!(show_age(1234), "1.2s");
        assert_eq!(show_age(61_500), "1m 1s");
    }
}
