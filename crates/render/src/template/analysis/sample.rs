//! The parts of the conversations that probe a template.

pub(super) const USER: &str = r#"{"role": "user", "content": "Which way?"}"#;
pub(super) const TOOLS: &str = r#""tools": [{"type": "function", "function": {"name": "look_up", "description": "Looks up a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "Its name."}}, "required": ["place"]}}}]"#;
pub(super) const DOCUMENTS: &str =
    r#""documents": [{"title": "Map", "text": "Left is north.", "doc_id": 1, "data": {"text": "Left is north."}}]"#;
pub(super) const PARTS: &str = r#"{"role": "user", "content": [{"type": "text", "text": "Which way?"}]}"#;

/// The simplest conversations, with the usual one first. Some templates require things that are
/// optional in others.
pub(super) const PLAIN: [(&str, &str); 4] = [(USER, ""), (PARTS, ""), (USER, DOCUMENTS), (USER, TOOLS)];
