//! The files of the frameworks' folders.

/// Path and text of each, by path.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// All files of a folder: the name without its ending, and the text.
pub(crate) fn of(framework: &'static str, ending: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| {
        let name = path.strip_prefix(framework)?.strip_prefix('/')?.strip_suffix(ending)?;
        Some((name, *text))
    })
}

/// The text of one file; empty, if it is not there.
pub(crate) fn text(path: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == path).map_or("", |(_, text)| text)
}
