//! Values whose lists and objects are nested elements, each named by its key.

use rolecall_conversation::Json;
use rolecall_format::codec::{Elements, ValueSyntax};

use crate::argument;
use crate::definitions::{Definitions, WriteShapes};
use crate::grammar::Rules;
use crate::node::FreeText;
use crate::schema::{ObjectShape, Schema, Shape};
use crate::value::{self, MOST_INDENTATION, listed};
use crate::{Class, Node, Pattern};

/// Writes shapes as elements, for one schema.
struct ElementWriter<'a> {
    elements: &'a Elements,
    definitions: Definitions<'a>,
}

/// Builds a grammar for a value.
pub(crate) fn value(elements: &Elements, schema: &Schema, shape: &Shape, rules: &mut Rules) -> Node {
    ElementWriter { elements, definitions: Definitions::new(schema, rules) }.shape(shape)
}

impl<'a> WriteShapes<'a> for ElementWriter<'a> {
    fn definitions(&mut self) -> &mut Definitions<'a> {
        &mut self.definitions
    }

    fn shape(&mut self, shape: &Shape) -> Node {
        let scalar = |value: Json| Node::literal(self.elements.scalar(&value));
        match shape {
            // Text covers nested elements too.
            Shape::Any => Node::Text(FreeText::default()),
            Shape::Null => scalar(Json::Null),
            Shape::Bool => Node::choice([scalar(Json::Bool(true)), scalar(Json::Bool(false))]),
            Shape::Integer { min, max } => Node::Pattern(crate::schema::integers(*min, *max)),
            Shape::Number => Node::Pattern(value::number()),
            Shape::String(form) => argument::raw(form, self.definitions.schema, None, self.definitions.rules),
            Shape::Const(value) => Node::literal(self.elements.printed(value)),
            Shape::Array { items, min, max } => {
                let item = self.shape(items);
                let name = self.elements.item.clone();
                let items = self.element(Node::literal(name), item).repeated(*min, *max);
                self.lines(items, *min > 0)
            }
            Shape::Object(object) => {
                let elements = self.object(object);
                self.lines(elements, object.properties.iter().any(|property| property.required))
            }
            Shape::Union(shapes) => self.union(shapes),
            Shape::Ref(def) => self.definition(*def),
        }
    }
}

impl ElementWriter<'_> {
    fn object(&mut self, object: &ObjectShape) -> Node {
        let mut parts = Vec::new();
        for property in &object.properties {
            let value = self.shape(&property.shape);
            parts.push((self.element(Node::literal(&property.name), value), property.required));
        }
        // A closing tag cannot repeat a key that is not known, so only listed keys are offered.
        if object.others.is_some() && object.properties.is_empty() {
            return Node::Text(FreeText::default());
        }
        listed(parts, &Node::empty(), None, self.definitions.rules)
    }

    fn element(&self, name: Node, value: Node) -> Node {
        let Elements { open, close, .. } = self.elements;
        let text = |text: &str| Node::literal(text);
        Node::sequence([
            self.line(),
            text(&open.0),
            name.clone(),
            text(&open.1),
            value,
            text(&close.0),
            name,
            text(&close.1),
        ])
    }

    /// Returns nested elements with the line break after them. If the elements may be missing, the
    /// line break is optional.
    fn lines(&self, elements: Node, is_needed: bool) -> Node {
        let line = self.line();
        let line = if is_needed || line.is_empty() { line } else { line.optional() };
        Node::sequence([elements, line])
    }

    /// Returns the line break and the indentation before a tag.
    fn line(&self) -> Node {
        match self.elements.indent {
            None => Node::empty(),
            Some(_) => {
                let spaces = Pattern::Class(Class::chars(" ")).repeated(0, Some(MOST_INDENTATION));
                Node::Pattern(Pattern::Sequence(vec![Pattern::text("\n"), spaces]))
            }
        }
    }
}
