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
