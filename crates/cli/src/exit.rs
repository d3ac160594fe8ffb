/// The exit codes of the command. The help and the README list the same codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Good = 0,
    /// A conversation or a format file was refused, or two formats differ.
    Refused = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A file could not be read, or the result could not be written.
    Unreadable = 3,
    /// `serve` was told to stop, and cut requests that did not end in time.
    #[cfg_attr(not(feature = "gateway"), expect(dead_code, reason = "only the gateway cuts requests"))]
    Cut = 4,
}
