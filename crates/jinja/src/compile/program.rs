//! The compact program that a template compiles to.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use num_bigint::BigInt;

use crate::builtins::functions::Function;
use crate::builtins::methods::{MethodSite, is_dict_attribute};
use crate::builtins::{FilterFn, TestFn};
use crate::output::Literals;
use crate::parser::ast::{BinaryOp, CompareOp};
use crate::vm::Live;

/// An instruction. Operands and results are on the value stack; numbers are indexes into the
/// program's tables.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    None,
    True,
    False,
    /// The value of a conditional expression without `else` whose condition is false.
    NoElse,
    Int(i64),
    Float(f64),
    Big(u32),
    Literal(u32),
    /// A variable of this frame, and its name.
    Slot(u32, u32),
    /// A variable of an outer frame: how many frames up, the slot, and its name.
    Outer(u16, u16, u32),
    /// A variable of the context, or a function.
    Global(u32),
    Store(u32),
    /// Stores a field of a variable.
    StoreField(Field, u32),
    StoreLiteral(u32, u32),
    /// Copies a variable, whether it is set or not.
    Alias {
        slot: u16,
        up: u16,
        from: u32,
    },
    /// Copies a variable if it is set.
    AliasIfSet {
        slot: u16,
        up: u16,
        from: u32,
    },
    Clear(u32),
    Attribute(u32),
    /// An attribute of a variable of this frame, or an item with a literal key.
    Field(Field),
    Item,
    /// An item with a literal key.
    ItemLiteral(u32),
    /// The start, stop and step are on the stack.
    Slice,
    List(u32),
    Tuple(u32),
    Dict(u32),
    Not,
    Negative,
    Positive,
    Binary(BinaryOp),
    Compare(CompareOp),
    /// In a comparison chain: ends the chain if false, otherwise keeps the right operand for the
    /// next comparison.
    CompareChain(CompareOp, u32),
    Jump(u32),
    /// One of these two, or `PushFlag`, follows each condition directly.
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
    IsStack(TypeTest),
    IsSlot(u32, TypeTest),
    IsGlobal(u32, TypeTest),
    IsField(Field, TypeTest),
    /// Pushes whether the preceding condition had this result.
    PushFlag(bool),
    /// `and`: keeps a false value and jumps to the end.
    And(u32),
    /// `or`: keeps a true value and jumps to the end.
    Or(u32),
    Pop,
    Duplicate,
    /// The callee is below its arguments.
    Call(u32),
    /// Positional arguments are in one list, keyword arguments in one dict (or absent).
    CallSpread,
    /// Calls and writes the result directly.
    CallEmit(u32),
    /// The same for a call block, whose result must be a string.
    CallEmitText(u32),
    /// The call site and the shape of the arguments.
    CallMethod(u32, u32),
    /// Fails for an undefined receiver before the arguments are evaluated.
    CheckReceiver(u32),
    Filter(u32, u32),
    FilterSpread(u32),
    Test(u32, u32),
    TestSpread(u32),
    /// A filter or test whose name does not exist.
    NoFilter(u32),
    NoTest(u32),
    Length,
    /// `trim` without arguments.
    Trim,
    /// Appends the items of the top value to the list below it.
    Extend,
    /// Adds the entries of the top value to the dict below it.
    ExtendDict,
    /// Checks the last of this many operands of a sum. Unless all are strings, they become one
    /// value and empty strings.
    CheckChain(u32),
    /// Joins this many checked values.
    JoinChain(u32),
    /// Writes this many checked values.
    EmitChain(u32),
    /// Joins `str()` of this many values.
    Concat(u32),
    /// Writes the right operand of `literal + value`: a string, or an error.
    EmitAddend,
    /// The same for a field of a variable.
    EmitAddendField(Field),
    /// The same for a variable of this frame: its slot and name.
    EmitAddendSlot(u32, u32),
    Emit,
    /// Writes the result of a filter block or call block, which must be a string.
    EmitText,
    EmitField(Field),
    /// Writes a variable of this frame.
    EmitSlot(u32),
    /// Writes the result of `tojson`; the operand is the shape of its arguments.
    EmitJson(u32),
    EmitLiteral(u32),
    BeginCapture,
    EndCapture,
    DropCapture,
    /// Begins a loop over the top value.
    LoopBegin(u32),
    /// Pushes the next item, or jumps at the end of the loop.
    LoopNext(u32),
    /// Notes that a pass was completed, so `else` is skipped.
    LoopPassed,
    LoopEnd,
    /// Jumps if a pass was completed.
    JumpIfPassed(u32),
    /// Jumps if the item already passed the loop's test while looking ahead.
    JumpIfTested(u32),
    /// The top value passed the test of a loop whose body reads `loop`.
    LoopPass,
    /// The top value failed the loop's test: drops it and jumps to fetch the next one.
    LoopSkip(u32),
    /// Unpacks the top value into this many parts, with the first on top.
    Unpack(u32),
    MakeMacro(u32),
    /// Jumps if the parameter was given.
    IfGiven(u32, u32),
    /// The parameter in the slot was not given.
    NotGiven(u32, u32),
    /// Calls a recursive loop with the top value.
    CallLoop(u32),
    CallGeneration(u32),
    CallBlock(u32),
    /// Sets an attribute of the namespace below the value.
    SetAttribute(u32),
    CheckNamespace,
    /// Fails with a message, for a tag that cannot be run.
    Refuse(u32),
    Return,
}

/// `variable.name` or `variable['name']`, where the variable is a slot of this frame.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) slot: u16,
    /// The name of the variable.
    pub(crate) variable: u16,
    /// The name of the attribute, or the literal of the key.
    pub(crate) key: Key,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Key(u32);

/// The content of a [`Key`].
pub(crate) enum KeyOf {
    /// An attribute.
    Name(u32),
    /// An attribute that dicts themselves have, so the name is not looked up as a key.
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

    /// Returns a number that is different for each key of a kind.
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        (self.0 >> 2) as usize
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

/// The kind of value that a simple type test checks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeTest {
    Defined,
    None,
    String,
    Mapping,
    True,
    False,
    Iterable,
    Sequence,
}

/// The number of arguments of a call, and the names of its keyword arguments.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct CallShape {
    pub(crate) positional: u32,
    /// The start of the names in the program's list, and their number.
    pub(crate) names: u32,
    pub(crate) keywords: u32,
}

impl CallShape {
    pub(crate) fn values(self) -> usize {
        (self.positional + self.keywords) as usize
    }

    /// Returns the range of the names in the program's list.
    pub(crate) fn name_range(self) -> Range<usize> {
        self.names as usize..(self.names + self.keywords) as usize
    }
}

/// A loop statement.
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

/// A part of the program with its own frame: the template, a macro, or the body of a call block,
/// recursive loop or generation block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routine {
    pub(crate) entry: u32,
    pub(crate) slots: u32,
    /// The enclosing routine.
    pub(crate) parent: Option<u32>,
    /// The name of a macro; without one, this is the body of a call block.
    pub(crate) name: Option<u32>,
    /// The names of the parameters.
    pub(crate) params: Vec<u32>,
    pub(crate) param_slots: Vec<u32>,
    pub(crate) caller_slot: Option<u32>,
    pub(crate) kwargs_slot: Option<u32>,
    pub(crate) varargs_slot: Option<u32>,
}

pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// The position in the source of each instruction.
    pub(crate) places: Vec<u32>,
    pub(crate) names: Vec<Box<str>>,
    pub(crate) literals: Arc<Literals>,
    pub(crate) bigs: Vec<BigInt>,
    pub(crate) globals: Vec<(u32, Option<Function>)>,
    pub(crate) shapes: Vec<CallShape>,
    pub(crate) keyword_names: Vec<u32>,
    pub(crate) filters: Vec<FilterFn>,
    pub(crate) tests: Vec<TestFn>,
    pub(crate) sites: Vec<(u32, MethodSite)>,
    pub(crate) loops: Vec<LoopSite>,
    pub(crate) routines: Vec<Routine>,
    /// The variables to keep at each loop, once determined.
    pub(crate) live: OnceLock<Live>,
}

impl Program {
    /// Returns which variables of the template's own frame are read later, at each loop.
    pub(crate) fn live(&self) -> &Live {
        self.live.get_or_init(|| Live::of(self))
    }

    pub(crate) fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }
}
