//! Inference of how a template writes the calls of a turn.

use rolecall_format::Field;
use rolecall_format::codec::Count;

use crate::arguments::Arguments;
use crate::located::{LocatedTurn, locate};
use crate::marker;
use crate::probe::{Probe, Refusal, Stage};
use crate::repetition::{Row, take_apart};
use crate::said::{ProbeMessage, called_before, plain_calls};
use crate::sequence::{Cuts, Item, Sequence, common_end, common_start, hole_at, is_space, literal};

/// The form in which calls are written.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub arguments: Arguments,
    /// The items from the first hole of a call to the last.
    pub inner: Vec<Item>,
    pub row: Row,
    /// The text after several calls that is missing after a single one.
    pub late: Vec<Item>,
    pub parallel: Parallel,
    /// How the calls are numbered.
    pub count: Count,
}

/// How a template writes several calls.
#[derive(Clone, Debug)]
pub(crate) enum Parallel {
    Written,
    /// It writes only the first of them.
    First,
    /// A later call is written differently from the first.
    Unlike,
    /// It refuses them, or they could not be located.
    Refused(Refusal),
}

/// The rendered turns with one call, with and without content and reasoning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variants {
    pub alone: Option<LocatedTurn>,
    pub content: Option<LocatedTurn>,
    pub reasoning: Option<LocatedTurn>,
    pub both: Option<LocatedTurn>,
}

impl Variants {
    pub fn each(&self) -> impl Iterator<Item = &LocatedTurn> {
        [&self.alone, &self.content, &self.reasoning, &self.both].into_iter().flatten()
    }
}

/// The known text of turns without calls: before the content, between reasoning and content, and
/// after the content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain {
    pub before: Vec<Item>,
    pub between: Vec<Item>,
    pub behind: Vec<Item>,
    /// The number of items in the generation prompt.
    pub opening: usize,
}

pub(crate) fn find(
    probe: &Probe<'_>,
    stage: &Stage,
    arguments: Arguments,
    base: &ProbeMessage,
    variants: &Variants,
    plain: &Plain,
) -> Option<Calls> {
    let one = variants.each().next()?;
    let many = |count: usize| {
        let said = base.clone().calling(plain_calls(count));
        let turn = probe.turn(&said, stage).map_err(Parallel::Refused)?;
        let is_written = |call: usize| {
            let name = said.calls[call].name;
            !(turn.places(name).is_empty() && turn.places(&probe.id(call, name)).is_empty())
        };
        if (1..count).all(|call| !is_written(call)) {
            return Err(Parallel::First);
        }
        let located: Option<LocatedTurn> = locate(probe, &turn, &said, Some(&arguments));
        let words = "the template does not write several calls one after another";
        located.ok_or_else(|| Parallel::Refused(Refusal::new(words)))
    };
    let rows = many(3).or_else(|refusal| many(2).map_err(|_| refusal));
    let mut late = Vec::new();
    let (mut inner, mut between) = (one.calls().next()?.to_vec(), Vec::new());
    let (mut before, mut after) = around(variants, plain)?;
    let mut count = Count { first: 0, over_conversation: false };
    let mut parallel = rows.as_ref().map_or_else(Clone::clone, |_| Parallel::Written);
    if let Ok(rows) = &rows {
        // Some templates write a third call differently.
        let two = || many(2).ok().and_then(|rows| Some((joints(&rows, &before)?, rows)));
        let found = joints(rows, &before).map(|joints| (joints, rows.clone())).or_else(two);
        match found {
            Some((joints, rows)) => {
                late = late_text(one, &rows, &after, &plain.behind);
                (inner, between) = (joints.inner, joints.between);
                count.first = joints.first;
                before = joints.before;
            }
            None => {
                parallel = Parallel::Unlike;
                // The text before the second call shows what belongs to each call.
                between = rows.joints().next().unwrap_or_default().to_vec();
            }
        }
    }
    // A marker between two calls that also follows the last one closes each of them, even if a
    // turn's other parts end with it too.
    let closer = &between[..between.len() - cut_end(&between, &before)];
    let closes_all = |located: &LocatedTurn| {
        let closing = located.closing();
        closing.len() > closer.len() && closing.starts_with(closer) && Cuts::of(closing).allow(closer.len())
    };
    if after.is_empty() && !literal(closer).trim().is_empty() && variants.each().all(closes_all) {
        after = closer.to_vec();
    }
    let numbered = [before.as_slice(), &inner].concat();
    if let Some(place) = hole_at(&numbered, Field::Index) {
        count.over_conversation =
            later_index(probe, stage, base, &arguments, (before.len(), place)) == Some(count.first + 1);
    }
    let row = match between.is_empty() {
        false => closed_by_turn(take_apart(&before, &between, &after, None), plain),
        true => Row { prefix: std::mem::take(&mut before), suffix: std::mem::take(&mut after), ..Row::default() },
    };
    Some(Calls { arguments, inner, row, late, parallel, count })
}

/// Leaves the text after the calls to the turn if nothing but the turn's own opening opens the calls:
/// what was never opened is not closed. It ends the turn, as the next role's token does in some
/// templates.
fn closed_by_turn(row: Row, plain: &Plain) -> Row {
    let opening = plain.before.get(..plain.opening).unwrap_or_default();
    let is_turn = !opening.is_empty() && row.open.starts_with(opening);
    match is_turn || literal(&row.open).trim().is_empty() {
        true => Row { close: row.close.into_iter().take_while(is_space).collect(), ..row },
        false => row,
    }
}

/// Returns the text after several calls that is missing after a single one.
fn late_text(one: &LocatedTurn, rows: &LocatedTurn, after: &Sequence, behind: &Sequence) -> Vec<Item> {
    let closing = rows.closing();
    if closing == one.closing() {
        return Vec::new();
    }
    let closing = &closing[..closing.len() - cut_end(closing, behind)];
    let late = closing.strip_prefix(after).unwrap_or_default();
    let is_text = late.iter().all(|item| matches!(item, Item::Char(_))) && late.iter().any(|item| !is_space(item));
    if is_text { late.to_vec() } else { Vec::new() }
}

/// Returns the number of a call after an earlier turn with one call. `place` counts from the first
/// of `before` items before the call's first hole.
fn later_index(
    probe: &Probe<'_>,
    stage: &Stage,
    base: &ProbeMessage,
    arguments: &Arguments,
    (before, place): (usize, usize),
) -> Option<usize> {
    let said = base.clone().calling(plain_calls(1));
    let turn = probe.later(&base.clone().calling(called_before()), &said, stage).ok()?;
    let located = locate(probe, &turn, &said, Some(arguments))?;
    let start = located.opening().len().checked_sub(before)?;
    match located.items.get(start + place)? {
        Item::Char(digit) => usize::try_from(digit.to_digit(10)?).ok(),
        _ => None,
    }
}

/// Returns the text before the first call and after the last one that belongs to the calls.
fn around(variants: &Variants, plain: &Plain) -> Option<(Vec<Item>, Vec<Item>)> {
    let mut before: Option<Vec<Item>> = None;
    let mut after: Option<Vec<Item>> = None;
    for located in variants.each() {
        let opening = located.opening();
        let hole = opening.iter().rposition(|item| matches!(item, Item::Hole(_)));
        let known: &Sequence = match hole.map(|at| &opening[at]) {
            None => &plain.before,
            Some(Item::Hole(Field::Reasoning)) => &plain.between,
            // The text that closes the content, if the turn's end follows it.
            Some(_) => &plain.behind,
        };
        let mine = &opening[hole.map_or(0, |at| at + 1)..];
        let start = if hole.is_none() { plain.opening } else { 0 };
        let closed = match hole.filter(|at| opening[*at] == Item::Hole(Field::Reasoning)) {
            Some(at) => closed_by(&opening[..at], mine),
            None => 0,
        };
        let own = header(mine, known, start);
        // The whole text after the content may be the end of a turn before the calls.
        let is_turn_end = hole.is_some_and(|at| opening[at] == Item::Hole(Field::Content)) && own == known.len();
        let mine = mine.get(if is_turn_end { closed } else { own.max(closed) }..)?;
        before = Some(match before {
            None => mine.to_vec(),
            Some(other) => mine[mine.len() - cut_end(mine, &other)..].to_vec(),
        });
        let closing = located.closing();
        let hole = closing.iter().position(|item| matches!(item, Item::Hole(_)));
        let mine = &closing[..hole.unwrap_or(closing.len())];
        let mine = match hole {
            None => &mine[..mine.len() - cut_end(mine, &plain.behind)],
            Some(_) => mine,
        };
        after = Some(match after {
            None => mine.to_vec(),
            Some(other) => mine[..cut_start(mine, &other)].to_vec(),
        });
    }
    Some((before?, after?))
}

/// Returns the length of the marker after a value that closes the marker before the value.
fn closed_by(before: &Sequence, behind: &Sequence) -> usize {
    let (before, behind) = (literal(before), literal(behind));
    let Some(close) = marker::last(&before).and_then(marker::closing) else { return 0 };
    let spaces = behind.len() - behind.trim_start().len();
    match behind[spaces..].starts_with(&close) {
        true => behind[..spaces + close.len()].chars().count(),
        false => 0,
    }
}

/// Returns how many items at the start of a turn with calls are the same as in a turn without
/// calls: all of these, or those up to a marker or up to the end of the generation prompt.
fn header(mine: &Sequence, plain: &Sequence, opening: usize) -> usize {
    let (cuts, common) = (Cuts::of(mine), common_start(mine, plain));
    let ends = |at: &usize| *at == opening || matches!(plain.get(*at), None | Some(Item::Char('<' | '[')));
    (0..=common).rev().find(|at| cuts.allow(*at) && ends(at)).unwrap_or(0)
}

/// Returns the number of items that two sequences share at the start, up to a point where both can
/// be cut.
pub(crate) fn cut_start(a: &Sequence, b: &Sequence) -> usize {
    let (in_a, in_b) = (Cuts::of(a), Cuts::of(b));
    (0..=common_start(a, b)).rev().find(|at| in_a.allow(*at) && in_b.allow(*at)).unwrap_or(0)
}

/// Returns the number of items that two sequences share at the end, up to a point where both can be
/// cut.
pub(crate) fn cut_end(a: &Sequence, b: &Sequence) -> usize {
    let (in_a, in_b) = (Cuts::of(a), Cuts::of(b));
    let fits = |length: &usize| in_a.allow(a.len() - length) && in_b.allow(b.len() - length);
    (0..=common_end(a, b)).rev().find(fits).unwrap_or(0)
}

/// The common form of several calls: their items, the text before the first, and the text between
/// two.
struct Joints {
    before: Vec<Item>,
    inner: Vec<Item>,
    between: Vec<Item>,
    /// The number of the first call.
    first: usize,
}

fn joints(rows: &LocatedTurn, before: &Sequence) -> Option<Joints> {
    let mut inners: Vec<Vec<Item>> = rows.calls().map(<[Item]>::to_vec).collect();
    let opening = rows.opening();
    let mut befores = vec![opening.get(opening.len().checked_sub(before.len())?..)?.to_vec()];
    befores.extend(rows.joints().map(<[Item]>::to_vec));
    // Replaces the call's index by holes, in the items of the calls and in the text before them.
    let first = number(&mut inners, false).or(number(&mut befores, true));
    let (opening, betweens) = befores.split_first()?;
    let alike = inners.windows(2).all(|pair| pair[0] == pair[1]) && betweens.windows(2).all(|pair| pair[0] == pair[1]);
    let mut inners = inners.into_iter();
    alike.then(|| Joints {
        before: opening.clone(),
        first: first.unwrap_or_default(),
        inner: inners.next().unwrap_or_default(),
        between: betweens.first().cloned().unwrap_or_default(),
    })
}

/// Replaces digits that count 0, 1, 2 or 1, 2, 3 across the sequences by holes, and returns the
/// first number. It compares the sequences from one end, up to the first other difference.
fn number(each: &mut [Vec<Item>], from_end: bool) -> Option<usize> {
    let place = |items: &[Item], at: usize| if from_end { items.len().checked_sub(at + 1) } else { Some(at) };
    let mut first = None;
    for at in 0.. {
        let column = each.iter().map(|items| items.get(place(items, at)?).copied());
        let Some(column) = column.collect::<Option<Vec<Item>>>() else { return first };
        let start = match column.first() {
            Some(Item::Char(digit @ '0'..='1')) => *digit,
            _ => '9',
        };
        let numbers = (start..='9').map(Item::Char);
        if column.len() > 1 && column.iter().copied().eq(numbers.take(column.len())) {
            first = first.or(start.to_digit(10).and_then(|digit| usize::try_from(digit).ok()));
            for items in each.iter_mut() {
                if let Some(place) = place(items, at) {
                    items[place] = Item::Hole(Field::Index);
                }
            }
        } else if column.windows(2).any(|pair| pair[0] != pair[1]) {
            return first;
        }
    }
    first
}

impl Calls {
    /// Returns the items of one call.
    pub fn call(&self) -> Vec<Item> {
        [self.row.prefix.as_slice(), &self.inner, &self.row.suffix].concat()
    }

    /// Returns the number of items before the first call's first hole, and after the last call's
    /// last hole, that belong to the calls.
    pub fn margins(&self) -> (usize, usize) {
        (self.row.open.len() + self.row.prefix.len(), self.row.suffix.len() + self.row.close.len())
    }

    pub fn has(&self, field: Field) -> bool {
        hole_at(&self.call(), field).is_some()
    }
}
