use rolecall_format::Registry;

/// All formats that come with the library: the model makers' own, and the dialects of other frameworks.
///
/// ```
/// let registry = rolecall::registry();
/// assert!(registry.get("llama2").is_some() && registry.get("xtuner:llama2_chat").is_some());
/// ```
pub fn registry() -> Registry {
    let mut registry = Registry::builtin();
    let registered = rolecall_interop::register(&mut registry);
    // A test looks at all names; a clash never ships.
    debug_assert!(registered.is_ok(), "{registered:?}");
    registry
}
