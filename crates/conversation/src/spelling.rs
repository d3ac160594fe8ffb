//! Names that are almost right.

/// The known name that is nearest to a mistaken one, if any is near.
///
/// ```
/// use rolecall_conversation::spelling::nearest;
/// assert_eq!(nearest("mesages", ["messages", "tools"]), Some("messages"));
/// assert_eq!(nearest("temperature", ["messages", "tools"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(name, known, 1 + name.chars().count() / 3)
}

/// The known name that is nearest to a mistaken one, with at most so many letters changed.
pub fn nearest_within<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Option<&'a str> {
    let length = name.chars().count();
    // At least as many letters change as one is longer than the other.
    let close = known.into_iter().filter(|candidate| candidate.chars().count().abs_diff(length) <= most);
    let measured = close.map(|candidate| (distance(name, candidate), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(candidate)
}

/// The known name that another one almost certainly means: a short name may differ by a letter, a longer one by two, and a very
/// short one not at all.
///
/// ```
/// use rolecall_conversation::spelling::near_miss;
/// assert_eq!(near_miss("contnt", ["content", "role"]), Some("content"));
/// assert_eq!(near_miss("id", ["ids"]), None);
/// ```
pub fn near_miss<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    match name.chars().count() {
        0..4 => None,
        4..7 => nearest_within(name, known, 1),
        _ => nearest_within(name, known, 2),
    }
}

/// How many letters must change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
