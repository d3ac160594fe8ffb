//! The answer, in the hole for the content.

use std::sync::Arc;

use rolecall_format::codec::JsonStyle;
use rolecall_format::{Codec, Field, Layout, Op};

use crate::composer::Composer;
use crate::node::FreeText;
use crate::schema::{Form, Schema};
use crate::value::{self, Syntax};
use crate::{Answer, Error, Node, marks};

/// The grammar of an answer.
#[derive(Clone)]
pub(crate) struct Content {
    /// As the layout's own text.
    pub(crate) plain: Node,
    /// In a JSON string.
    pub(crate) quoted: Node,
}

impl Composer<'_> {
    /// Returns the grammar of the answers in a layout.
    pub(crate) fn answer(&mut self, layout: &Layout) -> Result<Content, Error> {
        let schema = match &self.options.answer {
            Answer::Free => {
                return Ok(Content { plain: self.free_text(layout), quoted: json().string(&Form::default()) });
            }
            Answer::Object => Schema::of_any_object(JsonStyle::PLAIN),
            Answer::Schema(source) => {
                if source.as_object().is_none() && source.as_bool().is_none() {
                    return Err(Error::NotASchema { found: source.kind() });
                }
                Schema::of_answer(source, JsonStyle::PLAIN)
            }
        };
        if !schema.has_values() {
            return Err(Error::NoAnswer);
        }
        let quoted = match is_quoted(layout.ops()) {
            true => {
                let inner = value::value(&schema, Syntax::Quoted, &mut self.rules);
                Node::sequence([Node::literal("\""), inner, Node::literal("\"")])
            }
            false => Node::never(),
        };
        Ok(Content { plain: Node::Json(Arc::new(schema)), quoted })
    }

    /// Reports whether an answer is any text.
    pub(crate) fn is_free(&self) -> bool {
        self.options.answer == Answer::Free
    }

    /// Returns the free text of an answer, which must not open calls or reasoning.
    fn free_text(&self, layout: &Layout) -> Node {
        let mut text = FreeText::default();
        if let Some(opening) = self.call_opening() {
            match marks::is_telling(&opening) {
                true => text.avoid.push(opening.text),
                false => text.not_first.extend(opening.text.trim_start().chars().next()),
            }
        }
        text.avoid.extend(marks::before_reasoning(layout, self.format));
        Node::Text(text)
    }
}

fn json() -> Syntax {
    Syntax::Json(JsonStyle::PLAIN)
}

/// Reports whether a layout writes the content as a JSON string.
fn is_quoted(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Hole { field, codec, .. } => *field == Field::Content && matches!(codec, Codec::Json(_)),
        Op::Group(inner) => is_quoted(inner),
        _ => false,
    })
}
