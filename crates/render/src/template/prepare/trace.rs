//! What a run read and wrote of its inputs, and the account of a request that follows from it.

use std::iter::Peekable;

use rolecall_conversation::json::Step;
use rolecall_conversation::{Conversation, Json, Message, Place, REASONING, Role, Tool};
use rolecall_jinja::{Piece, Tag};

use super::{Inputs, JSON, KEYED, PART, PYTHON, QUOTED, READ, Shape, Value, WHOLE};
use crate::account::{Account, Change, ENTITIES, Evidence, Fragment, Owner, Sign, Walk, compare};
use crate::template::TemplateOptions;
use crate::template::adapt::ReplacementValues;
use crate::template::continuing::MARK;

/// What an output has of the inputs, as far as the values themselves do not record it.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The pieces of texts that are not written as a whole.
    pieces: Vec<PartialPiece>,
    /// The messages in whose text a literal of the template was escaped for HTML.
    escaped: Vec<usize>,
    /// Whether a literal was escaped before the text of any message.
    is_escaped: bool,
    /// The messages in whose text the word `None` was made, or `None` if it is outside of any.
    nulls: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct PartialPiece {
    value: u32,
    start: u32,
    end: u32,
    offset: Option<usize>,
}

impl Trace {
    /// Records a literal that was changed.
    pub fn literal<'l>(&mut self, text: &str, message: Option<usize>, own: impl Fn() -> Option<&'l str>) {
        if !text.contains('&') {
            return;
        }
        let is_new = |entity: &str| text.contains(entity) && own().is_none_or(|own| !own.contains(entity));
        if ENTITIES.iter().any(|(entity, _)| is_new(entity)) {
            match message {
                Some(message) => self.escaped.push(message),
                None => self.is_escaped = true,
            }
        }
    }

    /// Reports whether a text is not known to be written as a whole, so that its account looks at the output.
    pub fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Reports whether the word `None` was made in the text of a result or of its call, where a template may write both.
    fn has_null_of_result(&self, conversation: &Conversation, result: usize) -> bool {
        let calls = conversation.messages[..result].iter().rposition(|message| *message.role() == Role::Assistant);
        let first = self.nulls.partition_point(|message| *message < calls);
        self.nulls[first..].iter().any(|message| message.is_some() && *message <= Some(result))
    }

    /// Records text that the engine made.
    #[inline]
    pub fn engine(&mut self, text: &str, message: Option<usize>) {
        // Most of it is punctuation.
        if text.len() >= "None".len() && text.contains("None") {
            self.nulls.push(message);
        }
    }
}

impl<'a> Inputs<'a> {
    /// Records a piece of the output that comes from an input.
    #[inline]
    pub fn trace(&self, tag: Tag, piece: &Piece<'_>, offset: Option<usize>, message: Option<usize>, trace: &mut Trace) {
        let Some(value) = self.values.get(tag.0 as usize) else { return };
        if let (true, Some(message)) = (trace.is_escaped, message) {
            trace.is_escaped = false;
            trace.escaped.push(message);
        }
        let written = piece.text;
        let Shape::Text(text) = value.shape else {
            let form = match written.as_bytes().first() {
                Some(b'\'') => PYTHON,
                Some(b'"') => JSON,
                _ => 0,
            };
            return value.trace(KEYED | form);
        };
        let whole = match offset {
            Some(offset) => {
                let is_blank = |part: Option<&str>| part.is_some_and(|part| part.trim_start().is_empty());
                let is_whole = written.len() == text.len()
                    || is_blank(text.get(..offset)) && is_blank(text.get(offset + written.len()..));
                if is_whole { WHOLE } else { 0 }
            }
            None if written == text => WHOLE,
            None if is_quoted(written, text) => WHOLE | QUOTED,
            None => 0,
        };
        match whole {
            0 => {
                value.trace(PART);
                trace.pieces.push(PartialPiece {
                    value: tag.0 as u32,
                    start: piece.start as u32,
                    end: (piece.start + written.len()) as u32,
                    offset,
                });
            }
            whole => value.trace(whole),
        }
    }

    /// Returns what the run did with each value.
    pub fn traces(&self) -> Box<[u8]> {
        self.values.iter().map(|value| value.traces.get()).collect()
    }

    /// Sets what a run with the same inputs did with each value.
    pub fn set_traces(&self, traces: &[u8]) {
        self.values.iter().zip(traces).for_each(|(value, traces)| value.traces.set(*traces));
    }

    /// Returns the account of a conversation whose rendering wrote `text`.
    pub fn account(
        &self,
        conversation: &Conversation,
        options: &TemplateOptions,
        adapted: &ReplacementValues,
        mut trace: Trace,
        text: &str,
    ) -> Account {
        trace.pieces.sort_by_key(|piece| piece.value);
        trace.escaped.sort_unstable();
        trace.nulls.sort_unstable();
        let evidence = RunEvidence { inputs: self, trace: &trace, text };
        let mut walk = Walk::new(&evidence);
        let mut aliases = self.aliases.iter().map(|(value, _)| *value).peekable();
        let last_user = conversation.messages.iter().rposition(|message| *message.role() == Role::User);
        for (number, (index, message)) in self.said_by.iter().enumerate() {
            for (_, call) in adapted.lossy().iter().filter(|(message, _)| *message == index) {
                walk.add_key_twice(Place::message(index, path_of_arguments(message, *call)));
            }
            let is_earlier = last_user.is_some_and(|last| index < last);
            let (is_result, is_assistant) = (*message.role() == Role::Tool, *message.role() == Role::Assistant);
            let owner = Owner::Message { index, is_result, is_assistant, is_earlier };
            if adapted.is_joined(index) {
                walk.rest_of_parts(index, message);
            }
            let is_escaped = trace.escaped.binary_search(&index).is_ok();
            // The values of a message are its own.
            let is_settleable = !is_escaped && trace.nulls.is_empty() && !adapted.changes_more_than_calls(index);
            if is_settleable && self.is_plain(number, &mut walk) {
                continue;
            }
            if is_settleable {
                let mark = walk.mark();
                if self.is_message_settled(number, owner, &mut aliases, &mut walk) {
                    continue;
                }
                walk.go_back(mark);
            }
            let object = message.as_object();
            let is_wrapped = adapted.wrapped().binary_search(&index).is_ok();
            let entries = object
                .iter()
                .map(|(key, json)| self.entry(number, key, adapted.value_of(index, key).unwrap_or(json), is_wrapped));
            walk.message(owner, false, entries);
            if is_escaped {
                let field = if message.calls().len() > 0 { "tool_calls" } else { "content" };
                walk.add_changed(index, field, Change::HtmlEscaped);
            }
            let is_null = || object.get("content").is_none_or(Json::is_null);
            if *message.role() == Role::Tool && is_null() && trace.has_null_of_result(conversation, index) {
                walk.add_changed(index, "content", Change::NullWord);
            }
        }
        for (index, tool) in conversation.tools.iter().flatten().enumerate() {
            if let Tool::Function { object, .. } = tool {
                let at = self.tools.start + index as u32;
                let (mark, value) = (walk.mark(), &self.values[at as usize]);
                let is_own = adapted.tool(index).is_none();
                if is_own && trace.nulls.is_empty() && self.is_settled(value, Owner::Tool, 0, &mut walk) {
                    continue;
                }
                walk.go_back(mark);
                walk.object(Owner::Tool, &format!("tools[{index}]"), object, Some(at));
            }
        }
        for (index, document) in conversation.documents.iter().flatten().enumerate() {
            let at = Some(self.documents.start + index as u32);
            walk.value(Owner::Document, &format!("documents[{index}]"), document, at);
        }
        let own = conversation.template_kwargs.iter().map(|switch| ("chat_template_kwargs", switch));
        let switches = own.chain(options.kwargs.iter().map(|switch| ("options", switch)));
        let count = conversation.template_kwargs.len() + options.kwargs.len();
        let variables = self.variables.iter().skip(self.variables.len() - count);
        for ((of, (name, value)), (_, at)) in switches.zip(variables) {
            walk.value(Owner::Switch, &format!("{of}.{name}"), value, Some(*at));
        }
        let mut account = walk.finish();
        account.set_forms(adapted.changes().to_vec());
        account
    }

    /// Returns what the account visits of an entry of a message, and its value.
    fn entry<'j>(
        &self,
        message: usize,
        key: &'j str,
        json: &'j Json,
        is_wrapped: bool,
    ) -> (&'j str, &'j Json, Option<u32>) {
        // Of a text that became a part, the place is that of the content.
        match (key == "content" && is_wrapped).then(|| text_of_part(json)).flatten() {
            Some(text) => (key, text, self.text_of_part(message)),
            None => (key, json, self.field(&self.values[message], key)),
        }
    }

    /// Adds a message of two texts that are written as they are, or of which one is a role that was only read. Most are
    /// of this kind.
    fn is_plain<E: Evidence>(&self, message: usize, walk: &mut Walk<'_, E>) -> bool {
        let Shape::Dict(children) = self.values[message].shape else { return false };
        let [first, second] = self.children(children) else { return false };
        let (mut written, mut is_role_read) = (0, false);
        for value in [first, second] {
            let traces = value.traces.get();
            match value.shape {
                Shape::Text(text) if traces & (WHOLE | PART | QUOTED) == WHOLE => {
                    written += usize::from(!is_blank(text))
                }
                Shape::Text(_) if traces == READ && value.key == "role" => is_role_read = true,
                _ => return false,
            }
        }
        walk.add_written(written);
        if is_role_read {
            walk.add_of_envelope(true);
        }
        true
    }

    /// Adds a message to the account if all in it is written, or missing by design. Reports whether that is so;
    /// otherwise, what was added does not count.
    ///
    /// `aliases` are the reasoning values that repeat a message's own, from this message on.
    fn is_message_settled<E: Evidence>(
        &self,
        message: usize,
        owner: Owner,
        aliases: &mut Peekable<impl Iterator<Item = u32>>,
        walk: &mut Walk<'_, E>,
    ) -> bool {
        let message = &self.values[message];
        let Shape::Dict(children) = message.shape else { return false };
        self.children(children).iter().all(|value| {
            let traces = value.traces.get();
            match (value.key, value.shape) {
                ("role", Shape::Text(_)) if traces & (WHOLE | PART) == 0 => {
                    walk.add_of_envelope(traces & READ != 0);
                    true
                }
                (key, _) => match REASONING.iter().find(|name| **name == key) {
                    None => self.is_settled(value, owner, message.traces.get(), walk),
                    Some(key) => {
                        while aliases.next_if(|alias| *alias < value.handle.0).is_some() {}
                        let is_alias = aliases.peek() == Some(&value.handle.0);
                        is_alias || self.is_reasoning_settled(value, key, self.children(children), owner, walk)
                    }
                },
            }
        })
    }

    /// Adds the reasoning of a message, which has several names.
    fn is_reasoning_settled<E: Evidence>(
        &self,
        value: &Value<'a>,
        key: &'static str,
        message: &[Value<'a>],
        owner: Owner,
        walk: &mut Walk<'_, E>,
    ) -> bool {
        let Shape::Text(text) = value.shape else { return false };
        if is_blank(text) {
            return true;
        }
        let is_same = |other: &&Value<'a>| matches!(other.shape, Shape::Text(same) if is_same_text(same, text));
        let aliases = message.iter().filter(is_same).filter(|other| REASONING.contains(&other.key));
        let traces = aliases.fold(value.traces.get(), |traces, other| traces | other.traces.get());
        match (traces & (WHOLE | PART), owner) {
            // What is to be continued ends with a mark.
            _ if text.ends_with(MARK) => return false,
            (0, Owner::Message { is_assistant: false, .. }) => return false,
            (0, Owner::Message { index, is_earlier, .. }) => walk.add_unshown_reasoning(index, key, is_earlier),
            (0 | PART, _) => return false,
            _ => walk.add_written(1),
        }
        true
    }

    /// Adds a value of a message or tool, with what the output has of the keys of the dict around it.
    #[inline(always)]
    fn is_settled<E: Evidence>(&self, value: &Value<'a>, owner: Owner, keys: u8, walk: &mut Walk<'_, E>) -> bool {
        let traces = value.traces.get();
        // Most values are written as they are.
        let is_written = match value.shape {
            Shape::Text(text) => traces & (WHOLE | PART | QUOTED) == WHOLE && !says_nothing(value, text),
            Shape::Number(_) | Shape::Bool(_) => traces & READ != 0 && keys & (KEYED | PYTHON) == KEYED,
            _ => return self.is_each_settled(value, owner, keys, walk),
        };
        walk.add_written(usize::from(is_written));
        is_written || matches!(value.shape, Shape::Text(text) if self.is_text_settled(value, traces, text, owner, walk))
    }

    fn is_each_settled<E: Evidence>(&self, value: &Value<'a>, owner: Owner, keys: u8, walk: &mut Walk<'_, E>) -> bool {
        let (items, keys) = match value.shape {
            Shape::Dict(items) if !self.is_printed_part(value) => (items, value.traces.get()),
            Shape::List(items) => (items, keys),
            // It was read as a null, or was not opened.
            _ => return false,
        };
        self.children(items).iter().all(|value| self.is_settled(value, owner, keys, walk))
    }

    fn is_text_settled<E: Evidence>(
        &self,
        value: &Value<'a>,
        traces: u8,
        text: &str,
        owner: Owner,
        walk: &mut Walk<'_, E>,
    ) -> bool {
        if says_nothing(value, text) {
            return true;
        }
        // Arguments in JSON text may be quoted twice, and what is to be continued ends with a mark.
        if value.key == "arguments" || text.ends_with(MARK) {
            return false;
        }
        match traces & (WHOLE | PART) {
            0 if self.is_type_of_item(value) => {
                walk.add_of_envelope(traces & READ != 0);
                true
            }
            0 if matches!(owner, Owner::Message { .. }) => {
                // Whether a content is left out takes a look at all of the message, and other keys stand alone.
                let stands_alone = value.parent < self.messages && value.key != "content";
                let write_path = |path: &mut String| _ = self.write_path(value.handle.0, path);
                walk.try_unwritten(owner, traces & READ != 0, stands_alone, write_path)
            }
            0 | PART => false,
            _ => {
                walk.add_written(1);
                true
            }
        }
    }

    /// Reports whether a value is the type of a call or a part of a message.
    fn is_type_of_item(&self, value: &Value<'a>) -> bool {
        let around = |value: &Value<'a>| self.values.get(value.parent as usize);
        let is_of_message = |list: &Value<'a>| {
            let is_list = matches!(list.shape, Shape::List(_)) && list.parent < self.messages;
            is_list && matches!(list.key, "tool_calls" | "content")
        };
        value.key == "type" && around(value).and_then(around).is_some_and(is_of_message)
    }

    /// Returns the value of a message's own key, which may have another name.
    fn field(&self, message: &Value<'a>, key: &str) -> Option<u32> {
        if let Some(value) = self.entry_of(message, key) {
            return Some(value.handle.0);
        }
        let Shape::Dict(children) = message.shape else { return None };
        let name = |value: &Value<'_>| {
            let alias = self.aliases.binary_search_by_key(&value.handle.0, |(value, _)| *value).ok()?;
            Some(self.aliases[alias].1)
        };
        self.children(children).iter().find(|value| name(value) == Some(key)).map(|value| value.handle.0)
    }

    /// Calls `visit` with each value of a message that has the same text under another name.
    fn each_alias(&self, value: &Value<'a>, text: &str, visit: &mut dyn FnMut(&Value<'a>)) {
        visit(value);
        if value.parent >= self.messages || !REASONING.contains(&value.key) {
            return;
        }
        let Shape::Dict(children) = self.values[value.parent as usize].shape else { return };
        for other in self.children(children) {
            let is_same = matches!(other.shape, Shape::Text(same) if is_same_text(same, text));
            if is_same && REASONING.contains(&other.key) && other.handle.0 != value.handle.0 {
                visit(other);
            }
        }
    }

    /// Returns what the output has of the keys of the dict around a value.
    fn keys(&self, value: &Value<'a>) -> u8 {
        let mut parent = value.parent;
        while let Some(around) = self.values.get(parent as usize) {
            if let Shape::Dict(_) = around.shape {
                return around.traces.get();
            }
            parent = around.parent;
        }
        0
    }

    /// Reports whether a value is a part of a content, and is written as JSON.
    fn is_printed_part(&self, value: &Value<'a>) -> bool {
        let list = || self.values.get(value.parent as usize);
        value.traces.get() & JSON != 0
            && list().is_some_and(|list| list.parent < self.messages && list.key == "content")
    }
}

/// Reports whether a text is blank, or arguments without a value.
fn says_nothing(value: &Value<'_>, text: &str) -> bool {
    is_blank(text) || value.key == "arguments" && matches!(text.trim(), "{}" | "null")
}

/// Reports whether two texts are equal. Most that have the same length are one text.
fn is_same_text(text: &str, other: &str) -> bool {
    text.len() == other.len() && (std::ptr::eq(text, other) || text == other)
}

/// Reports whether a text is empty or white space. Most begin with a letter.
fn is_blank(text: &str) -> bool {
    let is_sign = |first: &u8| (b'!'..=b'~').contains(first);
    !text.as_bytes().first().is_some_and(is_sign) && text.trim_start().is_empty()
}

/// Reports whether a piece of the output is a text as a JSON string.
fn is_quoted(piece: &str, text: &str) -> bool {
    let Some(inner) = piece.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    if inner.len() == text.len() {
        return inner == text;
    }
    let (mut inner, mut text) = (inner, text);
    while let Some(at) = inner.find('\\') {
        let (before, escape) = inner.split_at(at);
        let Some(rest) = text.strip_prefix(before) else { return false };
        let mut letters = rest.chars();
        let is_same = matches!(
            (escape.as_bytes().get(1), letters.next()),
            (Some(b'n'), Some('\n'))
                | (Some(b't'), Some('\t'))
                | (Some(b'r'), Some('\r'))
                | (Some(b'"'), Some('"'))
                | (Some(b'\\'), Some('\\'))
        );
        if !is_same {
            return false;
        }
        (inner, text) = (&escape[2..], letters.as_str());
    }
    inner == text
}

/// Returns the path of the arguments of a call.
fn path_of_arguments(message: &Message, call: usize) -> String {
    let calls = message.as_object().get("tool_calls").and_then(Json::as_array);
    let call_object = calls.and_then(|calls| calls.get(call)?.as_object());
    let key = match call_object.and_then(|call| call.get("function")) {
        Some(_) => "function.arguments",
        None => "arguments",
    };
    format!("tool_calls[{call}].{key}")
}

/// Returns the text of the first part of a content.
fn text_of_part(content: &Json) -> Option<&Json> {
    content.as_array()?.first()?.as_object()?.get("text")
}

/// The evidence of a run.
struct RunEvidence<'t, 'a> {
    inputs: &'t Inputs<'a>,
    trace: &'t Trace,
    /// The prompt.
    text: &'t str,
}

impl RunEvidence<'_, '_> {
    /// Adds the pieces of a value.
    fn add_fragments<'s>(&'s self, value: u32, fragments: &mut Vec<Fragment<'s>>) {
        let pieces = &self.trace.pieces;
        let first = pieces.partition_point(|piece| piece.value < value);
        let own = pieces[first..].iter().take_while(|piece| piece.value == value);
        fragments.extend(own.filter_map(|piece| {
            let end = (piece.end as usize).min(self.text.len());
            let text = self.text.get(piece.start as usize..end)?;
            Some(Fragment { text, offset: piece.offset, at: Some(piece.start as usize) })
        }));
    }

    /// Reports whether a value is in a part of a content that is written as JSON.
    fn is_in_printed_part(&self, value: &Value<'_>) -> bool {
        let part = self.inputs.values.get(value.parent as usize);
        part.is_some_and(|part| matches!(part.shape, Shape::Dict(_)) && self.inputs.is_printed_part(part))
    }

    /// Reports whether the name of a function is in the id of its call, which is written.
    fn is_in_id(&self, name: &Value<'_>, text: &str) -> bool {
        let around = |value: &Value<'_>| self.inputs.values.get(value.parent as usize);
        let Some(function) = around(name) else { return false };
        let is_id = |call: &Value<'_>| {
            self.inputs.entry_of(call, "id").is_some_and(|id| {
                id.traces.get() & WHOLE != 0 && matches!(id.shape, Shape::Text(id) if id.contains(text))
            })
        };
        is_id(function) || around(function).is_some_and(is_id)
    }

    fn of_text(&self, value: &Value<'_>, path: &str, text: &str) -> Sign {
        // What the model is to continue has a marker after it.
        let text = text.strip_suffix(MARK).unwrap_or(text);
        let (mut traces, mut fragments) = (0, Vec::new());
        self.inputs.each_alias(value, text, &mut |value| {
            traces |= value.traces.get();
            self.add_fragments(value.handle.0, &mut fragments);
        });
        let is_arguments = path.ends_with(".arguments") && text.trim_start().starts_with('{');
        let is_quoted = || {
            traces & QUOTED != 0
                || fragments.iter().any(|fragment| fragment.offset.is_none() && fragment.text.contains("\\\""))
        };
        match fragments.as_slice() {
            _ if is_arguments && is_quoted() => Sign::Changed(Change::QuotedTwice),
            _ if traces & WHOLE != 0 => Sign::Written,
            [] if path.starts_with("tool_calls[") && path.ends_with(".name") && self.is_in_id(value, text) => {
                Sign::Written
            }
            [] if traces & READ != 0 => Sign::Seen,
            [] => Sign::Unseen,
            fragments => compare(text, fragments, self.text),
        }
    }
}

impl Evidence for RunEvidence<'_, '_> {
    type At = Option<u32>;

    fn child(&self, at: Option<u32>, step: Step<'_>) -> Option<u32> {
        let value = self.inputs.values.get(at? as usize)?;
        match (value.shape, step) {
            (Shape::List(items), Step::Index(index)) => {
                (index < items.count as usize).then(|| items.first + index as u32)
            }
            (Shape::Dict(_), Step::Key(key)) => self.inputs.entry_of(value, key).map(|value| value.handle.0),
            _ => None,
        }
    }

    fn sign(&self, at: Option<u32>, owner: Owner, path: &str, leaf: &Json) -> Sign {
        let Some(value) = at.and_then(|at| self.inputs.values.get(at as usize)) else { return Sign::Unseen };
        let is_read = value.traces.get() & READ != 0;
        match leaf {
            Json::String(text) => match self.of_text(value, path, text) {
                Sign::Written if self.is_in_printed_part(value) => Sign::Changed(Change::JsonValue),
                sign => sign,
            },
            Json::Null => {
                let index = match owner {
                    Owner::Message { index, .. } => Some(index),
                    _ => None,
                };
                let has = |message| self.trace.nulls.binary_search(&message).is_ok();
                let is_word = has(None) || has(index);
                if is_read && is_word { Sign::Changed(Change::NullWord) } else { Sign::Unseen }
            }
            _ if is_read => match self.inputs.keys(value) {
                keys if keys & PYTHON != 0 => Sign::Changed(Change::PythonValue),
                keys if keys & KEYED != 0 => Sign::Written,
                _ => Sign::Seen,
            },
            _ => Sign::Unseen,
        }
    }
}
