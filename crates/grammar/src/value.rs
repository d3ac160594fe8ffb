//! The values of a schema, in each syntax for arguments.

mod listed;
mod syntax;

pub(crate) use listed::listed;
pub(crate) use syntax::{MOST_INDENTATION, Syntax};

use crate::definitions::{Definitions, WriteShapes};
use crate::grammar::Rules;
use crate::schema::{self, ObjectShape, Schema, Shape};
use crate::{Class, Node, Pattern};

/// Writes shapes as nodes, for one schema in one syntax.
pub(crate) struct ValueWriter<'a> {
    syntax: Syntax,
    definitions: Definitions<'a>,
    /// The rule for any value, once it is needed.
    any: Option<usize>,
}

/// Returns the values of a schema in a syntax.
pub(crate) fn value(schema: &Schema, syntax: Syntax, rules: &mut Rules) -> Node {
    ValueWriter::new(schema, syntax, rules).shape(&schema.shape)
}

impl<'a> ValueWriter<'a> {
    pub(crate) fn new(schema: &'a Schema, syntax: Syntax, rules: &'a mut Rules) -> ValueWriter<'a> {
        ValueWriter { syntax, definitions: Definitions::new(schema, rules), any: None }
    }
}

impl<'a> WriteShapes<'a> for ValueWriter<'a> {
    fn definitions(&mut self) -> &mut Definitions<'a> {
        &mut self.definitions
    }

    fn shape(&mut self, shape: &Shape) -> Node {
        match shape {
            Shape::Any => self.any(),
            Shape::Null => Node::literal(self.syntax.null()),
            Shape::Bool => Node::choice([true, false].map(|value| Node::literal(self.syntax.truth(value)))),
            Shape::Integer { min, max } => Node::Pattern(schema::integers(*min, *max)),
            Shape::Number => Node::Pattern(number()),
            Shape::String(form) => self.syntax.string(form),
            Shape::Const(value) => self.syntax.constant(value),
            Shape::Array { items, min, max } => {
                let item = self.shape(items);
                self.list(item, *min, *max)
            }
            Shape::Object(object) => self.object(object),
            Shape::Union(shapes) => self.union(shapes),
            Shape::Ref(def) => self.definition(*def),
        }
    }
}

impl ValueWriter<'_> {
    fn any(&mut self) -> Node {
        if let Some(rule) = self.any {
            return Node::Rule(rule);
        }
        let rule = self.definitions.rules.reserve("value");
        self.any = Some(rule);
        let string = self.syntax.string(&schema::Form::default());
        let object = ObjectShape { properties: Vec::new(), others: Some(Box::new(Shape::Any)) };
        let ways = [
            Node::literal(self.syntax.null()),
            Node::literal(self.syntax.truth(true)),
            Node::literal(self.syntax.truth(false)),
            Node::Pattern(number()),
            string,
            self.list(Node::Rule(rule), 0, None),
            self.object(&object),
        ];
        self.definitions.rules.fill(rule, Node::choice(ways));
        Node::Rule(rule)
    }

    fn list(&mut self, item: Node, min: usize, max: Option<usize>) -> Node {
        let space = self.syntax.space();
        let separator = self.syntax.item_separator();
        let more = Node::sequence([separator, item.clone()]);
        let several = Node::sequence([
            space.clone(),
            item,
            more.repeated(min.saturating_sub(1), max.map(|max| max.saturating_sub(1))),
            space.clone(),
        ]);
        let inner = match (min, max) {
            (_, Some(0)) => space,
            (0, _) => Node::choice([several, space]),
            _ => several,
        };
        Node::sequence([Node::literal("["), inner, Node::literal("]")])
    }

    /// Returns an object with its braces.
    fn object(&mut self, object: &ObjectShape) -> Node {
        let space = self.syntax.space();
        let mut order: Vec<_> = object.properties.iter().collect();
        self.syntax.order(&mut order);
        let mut parts = Vec::new();
        for property in order {
            let value = self.shape(&property.shape);
            let key = self.syntax.key(&property.name);
            parts.push((Node::sequence([key, self.syntax.key_separator(), value]), property.required));
        }
        let others = object.others.as_ref().map(|others| {
            let value = self.shape(others);
            Node::sequence([self.syntax.any_key(), self.syntax.key_separator(), value])
        });
        let separator = self.syntax.item_separator();
        let members = listed(parts, &separator, others, self.definitions.rules);
        Node::sequence([Node::literal("{"), space.clone(), members, space, Node::literal("}")])
    }
}

/// Returns a number with or without a fraction and an exponent.
pub(crate) fn number() -> Pattern {
    let digits = |min| Pattern::Class(Class::of(&[('0', '9')])).repeated(min, None);
    let fraction = Pattern::Sequence(vec![Pattern::text("."), digits(1)]);
    let exponent = Pattern::Sequence(vec![
        Pattern::Class(Class::chars("eE")),
        Pattern::Class(Class::chars("+-")).optional(),
        digits(1),
    ]);
    Pattern::Sequence(vec![schema::integers(None, None), fraction.optional(), exponent.optional()])
}
