//! Runs a program with a value stack, a frame of slots for each call, and output in pieces. Start
//! at [`render`].

mod call;
mod chains;
mod fields;
mod growth;
mod kinds;
mod look;
pub(crate) mod loops;
mod run;
mod sink;
mod stack;
mod unpack;
mod variables;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use growth::live::Live;
pub(crate) use growth::volatile::Volatile;
pub(crate) use growth::{grow, render as render_growing};
pub(crate) use world::{World, address};

use crate::compile::program::Program;
use crate::error::{Call, Error, Fault, place_of};
use crate::input::Context;
use crate::output::{Generation, Output};
use crate::template::Environment;
use crate::value::Value;
use fields::FieldCache;
use loops::LoopRun;
use sink::Sink;
use stack::Stack;

/// Renders a program.
pub(crate) fn render<'a>(
    program: &'a Program,
    context: &'a Context<'a>,
    environment: &'a Environment<'a>,
    usual: &Usual,
) -> Result<Output, Error> {
    let world = World::new(program, context.inputs, None, environment);
    let mut vm = Vm::new(&world, context, usual);
    match vm.run() {
        Ok(()) => {
            let output = vm.into_output();
            usual.note(output.text.len(), output.runs.len());
            Ok(output)
        }
        Err(fault) => Err(vm.error(fault)),
    }
}

struct Vm<'w, 'a> {
    world: &'w World<'a>,
    context: &'a Context<'a>,
    program: &'a Program,
    pc: usize,
    stack: Stack<'a>,
    /// The slots of the running frame.
    slots: Vec<Value<'a>>,
    frame: u32,
    frames: Vec<FrameStore<'a>>,
    free_frames: Vec<u32>,
    calls: Vec<CallFrame>,
    loops: Vec<LoopRun<'a>>,
    /// How many loop tests are running inside each other to look ahead.
    looks: usize,
    globals: Vec<Value<'a>>,
    keyword_names: Vec<&'a str>,
    literals: Vec<&'a str>,
    fields: FieldCache<'a>,
    sink: Sink<'a>,
    /// The sinks of the enclosing captures.
    outer_sinks: Vec<Sink<'a>>,
    generations: Vec<Generation>,
    /// The length of the output when a call that writes directly into it began.
    shown: Option<usize>,
    /// Keeps states from which the rendering of a longer list can be taken up.
    recorder: Option<Box<growth::Recorder<'a>>>,
}

/// A suspended frame, or a finished one kept for a macro defined in it.
struct FrameStore<'a> {
    slots: Vec<Value<'a>>,
    parent: u32,
    /// Whether a macro may outlive the frame.
    is_kept: bool,
    _charge: Option<crate::limits::Charge>,
}

/// An active call.
struct CallFrame {
    routine: u32,
    return_to: usize,
    frame: u32,
    caller_frame: u32,
    /// Whether the output of the call becomes a value.
    is_captured: bool,
    /// The nesting depth of a recursive loop.
    depth: u32,
    loops: usize,
    end: CallEnd,
}

/// The action to take when a call returns.
#[derive(Clone, Copy, PartialEq)]
enum CallEnd {
    Nothing,
    /// Resets `shown`, which this call has set.
    Shown,
    /// Records a generation block: the start in the root output and the start in its own sink.
    Generation {
        shown: usize,
        start: usize,
    },
    /// Returns control to the step that is testing a loop item.
    Test,
}

impl<'w, 'a> Vm<'w, 'a> {
    fn new(world: &'w World<'a>, context: &'a Context<'a>, usual: &Usual) -> Vm<'w, 'a> {
        let program = world.program;
        let root = &program.routines[0];
        let slots = vec![Value::Missing; root.slots as usize];
        let frames = vec![FrameStore { slots: Vec::new(), parent: 0, is_kept: true, _charge: None }];
        let call = CallFrame {
            routine: 0,
            return_to: program.ops.len(),
            frame: 0,
            caller_frame: 0,
            is_captured: false,
            depth: 0,
            loops: 0,
            end: CallEnd::Nothing,
        };
        Vm {
            world,
            context,
            program,
            pc: 0,
            stack: Stack::new(),
            slots,
            frame: 0,
            frames,
            free_frames: Vec::new(),
            calls: vec![call],
            loops: Vec::new(),
            looks: 0,
            globals: vec![Value::Missing; program.globals.len()],
            keyword_names: program.keyword_names.iter().map(|name| program.name(*name)).collect(),
            literals: program.literals.texts().collect(),
            fields: FieldCache::default(),
            sink: Sink::output(world, usual),
            outer_sinks: Vec::new(),
            generations: Vec::new(),
            shown: None,
            recorder: None,
        }
    }

    fn into_output(mut self) -> Output {
        let (world, program) = (self.world, self.program);
        let (text, runs) = self.sink.take().into_output();
        let generations = std::mem::take(&mut self.generations);
        drop(self);
        let (marks, steps) = (world.take_marks(), world.steps());
        Output { text, runs, marks, generations, literals: program.literals.clone(), steps }
    }

    #[cold]
    fn error(&self, fault: Fault) -> Error {
        let (world, program) = (self.world, self.program);
        let source = &program.literals.source;
        let place = |op: usize| place_of(source, program.places.get(op).map_or(0, |at| *at as usize));
        let calls = self.calls.iter().skip(1).map(|call| {
            let name = program.routines[call.routine as usize].name.map_or("caller", |name| program.name(name));
            Call { name: name.to_owned(), place: place(call.return_to.saturating_sub(1)) }
        });
        // In a deep recursion, only the outermost and innermost calls are reported.
        let mut calls: Vec<Call> = calls.collect();
        if calls.len() > 20 {
            calls.drain(10..calls.len() - 10);
        }
        let error = Error::new(fault, place(self.pc.saturating_sub(1)), calls);
        error.during(world.current_items()).after(world.steps())
    }
}

/// The typical output size of a template.
#[derive(Debug, Default)]
pub(crate) struct Usual {
    bytes: AtomicUsize,
    runs: AtomicUsize,
}

impl Usual {
    /// These numbers only determine how much room is reserved, so threads may update them in any
    /// order.
    fn note(&self, bytes: usize, runs: usize) {
        self.bytes.store(bytes + bytes / 8, Ordering::Relaxed);
        self.runs.store(runs + runs / 8, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

/// A loop's state that its body can access.
type SharedLoop<'a> = Rc<RefCell<loops::LoopState<'a>>>;
