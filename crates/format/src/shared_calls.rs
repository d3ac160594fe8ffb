//! Call layouts shared by several families: `formats/calls/`.

use crate::Slot;

/// The names and texts of the files in `formats/calls/`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/calls.rs"));

/// The layouts that a format takes from a shared file of calls.
pub const SHARED_CALL_SLOTS: [Slot; 7] = [
    Slot::Calls,
    Slot::Call,
    Slot::CallInterpreter,
    Slot::CallSeparator,
    Slot::Argument,
    Slot::ArgumentString,
    Slot::ArgumentSeparator,
];

/// Returns the names and texts of the built-in call layouts. A format takes one with
/// `calls = "NAME"`.
///
/// ```
/// use rolecall_format::{Slot, load, shared_calls};
/// for (name, source) in shared_calls() {
///     let format = load(source)?;
///     assert_eq!(format.name, name);
///     assert!(format.layout(Slot::Call).is_some() || format.layout(Slot::CallInterpreter).is_some());
/// }
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
pub fn shared_calls() -> impl ExactSizeIterator<Item = (&'static str, &'static str)> {
    FILES.iter().map(|(file, source)| (file.trim_end_matches(".toml"), *source))
}
