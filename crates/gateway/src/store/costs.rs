//! What is counted against the bound of bytes, in a file and in memory alike.

/// What a name costs, with what leads from its conversation to it.
pub const NAME_BYTES: u64 = 192;

/// What a conversation costs without turns and names.
pub const CONVERSATION_BYTES: u64 = 256;

/// Returns what a turn with a record of some length costs: a part of a page, or pages of its own, of which
/// redb takes 1, 2, 4, and so on.
pub fn turn_bytes(record: usize) -> u64 {
    let bytes = record as u64 + 96;
    if bytes < 2048 { bytes * 3 / 2 } else { bytes.next_power_of_two().max(4096) }
}
