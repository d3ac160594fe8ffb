use std::sync::Arc;

use num_bigint::BigInt;

use super::InputPlace;
use crate::builtins::functions::Function;
use crate::output::{Generation, Offset};
use crate::value::{Selection, TypeName};
use crate::vm::Volatile;

/// The state of a rendering at the top of a loop over the growing list, before the next pass, or
/// after such a loop.
///
/// It borrows nothing from the inputs, and its size is limited.
#[derive(Debug)]
pub struct Checkpoint {
    /// The next step of the program.
    pub(crate) pc: u32,
    /// The index in the growing list of the next item.
    pub(crate) next: usize,
    /// The length of the output in bytes.
    pub(crate) written: usize,
    /// Whether the switch was read before, since the last stretch.
    pub(crate) has_switched: bool,
    pub(crate) running: FrozenLoop,
    /// The slots that are read later, by number.
    pub(crate) slots: Vec<(u32, FrozenValue)>,
    pub(crate) namespaces: Vec<Entries>,
    /// The lists, tuples and dicts that the template created, each after those in it.
    pub(crate) items: Vec<Items>,
    /// The numbers that may differ from those after the last stretch.
    pub(crate) volatiles: Vec<Volatile>,
    /// The passes that built the strings in these values, each after the one around it.
    pub(crate) marks: Vec<FrozenMark>,
}

/// The entries of a dict or a namespace.
type Entries = Vec<(FrozenValue, FrozenValue)>;

impl Checkpoint {
    /// Returns the length of the output, in bytes, up to this point.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Returns the index in the growing list of the first item that the loop has not taken.
    pub fn next(&self) -> usize {
        self.next
    }

    /// Reports whether two states have the same effect on everything that follows, except for
    /// numbers in namespaces.
    pub(crate) fn is_like(&self, other: &Checkpoint) -> bool {
        let is_like = |(one, other): (&(FrozenValue, FrozenValue), &(FrozenValue, FrozenValue))| {
            let are_numbers = matches!((&one.1, &other.1), (FrozenValue::Int(_), FrozenValue::Int(_)));
            one.0 == other.0 && (are_numbers || one.1 == other.1)
        };
        let are_like =
            |(one, other): (&Entries, &Entries)| one.len() == other.len() && one.iter().zip(other).all(is_like);
        (self.pc, self.next, self.written) == (other.pc, other.next, other.written)
            && self.running == other.running
            && self.slots == other.slots
            && self.namespaces.len() == other.namespaces.len()
            && self.namespaces.iter().zip(&other.namespaces).all(are_like)
            && self.items == other.items
            && self.marks == other.marks
    }

    /// Reports whether this state can be taken up whenever an earlier one can.
    pub(crate) fn requires_as(&self, earlier: &Checkpoint) -> bool {
        let range = |volatile: &Volatile| (volatile.key, volatile.low, volatile.high);
        (!self.has_switched || earlier.has_switched)
            && self.volatiles.iter().map(range).eq(earlier.volatiles.iter().map(range))
    }

    /// Returns all numbers in namespaces, each with any value.
    pub(crate) fn numbers(&self) -> Vec<Volatile> {
        let mut numbers = Vec::new();
        for (namespace, entries) in self.namespaces.iter().enumerate() {
            for (entry, (_, value)) in entries.iter().enumerate() {
                if let FrozenValue::Int(_) = value {
                    let key = (namespace as u32, entry as u32);
                    let (low, high) = (i64::MIN, i64::MAX);
                    numbers.push(Volatile { namespace: key.0, entry: key.1, key, low, high, is_kept: true });
                }
            }
        }
        numbers
    }

    /// Returns the number in a namespace.
    pub(crate) fn number(&self, (namespace, entry): (u32, u32)) -> Option<i64> {
        match self.namespaces.get(namespace as usize)?.get(entry as usize)?.1 {
            FrozenValue::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Reports whether the same happened up to here for the numbers of another state after the last
    /// stretch.
    pub(crate) fn allows(&self, after: Option<&Arc<Checkpoint>>) -> bool {
        self.volatiles.iter().all(|volatile| {
            let value = after.and_then(|after| after.number(volatile.key));
            value.is_some_and(|value| (volatile.low..=volatile.high).contains(&value))
        })
    }

    /// Returns the byte offset of the loop's tag in the template's source.
    pub fn loop_at(&self) -> usize {
        self.running.at as usize
    }
}

/// A part of a rendering that may depend on the end of the growing list, or on the switch. For a
/// longer list it is rendered again, and it must have the same result.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// The state before it; without one, it begins with the template.
    pub(crate) from: Option<Arc<Checkpoint>>,
    /// The state after it.
    pub(crate) to: Arc<Checkpoint>,
    pub(crate) wrote: Wrote,
    /// Whether it depends on the end of the list, and not only on the switch.
    pub(crate) has_ended: bool,
}

/// A part of the output.
#[derive(Debug, PartialEq)]
pub(crate) struct Wrote {
    pub(crate) text: Box<str>,
    pub(crate) runs: Vec<FrozenRun>,
    pub(crate) marks: Vec<FrozenMark>,
    pub(crate) generations: Vec<Generation>,
}

/// The loop that is at the top of a pass, or at its end.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenLoop {
    /// The position of its tag in the source.
    pub(crate) at: u32,
    pub(crate) is_over: bool,
    pub(crate) passes: usize,
    pub(crate) has_passed: bool,
    /// The index in the growing list of the loop's first item.
    pub(crate) first: usize,
    /// The state of `loop`, if the body reads it.
    pub(crate) shared: Option<FrozenState>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct FrozenState {
    pub(crate) index0: i64,
    pub(crate) depth0: u32,
    pub(crate) depth_of_values: u32,
    pub(crate) before: FrozenValue,
    pub(crate) current: FrozenValue,
    /// The next item, if it was already fetched.
    pub(crate) after: Option<FrozenValue>,
    /// Whether items can be accessed by index.
    pub(crate) is_indexed: bool,
    /// The routine of the test that items must pass.
    pub(crate) test: Option<u32>,
    pub(crate) is_testing: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum FrozenValue {
    Missing,
    Undefined(FrozenAbsence),
    None,
    Bool(bool),
    Int(i64),
    Big(BigInt),
    /// The bits of the number.
    Float(u64),
    Str(FrozenText),
    /// A caller's list or dict.
    Input(InputPlace),
    InputPart(InputPlace, Selection),
    /// A list, tuple or dict of the template.
    Items(u32),
    Range {
        start: i64,
        stop: i64,
        step: i64,
        len: usize,
    },
    Namespace(u32),
    /// A macro that was defined at the top level.
    Macro(u32),
    Function(Function),
    /// The `loop` of the running loop.
    Loop,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Items {
    List(Vec<FrozenValue>),
    Tuple(Vec<FrozenValue>),
    Group(Vec<FrozenValue>),
    Dict(Entries),
}

#[derive(Debug, PartialEq)]
pub(crate) enum FrozenAbsence {
    Variable(Box<str>),
    Attribute(TypeName, Box<str>),
    Unsafe(TypeName, Box<str>),
    Parameter(Box<str>),
    Hint(&'static str),
    Words(Box<str>),
    UnsafeWords(Box<str>),
}

#[derive(Debug, PartialEq)]
pub(crate) enum FrozenText {
    /// A part of a literal of the template.
    Literal {
        id: u32,
        start: usize,
        len: usize,
    },
    /// A part of a caller's string.
    Input {
        place: InputPlace,
        start: usize,
        len: usize,
    },
    Slice {
        text: Box<str>,
        origin: FrozenOrigin,
    },
    Joined {
        text: Box<str>,
        runs: Vec<FrozenRun>,
        is_markup: bool,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) struct FrozenRun {
    pub(crate) origin: FrozenOrigin,
    pub(crate) end: u32,
    /// The index in [`Checkpoint::marks`], plus 1, or 0 for none.
    pub(crate) mark: u32,
}

#[derive(Debug, PartialEq)]
pub(crate) enum FrozenOrigin {
    Literal { id: u32, offset: Offset },
    Input { place: InputPlace, offset: Offset },
    Engine,
}

#[derive(Debug, PartialEq)]
pub(crate) struct FrozenMark {
    /// The index in [`Checkpoint::marks`] of the pass around it, plus 1, or 0 for none.
    pub(crate) outer: u32,
    pub(crate) loop_at: u32,
    pub(crate) item: InputPlace,
    pub(crate) index: u32,
}
