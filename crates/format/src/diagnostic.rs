use std::fmt;
use std::ops::Range;

/// A mistake in a format file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable name for the kind of mistake.
    pub code: &'static str,
    /// What was expected and what was found.
    pub message: String,
    /// The position, in bytes of the file.
    pub span: Range<usize>,
    /// The suggested correction.
    pub help: Option<String>,
}

/// An invalid format file, with all its mistakes in order of position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The mistakes. There is at least one.
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
