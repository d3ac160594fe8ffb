//! Keeping and taking up the state of the machine (see [`crate::growth`]).

mod freeze;
mod idle;
pub(crate) mod live;
mod recorder;
mod thaw;
pub(crate) mod volatile;

use std::sync::Arc;

use super::{Usual, Vm, World};
use crate::compile::program::Program;
use crate::error::Error;
use crate::growth::{Checkpoint, Growing, GrowingInputs, Grown, Stretch, TrackedList};
use crate::input::Context;
use crate::output::Output;
use crate::template::Environment;

pub(super) use recorder::Recorder;

/// Renders a program from its start.
pub(crate) fn render(
    program: &Program,
    context: &Context<'_>,
    inputs: &dyn GrowingInputs,
    environment: &Environment<'_>,
    usual: &Usual,
) -> Result<(Output, Growing), Error> {
    let (context, tracked) = (context.clone(), TrackedList::new(inputs));
    let ran = run(program, &context, &tracked, GrowthPart::default(), environment, usual)?;
    Ok((ran.output, ran.growing))
}

/// Renders a program for a longer list, from the latest state that is still that of the rendering.
/// Returns `None` if there is none.
pub(crate) fn grow(
    program: &Program,
    context: &Context<'_>,
    inputs: &dyn GrowingInputs,
    growing: &Growing,
    is_switched: bool,
    environment: &Environment<'_>,
    usual: &Usual,
) -> Result<Option<Grown>, Error> {
    let render = |part: GrowthPart<'_>| {
        let (context, tracked) = (context.clone(), TrackedList::new(inputs));
        run(program, &context, &tracked, part, environment, usual)
    };
    let is_free = |state: &Checkpoint| !(is_switched && state.has_switched);
    let mut stretches: Vec<Arc<Stretch>> = Vec::with_capacity(growing.stretches.len());
    let mut earlier: Option<&Arc<Checkpoint>> = None;
    for stretch in growing.stretches.iter().take(growing.kept.stretches) {
        let after = stretches.last().map(|stretch| Arc::clone(&stretch.to));
        let is_changed = match (earlier, &after) {
            (Some(earlier), Some(after)) => !Arc::ptr_eq(earlier, after),
            _ => false,
        };
        if !stretch.has_ended && !is_switched && !is_changed {
            stretches.push(Arc::clone(stretch));
            earlier = Some(&stretch.to);
            continue;
        }
        // A stretch that follows another one directly begins with the state after that.
        let follows = match (&stretch.from, earlier) {
            (Some(from), Some(earlier)) => Arc::ptr_eq(from, earlier),
            _ => false,
        };
        let from = if follows { after.as_ref() } else { stretch.from.as_ref() };
        // The first one may begin with the state after another loop.
        let is_boundary = follows || (earlier.is_none() && from.is_some_and(|from| from.running.is_over));
        if from.is_some_and(|from| !is_free(from) || !from.allows(after.as_ref())) {
            return Ok(None);
        }
        let part = GrowthPart {
            from,
            is_boundary,
            after: after.as_deref(),
            stretches,
            wanted: Some(stretch),
            kept: &[],
            near: growing.near,
        };
        let ran = render(part)?;
        if !ran.is_same {
            // It went on to the end.
            let start = from.map_or(0, |from| from.written);
            return Ok(Some(Grown { start, output: ran.output, growing: ran.growing, from: from.cloned() }));
        }
        stretches = ran.growing.stretches;
        earlier = Some(&stretch.to);
    }
    let after = stretches.last().map(|stretch| Arc::clone(&stretch.to));
    let is_usable = |state: &Arc<Checkpoint>| is_free(state) && state.allows(after.as_ref());
    let checkpoints = &growing.kept.checkpoints;
    let Some(at) = checkpoints.iter().rposition(is_usable) else { return Ok(None) };
    let (from, kept) = (&checkpoints[at], &checkpoints[..at]);
    let part = GrowthPart {
        from: Some(from),
        kept,
        after: after.as_deref(),
        stretches,
        near: growing.near,
        ..GrowthPart::default()
    };
    let ran = render(part)?;
    Ok(Some(Grown { start: from.written, output: ran.output, growing: ran.growing, from: Some(Arc::clone(from)) }))
}

/// A part of a rendering.
#[derive(Default)]
struct GrowthPart<'p> {
    from: Option<&'p Arc<Checkpoint>>,
    /// Whether `from` is the state after the last stretch.
    is_boundary: bool,
    /// Earlier states in the same loop.
    kept: &'p [Arc<Checkpoint>],
    /// The state after the last stretch.
    after: Option<&'p Checkpoint>,
    /// The stretches before it.
    stretches: Vec<Arc<Stretch>>,
    /// The stretch that is rendered again. If its result is the same, the rendering stops.
    wanted: Option<&'p Stretch>,
    /// [`Growing::near`] of the rendering before.
    near: Option<usize>,
}

struct Ran {
    output: Output,
    growing: Growing,
    is_same: bool,
}

fn run<'a>(
    program: &'a Program,
    context: &'a Context<'a>,
    tracked: &'a TrackedList<'a>,
    part: GrowthPart<'a>,
    environment: &'a Environment<'a>,
    usual: &Usual,
) -> Result<Ran, Error> {
    let world = World::new(program, tracked, Some(tracked.inputs.growing()), environment);
    let mut vm = Vm::new(&world, context, usual);
    if let Some(checkpoint) = part.from
        && let Err(fault) = vm.thaw(checkpoint, part.after, tracked)
    {
        return Err(vm.error(fault));
    }
    let GrowthPart { from, is_boundary, kept, stretches, wanted, near, .. } = part;
    vm.recorder = Some(Box::new(Recorder::new(tracked, from, is_boundary, kept, stretches, wanted, near)));
    let done = vm.run();
    let (is_same, growing) = match vm.recorder.take() {
        Some(recorder) => recorder.finish(),
        None => Default::default(),
    };
    match done {
        Ok(()) => Ok(Ran { output: vm.into_output(), growing, is_same }),
        Err(fault) => Err(vm.error(fault)),
    }
}
