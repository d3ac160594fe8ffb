use std::fmt;

use crate::analysis::{self, Analysis, Spot};
use crate::clock::Clock;
use crate::compile;
use crate::compile::program::Program;
use crate::error::{Error, Fault, LimitKind, place_of};
use crate::input::Context;
use crate::lexer::normalize;
use crate::limits::Limits;
use crate::output::{Literal, Output};
use crate::parser;
use crate::vm;

/// A compiled template: shared between threads, rendered as often as wanted.
///
/// ```
/// use rolecall_jinja::{Context, Environment, Limits, Template};
/// let template = Template::compile("{% for i in range(3) %}{{ i }} {% endfor %}", &Limits::default())?;
/// assert_eq!(template.render(&Context::new(), &Environment::default())?.text(), "0 1 2 ");
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
pub struct Template {
    program: Program,
    /// How long the last rendering was, and in how many runs: what the next one makes room for.
    usual: vm::Usual,
}

/// What a rendering may use beside its variables.
#[derive(Clone, Default)]
pub struct Environment<'e> {
    /// How much of everything.
    pub limits: Limits,
    /// What `strftime_now` reads; without one, a template that asks for the time fails.
    pub clock: Option<&'e dyn Clock>,
    /// Asked now and then: once it says true, the rendering ends with an error. This is where a deadline goes.
    pub interrupted: Option<&'e dyn Fn() -> bool>,
}

impl Template {
    /// Compiles a template.
    pub fn compile(source: &str, limits: &Limits) -> Result<Template, Error> {
        if source.len() > limits.source_bytes.min(u32::MAX as usize) {
            let fault = Fault::limit(LimitKind::Source, limits.source_bytes);
            return Err(Error::new(fault, place_of("", 0), Vec::new()));
        }
        let source = normalize(source);
        let tree = match parser::parse(&source, limits) {
            Ok(tree) => tree,
            Err((fault, at)) => return Err(Error::new(fault, place_of(&source, at), Vec::new())),
        };
        let program = compile::compile(source, tree)?;
        Ok(Template { program, usual: vm::Usual::default() })
    }

    /// Renders it.
    pub fn render(&self, context: &Context<'_>, environment: &Environment<'_>) -> Result<Output, Error> {
        vm::render(&self.program, context, environment, &self.usual)
    }

    /// What it reads, on what it decides and what it calls, without running it.
    pub fn analyze(&self, limits: &Limits) -> Result<Analysis, Error> {
        analysis::analyze(self.source(), limits)
    }

    /// Its literals, and which of them may stand beside each other in an output, without running it.
    pub fn writes(&self, limits: &Limits) -> Result<analysis::Writes, Error> {
        let source = self.source();
        analysis::writes(source, limits).map_err(|(fault, at)| Error::new(fault, place_of(source, at), Vec::new()))
    }

    /// The text that it was compiled from, with `\n` at the end of each line and none at the end of the last.
    pub fn source(&self) -> &str {
        &self.program.literals.source
    }

    /// A place of [`Template::source`], by the bytes before it.
    pub fn spot(&self, offset: usize) -> Spot {
        let place = place_of(self.source(), offset);
        Spot { line: place.line, column: place.column, offset: u32::try_from(place.offset).unwrap_or(u32::MAX) }
    }

    /// A literal by its number.
    pub fn literal(&self, id: u32) -> Option<Literal<'_>> {
        self.program.literals.get(id)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("source", &self.source()).finish_non_exhaustive()
    }
}
