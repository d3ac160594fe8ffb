use rolecall_conversation::Tool;
use rolecall_format::{Codec, ControlId, Field, Format, Layout, Op};

use crate::grammar::Rules;
use crate::{Error, Node, Note, Options, Token, ToolChoice};

/// Combines the layouts into a grammar.
pub(crate) struct Composer<'a> {
    pub(crate) format: &'a Format,
    pub(crate) options: &'a Options,
    pub(crate) rules: Rules,
    pub(crate) notes: Vec<Note>,
}

impl<'a> Composer<'a> {
    /// Returns a layout's text, with the default values in its holes.
    pub(crate) fn written(&self, layout: &Layout) -> String {
        let node = self.ops(layout.ops(), &mut |_, _| None);
        let each = node.into_parts().into_iter().map(|part| match part {
            Node::Literal(text) => text,
            Node::Token(token) => token.text,
            _ => String::new(),
        });
        each.collect()
    }

    /// Returns the offered functions that may be called, and whether code may be called.
    pub(crate) fn offered(&self) -> Result<(Vec<&'a Tool>, bool), Error> {
        let options = self.options;
        let text = options.tools.iter().position(|tool| matches!(tool, Tool::Text(_)));
        if let Some(tool) = text.filter(|_| options.choice != ToolChoice::None) {
            return Err(Error::ToolText { tool });
        }
        let offered: Vec<&Tool> = match &options.choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Auto | ToolChoice::Required => options.tools.iter().collect(),
            ToolChoice::Named(name) => options.tools.iter().filter(|tool| tool.name() == name).collect(),
        };
        if offered.is_empty() {
            match &options.choice {
                ToolChoice::None | ToolChoice::Auto => {}
                ToolChoice::Required => return Err(Error::NoTools),
                ToolChoice::Named(name) => {
                    let offered = options.tools.iter().map(|tool| tool.name().to_owned()).collect();
                    return Err(Error::UnknownTool { name: name.clone(), offered });
                }
            }
        }
        let (functions, code): (Vec<&Tool>, Vec<&Tool>) =
            offered.into_iter().partition(|tool| matches!(tool, Tool::Function { .. }));
        Ok((functions, !code.is_empty()))
    }

    /// Returns the pieces of a layout with its holes filled. A hole without a value is omitted.
    pub(crate) fn ops(&self, ops: &[Op], fill: &mut impl FnMut(Field, &Codec) -> Option<Node>) -> Node {
        let mut parts = Vec::new();
        for op in ops {
            match op {
                Op::Literal(text) => self.literal(text, &mut parts),
                Op::Control(id) => parts.push(self.token(*id)),
                Op::Hole { field, codec, .. } => parts.extend(self.hole(*field, codec, fill)),
                Op::Group(inner) => parts.extend(self.group(inner, fill)),
                Op::Seam | Op::Own(_) => {}
            }
        }
        Node::sequence(parts)
    }

    /// Adds literal text, and splits off the tokenizer's own tokens in it.
    fn literal(&self, text: &str, parts: &mut Vec<Node>) {
        let mut rest = text;
        loop {
            let tokens = self.options.tokens.iter().filter(|token| !token.text.is_empty());
            let found = tokens.filter_map(|token| Some((rest.find(&token.text)?, token)));
            // The longest of the leftmost matches.
            let next = found.min_by_key(|(at, token)| (*at, std::cmp::Reverse(token.text.len())));
            let Some((at, token)) = next else { break };
            parts.push(Node::literal(&rest[..at]));
            parts.push(Node::Token(token.clone()));
            rest = &rest[at + token.text.len()..];
        }
        parts.push(Node::literal(rest));
    }

    fn hole(&self, field: Field, codec: &Codec, fill: &mut impl FnMut(Field, &Codec) -> Option<Node>) -> Option<Node> {
        if *codec == Codec::Present {
            let there = !self.options.tools.is_empty() && matches!(field, Field::Tools | Field::Functions);
            return there.then(Node::empty);
        }
        match field {
            Field::Option(at) => {
                let default = &self.format.choices.get(at)?.default;
                (!default.is_empty()).then(|| Node::literal(default))
            }
            // A number from the conversation, which the grammar does not know.
            Field::Round => Some(Node::literal("1")),
            _ => fill(field, codec),
        }
    }

    /// Returns a group if all its holes have values. It is optional if a value may be missing.
    fn group(&self, inner: &[Op], fill: &mut impl FnMut(Field, &Codec) -> Option<Node>) -> Option<Node> {
        let mut may_lack = false;
        for op in inner {
            if let Op::Hole { field, codec, .. } = op {
                self.hole(*field, codec, fill)?;
                may_lack |= matches!(field, Field::Id | Field::Arguments | Field::Index);
            }
        }
        let node = self.ops(inner, fill);
        Some(if may_lack { node.optional() } else { node })
    }

    /// Returns a control token.
    pub(crate) fn token(&self, id: ControlId) -> Node {
        let control = self.format.control(id);
        let known = self.options.tokens.iter().find(|token| token.text == control.text);
        let id = control.id.or(known.and_then(|token| token.id));
        Node::Token(Token { text: control.text.clone(), id })
    }
}

/// Returns the pieces of a turn up to where the engine stops. The end of the turn is not sampled
/// under the grammar.
pub(crate) fn without_end(ops: &[Op], format: &Format) -> Vec<Op> {
    let last_hole = ops.iter().rposition(|op| matches!(op, Op::Hole { .. } | Op::Group(_)));
    let fixed = last_hole.map_or(0, |at| at + 1);
    let mut kept = ops[..fixed].to_vec();
    let stops = format.stops();
    for op in &ops[fixed..] {
        match op {
            Op::Control(id) if format.control(*id).ends_turn => return kept,
            Op::Control(id) if stops.contains(&format.control(*id).text.as_str()) => return kept,
            Op::Literal(text) => match stops.iter().filter_map(|stop| text.find(stop.trim())).min() {
                Some(at) => {
                    kept.push(Op::Literal(text[..at].trim_end().to_owned()));
                    return kept;
                }
                None => kept.push(op.clone()),
            },
            other => kept.push(other.clone()),
        }
    }
    // Whitespace at the end of a turn without a closing marker belongs to the opening of the next
    // turn.
    if let Some(Op::Literal(text)) = kept.last_mut()
        && fixed < ops.len()
    {
        let length = text.trim_end().len();
        text.truncate(length);
    }
    kept
}
