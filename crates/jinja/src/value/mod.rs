//! Python's values as templates see them. Lists and dicts are immutable, since the sandbox forbids
//! changing them, and can be shared freely. Only namespaces are mutable, and they live in the
//! [`World`].

pub(crate) mod builder;
pub(crate) mod compare;
pub(crate) mod dict;
pub(crate) mod float;
pub(crate) mod iter;
pub(crate) mod number;
pub(crate) mod operate;
pub(crate) mod repr;
pub(crate) mod subscript;
pub(crate) mod text;

use std::cell::RefCell;
use std::rc::Rc;

use num_bigint::BigInt;

use crate::builtins::functions::Function;
use crate::builtins::methods::Method;
use crate::error::{ErrorKind, Fault, LimitKind, Res};
use std::any::Any;

use crate::input::{InputNode, InputValue, Tag};
use crate::limits::Charge;
use crate::vm::World;
use crate::vm::loops::LoopState;
use dict::Dict;
use iter::Generator;
use text::Str;

/// A value.
#[derive(Clone)]
pub(crate) enum Value<'a> {
    /// The absence of a value: an unset variable or an omitted argument. Templates never see it.
    Missing,
    Undefined(Absence<'a>),
    None,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit 64 bits.
    Big(Rc<BigInt>),
    Float(f64),
    Str(Str<'a>),
    InputList(&'a dyn Any, Tag),
    /// A slice of a caller's list.
    InputPart(Rc<InputPart<'a>>),
    InputDict(&'a dyn Any, Tag),
    List(Rc<List<'a>>),
    Tuple(Rc<List<'a>>),
    Dict(Rc<Dict<'a>>),
    View(Rc<View<'a>>),
    Range(Rc<Range>),
    /// The number of a namespace.
    Namespace(u32),
    Macro(Rc<Macro>),
    Loop(Rc<RefCell<LoopState<'a>>>),
    Function(Function),
    Method(Rc<BoundMethod<'a>>),
    Generator(Rc<Generator<'a>>),
    Cycler(Rc<Cycler<'a>>),
    Joiner(Rc<Joiner<'a>>),
}

/// The reason why a value is undefined.
#[derive(Clone)]
pub(crate) enum Absence<'a> {
    /// A variable.
    Variable(&'a str),
    /// An attribute or key of a value.
    Attribute(TypeName, &'a str),
    /// An attribute that the sandbox hides.
    Unsafe(TypeName, &'a str),
    /// A parameter of a macro.
    Parameter(&'a str),
    /// Another reason, with a fixed message.
    Hint(&'static str),
    /// Another reason, with a message built at run time.
    Words(Rc<str>),
    /// Something that the sandbox hides, with a message built at run time.
    UnsafeWords(Rc<str>),
}

impl Absence<'_> {
    /// Returns the error for using the undefined value.
    #[cold]
    pub(crate) fn fault(&self) -> Fault {
        let message = match self {
            Absence::Variable(name) => format!("'{name}' is undefined"),
            Absence::Attribute(of, name) => format!("'{}' has no attribute '{name}'", of.described()),
            Absence::Unsafe(of, name) => format!("access to attribute '{name}' of '{}' object is unsafe.", of.name()),
            Absence::Parameter(name) => format!("parameter '{name}' was not provided"),
            Absence::Hint(hint) => (*hint).to_owned(),
            Absence::Words(words) | Absence::UnsafeWords(words) => words.to_string(),
        };
        let kind = match self {
            Absence::Unsafe(..) | Absence::UnsafeWords(_) => ErrorKind::Security,
            _ => ErrorKind::Undefined,
        };
        Fault::new(kind, message)
    }
}

/// The types, with Python's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    Str,
    Markup,
    List,
    Tuple,
    Dict,
    DictKeys,
    DictValues,
    DictItems,
    Range,
    Namespace,
    Macro,
    Loop,
    Function,
    Method,
    Generator,
    Cycler,
    Joiner,
}

impl TypeName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TypeName::Undefined => "Undefined",
            TypeName::None => "NoneType",
            TypeName::Bool => "bool",
            TypeName::Int => "int",
            TypeName::Float => "float",
            TypeName::Str => "str",
            TypeName::Markup => "Markup",
            TypeName::List => "list",
            TypeName::Tuple => "tuple",
            TypeName::Dict => "dict",
            TypeName::DictKeys => "dict_keys",
            TypeName::DictValues => "dict_values",
            TypeName::DictItems => "dict_items",
            TypeName::Range => "range",
            TypeName::Namespace => "Namespace",
            TypeName::Macro => "Macro",
            TypeName::Loop => "LoopContext",
            TypeName::Function => "function",
            TypeName::Method => "builtin_function_or_method",
            TypeName::Generator => "generator",
            TypeName::Cycler => "Cycler",
            TypeName::Joiner => "Joiner",
        }
    }

    /// jinja2: describes an object of this type in messages about missing attributes.
    pub(crate) fn described(self) -> String {
        match self {
            TypeName::None => "None".to_owned(),
            TypeName::Namespace | TypeName::Cycler | TypeName::Joiner => format!("jinja2.utils.{} object", self.name()),
            TypeName::Macro | TypeName::Loop => format!("jinja2.runtime.{} object", self.name()),
            TypeName::Markup => "markupsafe.Markup object".to_owned(),
            _ => format!("{} object", self.name()),
        }
    }
}

/// The items of a list or a tuple.
pub(crate) struct List<'a> {
    pub(crate) items: Vec<Value<'a>>,
    /// The nesting depth of the values, this one included.
    pub(crate) depth: u32,
    /// Whether this is a pair created by `groupby`, whose parts also have names.
    pub(crate) is_group: bool,
    _charge: Charge,
}

/// Some items of a caller's list: `list[start:stop:step]`.
pub(crate) struct InputPart<'a> {
    pub(crate) items: InputItems<'a>,
    _charge: Charge,
}

/// A selection of items of a caller's list.
#[derive(Clone, Copy)]
pub(crate) struct InputItems<'a> {
    list: &'a dyn Any,
    /// The index of the first item.
    start: usize,
    /// The distance from one item to the next, which may be negative.
    step: isize,
    /// The number of items, or [`OPEN`].
    len: usize,
}

/// The length of a growing list's items up to its end. The end is found by asking for an item that
/// does not exist, so that it is noticed (see [`crate::growth`]).
const OPEN: usize = usize::MAX;

/// The state of [`InputItems`], from which they can be selected again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) start: usize,
    pub(crate) step: isize,
    pub(crate) len: usize,
}

impl<'a> InputItems<'a> {
    pub(crate) fn all(world: &World<'a>, list: &'a dyn Any) -> InputItems<'a> {
        let len = if world.grows(list) { OPEN } else { world.inputs.len(list) };
        InputItems { list, start: 0, step: 1, len }
    }

    pub(crate) fn selected(list: &'a dyn Any, Selection { start, step, len }: Selection) -> InputItems<'a> {
        InputItems { list, start, step, len }
    }

    pub(crate) fn selection(&self) -> (&'a dyn Any, Selection) {
        (self.list, Selection { start: self.start, step: self.step, len: self.len })
    }

    /// Reports whether these are a growing list's items up to its end.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.len == OPEN
    }

    /// Returns the index in the list of the next item, if these are a growing list's items up to
    /// its end.
    pub(crate) fn open_start(&self) -> Option<usize> {
        self.is_open().then_some(self.start)
    }

    /// Returns the number of items. The length of a growing list is a dependency on its end.
    #[inline]
    pub(crate) fn len(&self, world: &World<'a>) -> usize {
        if self.is_open() { world.inputs.len(self.list).saturating_sub(self.start) } else { self.len }
    }

    /// Selects the items from `start` on, if they are a growing list's items up to its end.
    pub(crate) fn open_from(self, start: usize) -> Option<InputItems<'a>> {
        self.is_open().then(|| InputItems { start: self.start.saturating_add(start), ..self })
    }

    /// Selects `len` of these items: every `step`th one from `start` on.
    pub(crate) fn part(self, start: usize, step: isize, len: usize) -> InputItems<'a> {
        // Indexes outside the list are never requested, since `len` counts only those inside.
        InputItems { list: self.list, start: self.place(start), step: self.step.wrapping_mul(step), len }
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        self.start.wrapping_add_signed(self.step.wrapping_mul(index as isize))
    }

    #[inline]
    pub(crate) fn get(&self, world: &World<'a>, index: usize) -> Option<InputNode<'a>> {
        if index < self.len { world.inputs.look_at(self.list, self.place(index)) } else { None }
    }

    /// Removes and returns the first item.
    #[inline]
    pub(crate) fn take_first(&mut self, world: &World<'a>) -> Option<InputNode<'a>> {
        let first = self.get(world, 0)?;
        self.start = self.place(1);
        if !self.is_open() {
            self.len -= 1;
        }
        Some(first)
    }
}

/// The result of a dict's `keys()`, `values()` or `items()`.
pub(crate) struct View<'a> {
    pub(crate) dict: Value<'a>,
    pub(crate) kind: ViewKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Keys,
    Values,
    Items,
}

pub(crate) struct Range {
    pub(crate) start: i64,
    /// The value as given in the template; Python prints it.
    pub(crate) stop: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
}

impl Range {
    pub(crate) fn get(&self, index: usize) -> i64 {
        // The product alone may overflow 64 bits, but the sum is in range.
        self.start.wrapping_add(self.step.wrapping_mul(index as i64))
    }
}

/// A macro as a value, or the body of a call block.
pub(crate) struct Macro {
    /// The routine of the program.
    pub(crate) routine: u32,
    /// The frame in which it was defined.
    pub(crate) frame: u32,
    /// The nesting depth, if this is the body of a recursive loop.
    pub(crate) depth: u32,
}

pub(crate) struct BoundMethod<'a> {
    pub(crate) receiver: Value<'a>,
    pub(crate) method: &'static Method,
}

pub(crate) struct Cycler<'a> {
    pub(crate) items: Value<'a>,
    pub(crate) position: std::cell::Cell<usize>,
}

pub(crate) struct Joiner<'a> {
    pub(crate) separator: Value<'a>,
    pub(crate) was_used: std::cell::Cell<bool>,
}

impl<'a> Value<'a> {
    /// Converts a caller's value.
    #[inline]
    pub(crate) fn of(world: &World<'a>, node: &'a dyn Any) -> Res<Value<'a>> {
        Value::of_node(world, world.inputs.look(node))
    }

    /// Converts a caller's value that was already looked up.
    #[inline]
    pub(crate) fn of_node(world: &World<'a>, InputNode { node, value, tag }: InputNode<'a>) -> Res<Value<'a>> {
        Ok(match value {
            InputValue::Str(text) => Value::Str(Str::input(text, tag)),
            InputValue::Dict => Value::InputDict(node, tag),
            InputValue::List => Value::InputList(node, tag),
            InputValue::Null => Value::None,
            InputValue::Bool(value) => Value::Bool(value),
            InputValue::Number(spelling) => {
                if spelling.len() > 18 {
                    world.work(
                        spelling.len().saturating_mul(4 + spelling.len().min(crate::limits::INTEGER_DIGITS) / 32),
                    )?;
                }
                number::parse_json(spelling)?
            }
        })
    }

    pub(crate) fn list(world: &World<'a>, items: Vec<Value<'a>>) -> Res<Value<'a>> {
        Ok(Value::List(Rc::new(List::new(world, items)?)))
    }

    pub(crate) fn input_part(world: &World<'a>, items: InputItems<'a>) -> Res<Value<'a>> {
        let _charge = Charge::new(&world.meter, size_of::<InputPart<'a>>())?;
        Ok(Value::InputPart(Rc::new(InputPart { items, _charge })))
    }

    pub(crate) fn tuple(world: &World<'a>, items: Vec<Value<'a>>) -> Res<Value<'a>> {
        Ok(Value::Tuple(Rc::new(List::new(world, items)?)))
    }

    pub(crate) fn text(text: &'static str) -> Value<'a> {
        Value::Str(Str::engine(text))
    }

    pub(crate) fn length(length: usize) -> Value<'a> {
        Value::Int(length as i64)
    }

    pub(crate) fn undefined(hint: &'static str) -> Value<'a> {
        Value::Undefined(Absence::Hint(hint))
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self, Value::Dict(_) | Value::InputDict(..))
    }

    pub(crate) fn type_name(&self) -> TypeName {
        match self {
            Value::Missing | Value::Undefined(_) => TypeName::Undefined,
            Value::None => TypeName::None,
            Value::Bool(_) => TypeName::Bool,
            Value::Int(_) | Value::Big(_) => TypeName::Int,
            Value::Float(_) => TypeName::Float,
            Value::Str(text) if text.is_markup() => TypeName::Markup,
            Value::Str(_) => TypeName::Str,
            Value::InputList(..) | Value::InputPart(_) | Value::List(_) => TypeName::List,
            Value::Tuple(_) => TypeName::Tuple,
            Value::InputDict(..) | Value::Dict(_) => TypeName::Dict,
            Value::View(view) => match view.kind {
                ViewKind::Keys => TypeName::DictKeys,
                ViewKind::Values => TypeName::DictValues,
                ViewKind::Items => TypeName::DictItems,
            },
            Value::Range(_) => TypeName::Range,
            Value::Namespace(_) => TypeName::Namespace,
            Value::Macro(_) => TypeName::Macro,
            Value::Loop(_) => TypeName::Loop,
            Value::Function(_) => TypeName::Function,
            Value::Method(_) => TypeName::Method,
            Value::Generator(_) => TypeName::Generator,
            Value::Cycler(_) => TypeName::Cycler,
            Value::Joiner(_) => TypeName::Joiner,
        }
    }

    /// Returns the name of the type, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        self.type_name().name()
    }

    /// Returns the nesting depth of the values, without those of the caller.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Value::List(list) | Value::Tuple(list) => list.depth,
            Value::Dict(dict) => dict.depth,
            Value::View(view) => view.dict.depth() + 1,
            Value::Generator(generator) => generator.depth,
            Value::Cycler(cycler) => cycler.items.depth() + 1,
            Value::Joiner(joiner) => joiner.separator.depth() + 1,
            Value::Method(method) => method.receiver.depth() + 1,
            Value::Loop(state) => state.try_borrow().map_or(1, |state| state.depth_of_values()),
            _ => 0,
        }
    }

    /// Evaluates Python's `bool()`.
    #[inline]
    pub(crate) fn is_true(&self, world: &World<'a>) -> bool {
        match self {
            Value::Bool(value) => *value,
            Value::Missing | Value::Undefined(_) | Value::None => false,
            Value::Int(value) => *value != 0,
            Value::Big(_) => true,
            Value::Float(value) => *value != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::Loop(state) => state.borrow_mut().length(world).map_or(true, |length| length > 0),
            // A list that has an item keeps it.
            other if other.grows(world) => other.item_at(world, 0).map_or(true, |first| first.is_some()),
            other => other.size(world).is_none_or(|length| length > 0),
        }
    }

    /// Returns the number of items, if the value has a length and is not a string.
    pub(crate) fn size(&self, world: &World<'a>) -> Option<usize> {
        match self {
            Value::Undefined(_) => Some(0),
            Value::InputList(node, _) | Value::InputDict(node, _) => Some(world.inputs.len(*node)),
            Value::InputPart(part) => Some(part.items.len(world)),
            Value::List(list) | Value::Tuple(list) => Some(list.items.len()),
            Value::Dict(dict) => Some(dict.len()),
            Value::View(view) => view.dict.size(world),
            Value::Range(range) => Some(range.len),
            _ => None,
        }
    }

    /// Reports whether this is a growing list, or its items from one on.
    #[inline]
    pub(crate) fn grows(&self, world: &World<'a>) -> bool {
        match self {
            Value::InputList(list, _) => world.grows(*list),
            Value::InputPart(part) => part.items.is_open(),
            _ => false,
        }
    }

    /// Evaluates Python's `len()`.
    pub(crate) fn python_len(&self, world: &World<'a>) -> Res<usize> {
        match self {
            Value::Str(text) => {
                world.work(text.plain().len())?;
                Ok(char_count(text.plain()))
            }
            Value::Loop(state) => state.borrow_mut().length(world),
            other => other
                .size(world)
                .ok_or_else(|| Fault::type_error(format!("object of type '{}' has no len()", other.kind()))),
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Value::InputList(..) | Value::InputPart(_) | Value::List(_))
    }

    /// Reports whether the value is a list, a tuple or a range.
    pub(crate) fn is_sequence(&self) -> bool {
        self.is_list() || matches!(self, Value::Tuple(_) | Value::Range(_))
    }

    /// Returns the item at an index of a list, a tuple or a range.
    #[inline]
    pub(crate) fn item_at(&self, world: &World<'a>, index: usize) -> Res<Option<Value<'a>>> {
        Ok(match self {
            Value::InputList(list, _) => {
                world.inputs.look_at(*list, index).map(|found| Value::of_node(world, found)).transpose()?
            }
            Value::InputPart(part) => {
                part.items.get(world, index).map(|found| Value::of_node(world, found)).transpose()?
            }
            Value::List(list) | Value::Tuple(list) => list.items.get(index).cloned(),
            Value::Range(range) => (index < range.len).then(|| Value::Int(range.get(index))),
            _ => None,
        })
    }

    /// Returns the caller's tag.
    pub(crate) fn tag(&self) -> Option<Tag> {
        match self {
            Value::InputDict(_, tag) | Value::InputList(_, tag) => Some(*tag),
            Value::Str(Str::Slice(text::Slice { origin: crate::Origin::Input { tag, .. }, .. })) => Some(*tag),
            // A key-value pair.
            Value::Tuple(list) if list.items.len() == 2 => list.items[1].tag().or_else(|| list.items[0].tag()),
            _ => None,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn new(world: &World<'a>, items: Vec<Value<'a>>) -> Res<List<'a>> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        world.check_depth(depth)?;
        world.work(64)?;
        let charge = Charge::new(&world.meter, items.capacity() * size_of::<Value<'a>>() + size_of::<List<'a>>())?;
        Ok(List { items, depth, is_group: false, _charge: charge })
    }

    pub(crate) fn group(world: &World<'a>, items: Vec<Value<'a>>) -> Res<List<'a>> {
        Ok(List { is_group: true, ..List::new(world, items)? })
    }
}

impl World<'_> {
    /// Checks that values nested this deeply are within the limit.
    #[inline]
    pub(crate) fn check_depth(&self, depth: u32) -> Res<()> {
        if depth as usize > self.limits.depth {
            return Err(Fault::limit(LimitKind::Depth, self.limits.depth));
        }
        Ok(())
    }

    /// Checks that a list with this many items fits, before it is created.
    pub(crate) fn check_items(&self, items: usize) -> Res<()> {
        self.work(items.saturating_mul(16))?;
        self.meter.check(items.saturating_mul(size_of::<Value<'_>>()))
    }
}

/// Returns the number of characters in a text.
pub(crate) fn char_count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn a_value_is_four_words() {
        assert_eq!(size_of::<Value<'_>>(), 32);
    }
}
