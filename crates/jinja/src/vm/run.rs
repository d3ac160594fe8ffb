//! The interpreter loop.

use std::rc::Rc;

use super::call::CallOutput;
use super::chains::refuse_addend;
use super::fields::{FieldAnswer, ask};
use super::kinds::{is_input_kind, is_input_true, is_kind};
use super::look::with_test;
use super::loops::{LoopRun, LoopSource};
use super::sink::Sink;
use super::unpack::extended;
use super::{CallEnd, Vm};
use crate::builtins::Args;
use crate::builtins::strings::{trim_slice, trimmed};
use crate::compile::program::{CallShape, Op, TypeTest};
use crate::error::{ErrorKind, Fault, Res};
use crate::input::{InputNode, InputValue};
use crate::value::builder::{Builder, Pieces};
use crate::value::compare::{compare, contains};
use crate::value::dict::Dict;
use crate::value::iter::collect;
use crate::value::operate::{self, binary};
use crate::value::text::Str;
use crate::value::{Absence, Value, number, subscript};

impl<'w, 'a> Vm<'w, 'a> {
    pub(super) fn pop(&mut self) -> Value<'a> {
        // The compiler emits a pop only after a push.
        self.stack.pop().unwrap_or(Value::Missing)
    }

    pub(super) fn args(&self, shape: CallShape, subject: usize) -> Args<'_, 'a> {
        let base = self.stack.len() - shape.values() - subject;
        Args { values: &self.stack[base..], names: &self.keyword_names[shape.name_range()] }
    }

    /// Executes the step after a condition, which determines how its result is used.
    #[inline(always)]
    fn decide(&mut self, ops: &[Op], holds: bool) {
        let next = self.pc;
        self.pc += 1;
        match ops.get(next) {
            Some(Op::JumpUnless(target)) if !holds => self.pc = *target as usize,
            Some(Op::JumpWhen(target)) if holds => self.pc = *target as usize,
            Some(Op::PushFlag(wanted)) => self.stack.push_flag(holds == *wanted),
            _ => {}
        }
    }

    /// Replaces the top `count` values with one.
    #[inline]
    pub(super) fn settle(&mut self, count: usize, value: Value<'a>) {
        self.stack.drop_top(count);
        self.stack.push(value);
    }

    /// Runs the program to its end.
    // Long: one arm for each instruction. A call for each would be slower, and a table of functions
    // could not be inlined.
    pub(super) fn run(&mut self) -> Res<()> {
        let world = self.world;
        let ops: &'a [Op] = &self.program.ops;
        loop {
            world.step()?;
            let Some(&op) = ops.get(self.pc) else { return Ok(()) };
            self.pc += 1;
            match op {
                Op::None => self.stack.push(Value::None),
                Op::True => self.stack.push_flag(true),
                Op::False => self.stack.push_flag(false),
                Op::NoElse => self.stack.push(Value::undefined(
                    "the inline if-expression evaluated to false and no else section was defined.",
                )),
                Op::Int(value) => self.stack.push_int(value),
                Op::Float(value) => self.stack.push(Value::Float(value)),
                Op::Big(id) => self.stack.push(Value::Big(Rc::new(self.program.bigs[id as usize].clone()))),
                Op::Literal(id) => {
                    let literal = self.literal(id);
                    self.stack.push_slice(literal);
                }
                Op::Slot(slot, name) => match &self.slots[slot as usize] {
                    Value::Missing => {
                        self.stack.push(Value::Undefined(Absence::Variable(self.program.name(name))));
                    }
                    value => self.stack.push_copy(value),
                },
                Op::Outer(up, slot, name) => {
                    let value = match self.outer_slot(up, slot.into()) {
                        Value::Missing => Value::Undefined(Absence::Variable(self.program.name(name))),
                        value => value,
                    };
                    self.stack.push(value);
                }
                Op::Global(global) => {
                    self.load_global(global)?;
                    self.stack.push_copy(&self.globals[global as usize]);
                }
                Op::Store(slot) => self.slots[slot as usize] = self.pop(),
                Op::StoreField(field, slot) => {
                    let value = match ask!(self, field) {
                        FieldAnswer::Found(found) => Value::of_node(world, *found)?,
                        FieldAnswer::Absent(absence) => Value::Undefined(absence),
                        FieldAnswer::Elsewhere => self.field(field)?,
                    };
                    self.slots[slot as usize] = value;
                }
                Op::StoreLiteral(id, slot) => {
                    self.slots[slot as usize] = Value::Str(Str::Slice(self.literal(id)));
                }
                Op::Alias { slot, up, from } => self.slots[slot as usize] = self.outer_slot(up, from),
                Op::Clear(slot) => self.slots[slot as usize] = Value::Missing,
                Op::AliasIfSet { slot, up, from } => match self.outer_slot(up, from) {
                    Value::Missing => {}
                    value => self.slots[slot as usize] = value,
                },
                Op::Attribute(name) => self.push_attribute(name)?,
                Op::Field(field) => self.push_field(field)?,
                Op::Item => {
                    let key = self.pop();
                    let value = self.pop();
                    if let (Some(state), Value::Str(name)) = (with_test(&value), &key) {
                        self.look_for(&state, name.plain())?;
                    }
                    self.stack.push(subscript::item(world, &value, &key)?);
                }
                Op::ItemLiteral(id) => {
                    let value = self.pop();
                    if let Some(state) = with_test(&value) {
                        self.look_for(&state, self.literals[id as usize])?;
                    }
                    let found = self.item_literal(&value, id)?;
                    self.stack.push(found);
                }
                Op::Slice => {
                    let (step, stop, start) = (self.pop(), self.pop(), self.pop());
                    let value = self.pop();
                    self.stack.push(subscript::slice(world, &value, [&start, &stop, &step])?);
                }
                Op::List(count) => {
                    let items = self.stack.take_top(count as usize);
                    self.stack.push(Value::list(world, items)?);
                }
                Op::Tuple(count) => {
                    let items = self.stack.take_top(count as usize);
                    self.stack.push(Value::tuple(world, items)?);
                }
                Op::Dict(count) => {
                    let mut dict = Dict::new(world)?;
                    let base = self.stack.len() - 2 * count as usize;
                    let mut entries = self.stack.drain(base..);
                    while let (Some(key), Some(value)) = (entries.next(), entries.next()) {
                        dict.insert(world, key, value)?;
                    }
                    drop(entries);
                    self.stack.push(dict.into_value());
                }
                Op::Not => {
                    let value = self.pop();
                    self.stack.push_flag(!value.is_true(world));
                }
                Op::Negative => {
                    let value = self.pop();
                    self.stack.push(operate::negative(world, &value)?);
                }
                Op::Positive => {
                    let value = self.pop();
                    self.stack.push(operate::positive(&value)?);
                }
                Op::Binary(op) => {
                    // Fast path: counting in place.
                    if let [.., Value::Int(left), Value::Int(right)] = &mut self.stack[..]
                        && let Some(value) = number::count(op, *left, *right)
                    {
                        *left = value;
                        self.stack.pop();
                        continue;
                    }
                    let right = self.pop();
                    let left = self.pop();
                    self.stack.push(binary(world, op, &left, &right)?);
                }
                Op::Compare(op) => {
                    let right = self.pop();
                    let left = self.pop();
                    self.stack.push_flag(compare(world, op, &left, &right)?);
                }
                Op::CompareChain(op, target) => {
                    let right = self.pop();
                    let left = self.pop();
                    if compare(world, op, &left, &right)? {
                        self.stack.push(right);
                    } else {
                        self.stack.push_flag(false);
                        self.pc = target as usize;
                    }
                }
                Op::Jump(target) => self.pc = target as usize,
                // Handled together with the preceding condition.
                Op::JumpUnless(_) | Op::JumpWhen(_) | Op::PushFlag(_) => {}
                Op::TruthStack => {
                    let holds = self.pop().is_true(world);
                    self.decide(ops, holds);
                }
                Op::TruthSlot(slot) => {
                    if let Some(state) = with_test(&self.slots[slot as usize]) {
                        self.look_to_end(&state)?;
                    }
                    let holds = self.slots[slot as usize].is_true(world);
                    self.decide(ops, holds);
                }
                Op::TruthGlobal(global) => {
                    self.load_global(global)?;
                    let holds = self.globals[global as usize].is_true(world);
                    self.decide(ops, holds);
                }
                Op::TruthField(field) => {
                    let holds = match ask!(self, field) {
                        FieldAnswer::Found(found) => is_input_true(world, found)?,
                        FieldAnswer::Absent(_) => false,
                        FieldAnswer::Elsewhere => self.is_field_true(field)?,
                    };
                    self.decide(ops, holds);
                }
                Op::EqualsStack(id) => {
                    let value = self.pop();
                    let holds = self.is_literal(&value, id)?;
                    self.decide(ops, holds);
                }
                Op::EqualsField(field, id) => {
                    let wanted = self.literals[id as usize];
                    if wanted.len() > 256 {
                        world.work(wanted.len())?;
                    }
                    let holds = match ask!(self, field) {
                        FieldAnswer::Found(found) => matches!(found.value, InputValue::Str(text) if text == wanted),
                        FieldAnswer::Absent(_) => false,
                        FieldAnswer::Elsewhere => {
                            let value = self.field(field)?;
                            self.is_literal(&value, id)?
                        }
                    };
                    self.decide(ops, holds);
                }
                Op::CompareStack(op) => {
                    // Fast path: integers in place.
                    if let [.., Value::Int(left), Value::Int(right)] = self.stack[..]
                        && let Some(holds) = number::ordered(op, left, right)
                    {
                        self.stack.drop_top(2);
                        self.decide(ops, holds);
                        continue;
                    }
                    let right = self.pop();
                    let left = self.pop();
                    let holds = compare(world, op, &left, &right)?;
                    self.decide(ops, holds);
                }
                Op::LiteralInSlot(id, slot) => {
                    let holds = match &self.slots[slot as usize] {
                        Value::InputDict(dict, _) => {
                            subscript::input_node(world, *dict, self.literals[id as usize])?.is_some()
                        }
                        // An unset variable contains nothing.
                        Value::Missing => false,
                        other => contains(world, other, &Value::Str(Str::Slice(self.literal(id))))?,
                    };
                    self.decide(ops, holds);
                }
                Op::IsStack(kind) => {
                    let value = self.pop();
                    self.decide(ops, is_kind(&value, kind));
                }
                Op::IsSlot(slot, kind) => self.decide(ops, is_kind(&self.slots[slot as usize], kind)),
                Op::IsGlobal(global, kind) => {
                    self.load_global(global)?;
                    self.decide(ops, is_kind(&self.globals[global as usize], kind));
                }
                Op::IsField(field, kind) => {
                    let holds = match ask!(self, field) {
                        FieldAnswer::Found(found) => is_input_kind(found.value, kind),
                        FieldAnswer::Absent(_) => matches!(kind, TypeTest::Iterable | TypeTest::Sequence),
                        FieldAnswer::Elsewhere => is_kind(&self.field(field)?, kind),
                    };
                    self.decide(ops, holds);
                }
                Op::And(target) => {
                    if self.stack.last().is_some_and(|value| value.is_true(world)) {
                        self.stack.pop();
                    } else {
                        self.pc = target as usize;
                    }
                }
                Op::Or(target) => {
                    if self.stack.last().is_some_and(|value| value.is_true(world)) {
                        self.pc = target as usize;
                    } else {
                        self.stack.pop();
                    }
                }
                Op::Pop => drop(self.pop()),
                Op::Duplicate => {
                    let value = self.stack.last().cloned();
                    self.stack.extend(value);
                }
                Op::Call(shape) => self.call(self.program.shapes[shape as usize], CallOutput::Value)?,
                Op::CallEmit(shape) => self.call(self.program.shapes[shape as usize], CallOutput::Written)?,
                Op::CallEmitText(shape) => self.call(self.program.shapes[shape as usize], CallOutput::Text)?,
                Op::CallSpread => self.call_spread()?,
                Op::CallMethod(site, shape) => self.call_method(site, self.program.shapes[shape as usize])?,
                Op::CheckReceiver(name) => {
                    if let Some(value @ Value::Undefined(_)) = self.stack.last() {
                        subscript::attribute(world, value, self.program.name(name))?;
                    }
                }
                Op::Filter(filter, shape) => {
                    let shape = self.program.shapes[shape as usize];
                    if let Some(state) = with_test(&self.stack[self.stack.len() - shape.values() - 1]) {
                        self.look_to_end(&state)?;
                    }
                    let value = self.program.filters[filter as usize](world, self.args(shape, 1))?;
                    self.settle(shape.values() + 1, value);
                }
                Op::Test(test, shape) => {
                    let shape = self.program.shapes[shape as usize];
                    let holds = self.program.tests[test as usize](world, self.args(shape, 1))?;
                    self.settle(shape.values() + 1, Value::Bool(holds));
                }
                Op::FilterSpread(_) | Op::TestSpread(_) => {
                    let keywords = self.pop();
                    let positional = self.pop();
                    let base = self.stack.len() - 1;
                    let names = self.spread_arguments(positional, keywords)?;
                    let args = Args { values: &self.stack[base..], names: &names };
                    let value = match op {
                        Op::FilterSpread(filter) => self.program.filters[filter as usize](world, args)?,
                        Op::TestSpread(test) => Value::Bool(self.program.tests[test as usize](world, args)?),
                        _ => Value::None,
                    };
                    self.stack.truncate(base);
                    self.stack.push(value);
                }
                Op::NoFilter(name) => {
                    return Err(Fault::unsupported(format!("no filter named '{}' found", self.program.name(name))));
                }
                Op::NoTest(name) => {
                    return Err(Fault::unsupported(format!("no test named '{}' found", self.program.name(name))));
                }
                Op::Length => {
                    if let Some(state) = self.stack.last().and_then(with_test) {
                        self.look_to_end(&state)?;
                    }
                    if let Some(value) = self.stack.last_mut() {
                        *value = Value::length(value.python_len(world)?);
                    }
                }
                Op::Trim => match self.stack.last_mut() {
                    Some(Value::Str(Str::Slice(slice))) => trim_slice(world, slice)?,
                    Some(value) => *value = trimmed(world, value)?,
                    None => {}
                },
                Op::Extend => {
                    let more = self.pop();
                    let list = self.pop();
                    let mut items = collect(world, &list)?;
                    items.extend(collect(world, &more)?);
                    self.stack.push(Value::list(world, items)?);
                }
                Op::ExtendDict => {
                    let more = self.pop();
                    let dict = self.pop();
                    self.stack.push(extended(world, &dict, &more)?);
                }
                Op::CheckChain(count) => self.check_chain(count as usize)?,
                Op::JoinChain(count) => {
                    let value = self.join_chain(count as usize)?;
                    self.settle(count as usize, value);
                }
                Op::EmitChain(count) => {
                    let base = self.stack.len() - count as usize;
                    for index in base..self.stack.len() {
                        let value = std::mem::replace(&mut self.stack[index], Value::Missing);
                        self.write(&value)?;
                    }
                    self.stack.truncate(base);
                }
                Op::Concat(count) => {
                    let base = self.stack.len() - count as usize;
                    let mut builder = Builder::new(world);
                    for value in &self.stack[base..] {
                        let text = value.to_str(world)?;
                        world.work(text.weight())?;
                        builder.push_str(&text)?;
                    }
                    let value = Value::Str(builder.finish()?);
                    self.settle(count as usize, value);
                }
                Op::EmitAddend => match self.pop() {
                    Value::Str(text) => self.sink.push_str(world, &text)?,
                    other => refuse_addend(world, &other)?,
                },
                Op::EmitAddendField(field) => {
                    if let FieldAnswer::Found(&InputNode { value: InputValue::Str(text), tag, .. }) = ask!(self, field)
                    {
                        self.sink.push_input(world, tag, text)?;
                        continue;
                    }
                    match self.field(field)? {
                        Value::Str(text) => self.sink.push_str(world, &text)?,
                        other => refuse_addend(world, &other)?,
                    }
                }
                Op::EmitField(field) => {
                    if let FieldAnswer::Found(&InputNode { value: InputValue::Str(text), tag, .. }) = ask!(self, field)
                    {
                        self.sink.push_input(world, tag, text)?;
                        continue;
                    }
                    let value = self.field(field)?;
                    self.write(&value)?;
                }
                Op::EmitAddendSlot(slot, name) => match &self.slots[slot as usize] {
                    Value::Str(text) => self.sink.push_str(world, text)?,
                    Value::Missing => {
                        refuse_addend(world, &Value::Undefined(Absence::Variable(self.program.name(name))))?;
                    }
                    other => refuse_addend(world, other)?,
                },
                Op::EmitSlot(slot) => match &self.slots[slot as usize] {
                    Value::Str(text) => self.sink.push_str(world, text)?,
                    other => {
                        let value = other.clone();
                        if let Some(state) = with_test(&value) {
                            self.look_to_end(&state)?;
                        }
                        self.write(&value)?;
                    }
                },
                Op::EmitJson(shape) => {
                    let shape = self.program.shapes[shape as usize];
                    let base = self.stack.len() - shape.values() - 1;
                    let names = &self.keyword_names[shape.name_range()];
                    self.sink.push_json(world, Args { values: &self.stack[base..], names })?;
                    self.stack.truncate(base);
                }
                Op::EmitText => {
                    let value = self.pop();
                    self.give(value, CallOutput::Text)?;
                }
                Op::Emit => {
                    if let Some(Value::Str(Str::Slice(slice))) = self.stack.last() {
                        let slice = *slice;
                        self.sink.push_slice(world, slice)?;
                        self.stack.pop();
                        continue;
                    }
                    let value = self.pop();
                    if let Some(state) = with_test(&value) {
                        self.look_to_end(&state)?;
                    }
                    self.write(&value)?;
                }
                Op::EmitLiteral(id) => {
                    self.sink.push_literal(world, id, self.literals[id as usize])?;
                }
                Op::BeginCapture => {
                    let sink = Sink::capture(world);
                    self.outer_sinks.push(std::mem::replace(&mut self.sink, sink));
                }
                Op::EndCapture | Op::DropCapture => {
                    if let Some(outer) = self.outer_sinks.pop() {
                        let captured = std::mem::replace(&mut self.sink, outer);
                        if let Op::EndCapture = op {
                            self.stack.push(Value::Str(captured.finish()?));
                        }
                    }
                }
                Op::LoopBegin(site) => self.begin_loop(site)?,
                Op::LoopNext(end) => {
                    if self.next_pass(end)? {
                        return Ok(());
                    }
                }
                Op::LoopPassed => {
                    if let Some(run) = self.loops.last_mut() {
                        run.has_passed = true;
                    }
                }
                Op::LoopEnd => _ = self.end_loop(),
                Op::JumpIfPassed(target) => {
                    if self.end_loop() {
                        self.pc = target as usize;
                    }
                }
                Op::JumpIfTested(target) => {
                    if let Some(LoopRun { source: LoopSource::Shared(state), .. }) = self.loops.last()
                        && !state.borrow().is_testing()
                    {
                        self.pc = target as usize;
                    }
                }
                Op::LoopSkip(start) => {
                    self.stack.pop();
                    if let Some(run) = self.loops.last_mut() {
                        run.passes -= 1;
                    }
                    self.pc = start as usize;
                }
                Op::LoopPass => {
                    if let (Some(LoopRun { source: LoopSource::Shared(state), .. }), Some(item)) =
                        (self.loops.last(), self.stack.last())
                    {
                        state.borrow_mut().pass(item);
                    }
                }
                Op::Unpack(count) => {
                    let value = self.pop();
                    self.unpack(&value, count as usize)?;
                }
                Op::MakeMacro(routine) => self.make_macro(routine)?,
                Op::IfGiven(slot, target) => {
                    if !matches!(self.slots[slot as usize], Value::Missing) {
                        self.pc = target as usize;
                    }
                }
                Op::NotGiven(slot, name) => {
                    self.slots[slot as usize] = Value::Undefined(Absence::Parameter(self.program.name(name)));
                }
                Op::CallLoop(routine) => {
                    let iterable = self.pop();
                    self.begin(routine, self.frame, 0, CallOutput::Written, CallEnd::Nothing)?;
                    self.stack.push(iterable);
                }
                Op::CallGeneration(routine) => {
                    let end = CallEnd::Generation { shown: self.shown(), start: self.sink.len() };
                    self.begin(routine, self.frame, 0, CallOutput::Written, end)?;
                    self.pass_nothing(routine)?;
                }
                Op::CallBlock(routine) => self.begin(routine, self.frame, 0, CallOutput::Written, CallEnd::Nothing)?,
                Op::SetAttribute(name) => {
                    let namespace = self.pop();
                    let value = self.pop();
                    match namespace {
                        Value::Namespace(id) => world.namespace_set(id, self.program.name(name), value)?,
                        _ => return Err(Fault::type_error("cannot assign attribute on non-namespace object")),
                    }
                }
                Op::CheckNamespace => {
                    if !matches!(self.pop(), Value::Namespace(_)) {
                        return Err(Fault::type_error("cannot assign attribute on non-namespace object"));
                    }
                }
                Op::Refuse(message) => {
                    return Err(Fault::new(ErrorKind::Unsupported, self.program.name(message)));
                }
                Op::Return => {
                    if !self.finish_call()? {
                        return Ok(());
                    }
                }
            }
        }
    }
}
