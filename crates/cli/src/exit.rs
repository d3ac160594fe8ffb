/// What the command's exit code says. The help and the README name the same codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Good = 0,
    /// A conversation or a format file was refused, or two formats differ.
    Refused = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A file could not be read, or the result not be written.
    Unreadable = 3,
}
