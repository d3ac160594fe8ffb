//! The embedded files of the frameworks' folders in `formats/`.

/// The path and text of each file.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the name, without its ending, and the text of each file in a folder with this ending.
pub(crate) fn of(framework: &'static str, ending: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| {
        let name = path.strip_prefix(framework)?.strip_prefix('/')?.strip_suffix(ending)?;
        Some((name, *text))
    })
}

/// Returns the text of a file, or an empty text if there is no such file.
pub(crate) fn text(path: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == path).map_or("", |(_, text)| text)
}

/// Returns the name and text of each data file of a framework.
pub(crate) fn all(framework: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter_map(move |(path, text)| Some((path.strip_prefix(framework)?.strip_prefix('/')?, *text)))
}
