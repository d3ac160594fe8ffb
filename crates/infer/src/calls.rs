//! Inference of how a template writes the calls of a turn.

use rolecall_format::Field;

use crate::arguments::Arguments;
use crate::located::{Located, locate};
use crate::probe::{Probe, Refusal, Stage};
use crate::repetition::{Row, take_apart};
use crate::said::{Said, plain_calls};
use crate::sequence::{Cuts, Item, Sequence, common_end, common_start, hole_at};

/// The form in which calls are written.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub arguments: Arguments,
    /// The items from the first hole of a call to the last.
    pub inner: Vec<Item>,
    pub row: Row,
    /// Whether the template writes several calls, or why not.
    pub parallel: Result<(), Refusal>,
    /// Whether the template refuses several calls.
    pub is_refused: bool,
}

/// The rendered turns with one call, with and without content and reasoning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variants {
    pub alone: Option<Located>,
    pub content: Option<Located>,
    pub reasoning: Option<Located>,
    pub both: Option<Located>,
}

impl Variants {
    pub fn each(&self) -> impl Iterator<Item = &Located> {
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
    base: &Said,
    variants: &Variants,
    plain: &Plain,
) -> Option<Calls> {
    let one = variants.each().next()?;
    let many = |count: usize| {
        let said = base.clone().calling(plain_calls(count));
        let turn = probe.turn(&said, stage)?;
        let located: Option<Located> = locate(probe, &turn, &said, Some(&arguments));
        located.ok_or_else(|| Refusal::new("several calls are not written one after the other"))
    };
    let rows = many(3).or_else(|refusal| many(2).map_err(|_| refusal));
    let (mut inner, mut between) = (one.items.get(one.calls[0].clone())?.to_vec(), Vec::new());
    let (mut before, mut after) = around(variants, plain)?;
    let mut parallel = rows.as_ref().map(|_| ()).map_err(Clone::clone);
    if let Ok(rows) = &rows {
        match joints(rows, &before) {
            Some(joints) => {
                (inner, between) = (joints.inner, joints.between);
                let length = before.len();
                before = joints.before[joints.before.len() - length..].to_vec();
            }
            None => {
                parallel = Err(Refusal::new("a later call is written differently from the first"));
                // The text before the second call shows what belongs to each call.
                let joint = rows.calls.windows(2).next().map(|pair| &rows.items[pair[0].end..pair[1].start]);
                between = joint.unwrap_or_default().to_vec();
            }
        }
    }
    let row = match between.is_empty() {
        false => take_apart(&before, &between, &after, None),
        true => Row { prefix: std::mem::take(&mut before), suffix: std::mem::take(&mut after), ..Row::default() },
    };
    Some(Calls { arguments, inner, row, is_refused: rows.is_err_and(|refusal| refusal.line.is_some()), parallel })
}

/// Returns the text before the first call and after the last one that belongs to the calls.
fn around(variants: &Variants, plain: &Plain) -> Option<(Vec<Item>, Vec<Item>)> {
    let mut before: Option<Vec<Item>> = None;
    let mut after: Option<Vec<Item>> = None;
    for located in variants.each() {
        let (first, last) = (located.calls.first()?.start, located.calls.last()?.end);
        let opening = &located.items[..first];
        let hole = opening.iter().rposition(|item| matches!(item, Item::Hole(_)));
        let known: &Sequence = match hole.map(|at| &opening[at]) {
            None => &plain.before,
            Some(Item::Hole(Field::Reasoning)) => &plain.between,
            Some(_) => &[],
        };
        let mine = &opening[hole.map_or(0, |at| at + 1)..];
        let opening = if hole.is_none() { plain.opening } else { 0 };
        let mine = &mine[header(mine, known, opening)..];
        before = Some(match before {
            None => mine.to_vec(),
            Some(other) => mine[mine.len() - cut_end(mine, &other)..].to_vec(),
        });
        let closing = &located.items[last..];
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
}

fn joints(rows: &Located, before: &Sequence) -> Option<Joints> {
    let inner = |at: usize| rows.items[rows.calls[at].clone()].to_vec();
    let mut inners: Vec<Vec<Item>> = (0..rows.calls.len()).map(inner).collect();
    let start = rows.calls.first()?.start;
    let mut befores = vec![rows.items[start.checked_sub(before.len())?..start].to_vec()];
    befores.extend(rows.calls.windows(2).map(|pair| rows.items[pair[0].end..pair[1].start].to_vec()));
    // Replaces the call's index by holes, in the items of the calls and in the text before them.
    number(&mut inners, false);
    number(&mut befores, true);
    let (first, betweens) = befores.split_first()?;
    let alike = inners.windows(2).all(|pair| pair[0] == pair[1]) && betweens.windows(2).all(|pair| pair[0] == pair[1]);
    let mut inners = inners.into_iter();
    alike.then(|| Joints {
        before: first.clone(),
        inner: inners.next().unwrap_or_default(),
        between: betweens.first().cloned().unwrap_or_default(),
    })
}

/// Replaces digits that count 0, 1, 2 across the sequences by holes. It compares the sequences from
/// one end, up to the first other difference.
fn number(each: &mut [Vec<Item>], from_end: bool) {
    let place = |items: &[Item], at: usize| if from_end { items.len().checked_sub(at + 1) } else { Some(at) };
    for at in 0.. {
        let column = each.iter().map(|items| items.get(place(items, at)?).copied());
        let Some(column) = column.collect::<Option<Vec<Item>>>() else { return };
        let numbers = ('0'..='9').map(Item::Char);
        if column.len() > 1 && column.iter().copied().eq(numbers.take(column.len())) {
            for items in each.iter_mut() {
                if let Some(place) = place(items, at) {
                    items[place] = Item::Hole(Field::Index);
                }
            }
        } else if column.windows(2).any(|pair| pair[0] != pair[1]) {
            return;
        }
    }
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
