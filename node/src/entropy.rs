//! Randomness from the system: ids of stores, seeds, secrets.
//!
//! What this file does not do: it makes no randomness of its own and keeps none; the core gets a
//! seed at its opening.

use std::io;

use rand::TryRng;
use rand::rngs::SysRng;

/// So many random bytes.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// A random number.
pub(crate) fn number() -> io::Result<u64> {
    bytes().map(u64::from_be_bytes)
}
