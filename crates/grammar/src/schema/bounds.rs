//! Integers within bounds, as a pattern of their digits.

use crate::{Class, Pattern};

/// Returns a pattern for the integers from `min` to `max`.
pub(crate) fn integers(min: Option<i64>, max: Option<i64>) -> Pattern {
    let mut ways = Vec::new();
    if min.is_none_or(|min| min < 0) {
        // -x is within the bounds if x is between -max and -min.
        let least = max.map_or(1, |max| max.saturating_neg().max(1).unsigned_abs());
        let most = min.map(i64::unsigned_abs);
        if most.is_none_or(|most| least <= most) && max.is_none_or(|max| max < 0 || least == 1) {
            ways.push(Pattern::Sequence(vec![Pattern::text("-"), magnitudes(least, most)]));
        }
    }
    if max.is_none_or(|max| max >= 0) {
        let least = min.unwrap_or(0).max(0).unsigned_abs();
        let most = max.map(|max| max.max(0).unsigned_abs());
        if most.is_none_or(|most| least <= most) {
            ways.push(magnitudes(least, most));
        }
    }
    Pattern::Choice(ways)
}

/// Returns a pattern for numbers without a sign and without leading zeros.
fn magnitudes(min: u64, max: Option<u64>) -> Pattern {
    let low = min.to_string();
    let mut ways = Vec::new();
    match max {
        Some(max) => {
            let high = max.to_string();
            for length in low.len()..=high.len() {
                let from = if length == low.len() { low.clone() } else { format!("1{}", "0".repeat(length - 1)) };
                let to = if length == high.len() { high.clone() } else { "9".repeat(length) };
                ways.push(between(from.as_bytes(), to.as_bytes()));
            }
        }
        None => {
            ways.push(between(low.as_bytes(), "9".repeat(low.len()).as_bytes()));
            ways.push(Pattern::Sequence(vec![digit(b'1', b'9'), digit(b'0', b'9').repeated(low.len(), None)]));
        }
    }
    if ways.len() == 1 { ways.remove(0) } else { Pattern::Choice(ways) }
}

/// Returns a pattern for numbers with the same number of digits as both bounds.
fn between(from: &[u8], to: &[u8]) -> Pattern {
    let (Some((low, low_rest)), Some((high, high_rest))) = (from.split_first(), to.split_first()) else {
        return Pattern::text("");
    };
    let rest = low_rest.len();
    if low_rest.iter().all(|digit| *digit == b'0') && high_rest.iter().all(|digit| *digit == b'9') {
        return followed(digit(*low, *high), rest);
    }
    if low == high {
        return Pattern::Sequence(vec![digit(*low, *low), between(low_rest, high_rest)]);
    }
    let nines = vec![b'9'; rest];
    let zeros = vec![b'0'; rest];
    let mut ways = vec![Pattern::Sequence(vec![digit(*low, *low), between(low_rest, &nines)])];
    if high - low > 1 {
        ways.push(followed(digit(low + 1, high - 1), rest));
    }
    ways.push(Pattern::Sequence(vec![digit(*high, *high), between(&zeros, high_rest)]));
    Pattern::Choice(ways)
}

/// Returns a pattern for a digit followed by `rest` more digits.
fn followed(first: Pattern, rest: usize) -> Pattern {
    match rest {
        0 => first,
        rest => Pattern::Sequence(vec![first, digit(b'0', b'9').repeated(rest, Some(rest))]),
    }
}

fn digit(from: u8, to: u8) -> Pattern {
    Pattern::Class(Class::of(&[(from as char, to as char)]))
}
