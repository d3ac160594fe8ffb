//! Keeping and taking up the state of the machine (see [`crate::growth`]).

mod freeze;
pub(crate) mod live;
mod recorder;
mod thaw;

use std::sync::Arc;

use super::{Usual, Vm, World};
use crate::compile::program::Program;
use crate::error::Error;
use crate::growth::{Checkpoint, Checkpoints, Growing, GrowingInputs, Grown, Stretch, Tracked};
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
    let (context, tracked) = (context.clone(), Tracked::new(inputs));
    let ran = run(program, &context, &tracked, Part::default(), environment, usual)?;
    Ok((ran.output, Growing { stretches: ran.stretches, kept: ran.kept }))
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
    let kept = if is_switched { &growing.kept.free } else { &growing.kept.latest };
    let Some(kept) = kept else { return Ok(None) };
    let mut stretches = Vec::with_capacity(growing.stretches.len());
    for stretch in growing.stretches.iter().take(kept.stretches) {
        if !stretch.has_ended && !is_switched {
            stretches.push(Arc::clone(stretch));
            continue;
        }
        let from = stretch.from.as_ref();
        let part = Part { from, stretches, wanted: Some(stretch) };
        let (context, tracked) = (context.clone(), Tracked::new(inputs));
        let ran = run(program, &context, &tracked, part, environment, usual)?;
        if !ran.is_same {
            // It went on to the end.
            let start = from.map_or(0, |from| from.written);
            let growing = Growing { stretches: ran.stretches, kept: ran.kept };
            return Ok(Some(Grown { start, output: ran.output, growing, from: from.cloned() }));
        }
        stretches = ran.stretches;
    }
    let from = &kept.checkpoint;
    let part = Part { from: Some(from), stretches, wanted: None };
    let (context, tracked) = (context.clone(), Tracked::new(inputs));
    let ran = run(program, &context, &tracked, part, environment, usual)?;
    let growing = Growing { stretches: ran.stretches, kept: ran.kept };
    Ok(Some(Grown { start: from.written, output: ran.output, growing, from: Some(Arc::clone(from)) }))
}

/// A part of a rendering.
#[derive(Default)]
struct Part<'p> {
    from: Option<&'p Arc<Checkpoint>>,
    /// The stretches before it.
    stretches: Vec<Arc<Stretch>>,
    /// The stretch that is rendered again. If its result is the same, the rendering stops.
    wanted: Option<&'p Stretch>,
}

struct Ran {
    output: Output,
    stretches: Vec<Arc<Stretch>>,
    kept: Checkpoints,
    is_same: bool,
}

fn run<'a>(
    program: &'a Program,
    context: &'a Context<'a>,
    tracked: &'a Tracked<'a>,
    part: Part<'a>,
    environment: &'a Environment<'a>,
    usual: &Usual,
) -> Result<Ran, Error> {
    let world = World::new(program, tracked, Some(tracked.inputs.growing()), environment);
    let mut vm = Vm::new(&world, context, usual);
    if let Some(checkpoint) = part.from
        && let Err(fault) = vm.thaw(checkpoint, tracked)
    {
        return Err(vm.error(fault));
    }
    vm.recorder = Some(Box::new(Recorder::new(tracked, part.from, part.stretches, part.wanted)));
    let done = vm.run();
    let (is_same, stretches, kept) = match vm.recorder.take() {
        Some(recorder) => recorder.finish(),
        None => Default::default(),
    };
    match done {
        Ok(()) => Ok(Ran { output: vm.into_output(), stretches, kept, is_same }),
        Err(fault) => Err(vm.error(fault)),
    }
}
