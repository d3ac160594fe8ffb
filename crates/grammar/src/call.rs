use std::sync::Arc;

use rolecall_conversation::Tool;
use rolecall_conversation::json;
use rolecall_format::codec::call::{Keys, Style};
use rolecall_format::codec::{JsonStyle, Spelling};
use rolecall_format::{CallIds, Codec, Field, Format, Op, Slot};
use rolecall_text::common_prefix;

use crate::composer::Composer;
use crate::node::FreeText;
use crate::schema::Schema;
use crate::value::{self, Syntax};
use crate::{Class, Error, Node, Note, Pattern, ToolChoice, argument, marks};

/// The maximum length of a call id in a family without a rule for ids.
const ID_LENGTH: usize = 64;

/// The grammar of a turn's calls.
pub(crate) struct Calls {
    /// The grammar of all calls.
    pub(crate) node: Node,
    /// The text that opens the calls.
    pub(crate) opening: String,
    /// Whether that text occurs in no other text.
    pub(crate) are_marked: bool,
}

impl Composer<'_> {
    /// Returns the grammar of the possible calls, or `None` if no calls are possible.
    pub(crate) fn calls(&mut self) -> Result<Option<Calls>, Error> {
        let (functions, code) = self.offered()?;
        if functions.is_empty() && !code {
            return Ok(None);
        }
        let must = matches!(self.options.choice, ToolChoice::Required | ToolChoice::Named(_));
        let format = self.format;
        let mut each = Vec::new();
        if self.calls_layout().is_some() {
            if let Some(layout) = format.layout(Slot::Call) {
                each.extend(functions.iter().map(|tool| self.call(layout.ops(), tool)));
            }
            match format.layout(Slot::CallInterpreter) {
                Some(layout) if code => each.push(self.code(layout.ops())),
                None if code && functions.is_empty() && must => {
                    return Err(Error::NoInterpreter { format: format.name.clone() });
                }
                None if code => self.notes.push(Note::NoInterpreter),
                _ => {}
            }
        }
        if each.is_empty() {
            if must {
                return Err(Error::NoCalls { format: format.name.clone() });
            }
            self.notes.push(Note::NoCalls);
            return Ok(None);
        }
        let node = self.together(Node::choice(each));
        let opening = marks::opening(&node);
        let are_marked = opening.as_ref().is_some_and(marks::is_telling);
        Ok(Some(Calls { node, opening: opening.map(|mark| mark.text).unwrap_or_default(), are_marked }))
    }

    /// Builds one or several calls, with the text between and around them.
    fn together(&mut self, call: Node) -> Node {
        let fixed = |composer: &Self, slot| {
            composer.format.layout(slot).map(|layout| composer.ops(layout.ops(), &mut |_, _| None))
        };
        let separator = fixed(self, Slot::CallSeparator).unwrap_or(Node::empty());
        let mut most = self.format.rules.max_calls;
        if self.options.one_call {
            most = Some(1);
        } else if ends_turn(self.format) && most != Some(1) {
            most = Some(1);
            self.notes.push(Note::OneCall);
        }
        let call = self.shortened(call);
        let more = Node::sequence([separator, call.clone()]);
        let list = Node::sequence([call, more.repeated(0, most.map(|most| most.saturating_sub(1)))]);
        match self.format.layout(Slot::Calls) {
            Some(layout) => {
                let ops = crate::composer::without_end(layout.ops(), self.format);
                self.ops(&ops, &mut |field, _| (field == Field::Calls).then(|| list.clone()))
            }
            None => list,
        }
    }

    /// Moves the part of a call after its marker into a rule, because the first call and the
    /// following calls share it.
    fn shortened(&mut self, call: Node) -> Node {
        let mut parts = call.into_parts();
        let is_fixed = |node: Option<&Node>| matches!(node, Some(Node::Literal(_) | Node::Token(_)));
        if parts.len() < 2 || !is_fixed(parts.first()) || !parts.last().is_some_and(ends_fixed) {
            return Node::Sequence(parts);
        }
        let rest = parts.split_off(1);
        parts.push(self.rules.shorten("call", Node::sequence(rest)));
        Node::sequence(parts)
    }

    /// Builds a call to a function.
    fn call(&mut self, ops: &[Op], tool: &Tool) -> Node {
        let name = tool.name().to_owned();
        let parameters = tool.function().and_then(|function| function.get("parameters"));
        let mut rules = std::mem::take(&mut self.rules);
        let ops = self.call_ops(ops);
        let node = self.ops(&ops, &mut |field, codec| {
            let schema = |style| Schema::of_tool(&name, parameters, style);
            match (field, codec) {
                (Field::Call, Codec::Call(keys)) => Some(whole_call(keys, &name, parameters_schema(keys, &schema))),
                (Field::Name, codec) => Some(self.name(&name, codec)),
                (Field::Arguments, codec) => Some(match codec.value_syntax().map(|syntax| syntax.spelling()) {
                    Some(Spelling::Json(style)) => Node::Json(Arc::new(schema(style))),
                    Some(Spelling::JsonString) => {
                        let inner = value::value(&schema(JsonStyle::PLAIN), Syntax::Quoted, &mut rules);
                        Node::sequence([Node::literal("\""), inner, Node::literal("\"")])
                    }
                    Some(Spelling::Python) => argument::keywords(&schema(JsonStyle::PLAIN), &mut rules),
                    Some(Spelling::Marked(marker)) => {
                        value::value(&schema(JsonStyle::PLAIN), self.marked(marker), &mut rules)
                    }
                    None | Some(Spelling::Text(_) | Spelling::Cdata | Spelling::Elements(_)) => {
                        argument::one_by_one(self, &schema(JsonStyle::PLAIN), &mut rules)
                    }
                }),
                (Field::Id, _) => Some(self.id(&name)),
                (Field::Index, _) => Some(Node::Pattern(digits())),
                _ => None,
            }
        });
        self.rules = rules;
        node
    }

    /// Builds a call to the code interpreter.
    fn code(&self, ops: &[Op]) -> Node {
        let ops = self.call_ops(ops);
        self.ops(&ops, &mut |field, codec| match (field, codec) {
            (Field::Code, Codec::Json(style)) => Some(Syntax::Json(*style).string(&crate::schema::Form::default())),
            (Field::Code, _) => Some(Node::Text(FreeText::default())),
            (Field::Id, _) => Some(self.id("code_interpreter")),
            (Field::Index, _) => Some(Node::Pattern(digits())),
            _ => None,
        })
    }

    /// Returns the pieces of a call, without a final marker that ends the turn. That marker is not
    /// sampled under the grammar.
    fn call_ops(&self, ops: &[Op]) -> Vec<Op> {
        match ends_with_stop(ops, self.format) {
            true => crate::composer::without_end(ops, self.format),
            false => ops.to_vec(),
        }
    }

    fn name(&self, name: &str, codec: &Codec) -> Node {
        match codec {
            Codec::Names | Codec::Enumerated => {
                let control = self.format.control_names.iter().find(|(known, _)| known == name);
                control.map_or_else(|| Node::literal(name), |(_, id)| self.token(*id))
            }
            Codec::Json(style) => Node::literal(style.print(&name.into())),
            Codec::Stem => Node::literal(name.split('.').next().unwrap_or(name)),
            _ => Node::literal(name),
        }
    }

    pub(crate) fn marked(&self, mark: &str) -> Syntax {
        let control = self.format.controls.iter().position(|control| control.text == mark);
        let node = match control {
            Some(at) => self.token(rolecall_format::ControlId(at)),
            None => Node::literal(mark),
        };
        Syntax::Marked { mark: Box::new(node), text: mark.to_owned() }
    }

    /// Builds the id of a function call.
    fn id(&self, name: &str) -> Node {
        let letters = |min, max| {
            let class = Class::of(&[('0', '9'), ('A', 'Z'), ('a', 'z')]);
            Pattern::Class(class).repeated(min, max)
        };
        match &self.format.rules.call_ids {
            CallIds::Nine => Node::Pattern(letters(9, Some(9))),
            ids => match ids.id_of(name, 0) {
                Some(first) => numbered(&first, ids.id_of(name, 1).as_deref().unwrap_or(&first)),
                None => {
                    let class = Class::of(&[('-', '.'), ('0', ':'), ('A', 'Z'), ('_', '_'), ('a', 'z')]);
                    Node::Pattern(Pattern::Class(class).repeated(1, Some(ID_LENGTH)))
                }
            },
        }
    }
}

/// Reports whether a node ends in fixed text, so that nothing in it depends on what follows.
fn ends_fixed(node: &Node) -> bool {
    match node {
        Node::Literal(_) | Node::Token(_) => true,
        Node::Sequence(nodes) => nodes.last().is_some_and(ends_fixed),
        Node::Choice(ways) => ways.iter().all(ends_fixed),
        _ => false,
    }
}

/// Builds the grammar of an id from its values for the numbers 0 and 1. Any number is allowed where
/// they differ.
fn numbered(first: &str, second: &str) -> Node {
    let (before, rest) = first.split_at(common_prefix(first, second));
    let mut rest = rest.chars();
    if rest.next().is_none() {
        return Node::literal(first);
    }
    Node::sequence([Node::literal(before), Node::Pattern(digits()), Node::literal(rest.as_str())])
}

fn digits() -> Pattern {
    Pattern::Class(Class::of(&[('0', '9')])).repeated(1, Some(4))
}

fn parameters_schema(keys: &Keys, schema: &impl Fn(JsonStyle) -> Schema) -> Schema {
    schema(JsonStyle { ascii: keys.style() == Style::Ascii, ..JsonStyle::PLAIN })
}

/// Builds a call as one JSON object.
fn whole_call(keys: &Keys, name: &str, schema: Schema) -> Node {
    let mut quoted = String::new();
    json::write_string(&mut quoted, name, keys.style() == Style::Ascii);
    Node::sequence([
        Node::literal(format!("{{\"{}\": {quoted}, \"{}\": ", keys.name(), keys.arguments())),
        Node::Json(Arc::new(schema)),
        Node::literal("}"),
    ])
}

/// Reports whether a call ends its turn in this format.
fn ends_turn(format: &Format) -> bool {
    let ends = |slot| Some(ends_with_stop(format.layout(slot)?.ops(), format));
    ends(Slot::Call).or(ends(Slot::CallInterpreter)).unwrap_or(false)
}

/// Reports whether a layout ends with a marker that ends the turn: a control token, or a stop text
/// that is a marker.
fn ends_with_stop(ops: &[Op], format: &Format) -> bool {
    match ops.iter().rev().find(|op| !matches!(op, Op::Seam)) {
        Some(Op::Control(id)) => format.control(*id).ends_turn,
        Some(Op::Literal(text)) => format.stops().iter().any(|stop| stop.ends_with('>') && text.ends_with(stop)),
        _ => false,
    }
}
