//! The account of a prompt that a format wrote.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use rolecall_conversation::json::{self, Object, Step};
use rolecall_conversation::{Content, Conversation, Json, Message, Place, REASONING, Role, Tool};

use super::rules::{Owner, UNREAD_KEY};
use super::search_text::SearchText;
use super::walk::ArgumentsInText;
use super::{Account, Evidence, Fragment, Leaf, LeafKind, Sign, Walk, compare};
use crate::origin::OriginRef;
use crate::{Dropped, Origin, Prompt};

impl Account {
    /// Returns the account of a conversation and the prompt that a format wrote for it, which the prompt's origins tell.
    pub fn by_origins(conversation: &Conversation, prompt: &Prompt) -> Account {
        let messages = &conversation.messages;
        let (evidence, contents) = FormatEvidence::of(conversation, prompt);
        let mut walk = Walk::new(&evidence);
        let last_user = messages.iter().rposition(|message| *message.role() == Role::User);
        // Of a text with a gap to fill, the mark of the gap only says where it is.
        let is_gap = prompt.turns().first().is_some_and(|turn| turn.slot.is_text_alone());
        // The reasoning that the format dropped beside a content, and everything else that it dropped.
        let (reasoning, mut others): (Vec<&Dropped>, Vec<&Dropped>) =
            prompt.dropped.iter().partition(|dropped| is_reasoning_alone(dropped, messages, &contents, &evidence));
        let mut reasoning = reasoning.into_iter().peekable();
        for (index, message) in messages.iter().enumerate() {
            let object = message.as_object();
            let has_content = matches!(contents[index], ContentEvidence::Whole(_));
            let reasoning = reasoning.next_if(|dropped| dropped.place.message == Some(index));
            if let Some(reasoning) = reasoning {
                walk.add_dropped(reasoning);
            }
            if has_content || is_gap && object.len() == 2 {
                walk.add_written(1);
                walk.add_of_envelope(true);
                // Most messages have nothing else.
                if object.len() == 2 + usize::from(reasoning.is_some()) {
                    continue;
                }
            }
            let owner = Owner::Message {
                index,
                is_result: *message.role() == Role::Tool,
                is_assistant: *message.role() == Role::Assistant,
                is_earlier: last_user.is_some_and(|last| index < last),
            };
            let is_done = |key: &str| {
                has_content && matches!(key, "role" | "content") || reasoning.is_some_and(|own| own.place.field == key)
            };
            let left = object.iter().filter(|(key, _)| !is_done(key)).map(|(key, json)| (key, json, index));
            walk.message(owner, has_content, left);
        }
        for (index, tool) in conversation.tools.iter().flatten().enumerate() {
            match tool {
                Tool::Function { object, .. } => {
                    walk.object(Owner::Tool, &format!("tools[{index}]"), object, index);
                }
                Tool::Text(_) => walk.value(Owner::Tool, &format!("tools[{index}]"), &tool.to_json(), index),
                Tool::CodeInterpreter => {}
            }
        }
        for (index, document) in conversation.documents.iter().flatten().enumerate() {
            walk.value(Owner::Document, &format!("documents[{index}]"), document, index);
        }
        others.extend(reasoning);
        let mut account = walk.finish();
        if account.leaves.is_empty() && others.is_empty() {
            return account;
        }
        for leaf in account.leaves.iter_mut().filter(|leaf| leaf.kind == LeafKind::LeftOut) {
            if leaf.why != UNREAD_KEY {
                leaf.why = "the format has no place for it";
            }
        }
        if others.is_empty() {
            return account;
        }
        // The format knows better why.
        let is_present = |leaf: &&Leaf| !matches!(leaf.kind, LeafKind::LeftOut | LeafKind::DroppedByDesign);
        let present: HashSet<(Option<usize>, &str)> =
            account.leaves.iter().filter(is_present).map(|leaf| (leaf.place.message, &*leaf.place.field)).collect();
        let is_absent = |dropped: &&Dropped| !present.contains(&(dropped.place.message, &*dropped.place.field));
        account.leave_out_all(others.into_iter().filter(is_absent).cloned().collect());
        account
    }
}

/// Reports whether a format dropped the reasoning of a message by design, and wrote its content and no reasoning.
fn is_reasoning_alone(
    dropped: &Dropped,
    messages: &[Message],
    contents: &[ContentEvidence<'_>],
    evidence: &FormatEvidence<'_>,
) -> bool {
    let Place { message: Some(index), field, .. } = &dropped.place else { return false };
    let is_text = || match messages[*index].as_object().get(field) {
        Some(Json::String(text)) => !text.trim().is_empty(),
        _ => false,
    };
    dropped.by_design
        && REASONING.contains(&&**field)
        && matches!(contents.get(*index), Some(ContentEvidence::Whole(_)))
        && !evidence.fields(*index).iter().any(|field| REASONING.contains(&field.name))
        && is_text()
}

/// What a prompt has of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentEvidence<'p> {
    Unseen,
    /// It is this piece of the prompt.
    Whole(&'p str),
    Other,
}

/// What a prompt has of a conversation, but for contents that are written as a whole.
#[derive(Default)]
struct FormatEvidence<'p> {
    /// What is printed of the fields of messages, sorted by message and field.
    pieces: Vec<(usize, &'p str, &'p str)>,
    /// Each field of each message, in the same order.
    fields: Vec<Field<'p>>,
    /// For each message, the index of its first field, and at the end the number of all.
    firsts: Vec<usize>,
    /// The messages whose name is a control token.
    names_as_tokens: &'p [usize],
    tools: Vec<SearchText<'p>>,
    documents: Vec<SearchText<'p>>,
}

/// The most fields of a message that are looked through.
const FEW: usize = 16;

/// What a prompt has of a message's field.
struct Field<'p> {
    message: usize,
    name: &'p str,
    pieces: Range<usize>,
    joined: OnceCell<SearchText<'p>>,
}

fn searched<'p>(mut pieces: impl ExactSizeIterator<Item = &'p str>) -> SearchText<'p> {
    match (pieces.len(), pieces.next()) {
        (1, Some(piece)) => SearchText::new(piece.into()),
        (_, first) => SearchText::new(first.into_iter().chain(pieces).collect::<String>().into()),
    }
}

impl<'p> FormatEvidence<'p> {
    /// Returns the evidence, and what is written of the content of each message.
    fn of(conversation: &Conversation, prompt: &'p Prompt) -> (FormatEvidence<'p>, Vec<ContentEvidence<'p>>) {
        let messages = &conversation.messages;
        let mut contents = vec![ContentEvidence::Unseen; messages.len()];
        let mut pieces: Vec<(usize, &str, &str)> = Vec::new();
        let mut tools = vec![Vec::new(); conversation.tools.as_ref().map_or(0, Vec::len)];
        let mut documents = vec![Vec::new(); conversation.documents.as_ref().map_or(0, Vec::len)];
        let add = |all: &mut Vec<Vec<&'p str>>, at: usize, piece: &'p str| {
            all.get_mut(at).into_iter().for_each(|pieces| pieces.push(piece));
        };
        prompt.each_piece(&mut |piece, origin| match origin {
            OriginRef::Message { message, field: "content" } if message < contents.len() => {
                let is_whole = || match messages[message].content() {
                    Content::Text(text) => piece == text || piece == text.trim(),
                    _ => false,
                };
                contents[message] = match contents[message] {
                    ContentEvidence::Unseen if is_whole() => return contents[message] = ContentEvidence::Whole(piece),
                    ContentEvidence::Whole(first) => {
                        pieces.extend([(message, "content", first), (message, "content", piece)]);
                        ContentEvidence::Other
                    }
                    _ => {
                        pieces.push((message, "content", piece));
                        ContentEvidence::Other
                    }
                };
            }
            OriginRef::Message { message, field } => pieces.push((message, field, piece)),
            OriginRef::Other(Origin::Message { message, field }) => pieces.push((*message, field, piece)),
            OriginRef::Other(Origin::Tool { tool }) => add(&mut tools, *tool, piece),
            OriginRef::Other(Origin::Document { document }) => add(&mut documents, *document, piece),
            OriginRef::Other(_) => {}
        });
        // Most conversations have only contents, which need no further evidence.
        if pieces.is_empty() && tools.is_empty() && documents.is_empty() {
            let names_as_tokens = &prompt.names_as_tokens;
            return (FormatEvidence { names_as_tokens, ..FormatEvidence::default() }, contents);
        }
        pieces.sort_by_key(|(message, name, _)| (*message, *name));
        let mut fields: Vec<Field<'_>> = Vec::with_capacity(pieces.len());
        for (at, (message, name, _)) in pieces.iter().enumerate() {
            match fields.last_mut() {
                Some(last) if last.message == *message && last.name == *name => last.pieces.end = at + 1,
                _ => fields.push(Field { message: *message, name, pieces: at..at + 1, joined: OnceCell::new() }),
            }
        }
        let mut firsts = Vec::with_capacity(messages.len() + 1);
        for (at, field) in fields.iter().enumerate() {
            firsts.resize(firsts.len().max(field.message + 1), at);
        }
        firsts.resize(firsts.len().max(messages.len()) + 1, fields.len());
        let [tools, documents] =
            [tools, documents].map(|all| all.iter().map(|pieces| searched(pieces.iter().copied())).collect());
        let names_as_tokens = &prompt.names_as_tokens;
        (FormatEvidence { pieces, fields, firsts, names_as_tokens, tools, documents }, contents)
    }

    fn pieces(&self, field: &Field<'p>) -> impl ExactSizeIterator<Item = &'p str> {
        self.pieces[field.pieces.clone()].iter().map(|(_, _, piece)| *piece)
    }

    fn joined<'s>(&'s self, field: &'s Field<'p>) -> &'s SearchText<'p> {
        field.joined.get_or_init(|| searched(self.pieces(field)))
    }

    /// Returns what is printed of the fields of a message.
    fn fields(&self, message: usize) -> &[Field<'p>] {
        let end = self.firsts.get(message + 1).copied().unwrap_or_default();
        self.firsts.get(message).and_then(|first| self.fields.get(*first..end)).unwrap_or_default()
    }

    /// Calls `visit` with what is printed of a value and of the fields that it is a part of, and whether that is the
    /// value alone, until it returns true. Reports whether it did. Reasoning has several names.
    fn any_printed<'s>(&'s self, index: usize, path: &str, mut visit: impl FnMut(&'s Field<'p>, bool) -> bool) -> bool {
        let fields = self.fields(index);
        if fields.is_empty() {
            return false;
        }
        let is_end = |byte| matches!(byte, b'.' | b'[');
        let top = &path[..path.bytes().position(is_end).unwrap_or(path.len())];
        if REASONING.contains(&top) {
            return fields.iter().filter(|field| REASONING.contains(&field.name)).any(|field| visit(field, true));
        }
        // Most messages have few fields. If there are many, as of many calls, each name is looked up.
        if fields.len() <= FEW {
            return fields.iter().any(|field| {
                let rest = path.strip_prefix(field.name).map(|rest| rest.as_bytes().first());
                rest.is_some_and(|next| next.is_none_or(|byte| is_end(*byte) && !field.name.is_empty()))
                    && visit(field, field.name.len() == path.len())
            });
        }
        let mut ends = path.match_indices(['.', '[']).map(|(end, _)| end).chain([path.len()]);
        ends.any(|end| {
            let at = fields.binary_search_by_key(&&path[..end], |field| field.name);
            at.is_ok_and(|at| visit(&fields[at], end == path.len()))
        })
    }

    fn of_message(&self, index: usize, path: &str, leaf: &Json) -> Sign {
        // A text is all that a format writes of a part that has one.
        let is_beside_text = path.starts_with("content[") && !path.ends_with("].text");
        if is_beside_text
            && !self.any_printed(index, path, |field, _| self.joined(field).has_keys(path.rsplit('.').take(1)))
        {
            return Sign::Unseen;
        }
        let Json::String(text) = leaf else {
            return match self.any_printed(index, path, |field, _| self.joined(field).has_scalar(leaf)) {
                true => Sign::Written,
                false => Sign::Unseen,
            };
        };
        if self.any_printed(index, path, |field, _| self.joined(field).has(text)) {
            return Sign::Written;
        }
        let mut own = Vec::new();
        self.any_printed(index, path, |field, is_alone| {
            let pieces = self.pieces(field).filter(|piece| is_alone || text.contains(piece.trim()));
            own.extend(pieces.map(|piece| Fragment { text: piece, offset: None, at: None }));
            false
        });
        if own.is_empty() { Sign::Unseen } else { compare(text, &own, "") }
    }
}

impl Evidence for FormatEvidence<'_> {
    type At = usize;

    fn child(&self, at: usize, _step: Step<'_>) -> usize {
        at
    }

    fn sign(&self, at: usize, owner: Owner, path: &str, leaf: &Json) -> Sign {
        let printed = match owner {
            Owner::Message { index, .. } => {
                return match self.of_message(index, path, leaf) {
                    Sign::Unseen if path == "role" => Sign::Seen,
                    Sign::Unseen if path == "name" && self.names_as_tokens.binary_search(&index).is_ok() => {
                        Sign::Written
                    }
                    // A tool of a message that is printed otherwise.
                    Sign::Unseen if path.starts_with("tools[") && self.any_printed(index, path, |_, _| true) => {
                        Sign::Seen
                    }
                    sign => sign,
                };
            }
            Owner::Tool => self.tools.get(at),
            Owner::Document => self.documents.get(at),
            Owner::Switch => None,
        };
        // A tool may be printed without what wraps it.
        let keys = || path.split('.').skip(1).filter(|key| *key != "function");
        let Some(printed) = printed.filter(|printed| printed.has_keys(keys())) else { return Sign::Unseen };
        let is_there = match leaf {
            Json::String(text) => printed.has(text),
            leaf => printed.has_scalar(leaf),
        };
        if is_there { Sign::Written } else { Sign::Seen }
    }

    fn all_written(&self, at: usize, owner: Owner, path: &str, object: &Object) -> Option<usize> {
        match owner {
            Owner::Message { index, .. } => {
                let mut all = None;
                self.any_printed(index, path, |field, _| {
                    all = self.joined(field).has_object(object);
                    all.is_some()
                });
                all
            }
            Owner::Tool => self.tools.get(at)?.has_object(object),
            Owner::Document => self.documents.get(at)?.has_object(object),
            Owner::Switch => None,
        }
    }

    fn opened(&self, path: &str, text: &str) -> Option<ArgumentsInText> {
        let is_arguments = path.starts_with("tool_calls[") && path.ends_with(".arguments");
        let (json, is_key_twice) = match is_arguments.then(|| json::parse_unique(text))? {
            Err(error) if error.is_key_twice => (json::parse(text).ok()?, true),
            parsed => (parsed.ok()?, false),
        };
        json.as_object().is_some().then_some(ArgumentsInText { json, is_key_twice })
    }
}
