//! The interpreter loop.

use std::cell::RefCell;
use std::rc::Rc;

use super::call::Outcome;
use super::fields::Answer;
use super::look::with_test;
use super::loops::{LoopRun, LoopState, Source};
use super::sink::Sink;
use super::{CallEnd, SharedLoop, Vm};
use crate::builtins::strings::{trim_slice, trimmed};
use crate::builtins::{Args, tests};
use crate::compile::program::{Field, KeyOf, Kind, Op, Shape};
use crate::error::{ErrorKind, Fault, Res};
use crate::input::{InputNode, InputValue, Tag};
use crate::output::{Offset, Origin};
use crate::value::builder::{Builder, Pieces};
use crate::value::compare::{compare, contains};
use crate::value::dict::Dict;
use crate::value::iter::{Iter, check_loop, collect};
use crate::value::operate::{self, binary};
use crate::value::text::{Slice, Str};
use crate::value::{Absence, Value, float, number, subscript};

/// Looks up a field of a variable in a caller's dict. As a macro, it borrows only the parts of the
/// machine that it needs.
macro_rules! ask {
    ($vm:expr, $field:expr) => {
        $vm.fields.ask($vm.world, &$vm.literals, &$vm.slots[$field.slot as usize], $field)
    };
}

impl<'w, 'a> Vm<'w, 'a> {
    fn pop(&mut self) -> Value<'a> {
        // The compiler emits a pop only after a push.
        self.stack.pop().unwrap_or(Value::Missing)
    }

    fn literal(&self, id: u32) -> Slice<'a> {
        Slice { text: self.literals[id as usize], origin: Origin::Literal { id, offset: Offset::new(0) } }
    }

    fn frame_up(&self, up: u16) -> u32 {
        let mut frame = self.frame;
        for _ in 0..up {
            frame = self.frames[frame as usize].parent;
        }
        frame
    }

    fn outer_slot(&self, up: u16, slot: u32) -> Value<'a> {
        let frame = self.frame_up(up);
        let slots = if frame == self.frame { &self.slots } else { &self.frames[frame as usize].slots };
        slots.get(slot as usize).cloned().unwrap_or(Value::Missing)
    }

    /// Looks up a global on its first use.
    #[inline(always)]
    fn load_global(&mut self, global: u32) -> Res<()> {
        if matches!(self.globals[global as usize], Value::Missing) {
            self.globals[global as usize] = self.find_global(global)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn find_global(&self, global: u32) -> Res<Value<'a>> {
        let (name, function) = self.program.globals[global as usize];
        let name = self.program.name(name);
        Ok(match (self.context.get(name), function) {
            (Some(node), _) => Value::of(self.world, node)?,
            (None, Some(function)) => Value::Function(function),
            (None, None) => Value::Undefined(Absence::Variable(name)),
        })
    }

    /// Pushes a field of a variable.
    fn push_field(&mut self, field: Field) -> Res<()> {
        match ask!(self, field) {
            Answer::Found(found) => {
                match found.value {
                    InputValue::Str(text) => {
                        self.stack.push_slice(input_slice(text, found.tag));
                    }
                    InputValue::Dict => self.stack.push_input_dict(found.node, found.tag),
                    InputValue::List => self.stack.push_input_list(found.node, found.tag),
                    InputValue::Null => self.stack.push(Value::None),
                    InputValue::Bool(value) => self.stack.push_flag(value),
                    InputValue::Number(_) => self.stack.push(Value::of_node(self.world, *found)?),
                }
                return Ok(());
            }
            Answer::Absent(absence) => {
                self.stack.push(Value::Undefined(absence));
                return Ok(());
            }
            Answer::Elsewhere => {}
        }
        if let KeyOf::Name(name) = field.key.of() {
            match &self.slots[field.slot as usize] {
                Value::Namespace(id) => {
                    let found = self.world.with_namespace(*id, |namespace| {
                        let value = namespace.get_str(self.program.name(name));
                        value.map(|value| self.stack.push_copy(value)).is_some()
                    });
                    if found {
                        return Ok(());
                    }
                }
                Value::Loop(state) => match state.borrow().quick_attribute(name) {
                    Some(Value::Int(number)) => {
                        self.stack.push_int(number);
                        return Ok(());
                    }
                    Some(value) => {
                        self.stack.push(value);
                        return Ok(());
                    }
                    None => {}
                },
                _ => {}
            }
        }
        let value = self.field(field)?;
        self.stack.push(value);
        Ok(())
    }

    /// Evaluates Python's `bool()` for a field that is not one of a caller's dict.
    fn is_field_true(&mut self, field: Field) -> Res<bool> {
        if let KeyOf::Name(name) = field.key.of() {
            let quick = match &self.slots[field.slot as usize] {
                Value::Namespace(id) => self.world.with_namespace(*id, |namespace| {
                    namespace.get_str(self.program.name(name)).map(|value| value.is_true(self.world))
                }),
                Value::Loop(state) => state.borrow().quick_attribute(name).map(|value| value.is_true(self.world)),
                _ => None,
            };
            if let Some(holds) = quick {
                return Ok(holds);
            }
        }
        Ok(self.field(field)?.is_true(self.world))
    }

    /// Returns a field of a variable.
    #[inline]
    fn field(&mut self, field: Field) -> Res<Value<'a>> {
        if let Some(state) = with_test(&self.slots[field.slot as usize]) {
            self.look_for(
                &state,
                match field.key.of() {
                    KeyOf::Name(name) | KeyOf::DictName(name) => self.program.name(name),
                    KeyOf::Literal(id) => self.literals[id as usize],
                },
            )?;
        }
        let value = &self.slots[field.slot as usize];
        if let Value::Missing = value {
            return Err(Absence::Variable(self.program.name(field.variable.into())).fault());
        }
        match field.key.of() {
            KeyOf::Name(name) | KeyOf::DictName(name) => {
                subscript::attribute(self.world, value, self.program.name(name))
            }
            KeyOf::Literal(id) => self.item_literal(value, id),
        }
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

    fn args(&self, shape: Shape, subject: usize) -> Args<'_, 'a> {
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
    fn settle(&mut self, count: usize, value: Value<'a>) {
        self.stack.drop_top(count);
        self.stack.push(value);
    }

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
                        Answer::Found(found) => Value::of_node(world, *found)?,
                        Answer::Absent(absence) => Value::Undefined(absence),
                        Answer::Elsewhere => self.field(field)?,
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
                Op::Attribute(name) => {
                    let value = self.pop();
                    if let Some(state) = with_test(&value) {
                        self.look_for(&state, self.program.name(name))?;
                    }
                    let found = subscript::attribute(world, &value, self.program.name(name))?;
                    self.stack.push(found);
                }
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
                        Answer::Found(found) => is_input_true(world, found)?,
                        Answer::Absent(_) => false,
                        Answer::Elsewhere => self.is_field_true(field)?,
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
                        Answer::Found(found) => matches!(found.value, InputValue::Str(text) if text == wanted),
                        Answer::Absent(_) => false,
                        Answer::Elsewhere => {
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
                        Answer::Found(found) => is_input_kind(found.value, kind),
                        Answer::Absent(_) => matches!(kind, Kind::Iterable | Kind::Sequence),
                        Answer::Elsewhere => is_kind(&self.field(field)?, kind),
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
                Op::Call(shape) => self.call(self.program.shapes[shape as usize], Outcome::Value)?,
                Op::CallEmit(shape) => self.call(self.program.shapes[shape as usize], Outcome::Written)?,
                Op::CallEmitText(shape) => self.call(self.program.shapes[shape as usize], Outcome::Text)?,
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
                    if let Answer::Found(&InputNode { value: InputValue::Str(text), tag, .. }) = ask!(self, field) {
                        self.sink.push_input(world, tag, text)?;
                        continue;
                    }
                    match self.field(field)? {
                        Value::Str(text) => self.sink.push_str(world, &text)?,
                        other => refuse_addend(world, &other)?,
                    }
                }
                Op::EmitField(field) => {
                    if let Answer::Found(&InputNode { value: InputValue::Str(text), tag, .. }) = ask!(self, field) {
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
                    self.give(value, Outcome::Text)?;
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
                    let Some(run) = self.loops.last_mut() else { continue };
                    // The common case: a loop over a list of the caller's.
                    let found = match &mut run.source {
                        Source::Plain(Iter::InputList(items)) => items.take_first(world),
                        Source::Shared(state) => state.borrow_mut().take_input(world),
                        Source::Plain(_) => None,
                    };
                    if let Some(InputNode { node, value: InputValue::Dict, tag }) = found {
                        world.begin_pass(Some(tag), run.passes);
                        run.passes += 1;
                        check_loop(world, run.passes)?;
                        match ops.get(self.pc) {
                            Some(Op::Store(slot)) => {
                                self.slots[*slot as usize] = Value::InputDict(node, tag);
                                self.pc += 1;
                            }
                            _ => self.stack.push_input_dict(node, tag),
                        }
                        continue;
                    }
                    let next = match (found, &mut run.source) {
                        (Some(found), _) => Some(Value::of_node(world, found)?),
                        (None, Source::Plain(iter)) => iter.next(world)?,
                        (None, Source::Shared(state)) => state.borrow_mut().take(world)?,
                    };
                    match next {
                        Some(item) => {
                            world.begin_pass(item.tag(), run.passes);
                            run.passes += 1;
                            check_loop(world, run.passes)?;
                            self.stack.push(item);
                        }
                        None => self.pc = end as usize,
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
                    if let Some(LoopRun { source: Source::Shared(state), .. }) = self.loops.last()
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
                    if let (Some(LoopRun { source: Source::Shared(state), .. }), Some(item)) =
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
                    self.begin(routine, self.frame, 0, Outcome::Written, CallEnd::Nothing)?;
                    self.stack.push(iterable);
                }
                Op::CallGeneration(routine) => {
                    let end = CallEnd::Generation { shown: self.shown(), start: self.sink.len() };
                    self.begin(routine, self.frame, 0, Outcome::Written, end)?;
                    self.pass_nothing(routine)?;
                }
                Op::CallBlock(routine) => self.begin(routine, self.frame, 0, Outcome::Written, CallEnd::Nothing)?,
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

    #[inline]
    fn item_literal(&self, value: &Value<'a>, id: u32) -> Res<Value<'a>> {
        if let Value::InputDict(..) = value
            && let Some(found) = value.dict_get_str(self.world, self.literals[id as usize])?
        {
            return Ok(found);
        }
        subscript::item(self.world, value, &Value::Str(Str::Slice(self.literal(id))))
    }

    fn is_literal(&self, value: &Value<'a>, id: u32) -> Res<bool> {
        let (Value::Str(text), wanted) = (value, self.literals[id as usize]) else { return Ok(false) };
        if wanted.len() > 256 {
            self.world.work(wanted.len())?;
        }
        Ok(text.plain() == wanted)
    }

    /// Calls a method of the value below the arguments.
    fn call_method(&mut self, site: u32, shape: Shape) -> Res<()> {
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
        self.call(shape, Outcome::Value)
    }

    fn check_chain(&mut self, count: usize) -> Res<()> {
        let base = self.stack.len() - count;
        let is_plain = |value: &Value<'a>| matches!(value, Value::Str(text) if !text.is_markup());
        let starts_plain = is_plain(&self.stack[base]);
        if starts_plain && is_plain(&self.stack[self.stack.len() - 1]) {
            return Ok(());
        }
        let right = self.pop();
        if !starts_plain {
            let sum = binary(self.world, crate::parser::ast::BinaryOp::Add, &self.stack[base], &right)?;
            self.stack[base] = sum;
            self.stack.push(Value::text(""));
            return Ok(());
        }
        let left = self.join_chain(count - 1)?;
        let sum = binary(self.world, crate::parser::ast::BinaryOp::Add, &left, &right)?;
        self.stack.truncate(base);
        self.stack.push(sum);
        self.stack.resize(base + count, Value::text(""));
        Ok(())
    }

    /// Joins the top values, which are strings. If the first is not a plain string, it already
    /// holds the sum and is returned.
    fn join_chain(&mut self, count: usize) -> Res<Value<'a>> {
        let base = self.stack.len() - count;
        match &self.stack[base] {
            Value::Str(first) if !first.is_markup() => {}
            other => return Ok(other.clone()),
        }
        let mut builder = Builder::new(self.world);
        for value in &self.stack[base..] {
            if let Value::Str(text) = value {
                self.world.work(text.weight())?;
                builder.push_str(text)?;
            }
        }
        builder.finish().map(Value::Str)
    }

    fn begin_loop(&mut self, site: u32) -> Res<()> {
        let world = self.world;
        let site = self.program.loops[site as usize];
        let value = self.pop();
        if let Some(state) = with_test(&value) {
            self.look_to_end(&state)?;
        }
        let iter = Iter::new(world, &value)?;
        let source = match site.slot {
            None => Source::Plain(iter),
            Some(slot) => {
                world.work(256)?;
                let mut depth = 0;
                let mut recursion = None;
                if let (Some(routine), Some(call)) = (site.routine, self.calls.last()) {
                    depth = call.depth;
                    recursion = Some((routine, self.frames[self.frame as usize].parent));
                    self.keep_frames(self.frames[self.frame as usize].parent);
                }
                let test = site.test.map(|routine| (routine, self.frame));
                let state: SharedLoop<'a> = Rc::new(RefCell::new(LoopState::new(&value, iter, depth, recursion, test)));
                self.slots[slot as usize] = Value::Loop(Rc::clone(&state));
                Source::Shared(state)
            }
        };
        self.loops.push(LoopRun { source, passes: 0, has_passed: false });
        world.begin_passes(site.at);
        Ok(())
    }

    /// Ends the loop and reports whether a pass was completed.
    fn end_loop(&mut self) -> bool {
        self.world.end_passes();
        let Some(run) = self.loops.pop() else { return false };
        if let Source::Shared(state) = &run.source
            && Rc::strong_count(state) > 2
            && state.borrow().test.is_some()
        {
            // The loop is referenced elsewhere and may need to look ahead later.
            self.keep_frames(self.frame);
        }
        run.has_passed
    }

    fn keep_frames(&mut self, from: u32) {
        let mut frame = from;
        while !self.frames[frame as usize].is_kept {
            self.frames[frame as usize].is_kept = true;
            frame = self.frames[frame as usize].parent;
        }
    }

    /// Unpacks a value onto the stack, with the first part on top.
    fn unpack(&mut self, value: &Value<'a>, count: usize) -> Res<()> {
        let world = self.world;
        if let Value::Tuple(list) | Value::List(list) = value
            && list.items.len() == count
        {
            self.stack.extend(list.items.iter().rev().cloned());
            return Ok(());
        }
        let mut iter = Iter::new(world, value)
            .map_err(|_| Fault::type_error(format!("cannot unpack non-iterable {} object", value.kind())))?;
        let base = self.stack.len();
        while let Some(item) = iter.next(world)? {
            if self.stack.len() - base == count {
                return Err(Fault::value(format!("too many values to unpack (expected {count})")));
            }
            self.stack.push(item);
        }
        let found = self.stack.len() - base;
        if found < count {
            return Err(Fault::value(format!("not enough values to unpack (expected {count}, got {found})")));
        }
        self.stack[base..].reverse();
        Ok(())
    }
}

/// Creates a string slice for a caller's string.
#[inline]
fn input_slice<'a>(text: &'a str, tag: Tag) -> Slice<'a> {
    Slice { text, origin: Origin::Input { tag, offset: Offset::new(0) } }
}

/// Handles an operand of `literal + value` that is not a plain string, with the error that Python
/// raises for the sum.
#[cold]
fn refuse_addend<'a>(world: &super::World<'a>, value: &Value<'a>) -> Res<()> {
    binary(world, crate::parser::ast::BinaryOp::Add, &Value::text(""), value).map(drop)
}

/// Evaluates Python's `bool()` for a caller's value.
#[inline]
fn is_input_true<'a>(world: &super::World<'a>, found: &InputNode<'a>) -> Res<bool> {
    Ok(match found.value {
        InputValue::Str(text) => !text.is_empty(),
        InputValue::Bool(value) => value,
        InputValue::Null => false,
        InputValue::List | InputValue::Dict => world.inputs.len(found.node) > 0,
        InputValue::Number(_) => Value::of_node(world, *found)?.is_true(world),
    })
}

/// Reports whether a value is of a kind.
#[inline]
fn is_kind(value: &Value<'_>, kind: Kind) -> bool {
    match kind {
        Kind::Defined => !matches!(value, Value::Undefined(_) | Value::Missing),
        Kind::None => matches!(value, Value::None),
        Kind::String => matches!(value, Value::Str(_)),
        Kind::Mapping => value.is_mapping(),
        Kind::True => matches!(value, Value::Bool(true)),
        Kind::False => matches!(value, Value::Bool(false)),
        Kind::Iterable => matches!(value, Value::Missing) || tests::is_iterable(value),
        Kind::Sequence => matches!(value, Value::Missing) || tests::is_sequence(value),
    }
}

/// Reports whether a caller's value is of a kind.
#[inline]
fn is_input_kind(value: InputValue<'_>, kind: Kind) -> bool {
    match kind {
        Kind::Defined => true,
        Kind::None => matches!(value, InputValue::Null),
        Kind::String => matches!(value, InputValue::Str(_)),
        Kind::Mapping => matches!(value, InputValue::Dict),
        Kind::True => matches!(value, InputValue::Bool(true)),
        Kind::False => matches!(value, InputValue::Bool(false)),
        Kind::Iterable | Kind::Sequence => matches!(value, InputValue::Str(_) | InputValue::List | InputValue::Dict),
    }
}

/// Extends a dict with the entries of another. Duplicate keys are an error, as in a call.
fn extended<'a>(world: &super::World<'a>, dict: &Value<'a>, more: &Value<'a>) -> Res<Value<'a>> {
    if let Value::Undefined(absence) = more {
        return Err(absence.fault());
    }
    if !more.is_mapping() {
        return Err(Fault::type_error(format!("argument after ** must be a mapping, not {}", more.kind())));
    }
    let mut extended = Dict::new(world)?;
    for source in [dict, more] {
        for index in 0..source.size(world).unwrap_or(0) {
            let Some((key, value)) = source.entry_at(world, index)? else { continue };
            if extended.get(world, &key)?.is_some() {
                return Err(Fault::type_error("got multiple values for a keyword argument"));
            }
            extended.insert(world, key, value)?;
        }
    }
    Ok(extended.into_value())
}
