//! Where each message's turn begins in a prompt.
//!
//! A prompt knows the origin of its bytes, but not where one turn's closing text ends and the next turn's opening text
//! begins: both are the format's. The prompt of the messages up to a turn tells: it goes exactly that far. Where there
//! is none (tools that only a later turn prints), the layouts tell how a turn opens.

use std::ops::Range;

use rolecall::{Conversation, Defaults, Format, Message, Op, Origin, Prompt, Role, Segment, Slot, SystemWhen, render};

use super::Explained;

/// Whose a stretch of a prompt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// What opens every prompt.
    Begin,
    /// A system turn that the format adds.
    Added,
    /// A message, by number and role.
    Message(usize, Role),
    /// A turn that offers tools.
    Tools,
    /// The generation prompt.
    Generate,
    /// What ends a prompt that the model is not to go on with.
    End,
}

impl Owner {
    /// The message's number, or nothing.
    pub fn number(&self) -> String {
        match self {
            Owner::Message(index, _) => index.to_string(),
            _ => String::new(),
        }
    }

    /// What it is called in the picture.
    pub fn name(&self) -> &str {
        match self {
            Owner::Begin => "begin",
            Owner::Added => "added",
            Owner::Message(_, role) => role.name(),
            Owner::Tools => "tools",
            Owner::Generate => "generate",
            Owner::End => "end",
        }
    }
}

/// A stretch of a prompt, up to the next one's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub start: usize,
    pub owner: Owner,
}

/// With more messages a prompt for each would take too long; then the layouts alone tell.
const MANY: usize = 200;

/// The turns of a prompt in order, none of them empty; the first begins at 0.
pub fn find_turns(explained: Explained<'_>) -> Vec<Turn> {
    let length = explained.prompt.text().len();
    let turns = match explained.conversation.messages.len() {
        0..MANY => join_stretches(explained, measure(explained)),
        _ => turns_by_opening(explained),
    };
    let starts: Vec<usize> = turns.iter().map(|turn| turn.start).chain([length]).collect();
    let ends = starts.into_iter().skip(1);
    turns.into_iter().zip(ends).filter(|(turn, end)| turn.start < *end).map(|(turn, _)| turn).collect()
}

/// Someone's stretch, and where it ends if that could be told.
struct Stretch {
    owner: Owner,
    end: Option<usize>,
}

/// How far the prompt of each part of the conversation goes.
fn measure(explained: Explained<'_>) -> Vec<Stretch> {
    let Explained { conversation, format, options, prompt, .. } = explained;
    let mut part = Conversation {
        messages: Vec::new(),
        tools: None,
        documents: conversation.documents.clone(),
        add_generation_prompt: Some(false),
        continue_final_message: false,
        template_kwargs: conversation.template_kwargs.clone(),
    };
    let reach = |part: &Conversation, format: &Format| reach(&render(part, format, options).ok()?, prompt);
    let mut bare = format.clone();
    bare.defaults = Defaults::default();
    let mut stretches = vec![Stretch { owner: Owner::Begin, end: reach(&part, &bare) }];
    let own_turn = [Slot::Tools, Slot::ToolsInterpreter].into_iter().any(|slot| format.layout(slot).is_some());
    if !own_turn {
        part.tools.clone_from(&conversation.tools);
    }
    if adds_system(conversation, format) {
        stretches.push(Stretch { owner: Owner::Added, end: reach(&part, format) });
    }
    let leading = conversation.messages.iter().take_while(|message| *message.role() == Role::System).count();
    for (index, message) in conversation.messages.iter().enumerate() {
        if index == leading && own_turn {
            part.tools.clone_from(&conversation.tools);
            stretches.push(Stretch { owner: Owner::Tools, end: reach(&part, format) });
        }
        part.messages.push(message.clone());
        stretches.push(Stretch { owner: Owner::Message(index, message.role().clone()), end: reach(&part, format) });
    }
    let length = prompt.text().len();
    let end_text = openings(explained, &[Slot::End]).into_iter().find(|end| prompt.text().ends_with(end.as_str()));
    if let Some(last) = stretches.last_mut()
        && !conversation.generates()
    {
        // A message that is to be continued has no text behind it.
        let behind = end_text.filter(|_| !conversation.continue_final_message).map_or(0, |end| end.len());
        last.end = Some(length - behind);
    }
    let closing = if conversation.generates() { Owner::Generate } else { Owner::End };
    stretches.push(Stretch { owner: closing, end: Some(length) });
    stretches
}

/// Whether the format adds a system turn of its own before the messages.
fn adds_system(conversation: &Conversation, format: &Format) -> bool {
    let is_system = |message: &Message| *message.role() == Role::System;
    match (&format.defaults.system, format.defaults.system_when) {
        (Some(_), SystemWhen::NotFirst) => !conversation.messages.first().is_some_and(is_system),
        _ => !conversation.messages.iter().any(is_system),
    }
}

/// Puts stretches behind one another. Where one's end is not known, the next one's opening is looked for; if that is not
/// found either, the first is inside the second (a system text that is folded into the user's turn).
fn join_stretches(explained: Explained<'_>, stretches: Vec<Stretch>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut reached = 0;
    let mut waiting: Option<Owner> = None;
    for Stretch { owner, end } in stretches {
        let opens = waiting.take().and_then(|before| {
            let within = reached..end.unwrap_or(explained.prompt.text().len());
            let opens = find_opening(explained, within, &before, &owner)?;
            turns.push(Turn { start: reached, owner: before });
            Some(opens)
        });
        reached = opens.unwrap_or(reached);
        match end {
            Some(end) => {
                turns.push(Turn { start: reached, owner });
                reached = reached.max(end);
            }
            None => waiting = Some(owner),
        }
    }
    turns.extend(waiting.map(|owner| Turn { start: reached, owner }));
    turns
}

/// Where an owner's turn opens: its layout's opening text is the last of the format's before the first value behind the
/// previous owner's.
fn find_opening(explained: Explained<'_>, within: Range<usize>, before: &Owner, owner: &Owner) -> Option<usize> {
    let Owner::Message(_, role) = owner else { return None };
    let prompt = explained.prompt;
    let is_before = |origin: &Origin| matches!(before, Owner::Message(index, _) if origin.message() == Some(*index));
    let mut gap = within.start..within.end;
    for segment in prompt.segments_in(within) {
        match &segment.origin {
            origin if is_before(origin) => gap.start = segment.start + segment.text.len(),
            // An option may stand in any turn.
            Origin::Control(_) | Origin::Format | Origin::Option { .. } => {}
            Origin::Message { .. } | Origin::Tool { .. } => {
                gap.end = segment.start;
                break;
            }
        }
    }
    opening_in(explained, gap, slots_of(role))
}

/// The start of the longest opening of these layouts that ends a stretch of the format's text.
fn opening_in(explained: Explained<'_>, gap: Range<usize>, slots: &[Slot]) -> Option<usize> {
    let text = explained.prompt.text().get(gap.clone())?;
    let fitting = openings(explained, slots).into_iter().filter(|opening| text.ends_with(opening.as_str()));
    fitting.map(|opening| gap.end - opening.len()).min()
}

fn slots_of(role: &Role) -> &'static [Slot] {
    match role {
        Role::System => &[Slot::SystemFirst, Slot::System],
        Role::User => &[Slot::UserFirst, Slot::User],
        Role::Assistant => &[Slot::AssistantWithCalls, Slot::Assistant],
        Role::Tool => &[Slot::ToolInterpreter, Slot::Tool],
        Role::Other(_) => &[],
    }
}

/// The texts with which a turn of these layouts may open, up to its first value.
fn openings(explained: Explained<'_>, slots: &[Slot]) -> Vec<String> {
    let spelling = explained.options.choices.iter().rev().find(|(name, _)| name == "spelling");
    let spelling = spelling.map(|(_, value)| value.as_str());
    let mut found = Vec::new();
    for layout in slots.iter().filter_map(|slot| explained.format.layout(*slot)) {
        collect_openings(layout.ops(), explained.format, spelling, String::new(), &mut found);
    }
    found.retain(|opening| !opening.is_empty());
    found
}

fn collect_openings(ops: &[Op], format: &Format, spelling: Option<&str>, mut text: String, found: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(literal) => text.push_str(literal),
            Op::Control(id) => text.push_str(format.control(*id).spelling(spelling)),
            Op::Seam => {}
            Op::Hole { .. } => break,
            // There or not there.
            Op::Group(inner) => collect_openings(inner, format, spelling, text.clone(), found),
        }
    }
    found.push(text);
}

/// How much of a prompt the prompt of a part of its conversation is; none if the part says anything else.
///
/// The format may close a part (a group of results, the prompt itself) where the whole goes on.
fn reach(part: &Prompt, whole: &Prompt) -> Option<usize> {
    let shared = common(part, whole);
    part.segments_in(shared..part.text().len()).all(|segment| segment.origin.is_format()).then_some(shared)
}

/// Bytes that two prompts share, with their origins; a control token counts whole or not at all.
fn common(part: &Prompt, whole: &Prompt) -> usize {
    let mut shared = 0;
    let mut rest: Option<Segment<'_>> = None;
    let mut others = whole.segments();
    for segment in part.segments() {
        let mut text = segment.text;
        while !text.is_empty() {
            let Some(other) = rest.take().or_else(|| others.next()) else { return shared };
            let both = text.bytes().zip(other.text.bytes()).take_while(|(a, b)| a == b).count();
            let whole_token = both == text.len() && both == other.text.len();
            if other.origin != segment.origin || (matches!(segment.origin, Origin::Control(_)) && !whole_token) {
                return shared;
            }
            let both = border(text, both);
            shared += both;
            if both < text.len() && both < other.text.len() {
                return shared;
            }
            text = &text[both..];
            if both < other.text.len() {
                rest = Some(Segment { text: &other.text[both..], start: other.start + both, origin: other.origin });
            }
        }
    }
    shared
}

/// The character border at or before an offset.
fn border(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Each turn begins with an opening of its layouts between its first value and the last one before; or right behind that.
fn turns_by_opening(explained: Explained<'_>) -> Vec<Turn> {
    let mut turns = vec![Turn { start: 0, owner: Owner::Begin }];
    let mut behind = 0;
    let mut current = None;
    for segment in explained.prompt.segments() {
        let Some(index) = segment.origin.message() else { continue };
        if current != Some(index)
            && let Some(message) = explained.conversation.messages.get(index)
        {
            let role = message.role().clone();
            let start = opening_in(explained, behind..segment.start, slots_of(&role)).unwrap_or(behind);
            turns.push(Turn { start, owner: Owner::Message(index, role) });
            current = Some(index);
        }
        behind = segment.start + segment.text.len();
    }
    let (last, owner) = match explained.conversation.generates() {
        true => (Slot::Generate, Owner::Generate),
        false => (Slot::End, Owner::End),
    };
    let length = explained.prompt.text().len();
    turns.extend(opening_in(explained, behind..length, &[last]).map(|start| Turn { start, owner }));
    turns
}
