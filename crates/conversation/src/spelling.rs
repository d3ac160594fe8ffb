//! Finding the name that a misspelled name most likely means.

/// Returns the known name that is most similar to a misspelled one, if any is similar enough.
///
/// ```
/// use rolecall_conversation::spelling::nearest;
/// assert_eq!(nearest("mesages", ["messages", "tools"]), Some("messages"));
/// assert_eq!(nearest("temperature", ["messages", "tools"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(name, known, 1 + name.chars().count() / 3)
}

/// Returns the known name that is most similar to a misspelled one, within an edit distance of
/// `most`.
pub fn nearest_within<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Option<&'a str> {
    let length = name.chars().count();
    // The edit distance is at least the difference in length.
    let close = known.into_iter().filter(|candidate| candidate.chars().count().abs_diff(length) <= most);
    let measured = close.map(|candidate| (distance(name, candidate), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(candidate)
}

/// Returns the known name that a misspelled one almost certainly means.
///
/// Names of seven or more letters may differ by two letters, names of four to six by one. Shorter
/// names never match.
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

/// Returns the Levenshtein distance.
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
