//! Calls and returns: macros, call blocks, recursive loops, generation blocks and blocks.

use std::rc::Rc;

use super::sink::Sink;
use super::{CallEnd, CallFrame, FrameStore, Vm};
use crate::builtins::Args;
use crate::builtins::functions::name_value;
use crate::compile::program::CallShape;
use crate::error::{Fault, LimitKind, Res};
use crate::limits::Charge;
use crate::output::Generation;
use crate::value::dict::Dict;
use crate::value::{Macro, Value, float, subscript};

/// The destination of a call's output.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum CallOutput {
    /// It becomes a value.
    Value,
    /// It is written to the caller's output.
    Written,
    /// It is written to the caller's output and must be a string.
    Text,
}

impl<'w, 'a> Vm<'w, 'a> {
    /// Enters a routine with a new frame below `parent`.
    pub(super) fn begin(&mut self, routine: u32, parent: u32, depth: u32, result: CallOutput, end: CallEnd) -> Res<()> {
        if self.calls.len() > self.world.limits.recursion {
            return Err(Fault::limit(LimitKind::Recursion, self.world.limits.recursion));
        }
        let size = self.program.routines[routine as usize].slots as usize;
        self.world.work(64 + size * 8)?;
        let id = match self.free_frames.pop() {
            Some(id) => {
                self.frames[id as usize].parent = parent;
                id
            }
            None => {
                self.frames.push(FrameStore { slots: Vec::new(), parent, is_kept: false, _charge: None });
                self.frames.len() as u32 - 1
            }
        };
        let mut slots = std::mem::take(&mut self.frames[id as usize].slots);
        slots.resize(size, Value::Missing);
        let caller_frame = self.frame;
        self.frames[caller_frame as usize].slots = std::mem::replace(&mut self.slots, slots);
        self.frame = id;
        let is_captured = result == CallOutput::Value;
        let mut end = end;
        if is_captured {
            let sink = Sink::capture(self.world);
            self.outer_sinks.push(std::mem::replace(&mut self.sink, sink));
        } else if end == CallEnd::Nothing && self.shown.is_none() && self.outer_sinks.is_empty() {
            self.shown = Some(self.sink.len());
            end = CallEnd::Shown;
        }
        let call = CallFrame {
            routine,
            return_to: self.pc,
            frame: id,
            caller_frame,
            is_captured,
            depth,
            loops: self.loops.len(),
            end,
        };
        self.calls.push(call);
        self.pc = self.program.routines[routine as usize].entry as usize;
        Ok(())
    }

    /// Ends the running routine. Returns false at the end of the program.
    pub(super) fn finish_call(&mut self) -> Res<bool> {
        if self.calls.len() == 1 {
            return Ok(false);
        }
        let Some(call) = self.calls.pop() else { return Ok(false) };
        self.pc = call.return_to;
        self.loops.truncate(call.loops);
        let store = &mut self.frames[call.frame as usize];
        let mut slots = std::mem::take(&mut self.slots);
        if store.is_kept {
            store._charge = Some(Charge::new(
                &self.world.meter,
                slots.len() * size_of::<Value<'a>>() + size_of::<FrameStore<'a>>() + 32,
            )?);
            store.slots = slots;
        } else {
            slots.clear();
            store.slots = slots;
            self.free_frames.push(call.frame);
        }
        self.frame = call.caller_frame;
        self.slots = std::mem::take(&mut self.frames[self.frame as usize].slots);
        match call.end {
            CallEnd::Nothing => {}
            CallEnd::Test => return Ok(false),
            CallEnd::Shown => self.shown = None,
            CallEnd::Generation { shown, start } => {
                let bytes = self.sink.len() - start;
                let characters = self.sink.characters_since(start);
                self.generations.push(Generation { start: shown, bytes, characters });
                self.world.work(bytes + 64)?;
            }
        }
        if call.is_captured {
            let outer = self.outer_sinks.pop();
            if let Some(outer) = outer {
                let written = std::mem::replace(&mut self.sink, outer).finish()?;
                self.stack.push(Value::Str(written));
            }
        }
        Ok(true)
    }

    /// Returns the length of the root output, without the output of a call that is still writing to
    /// it.
    pub(super) fn shown(&self) -> usize {
        self.shown.unwrap_or_else(|| self.outer_sinks.first().unwrap_or(&self.sink).len())
    }

    /// Calls the value below its arguments.
    pub(super) fn call(&mut self, shape: CallShape, result: CallOutput) -> Res<()> {
        let base = self.stack.len() - shape.values();
        let world = self.world;
        match &self.stack[base - 1] {
            Value::Macro(found) => {
                let found = Rc::clone(found);
                let names = shape.name_range();
                self.call_macro(&found, base, names, result)
            }
            Value::Loop(state) => {
                let state = Rc::clone(state);
                let (recursion, depth) = {
                    let state = state.borrow();
                    (state.recursion, state.depth())
                };
                let Some((routine, frame)) = recursion else {
                    let message = "The loop must have the 'recursive' marker to be called recursively.";
                    return Err(Fault::type_error(message));
                };
                let args = Args { values: &self.stack[base..], names: &self.keyword_names[shape.name_range()] };
                let [iterable] = args.bind_all("loop", ["iterable"])?;
                let iterable = crate::builtins::needed("loop", "iterable", iterable)?.clone();
                self.stack.truncate(base - 1);
                self.begin(routine, frame, depth, result, CallEnd::Nothing)?;
                self.stack.push(iterable);
                Ok(())
            }
            callee => {
                let args = Args { values: &self.stack[base..], names: &self.keyword_names[shape.name_range()] };
                let value = callee.call_builtin(world, args)?;
                self.stack.truncate(base - 1);
                self.give(value, result)
            }
        }
    }

    pub(super) fn give(&mut self, value: Value<'a>, result: CallOutput) -> Res<()> {
        match result {
            CallOutput::Value => {
                self.stack.push(value);
                Ok(())
            }
            CallOutput::Written => self.write(&value),
            CallOutput::Text => match value {
                Value::Str(_) => self.write(&value),
                other => Err(Fault::type_error(format!("expected a str to write, found '{}'", other.kind()))),
            },
        }
    }

    /// Calls with arguments given as a list and a dict.
    pub(super) fn call_spread(&mut self) -> Res<()> {
        let (Some(keywords), Some(positional)) = (self.stack.pop(), self.stack.pop()) else { return Ok(()) };
        let base = self.stack.len();
        let names = self.spread_arguments(positional, keywords)?;
        let world = self.world;
        let Some(callee) = self.stack.get(base - 1).cloned() else { return Ok(()) };
        if let Value::Macro(found) = &callee {
            let start = self.keyword_names.len();
            self.keyword_names.extend_from_slice(&names);
            let result = self.call_macro(found, base, start..start + names.len(), CallOutput::Value);
            self.keyword_names.truncate(start);
            return result;
        }
        if let Value::Loop(_) = &callee {
            let shape = CallShape { positional: (self.stack.len() - base) as u32, names: 0, keywords: 0 };
            return self.call(shape, CallOutput::Value);
        }
        let value = callee.call_builtin(world, Args { values: &self.stack[base..], names: &names })?;
        self.stack.truncate(base - 1);
        self.stack.push(value);
        Ok(())
    }

    /// Pushes the arguments in a list and a dict onto the stack, and returns the names of the
    /// keyword arguments.
    pub(super) fn spread_arguments(&mut self, positional: Value<'a>, keywords: Value<'a>) -> Res<Vec<&'a str>> {
        let world = self.world;
        for index in 0..positional.size(world).unwrap_or(0) {
            self.stack.extend(positional.item_at(world, index)?);
        }
        let mut names = Vec::new();
        for index in 0..keywords.size(world).unwrap_or(0) {
            world.work(32)?;
            let Some((name, value)) = keywords.entry_at(world, index)? else { continue };
            match name {
                Value::Str(crate::value::text::Str::Slice(slice)) => names.push(slice.text),
                // All parameter names are in the program; any other name can only be caught by
                // `kwargs`.
                Value::Str(text) => {
                    world.work(self.program.names.len() * 4)?;
                    let Some(name) = self.program.names.iter().find(|name| ***name == *text.plain()) else {
                        return Err(Fault::unsupported(
                            "a computed keyword argument that no macro of the template declares is not supported",
                        ));
                    };
                    names.push(name);
                }
                _ => return Err(Fault::type_error("keywords must be strings")),
            }
            self.stack.push(value);
        }
        Ok(names)
    }

    /// Calls a macro with the arguments from `base` on; the last ones are keyword arguments with
    /// these names.
    fn call_macro(&mut self, found: &Macro, base: usize, names: std::ops::Range<usize>, result: CallOutput) -> Res<()> {
        let world = self.world;
        let program = self.program;
        let routine = &program.routines[found.routine as usize];
        let mut arguments = self.stack.drain(base..);
        let count = arguments.len() - names.len();
        let mut slots: Vec<(u32, Value<'a>)> = Vec::with_capacity(routine.params.len() + 1);
        let mut extra = Vec::new();
        for (index, value) in arguments.by_ref().take(count).enumerate() {
            match routine.param_slots.get(index) {
                Some(slot) => slots.push((*slot, value)),
                None => extra.push(value),
            }
        }
        let label = || routine.name.map_or("None".to_owned(), |name| format!("'{}'", program.name(name)));
        let mut rest: Option<Dict<'a>> = None;
        let mut caller = None;
        for (name, value) in self.keyword_names[names].iter().zip(arguments) {
            world.work(routine.params.len() * 2)?;
            let place = routine.params.iter().position(|param| program.name(*param) == *name);
            match place {
                Some(at) if at >= count => slots.push((routine.param_slots[at], value)),
                None if *name == "caller" && routine.caller_slot.is_some() => caller = Some(value),
                _ if routine.kwargs_slot.is_some() => {
                    let dict = match &mut rest {
                        Some(dict) => dict,
                        none => none.insert(Dict::new(world)?),
                    };
                    dict.insert(world, name_value(name), value)?;
                }
                _ if *name == "caller" => {
                    let message =
                        format!("macro {} was invoked with two values for the special caller argument.", label());
                    return Err(Fault::type_error(message));
                }
                _ => return Err(Fault::type_error(format!("macro {} takes no keyword argument '{name}'", label()))),
            }
        }
        if let Some(slot) = routine.caller_slot {
            let caller = caller.unwrap_or(Value::Undefined(crate::value::Absence::Hint("No caller defined")));
            slots.push((slot, caller));
        }
        if let Some(slot) = routine.kwargs_slot {
            let dict = match rest {
                Some(dict) => dict,
                None => Dict::new(world)?,
            };
            slots.push((slot, dict.into_value()));
        }
        if let Some(slot) = routine.varargs_slot {
            slots.push((slot, Value::tuple(world, extra)?));
        } else if !extra.is_empty() {
            let message = format!("macro {} takes not more than {} argument(s)", label(), routine.params.len());
            return Err(Fault::type_error(message));
        }
        self.stack.truncate(base - 1);
        self.begin(found.routine, found.frame, found.depth, result, CallEnd::Nothing)?;
        for (slot, value) in slots {
            self.slots[slot as usize] = value;
        }
        Ok(())
    }

    /// Sets `caller`, `kwargs` and `varargs` in a routine that is called without arguments.
    pub(super) fn pass_nothing(&mut self, routine: u32) -> Res<()> {
        let routine = &self.program.routines[routine as usize];
        if let Some(slot) = routine.caller_slot {
            self.slots[slot as usize] = Value::Undefined(crate::value::Absence::Hint("No caller defined"));
        }
        if let Some(slot) = routine.kwargs_slot {
            self.slots[slot as usize] = Dict::new(self.world)?.into_value();
        }
        if let Some(slot) = routine.varargs_slot {
            self.slots[slot as usize] = Value::tuple(self.world, Vec::new())?;
        }
        Ok(())
    }

    /// Creates a macro value and keeps its enclosing frames until the end of the rendering.
    pub(super) fn make_macro(&mut self, routine: u32) -> Res<()> {
        let mut frame = self.frame;
        loop {
            let store = &mut self.frames[frame as usize];
            if store.is_kept {
                break;
            }
            store.is_kept = true;
            frame = store.parent;
        }
        self.world.work(64)?;
        self.stack.push(Value::Macro(Rc::new(Macro { routine, frame: self.frame, depth: 0 })));
        Ok(())
    }

    /// Calls a method of the value below the arguments.
    pub(super) fn call_method(&mut self, site: u32, shape: CallShape) -> Res<()> {
        let world = self.world;
        let (name, site) = self.program.sites[site as usize];
        let base = self.stack.len() - shape.values() - 1;
        let method = match &self.stack[base] {
            Value::Str(_) => site.of_str,
            Value::Dict(_) | Value::InputDict(..) => site.of_dict,
            list if list.is_list() => site.of_list,
            _ => None,
        };
        if let Some(method) = method {
            let value = method.call(world, self.args(shape, 1))?;
            self.settle(shape.values() + 1, value);
            return Ok(());
        }
        let callee = subscript::attribute(world, &self.stack[base], self.program.name(name))?;
        self.stack[base] = callee;
        self.call(shape, CallOutput::Value)
    }

    /// Writes `str()` of a value.
    #[inline]
    pub(super) fn write(&mut self, value: &Value<'a>) -> Res<()> {
        match value {
            Value::Str(text) => self.sink.push_str(self.world, text),
            Value::Undefined(_) | Value::Missing => Ok(()),
            Value::Int(number) => self.sink.push_engine(self.world, &number.to_string()),
            Value::Float(number) => {
                self.world.work(64)?;
                self.sink.push_engine(self.world, &float::repr(*number))
            }
            other => {
                let text = other.to_str(self.world)?;
                self.sink.push_str(self.world, &text)
            }
        }
    }
}
