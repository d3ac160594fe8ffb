//! Python's iterators.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::text::Str;
use super::{InputItems, Value, ViewKind};
use crate::builtins::lazy::Lazy;
use crate::error::{Fault, LimitKind, Res};
use crate::limits::Charge;
use std::any::Any;

use crate::vm::World;

/// An iterator over the items of a value.
pub(crate) enum Iter<'a> {
    Empty,
    InputList(InputItems<'a>),
    InputDict {
        dict: &'a dyn Any,
        kind: ViewKind,
        next: usize,
        len: usize,
    },
    /// A list, tuple, range or dict created by the template, or a view of a dict.
    Items {
        of: Value<'a>,
        kind: ViewKind,
        next: usize,
        len: usize,
    },
    Characters {
        of: super::text::Str<'a>,
        next: usize,
    },
    Generator(Rc<Generator<'a>>),
    Loop(Rc<RefCell<crate::vm::loops::LoopState<'a>>>),
    Ready(VecDeque<Value<'a>>),
}

/// A value that yields its items once, such as the result of `map` or `select`. All items are
/// computed when the first one is requested; an error is raised where its item would be.
pub(crate) struct Generator<'a> {
    pub(crate) state: RefCell<GeneratorState<'a>>,
    pub(crate) depth: u32,
    /// The type name that Python prints.
    pub(crate) name: &'static str,
}

pub(crate) enum GeneratorState<'a> {
    Waiting(Lazy<'a>),
    Running { items: VecDeque<Value<'a>>, end: Option<Fault>, _charge: Charge },
}

impl<'a> GeneratorState<'a> {
    pub(crate) fn running(world: &World<'a>, items: Vec<Value<'a>>, end: Option<Fault>) -> Res<GeneratorState<'a>> {
        let charge = Charge::new(&world.meter, items.capacity() * size_of::<Value<'a>>())?;
        Ok(GeneratorState::Running { items: items.into(), end, _charge: charge })
    }
}

impl<'a> Generator<'a> {
    pub(crate) fn value(world: &World<'a>, name: &'static str, lazy: Lazy<'a>) -> Res<Value<'a>> {
        let depth = lazy.depth() + 1;
        world.check_depth(depth)?;
        // The memory of a generator is not counted, so fuel must bound it.
        world.work(512)?;
        Ok(Value::Generator(Rc::new(Generator { state: RefCell::new(GeneratorState::Waiting(lazy)), depth, name })))
    }

    pub(crate) fn next(&self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        let mut state = self.state.try_borrow_mut().map_err(|_| Fault::value("generator already executing"))?;
        if let GeneratorState::Waiting(_) = *state {
            let waiting = std::mem::replace(&mut *state, GeneratorState::running(world, Vec::new(), None)?);
            if let GeneratorState::Waiting(lazy) = waiting {
                let (items, end) = lazy.run(world);
                if let Some(fault) = &end
                    && matches!(fault.kind(), crate::ErrorKind::Limit(_))
                {
                    return Err(end.unwrap_or_else(|| Fault::value("")));
                }
                *state = GeneratorState::running(world, items, end)?;
            }
        }
        match &mut *state {
            GeneratorState::Running { items, end, .. } => match (items.pop_front(), end.take()) {
                (Some(item), fault) => {
                    *end = fault;
                    Ok(Some(item))
                }
                (None, Some(fault)) => Err(fault),
                (None, None) => Ok(None),
            },
            GeneratorState::Waiting(_) => Ok(None),
        }
    }
}

impl<'a> Iter<'a> {
    #[inline]
    pub(crate) fn new(world: &World<'a>, value: &Value<'a>) -> Res<Iter<'a>> {
        let items = |kind| Iter::Items { of: value.clone(), kind, next: 0, len: value.size(world).unwrap_or(0) };
        Ok(match value {
            Value::InputList(list, _) => Iter::InputList(InputItems::all(world, *list)),
            Value::InputPart(part) => Iter::InputList(part.items),
            Value::InputDict(dict, _) => {
                Iter::InputDict { dict: *dict, kind: ViewKind::Keys, next: 0, len: world.inputs.len(*dict) }
            }
            Value::List(_) | Value::Tuple(_) | Value::Range(_) => items(ViewKind::Values),
            Value::Dict(_) => items(ViewKind::Keys),
            Value::View(view) => match &view.dict {
                Value::InputDict(dict, _) => {
                    Iter::InputDict { dict: *dict, kind: view.kind, next: 0, len: world.inputs.len(*dict) }
                }
                of => Iter::Items { of: of.clone(), kind: view.kind, next: 0, len: of.size(world).unwrap_or(0) },
            },
            Value::Str(text) => Iter::Characters { of: text.clone(), next: 0 },
            Value::Undefined(_) => Iter::Empty,
            Value::Generator(generator) => Iter::Generator(Rc::clone(generator)),
            Value::Loop(state) => Iter::Loop(Rc::clone(state)),
            other => {
                return Err(Fault::type_error(format!("'{}' object is not iterable", other.kind())));
            }
        })
    }

    #[inline]
    pub(crate) fn next(&mut self, world: &World<'a>) -> Res<Option<Value<'a>>> {
        match self {
            Iter::InputList(items) => items.take_first(world).map(|found| Value::of_node(world, found)).transpose(),
            Iter::Items { of, kind, next, len } => {
                if *next >= *len {
                    return Ok(None);
                }
                let at = *next;
                *next += 1;
                match of {
                    Value::Dict(dict) => {
                        let Some((key, value)) = dict.entries().get(at) else { return Ok(None) };
                        pick(world, *kind, || Ok(key.clone()), || Ok(value.clone())).map(Some)
                    }
                    of => of.item_at(world, at),
                }
            }
            Iter::InputDict { dict, kind, next, .. } => {
                let Some(entry) = world.inputs.entry(*dict, *next) else { return Ok(None) };
                *next += 1;
                let key = || Ok(Value::Str(super::text::Str::input(entry.key, entry.key_tag)));
                pick(world, *kind, key, || Value::of(world, entry.value)).map(Some)
            }
            Iter::Empty => Ok(None),
            Iter::Characters { of, next } => {
                let Some(c) = of.plain()[*next..].chars().next() else { return Ok(None) };
                let range = *next..*next + c.len_utf8();
                *next = range.end;
                if let Str::Joined(_) = of {
                    world.work(64)?;
                }
                // Python: iterating over safe HTML yields ordinary strings.
                Ok(Some(Value::Str(of.slice(world, range)?.with_markup(world, false)?)))
            }
            Iter::Generator(generator) => generator.next(world),
            Iter::Loop(state) => {
                let next =
                    state.try_borrow_mut().map_err(|_| Fault::value("loop is already running"))?.advance(world)?;
                // jinja2: iterating over a loop object yields the pairs that the loop statement
                // unpacks.
                next.map(|item| Value::tuple(world, vec![item, Value::Loop(Rc::clone(state))])).transpose()
            }
            Iter::Ready(items) => Ok(items.pop_front()),
        }
    }

    /// Returns the number of remaining items, if it is known without consuming them.
    pub(crate) fn left(&self, world: &World<'a>) -> Option<usize> {
        match self {
            Iter::Empty => Some(0),
            Iter::InputList(items) => Some(items.len(world)),
            Iter::InputDict { next, len, .. } | Iter::Items { next, len, .. } => Some(len - next),
            Iter::Characters { of, next } => Some(super::char_count(&of.plain()[*next..])),
            Iter::Ready(items) => Some(items.len()),
            Iter::Generator(_) | Iter::Loop(_) => None,
        }
    }

    /// Collects the remaining items.
    pub(crate) fn rest(mut self, world: &World<'a>) -> Res<Vec<Value<'a>>> {
        let left = self.left(world).unwrap_or(0);
        world.check_items(left)?;
        let mut items = Vec::with_capacity(left);
        while let Some(item) = self.next(world)? {
            world.work(64)?;
            if items.len() == items.capacity() {
                world.meter.check(items.len() * 2 * size_of::<Value<'a>>())?;
            }
            items.push(item);
        }
        Ok(items)
    }
}

fn pick<'a>(
    world: &World<'a>,
    kind: ViewKind,
    key: impl FnOnce() -> Res<Value<'a>>,
    value: impl FnOnce() -> Res<Value<'a>>,
) -> Res<Value<'a>> {
    match kind {
        ViewKind::Keys => key(),
        ViewKind::Values => value(),
        ViewKind::Items => Value::tuple(world, vec![key()?, value()?]),
    }
}

/// Collects all items of a value.
pub(crate) fn collect<'a>(world: &World<'a>, value: &Value<'a>) -> Res<Vec<Value<'a>>> {
    Iter::new(world, value)?.rest(world)
}

/// Checks that a loop may continue.
#[inline]
pub(crate) fn check_loop(world: &World<'_>, passes: usize) -> Res<()> {
    if passes > world.limits.loop_length {
        return Err(Fault::limit(LimitKind::Loop, world.limits.loop_length));
    }
    Ok(())
}
