use std::ops::Range;

use rolecall_conversation::json::{Object, Step};
use rolecall_conversation::{Content, Json, Message, Part, Place};

use super::rules::{Owner, Verdict, is_earlier_reasoning, judge, of_reasoning};
use super::{Account, Change, DesignRule, Leaf, LeafKind, Sign};
use crate::Dropped;

/// What is known of the leaves of a request.
pub(crate) trait Evidence {
    /// The place of a value in the evidence.
    type At: Copy;

    /// Returns the place of a value inside another one.
    fn child(&self, at: Self::At, step: Step<'_>) -> Self::At;

    /// Tells what became of a text, a number, a boolean or a null.
    fn sign(&self, at: Self::At, owner: Owner, path: &str, leaf: &Json) -> Sign;

    /// Returns the number of leaves of an object that is known to be written as a whole.
    fn all_written(&self, _at: Self::At, _owner: Owner, _path: &str, _object: &Object) -> Option<usize> {
        None
    }

    /// Returns the arguments that a text of this path stands for, if they are written one by one.
    fn opened(&self, _path: &str, _text: &str) -> Option<ArgumentsInText> {
        None
    }
}

/// The arguments that a text stands for.
pub(crate) struct ArgumentsInText {
    pub json: Json,
    /// Whether the text gives a key twice, of which they have the last value.
    pub is_key_twice: bool,
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkMark {
    leaves: usize,
    counts: [usize; 3],
}

/// A walk over the leaves of a request.
pub(crate) struct Walk<'e, E> {
    evidence: &'e E,
    account: Account,
    owner: Owner,
    path: String,
    /// Whether the path is in a part with a text, which alone a template writes of it.
    is_in_text_part: bool,
}

impl<'e, E: Evidence> Walk<'e, E> {
    pub fn new(evidence: &'e E) -> Walk<'e, E> {
        let path = String::with_capacity(64);
        Walk { evidence, account: Account::default(), owner: Owner::Switch, path, is_in_text_part: false }
    }

    /// Counts leaves that are known to be written.
    pub fn add_written(&mut self, count: usize) {
        self.account.written += count;
    }

    /// Counts a role or type that is not written.
    pub fn add_of_envelope(&mut self, is_read: bool) {
        match is_read {
            true => self.account.envelope_read += 1,
            false => self.account.envelope_dropped += 1,
        }
    }

    /// Adds a leaf that somebody else knows to be dropped.
    pub fn add_dropped(&mut self, dropped: &Dropped) {
        self.account.leaves.push(Leaf::dropped(dropped));
    }

    /// Adds the reasoning of a message, of which the prompt has nothing.
    pub fn add_unshown_reasoning(&mut self, message: usize, key: &'static str, is_earlier: bool) {
        let Verdict { kind, rule, why } = of_reasoning(is_earlier);
        self.account.leaves.push(Leaf { rule, ..Leaf::new(Place::message(message, key), kind, why) });
    }

    /// Adds a leaf of a message that was changed.
    pub fn add_changed(&mut self, message: usize, field: &'static str, change: Change) {
        let leaf = Leaf::new(Place::message(message, field), LeafKind::Changed, change.why());
        self.account.leaves.push(Leaf { change: Some(change), ..leaf });
    }

    /// Adds the arguments of a call whose text gives a key twice.
    pub fn add_key_twice(&mut self, place: Place) {
        let why = "its text gives a key twice, and only the last value is written";
        self.account.leaves.push(Leaf::new(place, LeafKind::WrittenInPart, why));
    }

    /// Visits the keys of a message, of which some may be known to be written.
    pub fn message<'j>(
        &mut self,
        owner: Owner,
        mut is_written: bool,
        entries: impl Iterator<Item = (&'j str, &'j Json, E::At)>,
    ) {
        self.owner = owner;
        let first = self.account.leaves.len();
        for (key, json, at) in entries {
            self.path.clear();
            self.path.push_str(key);
            let is_said = self.visit(json, at);
            is_written |= is_said && !matches!(key, "role" | "name" | "id" | "tool_call_id");
        }
        self.path.clear();
        let is_content = |leaf: &Leaf| {
            leaf.kind == LeafKind::LeftOut
                && ["content", "tool_calls"].iter().any(|key| leaf.place.field.starts_with(key))
        };
        // A part that is no text stands for itself.
        let is_slot = |leaf: &Leaf| {
            leaf.kind == LeafKind::Read && leaf.rule.is_none() && leaf.place.field.starts_with("content[")
        };
        let leaves = &self.account.leaves[first..];
        if !is_written && leaves.iter().any(is_content) && !leaves.iter().any(is_slot) {
            // Its reasoning is not told apart.
            self.join(first, "the template writes nothing for this kind of message", Leaf::is_notable);
        }
    }

    /// Adds what the parts of a message have beside their texts, which became one.
    pub fn rest_of_parts(&mut self, message: usize, given: &Message) {
        let Content::Parts(parts) = given.content() else { return };
        for (at, part) in parts.iter().enumerate() {
            if !matches!(Part::from_json(part), Ok(Part::Text(_))) {
                let why = "the template does not write this kind of part";
                let place = Place::message(message, format!("content[{at}]"));
                self.account.leaves.push(Leaf::new(place, LeafKind::LeftOut, why));
                continue;
            }
            let entries = part.as_object().into_iter().flat_map(Object::iter);
            let is_lost =
                |(key, json): &(&str, &Json)| !matches!(*key, "type" | "text" | "cache_control") && !json.is_null();
            for (key, _) in entries.filter(is_lost) {
                let place = Place::message(message, format!("content[{at}].{key}"));
                let why = "the template gets the parts as one text, which has no place for it";
                self.account.leaves.push(Leaf::new(place, LeafKind::LeftOut, why));
            }
        }
    }

    /// Visits a tool, a document or a switch, whose path is given.
    pub fn value(&mut self, owner: Owner, path: &str, json: &Json, at: E::At) {
        self.owner = owner;
        self.path.clear();
        self.path.push_str(path);
        self.visit(json, at);
    }

    /// Visits an object whose path is given.
    pub fn object(&mut self, owner: Owner, path: &str, object: &Object, at: E::At) {
        self.owner = owner;
        self.path.clear();
        self.path.push_str(path);
        let first = self.account.leaves.len();
        let is_written = self.entries(object, at);
        self.join_lost(first, is_written);
    }

    pub fn finish(self) -> Account {
        self.account
    }

    /// Visits a value, and reports whether anything in it is written.
    fn visit(&mut self, json: &Json, at: E::At) -> bool {
        let (first, length) = (self.account.leaves.len(), self.path.len());
        let mut is_written = false;
        match json {
            Json::String(text) => match self.evidence.opened(&self.path, text) {
                Some(opened) => {
                    if opened.is_key_twice && self.evidence.sign(at, self.owner, &self.path, json) != Sign::Written {
                        self.add_key_twice(self.place());
                    }
                    return self.visit(&opened.json, at);
                }
                None if text.trim().is_empty() => return false,
                // Arguments that say nothing.
                None if self.path.ends_with(".arguments") && matches!(text.trim(), "{}" | "null") => return false,
                None => return self.leaf(json, at),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) => return self.leaf(json, at),
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push('[');
                    self.path.push_str(&index.to_string());
                    self.path.push(']');
                    is_written |= self.visit(item, self.evidence.child(at, Step::Index(index)));
                    self.path.truncate(length);
                }
                // Parts, calls and tools are told apart.
                if ["content", "tool_calls", "tools", "functions"].contains(&self.path.as_str()) {
                    return is_written;
                }
            }
            Json::Object(object) => is_written = self.entries(object, at),
        }
        self.join_lost(first, is_written);
        is_written
    }

    /// Visits the values of an object, and reports whether anything in it is written.
    fn entries(&mut self, object: &Object, at: E::At) -> bool {
        if let Some(count) = self.evidence.all_written(at, self.owner, &self.path, object) {
            self.account.written += count;
            return count > 0;
        }
        let (length, mut is_written) = (self.path.len(), false);
        let is_part = self.path.starts_with("content[") && self.path.ends_with(']') && !self.path.contains('.');
        self.is_in_text_part |= is_part && object.get("text").is_some_and(|text| text.as_str().is_some());
        for (key, value) in object.iter() {
            self.path.push('.');
            self.path.push_str(key);
            is_written |= self.visit(value, self.evidence.child(at, Step::Key(key)));
            self.path.truncate(length);
        }
        self.is_in_text_part &= !is_part;
        is_written
    }

    /// Joins what is left out of a list or an object of which nothing is written.
    fn join_lost(&mut self, first: usize, is_written: bool) {
        let lost = self.account.leaves[first..].iter().find(|leaf| leaf.kind == LeafKind::LeftOut);
        if let Some(why) = lost.map(|leaf| leaf.why)
            && !is_written
        {
            self.join(first, why, is_left_out);
        }
    }

    /// Joins those leaves from an index on that are lost to one at the current path.
    fn join(&mut self, first: usize, why: &'static str, is_lost: fn(&Leaf) -> bool) {
        let Some(at) = self.account.leaves[first..].iter().position(is_lost) else { return };
        let place = self.place();
        let leaves = &mut self.account.leaves;
        let others: usize = leaves.extract_if(first + at + 1.., |leaf| is_lost(leaf)).map(|leaf| leaf.count).sum();
        let count = leaves[first + at].count + others;
        leaves[first + at] = Leaf { count, ..Leaf::new(place, LeafKind::LeftOut, why) };
    }

    fn leaf(&mut self, json: &Json, at: E::At) -> bool {
        let sign = self.evidence.sign(at, self.owner, &self.path, json);
        let is_text = matches!(json, Json::String(_));
        let leaf = match sign {
            Sign::Written => {
                self.account.written += 1;
                return true;
            }
            Sign::InPart(missing) => self.in_part(json.as_str().unwrap_or_default(), missing),
            // Whatever form roles, types and ids have, they say the same.
            Sign::Changed(_) if judge(self.owner, &self.path, is_text, false).is_of_envelope() => {
                self.account.written += 1;
                return true;
            }
            Sign::Changed(change) => {
                let leaf = Leaf::new(self.place(), LeafKind::Changed, change.why());
                Leaf { change: Some(change), ..leaf }
            }
            // A null says nothing.
            Sign::Seen | Sign::Unseen if json.is_null() => return false,
            Sign::Seen | Sign::Unseen => {
                let mut verdict = judge(self.owner, &self.path, is_text, sign == Sign::Seen);
                let is_other = verdict.kind == LeafKind::Read && verdict.rule.is_none() && sign == Sign::Unseen;
                if is_other && self.is_in_text_part && !self.path.contains("].cache_control") {
                    verdict.kind = LeafKind::LeftOut;
                    verdict.why = "the template does not write this key of a text";
                }
                self.unwritten(verdict);
                return false;
            }
        };
        let is_written = leaf.kind == LeafKind::Changed || !leaf.missing.is_empty();
        self.account.leaves.push(leaf);
        is_written
    }

    /// Adds a leaf that the prompt does not have.
    fn unwritten(&mut self, verdict: Verdict) {
        match (verdict.rule, verdict.kind) {
            (Some(DesignRule::Envelope), kind) => self.add_of_envelope(kind == LeafKind::Read),
            (rule, kind) => {
                let leaf = Leaf { rule, ..Leaf::new(self.place(), kind, verdict.why) };
                self.account.leaves.push(leaf);
            }
        }
    }

    /// Adds a text that the prompt does not have, unless it is left out, which takes a visit of all around it if it
    /// does not stand alone.
    pub fn try_unwritten(
        &mut self,
        owner: Owner,
        is_seen: bool,
        stands_alone: bool,
        write_path: impl FnOnce(&mut String),
    ) -> bool {
        self.owner = owner;
        self.path.clear();
        write_path(&mut self.path);
        // What its part is says more.
        if self.path.starts_with("content[") {
            return false;
        }
        let verdict = judge(owner, &self.path, true, is_seen);
        if verdict.kind == LeafKind::LeftOut && !stands_alone {
            return false;
        }
        self.unwritten(verdict);
        true
    }

    /// Returns what the account has so far, for [`go_back`](Self::go_back).
    pub fn mark(&self) -> WalkMark {
        let Account { leaves, written, envelope_read, envelope_dropped, .. } = &self.account;
        WalkMark { leaves: leaves.len(), counts: [*written, *envelope_read, *envelope_dropped] }
    }

    /// Removes what was added since.
    pub fn go_back(&mut self, mark: WalkMark) {
        self.account.leaves.truncate(mark.leaves);
        [self.account.written, self.account.envelope_read, self.account.envelope_dropped] = mark.counts;
    }

    fn in_part(&self, text: &str, missing: Vec<Range<usize>>) -> Leaf {
        let rule = DesignRule::EarlierReasoning;
        let is_reasoning = match missing.as_slice() {
            [start] => {
                text[..start.start].trim().is_empty()
                    && is_earlier_reasoning(self.owner, &self.path, &text[start.clone()])
            }
            _ => false,
        };
        let leaf = match is_reasoning {
            true => Leaf { rule: Some(rule), ..Leaf::new(self.place(), LeafKind::DroppedByDesign, rule.why()) },
            false => Leaf::new(self.place(), LeafKind::WrittenInPart, "the template writes a part of it"),
        };
        Leaf { missing, ..leaf }
    }

    fn place(&self) -> Place {
        match self.owner {
            Owner::Message { index, .. } => Place::message(index, self.path.clone()),
            _ => Place::field(self.path.clone()),
        }
    }
}

fn is_left_out(leaf: &Leaf) -> bool {
    leaf.kind == LeafKind::LeftOut
}
