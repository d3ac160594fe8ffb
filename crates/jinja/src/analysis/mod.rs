//! What a template does with the values that it is given, read from its tree: nothing is run.
//!
//! The walk goes through the tree as a rendering would, with what is *known* of a value in place of the value: which of the
//! caller's values it may be, of which it may be made, which constants it may be. Start at [`analyze`].

mod calls;
mod expression;
mod known;
mod path;
mod record;
mod statement;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use known::Known;
use path::{Paths, WordId};
use record::Record;

use crate::builtins::functions::Function;
use crate::error::{Error, Fault, LimitKind, place_of};
use crate::limits::Limits;
use crate::parser::ast::{NameId, Stmt, Tree};
use crate::parser::{Parsed, parse};

pub use path::{Path, Step};
pub(crate) use writes::writes;
pub use writes::{Writes, WritesNode, Written};

/// What a template reads, on what it decides, and what it calls.
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
    /// Values of the caller's that are read, each once, by their paths.
    pub reads: Vec<Read>,
    /// Where a value of the caller's decides something, in the order of the source.
    pub comparisons: Vec<Comparison>,
    /// Calls of the engine's own functions, in the order of the source.
    pub calls: Vec<FunctionCall>,
    /// Names that the template gives a value itself, each where it does so first, in the order of the source.
    pub assigned: Vec<(String, Spot)>,
    /// The values that were looked at, which [`crate::Limits::instructions`] bounds.
    pub steps: u64,
}

/// A place in a template, without its line's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The bytes of the source before it.
    pub offset: u32,
}

/// A value of the caller's that a template reads.
#[derive(Clone, Debug)]
pub struct Read {
    /// Which.
    pub path: Path,
    /// What is done with it and where, in the order of the source.
    pub uses: Vec<(Use, Spot)>,
}

/// What a template does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// It, or text made of it, is written to the output.
    Printed,
    /// It decides something.
    Compared,
    /// A loop goes through it.
    Iterated,
    /// Something is made of it.
    Changed,
}

/// A value of the caller's that decides something.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Where.
    pub spot: Spot,
    /// Which values; several where the template may have any of them there.
    pub paths: Vec<Path>,
    /// Filters and methods that it went through before.
    pub through: Vec<String>,
    /// What is asked of it.
    pub test: Test,
    /// The constants that it is compared with.
    pub with: Vec<Constant>,
}

/// What is asked of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Whether it is true.
    True,
    /// `is` and the name of a test.
    Is(String),
    /// An operator that the value is on the left of: `==`, `in`; `contains` where it is on the right of `in`.
    Operator(&'static str),
    /// A method that answers a question: `startswith`.
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
    /// A text; the first characters of a very long one.
    Text(String),
}

/// A call of one of the engine's own functions.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// Where.
    pub spot: Spot,
    /// Which: `raise_exception`, `strftime_now`.
    pub name: &'static str,
    /// The constants that may be its first argument.
    pub argument: Vec<Constant>,
}

/// As one would write it in a template.
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

/// The analysis of a normalised source.
pub(crate) fn analyze(source: &str, limits: &Limits) -> Result<Analysis, Error> {
    let in_source = |(fault, at): (Fault, usize)| Error::new(fault, place_of(source, at), Vec::new());
    let tree = parse(source, limits).map_err(in_source)?;
    let mut walk = Walk::new(&tree, limits);
    // What a macro is called with, and what a namespace comes to hold, may be found behind the place where it is read. Each
    // pass may only learn more, and is charged.
    while walk.has_learned {
        walk.has_learned = false;
        // The last pass, which knows most, is what counts.
        walk.record = Record::default();
        if let Err(failure) = walk.pass() {
            return Err(in_source(failure).after(walk.work));
        }
    }
    let Walk { record, paths, work, .. } = walk;
    Ok(Analysis { steps: work, ..record.finish(&paths, source, &tree.literals) })
}

/// What is known of a macro, over all its calls.
#[derive(Default)]
struct Macro {
    params: Vec<Known>,
    /// What call blocks give it.
    caller: Known,
    output: Known,
}

/// The names of a part that has its own.
#[derive(Default)]
struct Frame {
    names: Names,
    /// Whether it is the template itself, or a branch of it that stands in no other part.
    is_outermost: bool,
}

/// Variables and what is known of them.
type Names = HashMap<NameId, Known>;

struct Walk<'t> {
    tree: &'t Tree,
    paths: Paths,
    record: Record,
    frames: Vec<Frame>,
    /// What is being written: set blocks, macros, call blocks.
    captures: Vec<Known>,
    /// The loops around, by their places.
    loops: Vec<u32>,
    /// Macros and namespaces by the places that make them.
    macros: HashMap<u32, Macro>,
    signatures: HashMap<u32, &'t [NameId]>,
    spaces: HashMap<u32, Vec<(WordId, Known)>>,
    /// What recursive loops are called with, by their places.
    recursions: HashMap<u32, Known>,
    /// What the outermost names came to be: macros see them so.
    late: HashMap<NameId, Known>,
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

    fn pass(&mut self) -> Parsed<()> {
        self.frames.push(Frame { is_outermost: true, ..Frame::default() });
        self.body(&self.tree.body)?;
        let names = self.frames.pop().unwrap_or_default().names;
        for (name, known) in names {
            let entry = self.late.entry(name).or_default();
            self.has_learned |= entry.join(known);
        }
        Ok(())
    }

    /// Counts work in values looked at.
    fn charge(&mut self, at: u32, amount: usize) -> Parsed<()> {
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

    /// What is known of a variable: of this frame or one outside, else a value of the caller's.
    fn lookup(&mut self, name: NameId, at: u32) -> Parsed<Known> {
        let frames = self.frames.iter().rev();
        let found = frames.clone().find_map(|frame| Some((frame.is_outermost, frame.names.get(&name)?)));
        let found = found.map(|(is_outermost, known)| (is_outermost, known.clone()));
        self.charge(at, self.frames.len() / 16)?;
        let may_be_late = self.in_macro > 0 && found.as_ref().is_none_or(|(is_outermost, _)| *is_outermost);
        let late = self.late.get(&name).filter(|_| may_be_late).cloned();
        let mut known = match (found, late.is_some()) {
            (Some((_, known)), _) => known,
            (None, true) => Known::default(),
            (None, false) if Function::find(self.name(name)).is_some() => Known::default(),
            (None, false) => {
                let word = self.word(name);
                Known::is(self.paths.root(word))
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

    fn set(&mut self, name: NameId, known: Known, at: u32) -> Parsed<()> {
        self.charge(at, known.size())?;
        if let Some(frame) = self.frames.last_mut() {
            frame.names.insert(name, known);
        }
        Ok(())
    }

    /// Walks a part that has names of its own.
    fn inside<T>(&mut self, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.frames.push(Frame::default());
        let result = part(self);
        self.frames.pop();
        result
    }

    /// Walks parts of which one runs; a variable may then be what any of them made it.
    fn one_of(&mut self, at: u32, parts: impl Iterator<Item = &'t [Stmt]>) -> Parsed<()> {
        let is_outermost = self.frames.last().is_some_and(|frame| frame.is_outermost);
        // What each part sets, over what was known before.
        let mut set: BTreeMap<NameId, Vec<(usize, Known)>> = BTreeMap::new();
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
            let mut either = Known::default();
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

    /// Walks a part and gives what it writes.
    fn captured(&mut self, part: impl FnOnce(&mut Self) -> Parsed<()>) -> Parsed<Known> {
        self.captures.push(Known::default());
        let result = part(self);
        let written = self.captures.pop().unwrap_or_default();
        result.map(|()| written)
    }
}
