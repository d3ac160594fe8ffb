//! Ids for calls whose model writes none.

use crate::Ids;

const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// The id of a call.
pub(crate) fn make(ids: &Ids, name: &str, index: usize) -> String {
    match ids {
        Ids::Seeded(seed) => format!("call_{}", letters(*seed, index, 24)),
        Ids::Nine(seed) => letters(*seed, index, 9),
        Ids::Pattern(pattern) => by_pattern(pattern, name, index),
    }
}

/// A pattern filled in.
pub(crate) fn by_pattern(pattern: &str, name: &str, index: usize) -> String {
    pattern.replace("{index}", &index.to_string()).replace("{name}", name)
}

/// The function's name in an id of this pattern.
pub(crate) fn name_in<'i>(pattern: &str, id: &'i str) -> Option<&'i str> {
    let (before, behind) = pattern.split_once("{name}")?;
    let rest = id.strip_prefix(before).unwrap_or(id);
    let name = match behind.split_once("{index}") {
        None => rest.strip_suffix(behind)?,
        Some((between, after)) => {
            let rest = rest.strip_suffix(after)?;
            let digits = rest.len() - rest.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            rest[..rest.len() - digits].strip_suffix(between).filter(|_| digits > 0)?
        }
    };
    (!name.is_empty()).then_some(name)
}

/// Letters and digits from a seed: splitmix64, so that ids of one seed look nothing alike.
fn letters(seed: u64, index: usize, count: usize) -> String {
    let mut state = seed ^ (index as u64).wrapping_mul(0xa076_1d64_78bd_642f);
    let next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        char::from(LETTERS[((mixed ^ (mixed >> 31)) % 62) as usize])
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_its_name_back() {
        let pattern = "functions.{name}:{index}";
        assert_eq!(name_in(pattern, &by_pattern(pattern, "a.b:c", 12)), Some("a.b:c"));
        assert_eq!(name_in(pattern, "functions.a"), None);
        assert_eq!(name_in(pattern, "a:0"), Some("a"));
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let made = |seed, index| make(&Ids::Nine(seed), "", index);
        assert_eq!(made(1, 0), made(1, 0));
        assert_ne!(made(1, 0), made(1, 1));
        assert_ne!(made(1, 0), made(2, 0));
    }
}
