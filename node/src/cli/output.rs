//! What is printed: bodies, tables, JSON.
//!
//! JSON is one object per line, so that it can be read while it comes. Bytes that are text are
//! printed as text under their own name; others as base64 under that name with `_base64`. What
//! this file does not do: it never prints to stderr, and it never panics because the reader went
//! away.

use std::io::{self, IsTerminal, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use comfy_table::{Cell, ContentArrangement, Table, presets};
use gaggle_client::{AttributeValue, Received};
use serde_json::{Map, Value, json};

use super::failure::{Exit, Failure};

/// Prints one line of text.
pub(crate) fn line(text: impl AsRef<str>) -> Result<(), Failure> {
    bytes(text.as_ref().as_bytes())
}

/// Prints one object on one line.
pub(crate) fn object(value: &Value) -> Result<(), Failure> {
    line(value.to_string())
}

/// Prints bytes as they are and a newline, and has them out when it returns.
pub(crate) fn bytes(body: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written =
        stdout.write_all(body).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush());
    written.map_err(|error| {
        Failure::new(
            Exit::Failed,
            "cannot write the output",
            error,
            "check what reads it; what was not printed was not deleted",
        )
    })
}

/// Prints a note to a person who watches; scripts do not see it.
pub(crate) fn note(text: impl AsRef<str>) {
    if io::stderr().is_terminal() {
        eprintln!("{}", text.as_ref());
    }
}

/// Prints a table, as wide as the terminal.
pub(crate) fn table<const N: usize>(
    titles: [&str; N],
    rows: Vec<[String; N]>,
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(titles.map(|title| Cell::new(title.to_uppercase())));
    for row in rows {
        table.add_row(row);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    for text in table.to_string().lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

/// Puts bytes into an object: as text where they are text.
pub(crate) fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), json!(text)),
        Err(_) => object.insert(format!("{name}_base64"), json!(STANDARD.encode(bytes))),
    };
}

/// A message as JSON, without its receipt.
pub(crate) fn message(received: &Received) -> Map<String, Value> {
    let mut object = Map::new();
    put_bytes(&mut object, "body", &received.message.body);
    if let Some(key) = &received.message.key {
        put_bytes(&mut object, "key", key);
    }
    let mut attributes = Map::new();
    for (name, value) in received.message.attributes.iter() {
        match value {
            AttributeValue::Text(text) => {
                attributes.insert(name.to_owned(), json!(text));
            }
            AttributeValue::Bytes(bytes) => {
                let encoded = json!({ "base64": STANDARD.encode(bytes) });
                attributes.insert(name.to_owned(), encoded);
            }
        }
    }
    object.insert("attributes".to_owned(), Value::Object(attributes));
    let id = format!("{}:{}", received.id.process, received.id.number);
    object.insert("id".to_owned(), json!(id));
    object.insert("stamp".to_owned(), json!(received.stamp.to_string()));
    object.insert("accepted".to_owned(), json!(received.accepted.to_string()));
    object.insert("delivery_count".to_owned(), json!(received.delivery_count));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_base64_and_marked() {
        let mut object = Map::new();
        put_bytes(&mut object, "body", b"hello");
        put_bytes(&mut object, "key", &[0xff, 0]);
        assert_eq!(Value::Object(object), json!({ "body": "hello", "key_base64": "/wA=" }));
    }
}
