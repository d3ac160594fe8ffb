use std::fmt;
use std::ops::Range;

/// One mistake in a format file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable name of the kind of mistake.
    pub code: &'static str,
    /// What was expected and what was found.
    pub message: String,
    /// Where, in bytes of the file.
    pub span: Range<usize>,
    /// What to do.
    pub help: Option<String>,
}

/// A format file that cannot be used: every mistake in it, in order of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The mistakes; at least one.
    pub diagnostics: Vec<Diagnostic>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&diagnostic.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// The known name that is nearest to a mistaken one, if any is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let measured = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.chars().count() / 3).then_some(candidate)
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
