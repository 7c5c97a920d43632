//! Hex, as golden bytes are written in.

/// The bytes that this text writes in hex.
///
/// # Panics
/// When it is not hex.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("a digit of hex");
    let pairs = text.trim().as_bytes().chunks_exact(2);
    pairs
        .map(|pair| u8::try_from(digit(pair[0]) << 4 | digit(pair[1])).expect("two digits"))
        .collect()
}

/// The last word of each line whose first word is this one, as bytes.
pub(crate) fn golden(text: &str, kind: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| line.split(' ').next() == Some(kind));
    lines.filter_map(|line| line.rsplit(' ').next()).map(bytes).collect()
}
