use rolecall_format::{CallsInReasoning, Codec, Field, Format, Layout, Op, Slot};

use crate::answer::Content;
use crate::call::Calls;
use crate::composer::{Composer, without_end};
use crate::grammar::{Grammar, Rule, Rules};
use crate::{Error, FreeText, Node, Note, Options, Reasoning, ToolChoice, marks, opening};

/// Builds a grammar of the replies that an engine may sample in a format.
///
/// ```
/// use rolecall_conversation::{Tool, json};
/// use rolecall_format::builtin;
/// use rolecall_grammar::{Options, ToolChoice, grammar};
///
/// let registry = builtin();
/// let format = registry.get("qwen2.5").expect("it is built in");
/// let tool = json::parse(r#"{"name": "now", "parameters": {"type": "object", "properties": {}}}"#)?;
/// let tools = vec![Tool::from_json(tool).expect("a function")];
/// let options = Options { tools, choice: ToolChoice::Required, one_call: true, ..Options::default() };
/// let grammar = grammar(format, &options).expect("the format has calls");
/// let gbnf = grammar.to_gbnf().text;
/// assert!(gbnf.starts_with(r#"root ::= "<tool_call>" call"#), "{gbnf}");
/// # Ok::<(), json::ParseError>(())
/// ```
pub fn grammar(format: &Format, options: &Options) -> Result<Grammar, Error> {
    let mut composer = Composer { format, options, rules: Rules::default(), notes: Vec::new() };
    let calls = composer.calls()?;
    let variants = composer.variants(calls.as_ref())?;
    let root = marks::close(composer.begin(variants)?);
    let Composer { rules, mut notes, .. } = composer;
    notes.extend(rules.notes);
    let rules = rules.list.into_iter().map(|rule| Rule { node: marks::close(rule.node), ..rule });
    Ok(Grammar { root, rules: rules.collect(), notes })
}

/// The values for the holes in one variant of the reply.
#[derive(Clone, Default)]
struct Fill {
    content: Option<Content>,
    reasoning: Option<Node>,
    calls: Option<Node>,
}

/// A way to reply, and whether the model reasons in it.
struct Variant {
    node: Node,
    reasons: bool,
}

impl<'a> Composer<'a> {
    /// Returns all ways to reply, from the turn's opening on.
    fn variants(&mut self, calls: Option<&Calls>) -> Result<Vec<Variant>, Error> {
        let plain = self.format.layout(Slot::Assistant).cloned().unwrap_or_default();
        let reasons = [Slot::Assistant, Slot::AssistantWithCalls]
            .into_iter()
            .any(|slot| self.format.layout(slot).is_some_and(|layout| layout.prints(Field::Reasoning)));
        let wants_reasoning = matches!(self.options.reasoning, Reasoning::Required | Reasoning::Over);
        if !reasons && wants_reasoning {
            return Err(Error::NoReasoning { format: self.format.name.clone() });
        }
        let only_calls = matches!(self.options.choice, ToolChoice::Required | ToolChoice::Named(_));
        // An answer that fits a schema is neither empty nor followed by calls.
        let is_free = self.is_free();
        let mut variants = Vec::new();
        let content = if only_calls { None } else { Some(self.answer(&plain)?) };
        if content.is_some() {
            let mut contents = vec![content.clone()];
            contents.extend((is_free && is_grouped(&plain, Field::Content)).then_some(None));
            for content in contents {
                self.with_reasoning(&plain, Fill { content, ..Fill::default() }, &mut variants);
            }
        }
        let makes_calls = calls.filter(|_| self.options.choice != ToolChoice::None);
        if let Some(calls) = makes_calls {
            let layout = self.calls_layout().cloned().unwrap_or_default();
            let mut contents = Vec::new();
            let may_precede = content.is_some() && is_free && layout.prints(Field::Content);
            if may_precede && calls.are_marked {
                contents.push(content);
            }
            if contents.is_empty() || is_grouped(&layout, Field::Content) {
                contents.push(None);
            }
            for content in contents {
                let fill = Fill { content, calls: Some(calls.node.clone()), reasoning: None };
                self.with_reasoning(&layout, fill, &mut variants);
            }
            if may_precede && !calls.are_marked {
                self.notes.push(Note::NoContentBeforeCalls { opening: calls.opening.clone() });
            }
        }
        Ok(variants)
    }

    /// Returns the layout of a message with calls.
    pub(crate) fn calls_layout(&self) -> Option<&'a Layout> {
        let with_calls = self.format.layout(Slot::AssistantWithCalls);
        with_calls.or(self.format.layout(Slot::Assistant)).filter(|layout| layout.prints(Field::Calls))
    }

    /// Returns the marker that opens calls, whether or not any tools are offered. No answer may
    /// contain it.
    pub(crate) fn call_opening(&self) -> Option<marks::TextStart> {
        let mut ops = Vec::new();
        for slot in [Slot::Calls, Slot::Call] {
            if let Some(layout) = self.format.layout(slot) {
                ops.extend_from_slice(layout.ops());
            }
        }
        if self.format.layout(Slot::Call).is_none() {
            ops.extend_from_slice(self.format.layout(Slot::CallInterpreter)?.ops());
        }
        self.calls_layout()?;
        marks::opening_of(&ops, self.format)
    }

    fn with_reasoning(&self, layout: &Layout, fill: Fill, variants: &mut Vec<Variant>) {
        let mut add = |reasoning: Option<Node>| {
            let reasons = reasoning.is_some();
            let node = self.turn(layout, &Fill { reasoning, ..fill.clone() });
            variants.push(Variant { node, reasons });
        };
        if layout.prints(Field::Reasoning) {
            let over = self.options.reasoning == Reasoning::Over;
            add(Some(if over { Node::Over } else { self.reasoning() }));
        }
        add(None);
    }

    /// Returns the free text of reasoning. Where calls in reasoning count, it cannot contain the marker of one.
    fn reasoning(&self) -> Node {
        let mut text = FreeText::default();
        if self.format.habits.calls_in_reasoning == CallsInReasoning::Call {
            let opening = self.call_opening().filter(marks::is_telling);
            text.avoid.extend(opening.map(|opening| opening.text));
        }
        Node::Text(text)
    }

    fn turn(&self, layout: &Layout, fill: &Fill) -> Node {
        let ops = without_closing_tag(without_end(layout.ops(), self.format), self.format);
        self.ops(&ops, &mut |field, codec| match (field, codec) {
            (Field::Content, Codec::Json(_)) => fill.content.as_ref().map(|content| content.quoted.clone()),
            (Field::Content, _) => fill.content.as_ref().map(|content| content.plain.clone()),
            (Field::Reasoning, _) => fill.reasoning.clone(),
            (Field::Calls, _) => fill.calls.clone(),
            _ => None,
        })
    }

    /// Selects the variants that continue the prompt, and removes the part that the prompt already
    /// contains.
    fn begin(&mut self, variants: Vec<Variant>) -> Result<Node, Error> {
        let wanted = |reasoning: Reasoning| match reasoning {
            Reasoning::Off => [false, false],
            Reasoning::Optional => [false, true],
            Reasoning::Required | Reasoning::Over => [true, true],
        };
        if self.options.reasoning == Reasoning::Over {
            let over = variants.into_iter().filter_map(|variant| opening::behind_reasoning(variant.node));
            return Ok(Node::choice(over));
        }
        let tail = self.prompt_tail();
        let of = |reasons: [bool; 2]| {
            variants.iter().filter(move |variant| reasons.contains(&variant.reasons)).map(|variant| &variant.node)
        };
        let mut rest = opening::behind(of(wanted(self.options.reasoning)), &tail);
        if rest.is_none() && self.options.reasoning == Reasoning::Off {
            // The prompt has opened reasoning, even though the caller did not ask for it.
            rest = opening::behind(of([true, true]), &tail);
        }
        rest.or_else(|| opening::behind_other_space(of(wanted(self.options.reasoning)), &tail))
            .ok_or(Error::Opening { tail })
    }

    /// Returns the part of the turn that the prompt already contains.
    fn prompt_tail(&self) -> String {
        let generate = self.format.layout(Slot::Generate).map(|layout| self.written(layout)).unwrap_or_default();
        let Some(tail) = &self.options.prompt_tail else { return generate };
        if !generate.is_empty()
            && let Some(at) = tail.rfind(&generate)
        {
            return tail[at..].to_owned();
        }
        let opening = self.format.layout(Slot::Assistant).map(|layout| opening::fixed_start(layout, self.format));
        // White space opens a turn only where the prompt ends. Elsewhere it is text of the conversation.
        let start = |opening: String| match opening.trim().is_empty() {
            true => tail.strip_suffix(&opening).map(str::len),
            false => tail.rfind(&opening),
        };
        match opening.filter(|opening| !opening.is_empty()).and_then(start) {
            Some(at) => tail[at..].to_owned(),
            None => generate,
        }
    }
}

/// Reports whether a hole is in a group, so that the text around it is omitted if it has no value.
fn is_grouped(layout: &Layout, field: Field) -> bool {
    let is_field = |op: &Op| matches!(op, Op::Hole { field: found, .. } if *found == field);
    layout.ops().iter().any(|op| matches!(op, Op::Group(inner) if inner.iter().any(is_field)))
}

/// Removes the tag that closes the turn if no other stop is known, because the engine stops there.
fn without_closing_tag(mut ops: Vec<Op>, format: &Format) -> Vec<Op> {
    let knows_stops = !format.stops().is_empty() || format.controls.iter().any(|control| control.ends_turn);
    let last = ops.iter().rposition(|op| !is_blank(op)).filter(|_| !knows_stops);
    match last.map(|at| (at, ops[at].clone())) {
        Some((at, Op::Control(_))) => ops.truncate(at),
        Some((at, Op::Literal(text))) => {
            let bare = text.trim_end();
            if let (true, Some(start)) = (bare.ends_with('>'), bare.rfind('<')) {
                ops.truncate(at);
                ops.push(Op::Literal(bare[..start].to_owned()));
            }
        }
        _ => {}
    }
    ops
}

/// Reports whether a piece is only whitespace.
fn is_blank(op: &Op) -> bool {
    matches!(op, Op::Seam) || matches!(op, Op::Literal(text) if text.trim().is_empty())
}
