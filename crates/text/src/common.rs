/// The number of items that are compared at once, which is much faster than one by one.
const BLOCK: usize = 64;

/// Returns the number of items with which both lists begin.
///
/// ```
/// assert_eq!(rolecall_text::common_items(&[1, 2, 3], &[1, 2, 4, 5]), 2);
/// ```
pub fn common_items<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let start = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    let rest = one[start..].iter().zip(&other[start..]);
    start + rest.take_while(|(one, other)| one == other).count()
}

/// Returns the number of bytes with which both texts begin, in whole characters.
///
/// ```
/// assert_eq!(rolecall_text::common_prefix("aéx", "aèx"), 1);
/// ```
pub fn common_prefix(one: &str, other: &str) -> usize {
    let mut same = common_items(one.as_bytes(), other.as_bytes());
    while !one.is_char_boundary(same) || !other.is_char_boundary(same) {
        same -= 1;
    }
    same
}

/// Returns the number of bytes with which both texts end, in whole characters.
///
/// ```
/// assert_eq!(rolecall_text::common_suffix("xé", "yé"), 2);
/// ```
pub fn common_suffix(one: &str, other: &str) -> usize {
    let pairs = one.bytes().rev().zip(other.bytes().rev());
    let mut same = pairs.take_while(|(one, other)| one == other).count();
    while !one.is_char_boundary(one.len() - same) || !other.is_char_boundary(other.len() - same) {
        same -= 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, common_items, common_prefix, common_suffix};

    #[test]
    fn what_is_shared_is_whole_characters() {
        for (one, other, before, behind) in [
            ("aéx", "aèx", 1, 1),
            ("éa", "éb", 2, 0),
            ("é", "é", 2, 2),
            ("日本", "日曜", 3, 0),
            // The last bytes of both are the same.
            ("é", "ĩ", 0, 0),
            ("", "a", 0, 0),
        ] {
            assert_eq!((common_prefix(one, other), common_suffix(one, other)), (before, behind), "{one} {other}");
        }
    }

    #[test]
    fn lists_are_compared_over_blocks() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let one: Vec<usize> = (0..length).collect();
            let mut other = one.clone();
            other.push(7);
            assert_eq!(common_items(&one, &other), length);
            for at in 0..length {
                other[at] += 1;
                assert_eq!(common_items(&one, &other), at);
                other[at] -= 1;
            }
        }
    }
}
