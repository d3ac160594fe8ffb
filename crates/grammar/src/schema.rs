//! JSON Schema as far as a grammar can follow it.

mod bounds;
mod closed;
mod expression;
mod read;
mod spell;

use rolecall_conversation::Json;
use rolecall_format::codec::JsonStyle;

pub(crate) use bounds::integers;

use crate::{Note, Pattern};

/// A schema: what of it a grammar follows, and the whole of it for engines that read schemas themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The tool whose arguments it is of.
    pub tool: String,
    /// The values that fit.
    pub shape: Shape,
    /// What [`Shape::Ref`] means, by number.
    pub defs: Vec<Shape>,
    /// As it came; objects say whether they may have other properties than those listed.
    pub source: Json,
    /// What of it `shape` does not follow.
    pub notes: Vec<Note>,
    /// How the format lays its values out.
    pub style: JsonStyle,
    /// Whether `source` is made of `shape`, so that it lacks what `notes` name.
    pub is_part: bool,
}

/// Which values fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Any.
    Any,
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A whole number within bounds.
    Integer {
        /// The least.
        min: Option<i64>,
        /// The greatest.
        max: Option<i64>,
    },
    /// A number.
    Number,
    /// A string of this form.
    String(Form),
    /// This value.
    Const(Json),
    /// A list.
    Array {
        /// Each item.
        items: Box<Shape>,
        /// At least so many.
        min: usize,
        /// At most so many.
        max: Option<usize>,
    },
    /// An object.
    Object(ObjectShape),
    /// Any of these.
    Union(Vec<Shape>),
    /// A definition, by number.
    Ref(usize),
}

/// The form of a string.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// At least so many characters.
    pub min: usize,
    /// At most so many.
    pub max: Option<usize>,
    /// Of this pattern; lengths are not looked at then.
    pub pattern: Option<Pattern>,
}

/// An object with properties in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectShape {
    /// The properties.
    pub properties: Vec<Property>,
    /// What any other property is, if there may be others.
    pub others: Option<Box<Shape>>,
}

/// A property of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
}

impl Schema {
    /// The schema of a tool's arguments; a tool without one takes none.
    pub fn of_tool(tool: &str, parameters: Option<&Json>, style: JsonStyle) -> Schema {
        let nothing;
        let source = match parameters {
            Some(schema) if !schema.is_null() => schema,
            _ => {
                nothing = closed::no_arguments();
                &nothing
            }
        };
        let (shape, defs, notes) = read::read(tool, source);
        Schema {
            tool: tool.to_owned(),
            shape,
            defs,
            source: closed::closed(source, style.sorted),
            notes,
            style,
            is_part: false,
        }
    }

    /// The schema of one shape of it.
    pub(crate) fn part(&self, shape: &Shape, style: JsonStyle) -> Schema {
        let source = spell::spelled(shape, &self.defs, style.sorted);
        Schema { shape: shape.clone(), source, style, is_part: true, ..self.clone() }
    }

    /// A shape, its references followed.
    pub fn resolve<'a>(&'a self, mut shape: &'a Shape) -> &'a Shape {
        // No chain of references is longer than there are definitions: `read` breaks those that come round.
        for _ in 0..=self.defs.len() {
            match shape {
                Shape::Ref(def) => shape = &self.defs[*def],
                other => return other,
            }
        }
        &Shape::Any
    }

    /// The arguments one by one; none where the schema does not list them.
    pub fn arguments(&self) -> Option<&ObjectShape> {
        match self.resolve(&self.shape) {
            Shape::Object(object) => Some(object),
            _ => None,
        }
    }
}
