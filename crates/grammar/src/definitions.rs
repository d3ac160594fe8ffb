//! The definitions of a schema, each written once as a rule.

use std::collections::HashMap;

use crate::grammar::Rules;
use crate::schema::{self, Schema, Shape};
use crate::{Node, Note};

/// The definitions of a schema and the rules written for them so far.
pub(crate) struct Definitions<'a> {
    pub schema: &'a Schema,
    pub rules: &'a mut Rules,
    written: HashMap<usize, usize>,
    depth: usize,
}

impl<'a> Definitions<'a> {
    pub(crate) fn new(schema: &'a Schema, rules: &'a mut Rules) -> Definitions<'a> {
        schema.notes.iter().for_each(|note| rules.note(note));
        Definitions { schema, rules, written: HashMap::new(), depth: 0 }
    }
}

/// Writes shapes as nodes, for one schema in one syntax.
pub(crate) trait WriteShapes<'a> {
    fn definitions(&mut self) -> &mut Definitions<'a>;

    /// Returns the values of a shape.
    fn shape(&mut self, shape: &Shape) -> Node;

    /// Returns the values of any of several shapes.
    fn union(&mut self, shapes: &[Shape]) -> Node {
        let shapes: Vec<Node> = shapes.iter().map(|shape| self.shape(shape)).collect();
        Node::choice(shapes)
    }

    /// Returns the rule of a definition. The rule is reserved before it is written, because a
    /// definition may refer to itself.
    fn definition(&mut self, def: usize) -> Node {
        let definitions = self.definitions();
        if let Some(rule) = definitions.written.get(&def) {
            return Node::Rule(*rule);
        }
        let schema = definitions.schema;
        if definitions.depth == schema::MAX_DEPTH {
            // Only a syntax that sorts its properties leads deeper than the schema was read.
            let note = Note::Keyword { purpose: schema.purpose.clone(), at: String::new(), keyword: "$ref".into() };
            definitions.rules.note(&note);
            return self.shape(&Shape::Any);
        }
        let rule = definitions.rules.reserve("def");
        definitions.written.insert(def, rule);
        definitions.depth += 1;
        let node = self.shape(&schema.defs[def]);
        let definitions = self.definitions();
        definitions.depth -= 1;
        definitions.rules.fill(rule, node);
        Node::Rule(rule)
    }
}
