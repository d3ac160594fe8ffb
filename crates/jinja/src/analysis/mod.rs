//! Static analysis of how a template uses the values it is given. Nothing is run.
//!
//! The analysis walks the tree in the order of a rendering. In place of each value it tracks the
//! facts *known* about it: which of the caller's values it may be, which of them it may be derived
//! from, and which constants it may be. Start at [`analyze`].

mod calls;
mod expression;
mod known;
mod path;
mod record;
mod statement;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use known::KnownFacts;
use path::{Paths, WordId};
use record::Record;

use crate::builtins::functions::Function;
use crate::error::{Error, Fault, LimitKind, place_of};
use crate::limits::Limits;
use crate::parser::ast::{NameId, Stmt, Tree};
use crate::parser::{ParseResult, parse};

pub use path::{Path, PathStep};
pub(crate) use writes::writes;
pub use writes::{NodeContent, Writes, WritesNode};

/// The values a template reads, the decisions it makes and the functions it calls.
///
/// ```
/// use rolecall_jinja::{Limits, Template};
/// let source = "{% for m in messages %}{% if m.text.startswith('!') %}{{ m.name }}{% endif %}{% endfor %}";
/// let analysis = Template::compile(source, &Limits::default())?.analyze(&Limits::default())?;
/// let reads: Vec<String> = analysis.reads.iter().map(|read| read.path.to_string()).collect();
/// assert_eq!(reads, ["messages", "messages[].name", "messages[].text"]);
/// let comparison = &analysis.comparisons[0];
/// assert_eq!(comparison.to_string(), "messages[].text startswith '!'");
/// assert_eq!((comparison.spot.line, comparison.spot.column), (1, 37));
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The caller's values that are read, each once, sorted by path.
    pub reads: Vec<Read>,
    /// The places where a caller's value decides something, in source order.
    pub comparisons: Vec<Comparison>,
    /// Calls of the engine's own functions, in source order.
    pub calls: Vec<FunctionCall>,
    /// The names that the template assigns, each at its first assignment, in source order. An assignment
    /// that keeps the caller's value of the same name does not count.
    pub assigned: Vec<(String, Spot)>,
    /// The number of values examined, which [`crate::Limits::instructions`] bounds.
    pub steps: u64,
}

/// A location in a template, without the text of its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The byte offset in the source.
    pub offset: u32,
}

/// A caller's value that a template reads.
#[derive(Clone, Debug)]
pub struct Read {
    /// The path of the value.
    pub path: Path,
    /// The uses of the value and their locations, in source order.
    pub uses: Vec<(Use, Spot)>,
}

/// A use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// The value, or text derived from it, is written to the output.
    Printed,
    /// The value decides something.
    Compared,
    /// A loop iterates over the value.
    Iterated,
    /// Another value is derived from it.
    Changed,
}

/// A decision that depends on a caller's value.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The location.
    pub spot: Spot,
    /// The values; there are several if the expression may be any of them.
    pub paths: Vec<Path>,
    /// The filters and methods applied to the value before.
    pub through: Vec<String>,
    /// The test applied to the value.
    pub test: Test,
    /// The constants that the value is compared with.
    pub with: Vec<Constant>,
}

/// A test applied to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Whether the value is true.
    True,
    /// `is` with the name of a test.
    Is(String),
    /// An operator with the value on its left: `==`, `in`; `contains` if the value is on the right
    /// of `in`.
    Operator(&'static str),
    /// A method that tests or searches a string, such as `startswith`.
    Method(String),
}

/// A constant of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// `none`
    None,
    /// `true` or `false`
    Bool(bool),
    /// A number, as Python prints it.
    Number(String),
    /// A string, truncated if it is very long.
    Text(String),
}

/// A call of one of the engine's own functions.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// The location.
    pub spot: Spot,
    /// The name of the function, such as `raise_exception` or `strftime_now`.
    pub name: &'static str,
    /// The constants that the first argument may be.
    pub argument: Vec<Constant>,
}

/// Formats the constant as template source.
impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::None => f.write_str("none"),
            Constant::Bool(value) => write!(f, "{value}"),
            Constant::Number(number) => f.write_str(number),
            Constant::Text(text) => {
                f.write_str("'")?;
                for character in text.chars() {
                    match character {
                        '\'' | '\\' => write!(f, "\\{character}")?,
                        '\n' => f.write_str("\\n")?,
                        '\r' => f.write_str("\\r")?,
                        '\t' => f.write_str("\\t")?,
                        character if character.is_control() => write!(f, "\\x{:02x}", character as u32)?,
                        character => write!(f, "{character}")?,
                    }
                }
                f.write_str("'")
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |items: Vec<String>| items.join(" or ");
        f.write_str(&join(self.paths.iter().map(Path::to_string).collect()))?;
        if !self.through.is_empty() {
            write!(f, " (through {})", self.through.join(", "))?;
        }
        match &self.test {
            Test::True => f.write_str(" is true")?,
            Test::Is(name) => write!(f, " is {name}")?,
            Test::Operator(operator) => write!(f, " {operator}")?,
            Test::Method(name) => write!(f, " {name}")?,
        }
        match self.with.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", join(self.with.iter().map(Constant::to_string).collect())),
        }
    }
}

/// Analyzes a normalized source.
pub(crate) fn analyze(source: &str, limits: &Limits) -> Result<Analysis, Error> {
    let in_source = |(fault, at): (Fault, usize)| Error::new(fault, place_of(source, at), Vec::new());
    let tree = parse(source, limits).map_err(in_source)?;
    let mut walk = Walk::new(&tree, limits);
    // Macro arguments and namespace contents may be discovered after the place where they are read.
    // Each pass only adds knowledge, and is charged.
    while walk.has_learned {
        walk.has_learned = false;
        // Only the findings of the last pass count, which knows the most.
        walk.record = Record::default();
        if let Err(failure) = walk.pass() {
            return Err(in_source(failure).after(walk.work));
        }
    }
    let Walk { record, paths, work, .. } = walk;
    Ok(Analysis { steps: work, ..record.finish(&paths, source, &tree.literals) })
}

/// The facts known about a macro, over all its calls.
#[derive(Default)]
struct Macro {
    params: Vec<KnownFacts>,
    /// The facts known about the bodies that call blocks pass to it.
    caller: KnownFacts,
    output: KnownFacts,
}

/// The variables of a scope.
#[derive(Default)]
struct Frame {
    names: Names,
    /// Whether this is the top level of the template, or a branch directly in it.
    is_outermost: bool,
}

/// Variables and the facts known about them.
type Names = HashMap<NameId, KnownFacts>;

struct Walk<'t> {
    tree: &'t Tree,
    paths: Paths,
    record: Record,
    frames: Vec<Frame>,
    /// The output being captured by set blocks, macros and call blocks.
    captures: Vec<KnownFacts>,
    /// The enclosing loops, by position.
    loops: Vec<u32>,
    /// Macros and namespaces, by the position of their definition.
    macros: HashMap<u32, Macro>,
    signatures: HashMap<u32, &'t [NameId]>,
    spaces: HashMap<u32, Vec<(WordId, KnownFacts)>>,
    /// The arguments of recursive loop calls, by the position of the loop.
    recursions: HashMap<u32, KnownFacts>,
    /// The final facts about top-level names, as macros see them.
    late: HashMap<NameId, KnownFacts>,
    in_macro: usize,
    has_learned: bool,
    work: u64,
    most: u64,
}

impl<'t> Walk<'t> {
    fn new(tree: &'t Tree, limits: &Limits) -> Walk<'t> {
        Walk {
            tree,
            paths: Paths::default(),
            record: Record::default(),
            frames: Vec::new(),
            captures: Vec::new(),
            loops: Vec::new(),
            macros: HashMap::new(),
            signatures: HashMap::new(),
            spaces: HashMap::new(),
            recursions: HashMap::new(),
            late: HashMap::new(),
            in_macro: 0,
            has_learned: true,
            work: 0,
            most: limits.instructions,
        }
    }

    fn pass(&mut self) -> ParseResult<()> {
        self.frames.push(Frame { is_outermost: true, ..Frame::default() });
        self.body(&self.tree.body)?;
        let names = self.frames.pop().unwrap_or_default().names;
        for (name, known) in names {
            let entry = self.late.entry(name).or_default();
            self.has_learned |= entry.join(known);
        }
        Ok(())
    }

    /// Charges for the number of values examined.
    fn charge(&mut self, at: u32, amount: usize) -> ParseResult<()> {
        self.work = self.work.saturating_add(amount as u64);
        if self.work > self.most {
            return Err((Fault::limit(LimitKind::Instructions, self.most), at as usize));
        }
        Ok(())
    }

    fn name(&self, id: NameId) -> &'t str {
        &self.tree.names[id.0 as usize]
    }

    fn word(&mut self, id: NameId) -> WordId {
        let name = self.name(id);
        self.paths.word(name)
    }

    /// Returns the facts about a variable, looked up from the innermost frame outwards; otherwise
    /// it is a caller's value.
    fn lookup(&mut self, name: NameId, at: u32) -> ParseResult<KnownFacts> {
        let frames = self.frames.iter().rev();
        let found = frames.clone().find_map(|frame| Some((frame.is_outermost, frame.names.get(&name)?)));
        let found = found.map(|(is_outermost, known)| (is_outermost, known.clone()));
        self.charge(at, self.frames.len() / 16)?;
        let may_be_late = self.in_macro > 0 && found.as_ref().is_none_or(|(is_outermost, _)| *is_outermost);
        let late = self.late.get(&name).filter(|_| may_be_late).cloned();
        let mut known = match (found, late.is_some()) {
            (Some((_, known)), _) => known,
            (None, true) => KnownFacts::default(),
            (None, false) if Function::find(self.name(name)).is_some() => KnownFacts::default(),
            (None, false) => {
                let word = self.word(name);
                KnownFacts::is(self.paths.root(word))
            }
        };
        if let Some(late) = late {
            known.join(late);
        }
        self.charge(at, known.size())?;
        Ok(known)
    }

    fn is_set(&self, name: NameId) -> bool {
        self.frames.iter().any(|frame| frame.names.contains_key(&name)) || self.late.contains_key(&name)
    }

    fn set(&mut self, name: NameId, known: KnownFacts, at: u32) -> ParseResult<()> {
        self.charge(at, known.size())?;
        if let Some(frame) = self.frames.last_mut() {
            frame.names.insert(name, known);
        }
        Ok(())
    }

    /// Walks a part with its own scope.
    fn inside<T>(&mut self, part: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        self.frames.push(Frame::default());
        let result = part(self);
        self.frames.pop();
        result
    }

    /// Walks alternatives, one of which runs. Afterwards, a variable may have the value that any of
    /// them assigned.
    fn one_of(&mut self, at: u32, parts: impl Iterator<Item = &'t [Stmt]>) -> ParseResult<()> {
        let is_outermost = self.frames.last().is_some_and(|frame| frame.is_outermost);
        // The assignments of each alternative, relative to the facts known before.
        let mut set: BTreeMap<NameId, Vec<(usize, KnownFacts)>> = BTreeMap::new();
        let mut count = 0;
        for (number, part) in parts.enumerate() {
            self.frames.push(Frame { is_outermost, ..Frame::default() });
            let result = self.body(part);
            let names = self.frames.pop().unwrap_or_default().names;
            result?;
            for (name, known) in names {
                set.entry(name).or_default().push((number, known));
            }
            count = number + 1;
        }
        for (name, parts) in set {
            let mut unset = (0..count).find(|number| parts.get(*number).is_none_or(|(part, _)| part != number));
            let mut either = KnownFacts::default();
            for (number, known) in parts {
                self.charge(at, known.size())?;
                if unset.take_if(|unset| *unset < number).is_some() {
                    either.join(self.lookup(name, at)?);
                }
                either.join(known);
            }
            if unset.is_some() {
                either.join(self.lookup(name, at)?);
            }
            self.set(name, either, at)?;
        }
        Ok(())
    }

    /// Walks a part and returns the facts about its output.
    fn captured(&mut self, part: impl FnOnce(&mut Self) -> ParseResult<()>) -> ParseResult<KnownFacts> {
        self.captures.push(KnownFacts::default());
        let result = part(self);
        let written = self.captures.pop().unwrap_or_default();
        result.map(|()| written)
    }
}
