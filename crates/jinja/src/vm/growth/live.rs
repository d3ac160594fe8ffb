//! Which variables are read after a step before they are set again.

use crate::compile::program::{Field, LoopSite, Op, Program};

/// The live variables of the template's own frame before each of its loops' passes.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// By the position of a loop's step, in ascending order.
    loops: Vec<(u32, LoopLive)>,
}

/// The live variables at a loop.
#[derive(Debug)]
struct LoopLive {
    /// Before a pass.
    at_top: Vec<u32>,
    /// After the loop.
    after: Vec<u32>,
    /// Whether another loop can follow.
    is_followed: bool,
}

impl Live {
    /// Returns the slots that must be kept at a step.
    pub(crate) fn at(&self, pc: usize, is_over: bool) -> &[u32] {
        self.find(pc).map_or(&[], |live| if is_over { &live.after } else { &live.at_top })
    }

    /// Reports whether another loop can follow that at a step.
    pub(crate) fn is_followed(&self, pc: usize) -> bool {
        self.find(pc).is_some_and(|live| live.is_followed)
    }

    fn find(&self, pc: usize) -> Option<&LoopLive> {
        let found = self.loops.binary_search_by_key(&pc, |(at, _)| *at as usize);
        found.ok().map(|at| &self.loops[at].1)
    }

    pub(crate) fn of(program: &Program) -> Live {
        let slots = program.routines[0].slots as usize;
        let mut captured = Set::new(slots);
        program.ops.iter().filter_map(captured_by).for_each(|slot| captured.add(slot));
        let flows: Vec<Flow> = program.ops.iter().enumerate().map(|(at, op)| flow(at, *op, &program.loops)).collect();
        // Only steps that the template's own routine can reach are of interest. The others use
        // other frames.
        let is_reached = reached(&flows, 0);
        let mut before: Vec<Set> = flows.iter().map(|_| Set::new(slots)).collect();
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for at in (0..flows.len()).rev().filter(|at| is_reached[*at]) {
                let flow = &flows[at];
                let mut live = Set::new(slots);
                for after in flow.next.iter().flatten().filter_map(|after| before.get(*after)) {
                    live.add_all(after);
                }
                flow.writes.iter().for_each(|slot| live.remove(*slot));
                flow.reads.iter().for_each(|slot| live.add(*slot));
                if live != before[at] {
                    before[at] = live;
                    has_changed = true;
                }
            }
        }
        let live_at = |at: usize| {
            let mut live = before.get(at).cloned().unwrap_or_else(|| Set::new(slots));
            live.add_all(&captured);
            live.slots()
        };
        let loops = program.ops.iter().enumerate().filter(|(at, _)| is_reached[*at]);
        let loops = loops.filter_map(|(at, op)| {
            let Op::LoopNext(end) = *op else { return None };
            let follow = reached(&flows, end as usize);
            let is_followed =
                program.ops.iter().zip(follow).any(|(op, follows)| follows && matches!(op, Op::LoopNext(_)));
            Some((at as u32, LoopLive { at_top: live_at(at), after: live_at(end as usize), is_followed }))
        });
        Live { loops: loops.collect() }
    }
}

/// Returns which steps can follow a step, which is one of them.
fn reached(flows: &[Flow], from: usize) -> Vec<bool> {
    let mut is_reached = vec![false; flows.len()];
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        if let (Some(flow), Some(known @ false)) = (flows.get(at), is_reached.get_mut(at)) {
            *known = true;
            next.extend(flow.next.iter().flatten());
        }
    }
    is_reached
}

/// What a step reads and sets, and which steps may follow.
struct Flow {
    reads: Option<u32>,
    writes: Option<u32>,
    next: [Option<usize>; 2],
}

/// Returns the variable of an outer frame that a step reads. It may be the template's own.
fn captured_by(op: &Op) -> Option<u32> {
    match *op {
        Op::Outer(up, slot, _) if up > 0 => Some(slot.into()),
        Op::Alias { up, from, .. } | Op::AliasIfSet { up, from, .. } if up > 0 => Some(from),
        _ => None,
    }
}

// Every step is named, so that a new one is not forgotten.
fn flow(at: usize, op: Op, loops: &[LoopSite]) -> Flow {
    let then = |reads, writes| Flow { reads, writes, next: [Some(at + 1), None] };
    let of = |field: Field| Some(u32::from(field.slot));
    let or = |target: u32| Flow { reads: None, writes: None, next: [Some(at + 1), Some(target as usize)] };
    match op {
        Op::Slot(slot, _)
        | Op::TruthSlot(slot)
        | Op::IsSlot(slot, _)
        | Op::LiteralInSlot(_, slot)
        | Op::EmitSlot(slot)
        | Op::EmitAddendSlot(slot, _) => then(Some(slot), None),
        Op::Outer(0, slot, _) => then(Some(slot.into()), None),
        Op::Outer(..) => then(None, None),
        Op::Alias { slot, up: 0, from } => then(Some(from), Some(slot.into())),
        Op::Alias { slot, .. } => then(None, Some(slot.into())),
        // It may leave the variable as it is.
        Op::AliasIfSet { up: 0, from, .. } => then(Some(from), None),
        Op::AliasIfSet { .. } => then(None, None),
        Op::StoreField(field, slot) => then(of(field), Some(slot)),
        Op::Field(field)
        | Op::TruthField(field)
        | Op::EqualsField(field, _)
        | Op::IsField(field, _)
        | Op::EmitField(field)
        | Op::EmitAddendField(field) => then(of(field), None),
        Op::Store(slot) | Op::StoreLiteral(_, slot) | Op::Clear(slot) | Op::NotGiven(slot, _) => then(None, Some(slot)),
        Op::IfGiven(slot, target) => Flow { reads: Some(slot), ..or(target) },
        Op::LoopBegin(site) => then(None, loops.get(site as usize).and_then(|site| site.slot)),
        Op::Jump(target) | Op::LoopSkip(target) => {
            Flow { reads: None, writes: None, next: [Some(target as usize), None] }
        }
        Op::JumpUnless(target)
        | Op::JumpWhen(target)
        | Op::CompareChain(_, target)
        | Op::And(target)
        | Op::Or(target)
        | Op::LoopNext(target)
        | Op::JumpIfPassed(target)
        | Op::JumpIfTested(target) => or(target),
        Op::Return | Op::Refuse(_) | Op::NoFilter(_) | Op::NoTest(_) => {
            Flow { reads: None, writes: None, next: [None, None] }
        }
        Op::None
        | Op::True
        | Op::False
        | Op::NoElse
        | Op::Int(_)
        | Op::Float(_)
        | Op::Big(_)
        | Op::Literal(_)
        | Op::Global(_)
        | Op::Attribute(_)
        | Op::Item
        | Op::ItemLiteral(_)
        | Op::Slice
        | Op::List(_)
        | Op::Tuple(_)
        | Op::Dict(_)
        | Op::Not
        | Op::Negative
        | Op::Positive
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::TruthStack
        | Op::TruthGlobal(_)
        | Op::EqualsStack(_)
        | Op::CompareStack(_)
        | Op::IsStack(_)
        | Op::IsGlobal(..)
        | Op::PushFlag(_)
        | Op::Pop
        | Op::Duplicate
        | Op::Call(_)
        | Op::CallSpread
        | Op::CallEmit(_)
        | Op::CallEmitText(_)
        | Op::CallMethod(..)
        | Op::CheckReceiver(_)
        | Op::Filter(..)
        | Op::FilterSpread(_)
        | Op::Test(..)
        | Op::TestSpread(_)
        | Op::Length
        | Op::Trim
        | Op::Extend
        | Op::ExtendDict
        | Op::CheckChain(_)
        | Op::JoinChain(_)
        | Op::EmitChain(_)
        | Op::Concat(_)
        | Op::EmitAddend
        | Op::Emit
        | Op::EmitText
        | Op::EmitJson(_)
        | Op::EmitLiteral(_)
        | Op::BeginCapture
        | Op::EndCapture
        | Op::DropCapture
        | Op::LoopPassed
        | Op::LoopEnd
        | Op::LoopPass
        | Op::Unpack(_)
        | Op::MakeMacro(_)
        | Op::CallLoop(_)
        | Op::CallGeneration(_)
        | Op::CallBlock(_)
        | Op::SetAttribute(_)
        | Op::CheckNamespace => then(None, None),
    }
}

/// A set of slots.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(slots: usize) -> Set {
        Set(vec![0; slots.div_ceil(64)])
    }

    /// Adds a slot. A larger number belongs to another frame.
    fn add(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    fn add_all(&mut self, other: &Set) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    fn slots(&self) -> Vec<u32> {
        (0..self.0.len() as u32 * 64).filter(|slot| self.0[*slot as usize / 64] & 1 << (slot % 64) != 0).collect()
    }
}
