//! Compiles a syntax tree into a program: names become slots, and expressions become steps on a
//! stack. Start at [`compile`].

mod expression;
pub(crate) mod program;
mod scope;
mod statement;

use std::sync::{Arc, OnceLock};

use program::{CallShape, LoopSite, Op, Program, Routine};
use scope::{FrameId, Ident, Load, Scopes, Storage};

use crate::builtins::functions::Function;
use crate::error::{Error, Fault, place_of};
use crate::output::Literals;
use crate::parser::ParseResult;
use crate::parser::ast::{NameId, Tree};

/// Compiles a tree.
pub(crate) fn compile(source: String, tree: Tree) -> Result<Program, Error> {
    let Tree { body, names, mut literals, reads_loop, reads_call_names } = tree;
    let root = Routine::default();
    let program = Program {
        ops: Vec::with_capacity(source.len() / 8 + 16),
        places: Vec::with_capacity(source.len() / 8 + 16),
        names,
        literals: Arc::default(),
        bigs: Vec::new(),
        globals: Vec::new(),
        shapes: Vec::new(),
        keyword_names: Vec::new(),
        filters: Vec::new(),
        tests: Vec::new(),
        sites: Vec::new(),
        loops: Vec::new(),
        routines: vec![root],
        live: OnceLock::new(),
    };
    let mut scopes = Scopes::default();
    let frame = scopes.frame(None);
    scopes.visit_body(frame, &body);
    let makes_markup = program.names.iter().any(|name| matches!(&**name, "safe" | "e" | "escape" | "forceescape"));
    literals.source = source;
    let mut compiler = Compiler {
        program,
        literals,
        scopes,
        frame,
        root: frame,
        routine: 0,
        loops: Vec::new(),
        captures: 0,
        is_soft: false,
        makes_markup,
        reads_loop,
        reads_call_names,
        blocks: Vec::new(),
        block_sites: Vec::new(),
        at: 0,
    };
    let done = compiler.enter(frame).and_then(|()| compiler.body(&body));
    compiler.emit(Op::Return);
    let Compiler { mut program, literals, .. } = compiler;
    shorten_jumps(&mut program.ops);
    if let Err((fault, at)) = done {
        return Err(Error::new(fault, place_of(&literals.source, at), Vec::new()));
    }
    program.literals = Arc::new(literals);
    Ok(program)
}

/// Redirects jumps that lead to jumps.
fn shorten_jumps(ops: &mut [Op]) {
    for at in (0..ops.len()).rev() {
        let Some(target) = target_of(&mut ops[at]).copied() else { continue };
        // Later jumps are already shortened.
        if let Some(Op::Jump(further)) = ops.get(target as usize).copied()
            && let Some(target) = target_of(&mut ops[at])
        {
            *target = further;
        }
    }
}

/// Returns the jump target of a step, if it has one.
fn target_of(op: &mut Op) -> Option<&mut u32> {
    match op {
        Op::Jump(to)
        | Op::JumpUnless(to)
        | Op::JumpWhen(to)
        | Op::And(to)
        | Op::Or(to)
        | Op::LoopNext(to)
        | Op::JumpIfPassed(to)
        | Op::JumpIfTested(to)
        | Op::CompareChain(_, to)
        | Op::IfGiven(_, to) => Some(to),
        _ => None,
    }
}

struct Compiler {
    program: Program,
    literals: Literals,
    scopes: Scopes,
    frame: FrameId,
    root: FrameId,
    routine: u32,
    /// The enclosing loops in this routine.
    loops: Vec<OpenLoop>,
    /// The number of open captures in this routine.
    captures: usize,
    /// Whether this is inside an `if` or a conditional expression, where jinja2 looks up filters
    /// only when they are reached.
    is_soft: bool,
    /// Whether a filter in the template produces safe HTML, which changes the behavior of `+`.
    makes_markup: bool,
    reads_loop: bool,
    reads_call_names: bool,
    blocks: Vec<NameId>,
    /// Inside a block, the frames whose variables it sees, outermost first.
    block_sites: Vec<FrameId>,
    at: u32,
}

struct OpenLoop {
    start: u32,
    captures: usize,
    /// Jumps to the end of the loop that still need their target.
    breaks: Vec<usize>,
}

impl Compiler {
    fn emit(&mut self, op: Op) -> usize {
        self.program.ops.push(op);
        self.program.places.push(self.at);
        self.program.ops.len() - 1
    }

    fn here(&self) -> u32 {
        self.program.ops.len() as u32
    }

    /// Sets the target of an earlier jump to this position.
    fn land(&mut self, jump: usize) {
        let target = self.here();
        if let Some(to) = target_of(&mut self.program.ops[jump]) {
            *to = target;
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        Err((Fault::syntax(message), self.at as usize))
    }

    fn new_slot(&mut self) -> ParseResult<u32> {
        let routine = &mut self.program.routines[self.routine as usize];
        routine.slots += 1;
        if routine.slots > u32::from(u16::MAX) {
            return Err((Fault::unsupported("more than 65535 variables"), self.at as usize));
        }
        Ok(routine.slots - 1)
    }

    fn global(&mut self, name: NameId) -> u32 {
        if let Some(known) = self.program.globals.iter().position(|(known, _)| *known == name.0) {
            return known as u32;
        }
        let function = Function::find(self.program.name(name.0));
        self.program.globals.push((name.0, function));
        self.program.globals.len() as u32 - 1
    }

    /// Assigns slots to the variables of a frame and initializes them.
    fn enter(&mut self, frame: FrameId) -> ParseResult<()> {
        for ident in self.scopes.variables_of(frame) {
            let name = self.scopes.name_of(ident);
            match self.scopes.load_of(ident) {
                Load::Parameter => {
                    self.slot_of(ident)?;
                }
                Load::Resolve if self.is_around_block(name) => {
                    let slot = self.slot_of(ident)?;
                    self.resolve_around_block(slot, name);
                }
                Load::Resolve if self.scopes.is_global(ident) => {
                    let global = self.global(name);
                    self.scopes.set_storage(ident, Storage::Global(global));
                }
                Load::Resolve => {
                    let slot = self.slot_of(ident)?;
                    let global = self.global(name);
                    self.emit(Op::Global(global));
                    self.emit(Op::Store(slot));
                }
                Load::Alias(outer) => {
                    let slot = self.slot_of(ident)?;
                    self.alias(slot, outer);
                }
                Load::Undefined => {
                    let slot = self.slot_of(ident)?;
                    self.emit(Op::Clear(slot));
                }
            }
        }
        Ok(())
    }

    /// Reports whether a scope that the block can see sets a name.
    fn is_around_block(&self, name: NameId) -> bool {
        self.block_sites.iter().any(|site| self.site_slot(*site, name).is_some())
    }

    /// Returns the routine and slot of a variable that is set outside a block.
    fn site_slot(&self, site: FrameId, name: NameId) -> Option<(u32, u32)> {
        if site != self.root && !self.scopes.is_set_around(site, name) {
            return None;
        }
        match self.scopes.storage(self.scopes.find(site, name)?) {
            Storage::Slot { routine, slot } => Some((routine, slot)),
            _ => None,
        }
    }

    /// jinja2: a block sees the names set at the top level of the template, and a scoped block
    /// those set around it, if they are set by then. Otherwise it sees the context.
    fn resolve_around_block(&mut self, slot: u32, name: NameId) {
        let global = self.global(name);
        self.emit(Op::Global(global));
        self.emit(Op::Store(slot));
        for index in 0..self.block_sites.len() {
            if let Some((routine, from)) = self.site_slot(self.block_sites[index], name) {
                let up = self.routines_up(routine);
                self.emit(Op::AliasIfSet { slot: slot as u16, up, from });
            }
        }
    }

    /// Returns the slot of a variable of this routine.
    fn slot_of(&mut self, ident: Ident) -> ParseResult<u32> {
        if let Storage::Slot { slot, .. } = self.scopes.storage(ident) {
            return Ok(slot);
        }
        let slot = self.new_slot()?;
        self.scopes.set_storage(ident, Storage::Slot { routine: self.routine, slot });
        Ok(slot)
    }

    fn alias(&mut self, slot: u32, outer: Ident) {
        match self.scopes.storage(outer) {
            Storage::Slot { routine, slot: from } => {
                let up = self.routines_up(routine);
                self.emit(Op::Alias { slot: slot as u16, up, from });
            }
            Storage::Global(global) => {
                self.emit(Op::Global(global));
                self.emit(Op::Store(slot));
            }
            Storage::Unknown => {
                self.emit(Op::Clear(slot));
            }
        }
    }

    /// Returns how many routines up an enclosing routine is.
    fn routines_up(&self, routine: u32) -> u16 {
        let mut up = 0;
        let mut next = self.routine;
        while next != routine {
            let Some(parent) = self.program.routines[next as usize].parent else { return up };
            next = parent;
            up += 1;
        }
        up
    }

    fn load_name(&mut self, name: NameId) {
        let storage = self.scopes.find(self.frame, name).map(|ident| self.scopes.storage(ident));
        match storage {
            Some(Storage::Slot { routine, slot }) => match self.routines_up(routine) {
                0 => self.emit(Op::Slot(slot, name.0)),
                up => self.emit(Op::Outer(up, slot as u16, name.0)),
            },
            // jinja2: unless something sets it, `self` is the template itself, whatever the context
            // contains.
            _ if self.program.name(name.0) == "self" => {
                let message = "`self`, which accesses the blocks of a template by name, is not supported";
                let message = self.message(message.to_owned());
                self.emit(Op::Refuse(message))
            }
            Some(Storage::Global(global)) => self.emit(Op::Global(global)),
            Some(Storage::Unknown) | None => {
                let global = self.global(name);
                self.emit(Op::Global(global))
            }
        };
    }

    /// Returns the slot of a name, if it belongs to this routine.
    fn own_slot(&self, name: NameId) -> Option<u16> {
        match self.scopes.storage(self.scopes.find(self.frame, name)?) {
            Storage::Slot { routine, slot } if routine == self.routine => Some(slot as u16),
            _ => None,
        }
    }

    fn store_name(&mut self, name: NameId) -> ParseResult<()> {
        let slot = self.target_slot(name)?;
        self.emit(Op::Store(slot));
        Ok(())
    }

    /// Returns the slot of a name that is assigned to.
    fn target_slot(&mut self, name: NameId) -> ParseResult<u32> {
        match self.scopes.find(self.frame, name) {
            Some(ident) => self.slot_of(ident),
            None => self.fail("assignment to an undeclared name"),
        }
    }

    /// Compiles a part with a frame inside the current one.
    fn inside<T>(&mut self, frame: FrameId, part: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        let (outer, was_soft) = (self.frame, self.is_soft);
        self.frame = frame;
        self.is_soft = false;
        let result = part(self);
        self.frame = outer;
        self.is_soft = was_soft;
        result
    }

    /// Compiles a routine out of line; the program jumps over it.
    fn routine(
        &mut self,
        frame: FrameId,
        parent: u32,
        name: Option<u32>,
        part: impl FnOnce(&mut Self) -> ParseResult<()>,
    ) -> ParseResult<u32> {
        let jump = self.emit(Op::Jump(0));
        let id = self.program.routines.len() as u32;
        let entry = self.here();
        self.program.routines.push(Routine { entry, parent: Some(parent), name, ..Routine::default() });
        let outer = std::mem::replace(&mut self.routine, id);
        let loops = std::mem::take(&mut self.loops);
        let captures = std::mem::take(&mut self.captures);
        self.inside(frame, part)?;
        self.emit(Op::Return);
        self.routine = outer;
        self.loops = loops;
        self.captures = captures;
        self.land(jump);
        Ok(id)
    }

    fn shape(&mut self, positional: usize, names: &[NameId]) -> u32 {
        let start = self.program.keyword_names.len() as u32;
        self.program.keyword_names.extend(names.iter().map(|name| name.0));
        let shape = CallShape {
            positional: positional as u32,
            names: if names.is_empty() { 0 } else { start },
            keywords: names.len() as u32,
        };
        if names.is_empty()
            && let Some(known) = self.program.shapes.iter().position(|known| *known == shape)
        {
            return known as u32;
        }
        self.program.shapes.push(shape);
        self.program.shapes.len() as u32 - 1
    }

    fn loop_site(&mut self, slot: Option<u32>, routine: Option<u32>, test: Option<u32>) -> u32 {
        self.program.loops.push(LoopSite { slot, routine, test, at: self.at });
        self.program.loops.len() as u32 - 1
    }
}
