//! The frameworks, a module for each, and their table. If two importers recognize a file, the later row wins.

mod lagent;
pub mod lmdeploy;
pub mod lmflow;
pub mod xtuner;

use rolecall_format::{Format, NameClash, Registry};

use crate::framework::{Dialect, Framework};

/// All frameworks.
pub static FRAMEWORKS: [Framework; 4] = [xtuner::FRAMEWORK, lmdeploy::FRAMEWORK, lmflow::FRAMEWORK, lagent::FRAMEWORK];

/// Returns the formats that the frameworks use for a model's name or path, by their own rules.
///
/// ```
/// let found = rolecall_interop::dialects("internlm/internlm2-7b");
/// let base = found.iter().find(|dialect| dialect.format == "xtuner:default").expect("the table has it");
/// assert!(base.warning.as_deref().is_some_and(|warning| warning.contains("never trained")));
/// ```
pub fn dialects(model: &str) -> Vec<Dialect> {
    FRAMEWORKS.iter().filter_map(|framework| (framework.dialect)(model)).collect()
}

/// Returns all formats of other frameworks that come with the library.
pub fn formats() -> Vec<Format> {
    FRAMEWORKS.iter().flat_map(|framework| (framework.formats)()).collect()
}

/// Adds all formats of other frameworks to a registry.
///
/// ```
/// use rolecall_format::builtin;
/// let mut registry = builtin();
/// rolecall_interop::register(&mut registry)?;
/// assert_eq!(registry.get("lmdeploy:internlm-chat").map(|format| format.name.as_str()), Some("lmdeploy:internlm"));
/// # Ok::<(), rolecall_format::NameClash>(())
/// ```
pub fn register(registry: &mut Registry) -> Result<(), NameClash> {
    formats().into_iter().try_for_each(|format| registry.add(format).map(|_| ()))
}
