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

/// A compiled template, which threads can share and render any number of times.
///
/// ```
/// use rolecall_jinja::{Context, Environment, Limits, Template};
/// let template = Template::compile("{% for i in range(3) %}{{ i }} {% endfor %}", &Limits::default())?;
/// assert_eq!(template.render(&Context::new(), &Environment::default())?.text(), "0 1 2 ");
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
pub struct Template {
    program: Program,
    /// The text length and number of runs of the last rendering, used to reserve space for the
    /// next.
    usual: vm::Usual,
}

/// Settings and resources for a rendering, apart from its variables.
#[derive(Clone, Default)]
pub struct Environment<'e> {
    /// The resource limits.
    pub limits: Limits,
    /// The clock that `strftime_now` reads. Without one, a template that reads the current time
    /// fails.
    pub clock: Option<&'e dyn Clock>,
    /// A callback that is polled during rendering; when it returns true, rendering stops with an
    /// error. Use it for deadlines.
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

    /// Renders the template.
    pub fn render(&self, context: &Context<'_>, environment: &Environment<'_>) -> Result<Output, Error> {
        vm::render(&self.program, context, environment, &self.usual)
    }

    /// Reports what the template reads, compares and calls, without running it.
    pub fn analyze(&self, limits: &Limits) -> Result<Analysis, Error> {
        analysis::analyze(self.source(), limits)
    }

    /// Returns the template's literals and which of them can be adjacent in an output, without
    /// running it.
    pub fn writes(&self, limits: &Limits) -> Result<analysis::Writes, Error> {
        let source = self.source();
        analysis::writes(source, limits).map_err(|(fault, at)| Error::new(fault, place_of(source, at), Vec::new()))
    }

    /// Returns the source with line endings normalized to `\n` and without the final line break.
    pub fn source(&self) -> &str {
        &self.program.literals.source
    }

    /// Returns the line and column of a byte offset in [`Template::source`].
    pub fn spot(&self, offset: usize) -> Spot {
        let place = place_of(self.source(), offset);
        Spot { line: place.line, column: place.column, offset: u32::try_from(place.offset).unwrap_or(u32::MAX) }
    }

    /// Returns the literal with the given number.
    pub fn literal(&self, id: u32) -> Option<Literal<'_>> {
        self.program.literals.get(id)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("source", &self.source()).finish_non_exhaustive()
    }
}
