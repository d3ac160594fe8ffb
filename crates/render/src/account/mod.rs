//! The account of a request: what became of each of its leaves, determined by the origins of the
//! prompt and by what the run of a template read.
//!
//! [`Walk`] visits the leaves of a conversation and asks [`Evidence`] for each; `rules` tells what
//! it means that a leaf is not in the prompt. A format's evidence is in `by_format`, a template's
//! in `template/trace.rs`.

mod by_format;
mod compare;
mod form_change;
mod lazy;
mod leaf;
mod printed_json;
mod rules;
mod search_text;
mod walk;

use std::collections::HashSet;

use rolecall_conversation::{Place, REASONING};

use crate::Dropped;

pub(crate) use compare::{ENTITIES, Fragment, Sign, compare};
pub use form_change::{FormChange, FormKind};
pub(crate) use lazy::LazyAccount;
pub use leaf::{Change, DesignRule, Leaf, LeafGroup, LeafKind, Remedy};
pub(crate) use rules::Owner;
pub(crate) use walk::{Evidence, Walk};

/// What became of each leaf of a request: each text, number and switch of its messages, tools,
/// documents and options.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{ChatTemplate, LeafKind, TemplateOptions, Writer};
/// let template = ChatTemplate::compile("{{ messages[0].content[:5] }}", Vec::new())?;
/// let conversation = Conversation::new(vec![Message::user("Hello, world")]);
/// let (prompt, account) = Writer::template(template, TemplateOptions::default()).account(&conversation)?;
/// assert_eq!(prompt.text(), "Hello");
/// let leaf = account.of_kind(LeafKind::WrittenInPart).next().expect("the content");
/// assert_eq!((&*leaf.place.field, leaf.missing.as_slice()), ("content", &[5..12][..]));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The leaves that are not written as they are.
    leaves: Vec<Leaf>,
    /// The number of leaves that are.
    written: usize,
    /// The number of roles and types that the run only read. Like the next ones, they are not in
    /// `leaves`, because every message and every part has one.
    envelope_read: usize,
    /// The number of roles and types that nothing reads.
    envelope_dropped: usize,
    /// What the template received in another form.
    forms: Vec<FormChange>,
}

impl Account {
    /// The account of a request without leaves.
    pub const EMPTY: Account =
        Account { leaves: Vec::new(), written: 0, envelope_read: 0, envelope_dropped: 0, forms: Vec::new() };

    /// Returns the leaves that the prompt does not have as they were given, in the order of the
    /// request. All others are written, but for roles and types, whose place in the prompt says the
    /// same.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns what the template received in another form with the same meaning, one entry for each kind in order of
    /// first occurrence.
    pub fn forms(&self) -> &[FormChange] {
        &self.forms
    }

    /// Sets what the template received in another form.
    pub(crate) fn set_forms(&mut self, forms: Vec<FormChange>) {
        self.forms = forms;
    }

    /// Returns the leaves of a kind other than [`LeafKind::Written`].
    pub fn of_kind(&self, kind: LeafKind) -> impl Iterator<Item = &Leaf> {
        self.leaves.iter().filter(move |leaf| leaf.kind == kind)
    }

    /// Returns the number of leaves of a kind.
    pub fn count(&self, kind: LeafKind) -> usize {
        let unlisted = match kind {
            LeafKind::Written => self.written,
            LeafKind::Read => self.envelope_read,
            LeafKind::DroppedByDesign => self.envelope_dropped,
            _ => 0,
        };
        unlisted + self.of_kind(kind).map(|leaf| leaf.count).sum::<usize>()
    }

    /// Returns the leaves that were left out, changed or written in part, and reasoning that is
    /// dropped by design, grouped by reason in order of first occurrence.
    pub fn groups(&self) -> Vec<LeafGroup<'_>> {
        let mut groups: Vec<LeafGroup<'_>> = Vec::new();
        for leaf in self.leaves.iter().filter(|leaf| leaf.is_notable()) {
            match groups.iter_mut().find(|group| group.has(leaf)) {
                Some(group) => group.count += 1,
                None => groups.push(LeafGroup::of(leaf)),
            }
        }
        groups
    }

    /// Returns the first group that a strict caller refuses: everything that is lost or changed,
    /// and not by design.
    pub fn refused(&self) -> Option<LeafGroup<'_>> {
        let first = self.leaves.iter().find(|leaf| leaf.kind.is_loss())?;
        self.groups().into_iter().find(|group| group.has(first))
    }

    /// Returns the messages, contents, calls, reasoning, tools and documents that were left out.
    pub fn dropped(&self) -> Vec<Dropped> {
        let is_it = |leaf: &&Leaf| {
            let field = &*leaf.place.field;
            let is_of =
                |key: &str| field.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            let is_whole =
                |key: &str| field.strip_prefix(key).is_some_and(|rest| rest.starts_with('[') && !rest.contains('.'));
            let is_place = match leaf.place.message {
                Some(_) => field.is_empty() || ["content", "tool_calls"].into_iter().chain(REASONING).any(is_of),
                None => is_whole("tools") || is_whole("documents"),
            };
            is_place
                && !leaf.is_name_of_call()
                && leaf.missing.is_empty()
                && leaf.is_notable()
                && leaf.kind != LeafKind::Changed
        };
        let dropped = |leaf: &Leaf| {
            let by_design = leaf.kind == LeafKind::DroppedByDesign;
            Dropped { place: leaf.place.clone(), why: leaf.why, by_design }
        };
        self.leaves.iter().filter(is_it).map(dropped).collect()
    }

    /// Returns the values of messages that were left out, in whole or in part, each with the index of its message.
    pub fn lacking(&self) -> HashSet<(usize, &str)> {
        let mut all = HashSet::new();
        for leaf in self.of_kind(LeafKind::LeftOut) {
            let Some(message) = leaf.place.message else { continue };
            let field = &*leaf.place.field;
            let ends = field.match_indices(['.', '[']).map(|(end, _)| end).chain([field.len()]);
            all.extend(ends.map(|end| (message, &field[..end])));
        }
        all
    }

    /// Reports whether anything is lost or changed that another form might save.
    pub fn is_harmed_by_forms(&self) -> bool {
        self.leaves.iter().any(Leaf::may_be_saved)
    }

    /// Adds parts of the request that another check found to be left out, in one pass.
    pub fn leave_out_all(&mut self, all: Vec<Dropped>) {
        if all.is_empty() {
            return;
        }
        let mut of_messages: Vec<(Option<usize>, usize)> =
            all.iter().enumerate().map(|(index, dropped)| (dropped.place.message, index)).collect();
        of_messages.sort_unstable();
        let is_inside = |leaf: &Leaf, place: &Place| {
            let rest = leaf.place.field.strip_prefix(&*place.field);
            rest.is_some_and(|rest| rest.is_empty() || place.field.is_empty() || rest.starts_with(['.', '[']))
        };
        let owner = |leaf: &Leaf| {
            let message = leaf.place.message;
            let first = of_messages.partition_point(|(other, _)| *other < message);
            let own = of_messages[first..].iter().take_while(|(other, _)| *other == message);
            own.map(|(_, index)| *index).find(|index| is_inside(leaf, &all[*index].place))
        };
        let mut counts = vec![0; all.len()];
        for leaf in &self.leaves {
            if let Some(index) = owner(leaf) {
                counts[index] += leaf.count;
            }
        }
        let joined = |index: usize| Leaf { count: counts[index].max(1), ..Leaf::dropped(&all[index]) };
        let mut is_there = vec![false; all.len()];
        let mut leaves = Vec::with_capacity(self.leaves.len());
        for leaf in self.leaves.drain(..) {
            match owner(&leaf) {
                None => leaves.push(leaf),
                // The first one stands for all.
                Some(index) if !std::mem::replace(&mut is_there[index], true) => leaves.push(joined(index)),
                Some(_) => {}
            }
        }
        leaves.extend((0..all.len()).filter(|index| !is_there[*index]).map(joined));
        self.leaves = leaves;
    }

    /// Adds the remedy for the leaves that another form saves.
    pub fn offer_forms(&mut self) {
        let lost =
            self.leaves.iter_mut().filter(|leaf| leaf.kind.is_loss() && (leaf.may_be_saved() || leaf.is_of_call()));
        lost.for_each(|leaf| leaf.remedy = Some(Remedy::FormsAsWanted));
    }

    /// Reports whether the template writes all contents and calls if it is given the forms that it writes
    /// ([`Forms::AsWanted`](crate::Forms)).
    pub fn offers_forms(&self) -> bool {
        self.leaves.iter().any(|leaf| leaf.remedy == Some(Remedy::FormsAsWanted))
    }

    /// Turns leaves that were left out into ones that are dropped by a rule.
    pub fn excuse(&mut self, rule: DesignRule, is_it: impl Fn(&Place) -> bool) {
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.kind == LeafKind::LeftOut && is_it(&leaf.place)) {
            (leaf.kind, leaf.rule, leaf.why) = (LeafKind::DroppedByDesign, Some(rule), rule.why());
        }
    }
}
