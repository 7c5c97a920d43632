//! From an ordering key to a partition.
//!
//! This is a contract: every client, in every language and version, sends a key to the same
//! partition, or the order of the key is lost. The hash is FNV-1a with 64 bits (offset basis
//! `0xcbf29ce484222325`, prime `0x100000001b3`), whose high and low half are folded by exclusive
//! or, and the partition is that 32-bit number modulo the count of partitions. FNV is too weak
//! against chosen keys to balance load, and needs not be stronger: whoever may send to a queue
//! may fill a partition of it in any case. The test at the bottom holds golden values.

/// The hash of an ordering key.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    key.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The partition of a key with this hash.
#[must_use]
pub fn partition_of(hash: u64, partitions: u16) -> u16 {
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    u16::try_from(folded % u64::from(partitions.max(1))).expect("it is below a u16")
}

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(key_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(key_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(key_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn keys_go_where_they_went_at_the_first_release() {
        let keys = ["a", "b", "customer-1", "customer-2", "\u{e9}t\u{e9}", "0", "order/77"];
        let partitions: Vec<u16> =
            keys.iter().map(|key| partition_of(key_hash(key.as_bytes()), 8)).collect();
        assert_eq!(partitions, GOLDEN);
    }

    #[test]
    fn keys_spread_over_all_partitions() {
        let mut counts = [0_u32; 8];
        for key in 0..8000 {
            counts[usize::from(partition_of(key_hash(format!("key-{key}").as_bytes()), 8))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    const GOLDEN: [u16; 7] = [0, 1, 4, 1, 1, 3, 0];
}
