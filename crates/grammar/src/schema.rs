//! JSON Schema, as far as a grammar can enforce it.

mod bounds;
mod closed;
mod expression;
mod read;
mod spell;
mod values;

use std::fmt;

use rolecall_conversation::{Json, object};
use rolecall_format::codec::JsonStyle;

pub(crate) use bounds::integers;
pub(crate) use read::MAX_DEPTH;

use crate::{Note, Pattern};

/// A schema: the part that a grammar enforces, and the source for engines that support JSON Schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// What the schema is for.
    pub purpose: Purpose,
    /// The values that match.
    pub shape: Shape,
    /// The definitions that [`Shape::Ref`] refers to by index.
    pub defs: Vec<Shape>,
    /// The original schema, with every object stating whether it allows additional properties.
    pub source: Json,
    /// The parts of the schema that `shape` does not enforce.
    pub notes: Vec<Note>,
    /// The format's JSON style for the values.
    pub style: JsonStyle,
    /// Whether `source` was generated from `shape`, so that it lacks the keywords in `notes`.
    pub is_part: bool,
}

/// What a schema is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The arguments of the tool with this name.
    Arguments(String),
    /// The answer.
    Answer,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Purpose::Arguments(tool) => write!(f, "tool `{tool}`"),
            Purpose::Answer => write!(f, "the answer"),
        }
    }
}

/// A set of matching values.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Any value.
    Any,
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// An integer within bounds.
    Integer {
        /// The minimum.
        min: Option<i64>,
        /// The maximum.
        max: Option<i64>,
    },
    /// A number.
    Number,
    /// A string.
    String(Form),
    /// One particular value.
    Const(Json),
    /// A list.
    Array {
        /// The shape of each item.
        items: Box<Shape>,
        /// The minimum number of items.
        min: usize,
        /// The maximum number of items.
        max: Option<usize>,
    },
    /// An object.
    Object(ObjectShape),
    /// A value that matches any of these shapes.
    Union(Vec<Shape>),
    /// The definition with this index.
    Ref(usize),
}

/// The allowed form of a string.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// The minimum number of characters.
    pub min: usize,
    /// The maximum number of characters.
    pub max: Option<usize>,
    /// The pattern that the string must match. If set, the lengths are ignored.
    pub pattern: Option<Pattern>,
}

/// An object, with its properties in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectShape {
    /// The properties.
    pub properties: Vec<Property>,
    /// The shape of additional properties, if they are allowed.
    pub others: Option<Box<Shape>>,
}

/// A property of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// The property's name.
    pub name: String,
    /// The shape of the property's value.
    pub shape: Shape,
    /// Whether the property is required.
    pub required: bool,
}

impl Schema {
    /// Builds the schema of a tool's arguments. A tool without a schema takes no arguments.
    pub fn of_tool(tool: &str, parameters: Option<&Json>, style: JsonStyle) -> Schema {
        let nothing;
        let source = match parameters {
            Some(schema) if !schema.is_null() => schema,
            _ => {
                nothing = closed::no_arguments();
                &nothing
            }
        };
        Schema::new(Purpose::Arguments(tool.to_owned()), source, style)
    }

    /// Builds the schema of the answer.
    pub fn of_answer(source: &Json, style: JsonStyle) -> Schema {
        Schema::new(Purpose::Answer, source, style)
    }

    /// Builds the schema of an answer that is any JSON object.
    pub fn of_any_object(style: JsonStyle) -> Schema {
        Schema::of_answer(&Json::Object(object! { "type" => "object" }), style)
    }

    fn new(purpose: Purpose, source: &Json, style: JsonStyle) -> Schema {
        let (shape, defs, notes) = read::read(&purpose, source);
        let source = closed::closed(source, style.sorted);
        Schema { purpose, shape, defs, source, notes, style, is_part: false }
    }

    /// Reports whether any value matches.
    pub fn has_values(&self) -> bool {
        !matches!(&self.shape, Shape::Union(shapes) if shapes.is_empty())
    }

    /// Returns the schema of one shape within this schema.
    pub(crate) fn part(&self, shape: &Shape, style: JsonStyle) -> Schema {
        let source = spell::spelled(shape, &self.defs, style.sorted);
        Schema { shape: shape.clone(), source, style, is_part: true, ..self.clone() }
    }

    /// Returns a shape with its references resolved.
    pub fn resolve<'a>(&'a self, mut shape: &'a Shape) -> &'a Shape {
        // No chain of references is longer than the number of definitions, because `read` breaks
        // cycles.
        for _ in 0..=self.defs.len() {
            match shape {
                Shape::Ref(def) => shape = &self.defs[*def],
                other => return other,
            }
        }
        &Shape::Any
    }

    /// Returns the schema's object shape, or `None` if it does not list the arguments.
    pub fn arguments(&self) -> Option<&ObjectShape> {
        match self.resolve(&self.shape) {
            Shape::Object(object) => Some(object),
            _ => None,
        }
    }
}
