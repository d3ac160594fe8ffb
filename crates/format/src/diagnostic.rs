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
