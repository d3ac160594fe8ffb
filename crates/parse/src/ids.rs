//! Generates ids for calls whose model writes none.

use rolecall_format::CallIds;

use crate::Ids;

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Returns the id of a call, in the form of its family or else in the form that the caller chose.
pub(crate) fn make(family: &CallIds, ids: Ids, name: &str, index: usize) -> String {
    match (family.id_of(name, index), family, ids) {
        (Some(id), ..) => id,
        (None, CallIds::Nine, Ids::Seeded(seed) | Ids::Nine(seed)) | (None, _, Ids::Nine(seed)) => {
            letters("", seed, index, 9)
        }
        (None, _, Ids::Seeded(seed)) => letters("call_", seed, index, 24),
    }
}

/// Returns a prefix with letters and digits derived from a seed. splitmix64 keeps the ids of one
/// seed from looking alike.
fn letters(prefix: &str, seed: u64, index: usize, count: usize) -> String {
    let mut state = seed ^ (index as u64).wrapping_mul(0xa076_1d64_78bd_642f);
    let next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        char::from(LETTERS[((mixed ^ (mixed >> 31)) % 62) as usize])
    };
    let mut id = String::with_capacity(prefix.len() + count);
    id.push_str(prefix);
    id.extend(std::iter::repeat_with(next).take(count));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let made = |seed, index| make(&CallIds::Any, Ids::Nine(seed), "", index);
        assert_eq!(made(1, 0), made(1, 0));
        assert_ne!(made(1, 0), made(1, 1));
        assert_ne!(made(1, 0), made(2, 0));
    }
}
