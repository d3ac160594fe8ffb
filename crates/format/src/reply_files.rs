//! Formats that describe only how a model writes its reply: `formats/replies/`.

use std::sync::{Arc, OnceLock};

use crate::{Format, load, shared_calls};

/// The names and texts of the files in `formats/replies/`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/replies.rs"));

/// Returns the names and texts of the built-in reply files.
///
/// ```
/// use rolecall_format::{FormatPart, load, reply_files};
/// for (name, source) in reply_files() {
///     let format = load(source)?;
///     assert_eq!((format.name.as_str(), format.part), (name, FormatPart::Reply));
/// }
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
pub fn reply_files() -> impl ExactSizeIterator<Item = (&'static str, &'static str)> {
    FILES.iter().map(|(file, source)| (file.trim_end_matches(".toml"), *source))
}

/// Returns the built-in reply format with this name or alias: a reply file, or a shared call layout
/// ([`shared_calls`]), which is a reply file too.
///
/// ```
/// use rolecall_format::reply_format;
/// assert!(reply_format("json-in-tags").is_some());
/// assert!(reply_format("unheard-of").is_none());
/// ```
pub fn reply_format(name: &str) -> Option<&'static Arc<Format>> {
    static FORMATS: OnceLock<Vec<Arc<Format>>> = OnceLock::new();
    let formats = FORMATS.get_or_init(|| {
        // A test loads every file, so all of them are valid.
        reply_files().chain(shared_calls()).filter_map(|(_, source)| load(source).ok().map(Arc::new)).collect()
    });
    formats.iter().find(|format| format.names().any(|known| known == name))
}
