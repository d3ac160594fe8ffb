//! Contents in parts, for templates that take texts only.

use std::sync::OnceLock;

use rolecall::Model;
use rolecall::conversation::{Content, Json, Message, Part};
use rolecall::template::{Capability, ChatTemplate, Support, TemplateOptions, analyze_template};

/// Knows whether a model's templates write contents in parts. It is found out when the first comes.
#[derive(Debug, Default)]
pub struct TextParts(OnceLock<bool>);

impl TextParts {
    /// Returns the messages in a form that the model's templates write.
    pub fn written(&self, model: &Model, messages: Vec<Message>) -> Vec<Message> {
        let has_parts = |message: &Message| matches!(message.content(), Content::Parts(_));
        match messages.iter().any(has_parts) && *self.0.get_or_init(|| must_join(model)) {
            true => messages.into_iter().map(joined).collect(),
            false => messages,
        }
    }
}

/// Reports whether a template of the model does not write contents in parts. Such a template refuses them, or
/// writes them as a list in Python's syntax.
fn must_join(model: &Model) -> bool {
    let Some(templates) = model.templates() else { return false };
    templates.templates.iter().any(|named| {
        let compiled = ChatTemplate::compile(&named.source, templates.tokens.clone());
        let analysis = compiled.and_then(|template| analyze_template(&template, &TemplateOptions::default()));
        // What is wrong with a template that cannot be analyzed shows when it renders a prompt.
        analysis.is_ok_and(|analysis| {
            !matches!(analysis.support(Capability::ContentParts), Support::Yes | Support::Unknown)
        })
    })
}

/// Joins a content that has only parts of text, with a line break between them. Engines do the same.
fn joined(message: Message) -> Message {
    let Content::Parts(_) = message.content() else { return message };
    let texts: Option<Vec<&str>> = message.parts().map(text_of).collect();
    let Some(texts) = texts else { return message };
    let mut object = message.as_object().clone();
    object.insert("content", Json::from(texts.join("\n")));
    Message::from_object(object).unwrap_or(message)
}

fn text_of(part: Part<'_>) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::{Message, json};

    use super::joined;

    fn message(content: &str) -> Message {
        let text = format!(r#"{{"role": "user", "content": {content}, "name": "ann"}}"#);
        Message::from_object(json::parse(&text).unwrap().as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn parts_of_text_become_one_text() {
        let parts =
            message(r#"[{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]"#);
        assert_eq!(joined(parts), message(r#""a\n\nb""#));
        assert_eq!(joined(message("[]")), message(r#""""#));
    }

    #[test]
    fn other_parts_stay() {
        let parts = message(r#"[{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "b"}}]"#);
        assert_eq!(joined(parts.clone()), parts);
    }
}
