//! Parsing tables for replies, built once from a format's layouts.

mod builder;
mod constant;
mod headers;
mod list;
mod messages;
mod optional;
mod program;
mod syntax;
mod turns;

use std::borrow::Cow;
use std::sync::Arc;

use rolecall_format::{CallIds, CallsInReasoning, Control, Format, Slot, is_clear_tag};

use crate::literal::Literal;
use crate::marks::Marks;
use crate::stray::StrayMarks;

use builder::Builder;
pub(crate) use constant::{INDEX, has_index};
pub(crate) use headers::{Attribute, Headers, InHeader};
pub(crate) use list::{Between, CDATA, ElementLayout, KindWord, List, ValueEnd, ValueForm, ValueLayout};
use messages::{header_ends, header_of};
use optional::with_optional;
pub(crate) use program::{CallOpening, Item, Keys, Program, Syntax};
use program::{LayoutPiece, Layouts, call_items, code_items};
use syntax::syntaxes_of;
use turns::{TurnPart, Turns, turns_of};

/// Parsing tables for the replies of a format. They are built once and shared by all parsers.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_format::builtin;
/// use rolecall_parse::{ParseOptions, Reply, Stop, read};
/// let registry = builtin();
/// let reply = Arc::new(Reply::new(registry.get("qwen2.5").expect("built in")));
/// let output = "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call><|im_end|>";
/// let reading = read(&reply, ParseOptions::default(), output, Stop::End);
/// assert_eq!(reading.content, "Let me look.");
/// assert_eq!(reading.calls.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    /// The text that a turn begins with.
    pub(crate) opening: Literal,
    /// Markers directly after the opening.
    pub(crate) head: Marks<Mark>,
    /// The program to try there if no marker matches.
    pub(crate) head_call: Option<usize>,
    /// Markers anywhere in the answer.
    pub(crate) content: Marks<Mark>,
    /// Markers in reasoning.
    pub(crate) reasoning: Marks<Mark>,
    /// Markers in reasoning if calls in reasoning count.
    pub(crate) reasoning_with_calls: Marks<Mark>,
    /// Markers after a call.
    pub(crate) after_call: Marks<Mark>,
    /// Markers that close calls or the turn. The model may stop inside one of them.
    pub(crate) closing: Marks<()>,
    /// The program to try there, inside a group of calls, if no marker matches.
    pub(crate) next_call: Option<usize>,
    pub(crate) programs: Arc<[Program]>,
    /// The markers that are reported where they do not belong.
    pub(crate) strays: StrayMarks,
    /// How to treat calls inside reasoning by default.
    pub(crate) calls_in_reasoning: CallsInReasoning,
    /// Whether white space around the answer means nothing.
    pub(crate) trims: bool,
    /// The texts that open and close reasoning, without white space.
    pub(crate) around_reasoning: Option<(String, String)>,
    /// The form of the family's call ids.
    pub(crate) call_ids: CallIds,
    /// The headers of the reply's messages. If there are any, replies are parsed by them and not by
    /// the layouts.
    pub(crate) headers: Option<Arc<Headers>>,
    /// Other spellings of the control tokens, each with the one to parse. Empty without a
    /// tokenizer.
    spellings: Vec<(String, String)>,
}

/// The meaning of a marker, and the text that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub meaning: Meaning,
    /// Text that may follow the marker and belongs to it, usually white space.
    pub pad: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A turn begins.
    Opening,
    Reasoning,
    ReasoningClosed,
    Content,
    ContentClosed,
    /// A call begins. This program parses the rest.
    Call(usize),
    /// The group of calls ends.
    CallsClosed,
    /// The turn ends.
    End,
    /// The header of a message begins.
    Header,
    /// The header of a message begins, but without the marker that should begin it: at an
    /// attribute, or at the marker before the text.
    HeaderWithoutStart(Option<Attribute>),
    /// A message ends, and another one may follow.
    MessageEnd,
    /// The marker has no meaning here.
    Stray,
}

impl Reply {
    /// Returns the texts that open and close reasoning, such as `<think>` and `</think>`, if the replies
    /// have it.
    pub fn around_reasoning(&self) -> Option<(&str, &str)> {
        self.around_reasoning.as_ref().map(|(open, close)| (open.as_str(), close.as_str()))
    }

    /// Reports whether the replies may have calls that are parsed.
    pub fn reads_calls(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Reports whether a call's id may come after its name, so that it replaces the generated one.
    pub fn has_late_ids(&self) -> bool {
        self.programs.iter().any(|program| {
            let mut after_name = program.items.iter().skip_while(|item| !matches!(item, Item::Name(_)));
            let keys = |item: &Item| matches!(item, Item::Object(keys) if keys.id.is_some());
            after_name.any(|item| matches!(item, Item::Id(_))) || program.items.iter().any(keys)
        })
    }

    /// Builds the parsing tables from a format's layouts. Without a layout for calls, no calls are
    /// parsed.
    pub fn new(format: &Format) -> Reply {
        Reply::with_tokens(format, &[])
    }

    /// Builds the parsing tables for output that comes as token ids. Text that spells one of the
    /// tokenizer's added tokens is a marker only if that token wrote it.
    pub fn with_tokens(format: &Format, tokens: &[String]) -> Reply {
        // The tokenizer may know the same ids by other names.
        let is_other = |control: &Control| known_text(control, tokens) != control.text;
        let spelled =
            format.controls.iter().any(is_other).then(|| format.spelled_by(|control| known_text(control, tokens)));
        let format = spelled.as_ref().unwrap_or(format);
        let layouts = Layouts { format, tokens };
        let turns = turns_of(layouts);
        let calls = CallTable::of(layouts, &turns);
        let mut reply = Reply {
            opening: turns.opening.clone(),
            head: Marks::new(),
            head_call: None,
            content: Marks::new(),
            reasoning: Marks::new(),
            reasoning_with_calls: Marks::new(),
            after_call: Marks::new(),
            closing: Marks::new(),
            next_call: calls.next,
            programs: calls.programs.clone().into(),
            strays: StrayMarks::new(stray_literals(layouts), &syntaxes_of(tokens), other_literals(layouts)),
            calls_in_reasoning: format.habits.calls_in_reasoning,
            trims: format.habits.trims,
            call_ids: format.rules.call_ids.clone(),
            headers: None,
            around_reasoning: None,
            spellings: Vec::new(),
        };
        if !tokens.is_empty() {
            let others = |control: &Control| {
                control.spelled.iter().map(|(_, other)| (other.clone(), control.text.clone())).collect::<Vec<_>>()
            };
            reply.spellings = format.controls.iter().flat_map(others).collect();
        }
        if let Some(header) = &format.habits.header {
            reply.next_call = None;
            reply.headers = Some(Arc::new(Headers::build(&mut reply, format, header, tokens)));
            return reply;
        }
        Builder { reply: &mut reply, turns: &turns, calls: &calls, tokens }.build(format);
        reply
    }

    /// Rewrites the control tokens in the end of a prompt to the spelling that is parsed.
    pub(crate) fn respell<'t>(&self, tail: &'t str) -> Cow<'t, str> {
        let mut tail = Cow::Borrowed(tail);
        for (other, text) in self.spellings.iter().filter(|(other, _)| !other.is_empty()) {
            if tail.contains(other) {
                tail = tail.replace(other, text).into();
            }
        }
        tail
    }

    /// Returns the markers to search for in content or in reasoning.
    pub(crate) fn marks(&self, is_reasoning: bool, policy: CallsInReasoning) -> &Marks<Mark> {
        match (is_reasoning, policy) {
            (false, _) => &self.content,
            (true, CallsInReasoning::Draft) => &self.reasoning,
            (true, _) => &self.reasoning_with_calls,
        }
    }

    /// Reports whether a prompt's end has the opening of the assistant's turn. Where a reply continues
    /// the turn of an earlier one, such as after a tool's result, the opening is further back, and
    /// [`ParseOptions::prompt_tail`](crate::ParseOptions) must reach back to it.
    pub fn has_opening(&self, tail: &str) -> bool {
        self.opening.text().is_empty() || self.respell(tail).contains(self.opening.text())
    }

    /// Returns the part of a prompt's end that follows the opening of the assistant's turn.
    pub(crate) fn behind_opening<'t>(&self, tail: &'t str) -> &'t str {
        let opening = self.opening.text();
        match tail.rfind(opening) {
            Some(at) if !opening.is_empty() => &tail[at + opening.len()..],
            _ => "",
        }
    }

    pub(crate) fn program(&self, number: usize) -> &Program {
        &self.programs[number]
    }
}

/// Returns the literal text of a format's replies and its control tokens, each with whether it may
/// belong to a call.
fn stray_literals(layouts: Layouts<'_>) -> Vec<(Literal, bool)> {
    let format = layouts.format;
    let of_call =
        |slot: Slot| !matches!(slot, Slot::Assistant | Slot::AssistantWithCalls | Slot::AssistantLast | Slot::Generate);
    let mut literals = Vec::new();
    for slot in Slot::ALL.into_iter().filter(|slot| slot.is_reply()) {
        let pieces = layouts.pieces(slot).unwrap_or_default().into_iter();
        literals.extend(pieces.filter_map(|piece| match piece {
            LayoutPiece::Literal(literal) => Some((literal, of_call(slot))),
            LayoutPiece::Hole(..) => None,
        }));
    }
    let marks = format.habits.call_marks.iter().map(|mark| (mark.as_str(), true));
    let stops = format.stops().into_iter().map(|stop| (stop, false));
    for (text, is_of_call) in marks.chain(stops) {
        let mut literal = Literal::of(text);
        literal.mark_tokens(layouts.tokens);
        literals.push((literal, is_of_call));
    }
    for control in format.controls.iter().filter(|control| !control.by_id) {
        let is_written = literals.iter().any(|(literal, _)| literal.text().contains(&control.text));
        if !is_written {
            let mut literal = Literal::default();
            literal.push(&control.text, true);
            literals.push((literal, false));
        }
    }
    literals
}

/// Returns the other markers of the family's prompts that can be told from ordinary text.
fn other_literals(layouts: Layouts<'_>) -> Vec<(Literal, bool)> {
    let literals = layouts.format.habits.other_marks.iter().map(|text| {
        let mut literal = Literal::of(text);
        literal.mark_tokens(layouts.tokens);
        literal
    });
    let is_marker = |literal: &Literal| {
        let is_token = literal.byte(0).is_some_and(|(_, is_control)| is_control);
        is_token || is_clear_tag(literal.text())
    };
    // A model may have learned the other names of its tokens. Output as ids has the names of its own tokenizer.
    let spelled = layouts.format.controls.iter().filter(|_| layouts.tokens.is_empty());
    let spelled = spelled.flat_map(|control| control.texts().filter(|text| *text != control.text)).map(|text| {
        let mut literal = Literal::default();
        literal.push(text, true);
        literal
    });
    literals.filter(is_marker).chain(spelled).map(|literal| (literal, true)).collect()
}

/// Returns the text of a control token in a tokenizer with these tokens, or its usual text if the
/// tokenizer has none of its spellings.
fn known_text<'c>(control: &'c Control, tokens: &[String]) -> &'c str {
    control.texts().find(|text| tokens.iter().any(|token| token == text)).unwrap_or(&control.text)
}

/// The layouts of calls, combined.
#[derive(Clone, Debug, Default)]
struct CallTable {
    programs: Vec<Program>,
    /// The markers that open a call.
    entries: Vec<CallEntry>,
    /// The program to try at the start of a turn.
    head: Option<usize>,
    /// The same program for a call in the middle of text, after a marker that ends the text. What
    /// follows such a marker is often ordinary text, so only a tool's name shows that it is a call.
    text_head: Option<usize>,
    /// White space that a turn may begin with.
    heads: Vec<String>,
    /// The first markers of the texts that close a turn.
    ends: Vec<String>,
    /// The text between two calls.
    separator: Literal,
    /// The program for a whole call, as it follows a separator.
    whole: Option<usize>,
    /// The text after all calls.
    close: Literal,
    /// The program to try after a call of a group.
    next: Option<usize>,
    /// The text after a call's last value.
    call_close: Vec<Literal>,
    /// The markers of the other parts of a turn.
    around: Vec<Literal>,
    /// Markers of calls that models may leave out.
    may_omit: Vec<String>,
    /// The markers that end the header of an answer.
    header_ends: Vec<Literal>,
}

/// A marker that opens a call.
#[derive(Clone, Debug)]
struct CallEntry {
    at: CallPlace,
    /// The white space before the marker that is not part of the text.
    pad: String,
    mark: Literal,
    /// The program for the call.
    program: usize,
}

/// Where a marker opens a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPlace {
    Anywhere,
    /// At the start of a turn.
    Head,
    /// At the start of a line. The marker has the line break.
    Line,
    /// After a call.
    AfterCall,
}

impl CallTable {
    fn of(layouts: Layouts<'_>, turns: &Turns) -> CallTable {
        let mut calls = CallTable {
            around: turns.marks(),
            heads: (turns.around.iter())
                .filter(|around| around.part == TurnPart::Content && around.is_first && around.open.is_blank())
                .map(|around| around.open.text().to_owned())
                .filter(|open| !open.is_empty())
                .collect(),
            ends: turns.ends.iter().map(|end| end.core().up_to(end.core().first_mark()).text().to_owned()).collect(),
            may_omit: layouts.format.habits.may_omit.clone(),
            header_ends: header_ends(turns),
            ..CallTable::default()
        };
        // White space between the answer and the calls belongs to neither.
        let closes = turns
            .around
            .iter()
            .filter(|around| around.part == TurnPart::Content && around.next == Some(TurnPart::Calls));
        let opens = turns.around.iter().filter(|around| around.part == TurnPart::Calls);
        let pads = closes.map(|around| &around.close).chain(opens.map(|around| &around.open));
        let pad = pads.filter(|pad| pad.is_blank()).map(Literal::text).max_by_key(|pad| pad.len());
        let pad = pad.unwrap_or_default().to_owned();
        let group = layouts.pieces(Slot::Calls);
        let (mut open, mut close) = (Literal::default(), Literal::default());
        if let Some(group) = &group {
            let mut is_behind = false;
            for piece in group {
                match piece {
                    LayoutPiece::Literal(literal) if is_behind => close.append(literal),
                    LayoutPiece::Literal(literal) => open.append(literal),
                    LayoutPiece::Hole(..) => is_behind = true,
                }
            }
        }
        calls.separator = layouts.literal(Slot::CallSeparator).unwrap_or_default();
        let function = call_items(layouts);
        let code = code_items(layouts);
        // Text before the calls in the turn's layouts belongs to the marker that opens them.
        let leads =
            turns.around.iter().filter(|around| around.part == TurnPart::Calls).map(|around| around.open.clone());
        let lead = leads.into_iter().find(|lead| !lead.is_blank()).unwrap_or_default();
        let firsts: Vec<Literal> = [&function, &code].into_iter().flatten().map(|items| first_literal(items)).collect();
        for (items, is_code) in [(function, false), (code, true)] {
            let Some(items) = items else { continue };
            let own = first_literal(&items);
            calls.call_close.extend(match items.last() {
                Some(Item::Literal(literal)) if items.len() > 1 => Some(literal.core()),
                _ => None,
            });
            let whole = calls.add(items.clone(), CallOpening::Marker);
            if !is_code {
                calls.whole = Some(whole);
            }
            if !is_code {
                // Markers that models write before calls, whether or not the template has them.
                for mark in &layouts.format.habits.call_marks {
                    let mut literal = Literal::of(mark);
                    literal.mark_tokens(layouts.tokens);
                    calls.enter_at(CallPlace::Anywhere, &pad, literal, whole);
                }
            }
            let mut prefix = lead.clone();
            prefix.append(&open);
            if !prefix.is_blank() {
                let before = calls.programs.len();
                // If the calls are a message of their own, the prompt may have its opening.
                let behind = prefix.core().behind(&turns.opening).filter(|_| !turns.opening.is_empty());
                if let Some(rest) = behind.filter(Literal::is_strong) {
                    calls.enter(&pad, rest, &items, &[]);
                }
                calls.enter(&pad, prefix, &items, &[]);
                let opens_list = !open.is_blank() && !close.is_blank();
                calls.programs[before..].iter_mut().for_each(|program| program.opens_list = opens_list);
            }
            let others: Vec<Literal> = firsts.iter().filter(|first| **first != own).cloned().collect();
            match own.is_blank() {
                false => match own.behind(&turns.opening).filter(|_| !turns.opening.is_empty()) {
                    // The call begins as a turn does, so its remaining text decides at the head of
                    // the turn.
                    Some(rest) => {
                        let mut items = items;
                        items.remove(0);
                        let header = header_of(&mut items, &calls.header_ends);
                        let program = calls.add(items, CallOpening::Weak);
                        calls.programs[program].header = header;
                        match rest.is_blank() {
                            true => calls.set_head(program),
                            false => calls.enter_at(CallPlace::Head, "", rest, program),
                        }
                    }
                    None => {
                        // The first marker may be missing.
                        if let Some(rest) = own.without_omitted(&calls.may_omit).filter(Literal::is_strong) {
                            let mut items = items.clone();
                            items[0] = Item::Literal(rest.clone());
                            calls.enter(&pad, rest, &items, &others);
                        }
                        // White space around the group precedes its first call.
                        let pad = if open.is_blank() { format!("{pad}{}", open.text()) } else { pad.clone() };
                        calls.enter(&pad, own, &items, &others);
                    }
                },
                true if prefix_is_blank(&lead, &open) => calls.enter_bare(&pad, &items),
                true => {
                    if calls.separator.is_blank() && !is_code {
                        calls.next = Some(whole);
                    }
                }
            }
        }
        calls.close = close;
        calls
    }

    fn add(&mut self, items: Vec<Item>, opening: CallOpening) -> usize {
        let items = items.into_iter().flat_map(|item| with_optional(item, &self.may_omit)).collect();
        self.programs.push(Program { items, opening, ..Program::default() });
        self.programs.len() - 1
    }

    fn enter_at(&mut self, at: CallPlace, pad: &str, mark: Literal, program: usize) {
        self.entries.push(CallEntry { at, pad: pad.to_owned(), mark, program });
    }

    /// Adds a marker that opens a call. Its first part is searched for, and the rest is parsed as
    /// part of the call.
    fn enter(&mut self, pad: &str, literal: Literal, items: &[Item], others: &[Literal]) {
        let core = literal.core();
        let own = first_literal(items);
        let mut rest_items = items.to_vec();
        // A marker that is the call's first literal is not parsed twice.
        if own == literal && !own.is_blank() {
            rest_items.remove(0);
        }
        let cut = core.mark_apart(self.around.iter().filter(|other| !core.is_begun_by(other)));
        let is_shared = others.iter().any(|other| other.core().text().starts_with(&core.text()[..cut]));
        // A marker that also ends turns opens a call only together with the text after it.
        let is_end = self.ends.iter().any(|end| end == core.up_to(cut).text());
        let cut = if is_shared || is_end || !core.up_to(cut).is_strong() { core.text().len() } else { cut };
        let (mark, rest) = (core.up_to(cut), core.from(cut));
        if !rest.is_blank() {
            rest_items.insert(0, Item::Literal(rest));
        }
        let pads = format!("{pad}{}", literal.lead());
        let with_lead = literal.up_to(literal.lead().len() + cut);
        let strong = mark.is_strong();
        let header = if strong { None } else { header_of(&mut rest_items, &self.header_ends) };
        let opening = match strong {
            true => CallOpening::Marker,
            false if mark.text().contains(char::is_alphabetic) => CallOpening::Weak,
            // `[get_weather(` looks like any list.
            false => CallOpening::Bare,
        };
        let program = self.add(rest_items, opening);
        self.programs[program].header = header;
        // The last of several control tokens also opens the call on its own: models forget the
        // first.
        if strong
            && let Some(last) = mark.last_token().filter(|last| last.is_strong())
            && !others.iter().any(|other| other.text().contains(last.text()))
        {
            self.enter_at(CallPlace::Anywhere, &pads, last, program);
        }
        match strong {
            true => self.enter_at(CallPlace::Anywhere, &pads, mark, program),
            false => {
                for head in self.heads.clone().iter().filter(|head| *head != pad) {
                    let mut padded = Literal::of(head);
                    padded.append(&with_lead);
                    self.enter_at(CallPlace::Head, "", padded, program);
                }
                // A call directly after an answer needs a marker that is not a word.
                let is_apart = (opening == CallOpening::Bare && pad.is_empty()) || is_distinct(mark.text());
                let line = pad.rfind('\n').or(is_apart.then_some(pad.len()));
                if let Some(line) = line {
                    let in_text = self.add_in_text(program);
                    let mut marked = Literal::of(&pad[line..]);
                    marked.append(&mark);
                    self.enter_at(CallPlace::Line, &pad[..line], marked, in_text);
                }
                let after = self.add_in_text(program);
                self.enter_at(CallPlace::AfterCall, "", mark, after);
                let mut padded = Literal::of(pad);
                padded.append(&with_lead);
                self.enter_at(CallPlace::Head, "", padded, program);
            }
        }
    }

    /// Adds a call without a marker.
    fn enter_bare(&mut self, pad: &str, items: &[Item]) {
        let program = self.add(items.to_vec(), CallOpening::Bare);
        match items.first() {
            Some(Item::Object(keys)) => {
                let mut open = items.to_vec();
                open[0] = Item::Object(Arc::new(Keys { is_open: true, ..Keys::clone(keys) }));
                let open = self.add(open, CallOpening::Bare);
                self.enter_at(CallPlace::Anywhere, pad, Literal::of("{"), open);
                let listed = self.add(items.to_vec(), CallOpening::Bare);
                self.programs[listed].opens_list = true;
                self.enter_at(CallPlace::Head, "", Literal::of("["), listed);
                for head in self.heads.clone() {
                    self.enter_at(CallPlace::Head, "", Literal::of(&format!("{head}[")), listed);
                }
                self.next = self.next.or(Some(program));
            }
            _ => self.set_head(program),
        }
    }

    /// Adds a program for the same call in the middle of an answer. Without an object, only a
    /// tool's name shows that it is a call.
    fn add_in_text(&mut self, program: usize) -> usize {
        let items = self.programs[program].items.clone();
        let has_object = items.iter().any(|item| matches!(item, Item::Arguments(Syntax::Json)));
        self.add(items, if has_object { CallOpening::InText } else { CallOpening::Bare })
    }

    fn set_head(&mut self, program: usize) {
        self.head = Some(program);
        self.text_head = Some(self.add_in_text(program));
    }
}

/// Reports whether a weak marker is more than a word or a bracket, such as `@@call@@` or `Use:`. If
/// what follows it is a whole call, it may be searched for everywhere.
fn is_distinct(mark: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c.is_whitespace();
    mark.chars().count() >= 4 && mark.contains(char::is_alphabetic) && !mark.chars().all(is_word)
}

fn prefix_is_blank(lead: &Literal, open: &Literal) -> bool {
    lead.is_blank() && open.is_blank()
}

fn first_literal(items: &[Item]) -> Literal {
    match items.first() {
        Some(Item::Literal(literal)) => literal.clone(),
        _ => Literal::default(),
    }
}
