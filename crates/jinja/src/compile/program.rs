//! The compact program that a template becomes.

use std::sync::Arc;

use num_bigint::BigInt;

use crate::builtins::functions::Function;
use crate::builtins::methods::{MethodSite, is_dict_attribute};
use crate::builtins::{FilterFn, TestFn};
use crate::output::Literals;
use crate::parser::ast::{BinaryOp, CompareOp};

/// One step. Values come from and go to the value stack; numbers name entries of the program's tables.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    None,
    True,
    False,
    /// What a conditional expression without `else` gives where its test fails.
    NoElse,
    Int(i64),
    Float(f64),
    Big(u32),
    Literal(u32),
    /// A variable of this frame and its name.
    Slot(u32, u32),
    /// A variable of a frame outside: how many frames up, which slot, its name.
    Outer(u16, u16, u32),
    /// A variable of the context, or a function.
    Global(u32),
    Store(u32),
    /// Copies a variable as it is, be it set or not.
    Alias {
        slot: u16,
        up: u16,
        from: u32,
    },
    /// The same, if it is set.
    AliasIfSet {
        slot: u16,
        up: u16,
        from: u32,
    },
    Clear(u32),
    Attribute(u32),
    /// An attribute of a variable of this frame, or an item by a literal.
    Field(Field),
    Item,
    /// An item by a literal.
    ItemLiteral(u32),
    /// Start, stop and step lie on the stack.
    Slice,
    List(u32),
    Tuple(u32),
    Dict(u32),
    Not,
    Negative,
    Positive,
    Binary(BinaryOp),
    Compare(CompareOp),
    /// In a chain: false ends it there, else the right value stays for the next comparison.
    CompareChain(CompareOp, u32),
    Jump(u32),
    /// One of these two, or `PushFlag`, stands right behind each condition.
    JumpUnless(u32),
    JumpWhen(u32),
    TruthStack,
    TruthSlot(u32),
    TruthGlobal(u32),
    TruthField(Field),
    EqualsStack(u32),
    EqualsField(Field, u32),
    CompareStack(CompareOp),
    /// Whether a literal is in the value of a slot.
    LiteralInSlot(u32, u32),
    IsStack(Kind),
    IsSlot(u32, Kind),
    IsGlobal(u32, Kind),
    IsField(Field, Kind),
    /// Whether the condition before it said so, as a value.
    PushFlag(bool),
    /// `and`: a false value stays and ends it.
    And(u32),
    /// `or`: a true value stays and ends it.
    Or(u32),
    Pop,
    Duplicate,
    /// The callee lies below its arguments.
    Call(u32),
    /// Positional arguments lie as one list, keyword arguments as one dict (or nothing).
    CallSpread,
    /// A call whose result is written at once.
    CallEmit(u32),
    /// The same of a call block, whose result must be a string.
    CallEmitText(u32),
    /// The site and the shape of the arguments.
    CallMethod(u32, u32),
    /// An undefined receiver fails before the arguments are computed.
    CheckReceiver(u32),
    Filter(u32, u32),
    FilterSpread(u32),
    Test(u32, u32),
    TestSpread(u32),
    /// A filter or test of a name that does not exist.
    NoFilter(u32),
    NoTest(u32),
    Length,
    /// `trim` without arguments.
    Trim,
    /// Adds the items of the upper value to the list below it.
    Extend,
    /// Adds the entries of the upper value to the dict below it.
    ExtendDict,
    /// The sum of so many values so far: where they are not all strings, they become one value and empty strings.
    CheckChain(u32),
    /// Joins so many checked values.
    JoinChain(u32),
    /// Writes so many checked values.
    EmitChain(u32),
    /// Joins `str()` of so many values.
    Concat(u32),
    /// Writes a value that stands behind a literal and `+`: a string, or an error.
    EmitAddend,
    /// The same of a field of a variable.
    EmitAddendField(Field),
    Emit,
    /// Writes what a filter block or a call block gives, which must be a string.
    EmitText,
    EmitField(Field),
    /// Writes what `tojson` gives; the shape of its arguments.
    EmitJson(u32),
    EmitLiteral(u32),
    BeginCapture,
    EndCapture,
    DropCapture,
    /// Begins a loop over the upper value.
    LoopBegin(u32),
    /// The next item, or the end of the loop.
    LoopNext(u32),
    /// A pass came to its end: there will be no `else`.
    LoopPassed,
    LoopEnd,
    /// Goes there if a pass came to its end.
    JumpIfPassed(u32),
    /// Goes there if the item has passed the loop's test already, in a look ahead.
    JumpIfTested(u32),
    /// The upper value has passed the test of a loop whose body reads `loop`.
    LoopPass,
    /// The upper value has not passed the loop's test: it goes, and the next one comes there.
    LoopSkip(u32),
    /// The upper value in so many parts, the first on top.
    Unpack(u32),
    MakeMacro(u32),
    /// Goes there if the parameter was given.
    IfGiven(u32, u32),
    /// The parameter in the slot was not given.
    NotGiven(u32, u32),
    /// Calls a recursive loop with the upper value.
    CallLoop(u32),
    CallGeneration(u32),
    CallBlock(u32),
    /// Sets an attribute of the namespace that lies below the value.
    SetAttribute(u32),
    CheckNamespace,
    /// A tag that cannot be run, in words.
    Refuse(u32),
    Return,
}

/// `variable.name` or `variable['name']`, where the variable is a slot of this frame.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) slot: u16,
    /// The variable's name.
    pub(crate) variable: u16,
    /// The attribute's name, or the key's literal.
    pub(crate) key: Key,
}

#[derive(Clone, Copy)]
pub(crate) struct Key(u32);

/// What a [`Key`] names.
pub(crate) enum KeyOf {
    /// An attribute.
    Name(u32),
    /// An attribute that dicts have themselves, so that a key of the name is not looked for.
    DictName(u32),
    /// A key.
    Literal(u32),
}

impl Key {
    pub(crate) fn name(id: u32, name: &str) -> Key {
        Key(id << 2 | if is_dict_attribute(name) { 1 } else { 0 })
    }

    pub(crate) fn literal(id: u32) -> Key {
        Key(id << 2 | 2)
    }

    #[inline(always)]
    pub(crate) fn of(self) -> KeyOf {
        let id = self.0 >> 2;
        match self.0 & 3 {
            0 => KeyOf::Name(id),
            1 => KeyOf::DictName(id),
            _ => KeyOf::Literal(id),
        }
    }
}

/// What a quick test looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Defined,
    None,
    String,
    Mapping,
    True,
    False,
    Iterable,
    Sequence,
}

/// How many arguments a call has, and which are by keyword.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    pub(crate) positional: u32,
    /// Where the names begin in the program's list, and how many.
    pub(crate) names: u32,
    pub(crate) keywords: u32,
}

impl Shape {
    pub(crate) fn values(self) -> usize {
        (self.positional + self.keywords) as usize
    }
}

/// A loop as it is written.
#[derive(Clone, Copy)]
pub(crate) struct LoopSite {
    /// The slot of `loop`, if the body reads it.
    pub(crate) slot: Option<u32>,
    /// The routine of a recursive loop.
    pub(crate) routine: Option<u32>,
    /// The routine of the loop's test, if `loop` may look ahead.
    pub(crate) test: Option<u32>,
    pub(crate) at: u32,
}

/// A part of the program that has a frame of its own: the template, a macro, the body of a call block, of a
/// recursive loop, of a generation block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routine {
    pub(crate) entry: u32,
    pub(crate) slots: u32,
    /// The routine around it.
    pub(crate) parent: Option<u32>,
    /// A macro's name; without one it is a call block's body.
    pub(crate) name: Option<u32>,
    /// The parameters by name, in the first slots from `first_param` on.
    pub(crate) params: Vec<u32>,
    pub(crate) param_slots: Vec<u32>,
    pub(crate) caller_slot: Option<u32>,
    pub(crate) kwargs_slot: Option<u32>,
    pub(crate) varargs_slot: Option<u32>,
}

pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// Where each step comes from.
    pub(crate) places: Vec<u32>,
    pub(crate) names: Vec<Box<str>>,
    pub(crate) literals: Arc<Literals>,
    pub(crate) bigs: Vec<BigInt>,
    pub(crate) globals: Vec<(u32, Option<Function>)>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) keyword_names: Vec<u32>,
    pub(crate) filters: Vec<FilterFn>,
    pub(crate) tests: Vec<TestFn>,
    pub(crate) sites: Vec<(u32, MethodSite)>,
    pub(crate) loops: Vec<LoopSite>,
    pub(crate) routines: Vec<Routine>,
}

impl Program {
    pub(crate) fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }
}
