use rolecall_conversation::Json;

/// A key in the object of a call whose value is the same in every call, except for the call's
/// index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    pub key: String,
    /// The value, with [`INDEX`] in place of the call's index.
    pub value: Json,
}

/// Stands for the index of a call, in text that no layout writes.
pub(crate) const INDEX: &str = "\u{1}x";

impl Constant {
    /// Reports whether a value is this one. An index may be a number or a string.
    pub fn has(&self, found: &Json) -> bool {
        match &self.value {
            Json::String(text) if text.contains(INDEX) => has_index(text, found),
            value => value == found,
        }
    }
}

/// Reports whether a value is this text with an index in it.
pub(crate) fn has_index(text: &str, found: &Json) -> bool {
    let found = match found {
        Json::String(found) => found.as_str(),
        Json::Number(found) => found.spelling(),
        _ => return false,
    };
    let Some((before, behind)) = text.split_once(INDEX) else { return false };
    let index = found.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    index.is_some_and(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()))
}
