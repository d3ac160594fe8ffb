use std::collections::{BTreeMap, BTreeSet};

use super::known::{ConstantValue, KnownFacts};
use super::path::{PathId, Paths, WordId};
use super::{Analysis, Comparison, Constant, FunctionCall, Read, Spot, Test, Use};
use crate::builtins::functions::Function;
use crate::output::Literals;
use crate::value::float;

/// The findings so far, by byte offset in the source. The same place is visited several times, with
/// more facts each time.
#[derive(Default)]
pub(super) struct Record {
    reads: BTreeMap<PathId, BTreeSet<(u32, Use)>>,
    comparisons: BTreeMap<(u32, TestRecord), (KnownFacts, KnownFacts)>,
    calls: BTreeMap<u32, (Function, KnownFacts)>,
    assigned: BTreeMap<WordId, u32>,
}

/// A [`Test`] with words as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TestRecord {
    True,
    Is(WordId),
    Operator(&'static str),
    Method(WordId),
}

/// The most bytes of a constant that are shown.
const SHOWN: usize = 200;

impl Record {
    pub fn read(&mut self, paths: &[PathId], how: Use, at: u32) {
        for path in paths {
            self.reads.entry(*path).or_default().insert((at, how));
        }
    }

    pub fn compare(&mut self, known: &KnownFacts, asked: TestRecord, with: KnownFacts, at: u32) {
        let paths = known.all_paths();
        if paths.is_empty() {
            return;
        }
        self.read(&paths, Use::Compared, at);
        let flat = KnownFacts::same_as(paths, &known.through);
        let entry = self.comparisons.entry((at, asked)).or_default();
        entry.0.join(flat);
        entry.1.join(KnownFacts::constants(&with.constants));
    }

    pub fn call(&mut self, function: Function, argument: KnownFacts, at: u32) {
        let entry = self.calls.entry(at).or_insert_with(|| (function, KnownFacts::default()));
        entry.1.join(KnownFacts::constants(&argument.constants));
    }

    pub fn assign(&mut self, name: WordId, at: u32) {
        let first = self.assigned.entry(name).or_insert(at);
        *first = at.min(*first);
    }

    pub fn finish(self, paths: &Paths, source: &str, literals: &Literals) -> Analysis {
        let offsets = self.reads.values().flatten().map(|(at, _)| *at);
        let offsets = offsets.chain(self.comparisons.keys().map(|(at, _)| *at)).chain(self.calls.keys().copied());
        let offsets = offsets.chain(self.assigned.values().copied());
        let spots = spots(source, offsets.collect());
        let spot = |at: u32| spots.get(&at).copied().unwrap_or_default();
        let constant = |fixed: &ConstantValue| match fixed {
            ConstantValue::None => Constant::None,
            ConstantValue::Bool(value) => Constant::Bool(*value),
            ConstantValue::Int(value) => Constant::Number(value.to_string()),
            ConstantValue::Float(value) => Constant::Number(float::repr(*value)),
            ConstantValue::Text(id) => {
                let text = literals.text(*id).unwrap_or_default();
                Constant::Text(text.chars().take(SHOWN).collect())
            }
        };
        let constants = |known: &KnownFacts| known.constants.iter().map(constant).collect();
        let word = |id: WordId| paths.text(id).to_owned();
        let mut reads: Vec<Read> = Vec::with_capacity(self.reads.len());
        for (path, uses) in self.reads {
            let uses = uses.into_iter().map(|(at, how)| (how, spot(at))).collect();
            reads.push(Read { path: paths.path(path), uses });
        }
        reads.sort_by(|a, b| a.path.cmp(&b.path));
        let comparisons = self.comparisons.iter().map(|((at, asked), (known, with))| {
            let mut of: Vec<_> = known.is.iter().map(|path| paths.path(*path)).collect();
            of.sort();
            Comparison {
                spot: spot(*at),
                paths: of,
                through: known.through.iter().map(|id| word(*id)).collect(),
                test: match asked {
                    TestRecord::True => Test::True,
                    TestRecord::Is(name) => Test::Is(word(*name)),
                    TestRecord::Operator(operator) => Test::Operator(operator),
                    TestRecord::Method(name) => Test::Method(word(*name)),
                },
                with: constants(with),
            }
        });
        let comparisons = comparisons.collect();
        let calls = self.calls.iter().map(|(at, (function, argument))| FunctionCall {
            spot: spot(*at),
            name: function.name(),
            argument: constants(argument),
        });
        let calls = calls.collect();
        let mut assigned: Vec<_> = self.assigned.iter().map(|(name, at)| (word(*name), spot(*at))).collect();
        assigned.sort_by_key(|(_, spot)| spot.offset);
        Analysis { reads, comparisons, calls, assigned, steps: 0 }
    }
}

/// Returns the lines and columns of many offsets in one pass over the source.
fn spots(source: &str, offsets: BTreeSet<u32>) -> BTreeMap<u32, Spot> {
    let mut offsets = offsets.into_iter().peekable();
    let mut spots = BTreeMap::new();
    let (mut line, mut column) = (1, 1);
    for (at, character) in source.char_indices().chain([(source.len(), '\n')]) {
        while let Some(offset) = offsets.next_if(|offset| *offset as usize <= at) {
            spots.insert(offset, Spot { line, column, offset });
        }
        match character {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    spots
}
