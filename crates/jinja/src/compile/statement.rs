//! Statements: they leave the stack as they found it.

use super::program::Op;
use super::scope::undeclared;
use super::{Compiler, OpenLoop};
use crate::parser::ast::{Expr, For, NameId, Signature, Stmt, StmtKind, Target};
use crate::parser::{Parsed, known};

impl Compiler {
    pub(super) fn body(&mut self, body: &[Stmt]) -> Parsed<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Parsed<()> {
        self.at = stmt.at;
        match &stmt.kind {
            StmtKind::Data(id) => {
                self.emit(Op::EmitLiteral(*id));
            }
            StmtKind::Print(value) => self.print(value)?,
            StmtKind::Do(value) => {
                self.expr(value)?;
                self.emit(Op::Pop);
            }
            StmtKind::If { branches, otherwise } => self.if_stmt(branches, otherwise)?,
            StmtKind::For(node) => self.for_stmt(node)?,
            StmtKind::Set(target, value) => self.set_stmt(target, value)?,
            StmtKind::SetBlock { target, filter, body } => {
                let frame = self.scopes.frame(Some(self.frame));
                self.scopes.visit_body(frame, body);
                self.inside(frame, |this| {
                    this.enter(frame)?;
                    this.capture(|this| this.body(body))?;
                    match filter {
                        Some(filter) => this.expr(filter),
                        None => Ok(()),
                    }
                })?;
                self.at = stmt.at;
                self.check_namespaces(target);
                self.assign(target)?;
            }
            StmtKind::FilterBlock { filter, body } => {
                let frame = self.scopes.frame(Some(self.frame));
                self.scopes.visit_body(frame, body);
                self.scopes.visit_expr(frame, filter);
                self.inside(frame, |this| {
                    this.enter(frame)?;
                    this.capture(|this| this.body(body))?;
                    this.expr(filter)
                })?;
                self.emit(Op::EmitText);
            }
            StmtKind::With { targets, body } => {
                let frame = self.scopes.frame(Some(self.frame));
                for (target, _) in targets {
                    self.scopes.visit_target(frame, target, true);
                }
                self.scopes.visit_body(frame, body);
                self.inside(frame, |this| this.enter(frame))?;
                for (target, value) in targets {
                    self.expr(value)?;
                    self.inside(frame, |this| this.assign(target))?;
                }
                self.inside(frame, |this| this.body(body))?;
            }
            StmtKind::Scope(body) => {
                let frame = self.scopes.frame(Some(self.frame));
                self.scopes.visit_body(frame, body);
                self.inside(frame, |this| {
                    this.enter(frame)?;
                    this.body(body)
                })?;
            }
            StmtKind::Macro { name, signature, body } => {
                let routine = self.macro_routine(signature, body, Some(name.0))?;
                self.emit(Op::MakeMacro(routine));
                self.store_name(*name)?;
            }
            StmtKind::CallBlock { signature, call, body } => {
                let routine = self.macro_routine(signature, body, None)?;
                self.at = stmt.at;
                if let crate::parser::ast::ExprKind::Call(callee, args) = &call.kind {
                    self.call(callee, args, Some(routine), true)?;
                }
            }
            StmtKind::Generation(body) => {
                let routine = self.macro_routine(&Signature::default(), body, None)?;
                self.emit(Op::CallGeneration(routine));
            }
            StmtKind::Block { name, is_scoped, body } => self.block(*name, *is_scoped, body)?,
            StmtKind::Break => {
                let Some(open) = self.loops.last() else { return self.fail("`break` outside of a loop") };
                for _ in open.captures..self.captures {
                    self.emit(Op::DropCapture);
                }
                let jump = self.emit(Op::Jump(0));
                if let Some(open) = self.loops.last_mut() {
                    open.breaks.push(jump);
                }
            }
            StmtKind::Continue => {
                let Some(open) = self.loops.last() else { return self.fail("`continue` outside of a loop") };
                let start = open.start;
                for _ in open.captures..self.captures {
                    self.emit(Op::DropCapture);
                }
                self.emit(Op::Jump(start));
            }
            StmtKind::Foreign { tag, .. } => {
                let message = format!("`{tag}` needs another template, and there is none");
                let id = self.message(message);
                self.emit(Op::Refuse(id));
            }
        }
        Ok(())
    }

    /// A message among the names.
    fn message(&mut self, message: String) -> u32 {
        self.program.names.push(message.into());
        self.program.names.len() as u32 - 1
    }

    fn capture(&mut self, part: impl FnOnce(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.emit(Op::BeginCapture);
        self.captures += 1;
        part(self)?;
        self.captures -= 1;
        self.emit(Op::EndCapture);
        Ok(())
    }

    fn if_stmt(&mut self, branches: &[(Expr, Vec<Stmt>)], otherwise: &[Stmt]) -> Parsed<()> {
        let was_soft = std::mem::replace(&mut self.is_soft, true);
        let mut to_end = Vec::new();
        for (index, (test, body)) in branches.iter().enumerate() {
            let mut to_next = Vec::new();
            self.jump_if_false(test, &mut to_next)?;
            self.body(body)?;
            let is_last = index + 1 == branches.len() && otherwise.is_empty();
            if !is_last {
                to_end.push(self.emit(Op::Jump(0)));
            }
            to_next.into_iter().for_each(|jump| self.land(jump));
        }
        self.body(otherwise)?;
        to_end.into_iter().for_each(|jump| self.land(jump));
        self.is_soft = was_soft;
        Ok(())
    }

    fn set_stmt(&mut self, target: &Target, value: &Expr) -> Parsed<()> {
        self.check_namespaces(target);
        self.expr(value)?;
        self.assign(target)
    }

    /// jinja2 looks whether what gets an attribute is a namespace before it computes the value.
    fn check_namespaces(&mut self, target: &Target) {
        match target {
            Target::Name(..) => {}
            Target::Attribute(name, _, at) => {
                self.at = *at;
                self.load_name(*name);
                self.emit(Op::CheckNamespace);
            }
            Target::Tuple(items) => items.iter().for_each(|item| self.check_namespaces(item)),
        }
    }

    /// Takes the upper value.
    fn assign(&mut self, target: &Target) -> Parsed<()> {
        match target {
            Target::Name(name, _) => self.store_name(*name),
            Target::Attribute(name, attribute, _) => {
                self.load_name(*name);
                self.emit(Op::SetAttribute(attribute.0));
                Ok(())
            }
            Target::Tuple(items) => {
                self.emit(Op::Unpack(items.len() as u32));
                items.iter().try_for_each(|item| self.assign(item))
            }
        }
    }

    fn for_stmt(&mut self, node: &For) -> Parsed<()> {
        if !node.is_recursive {
            self.expr(&node.iter)?;
            return self.loop_code(node, None);
        }
        let outer = self.frame;
        let routine =
            self.routine(outer, self.routine, Some(known::LOOP.0), |this| this.loop_code(node, Some(this.routine)))?;
        self.expr(&node.iter)?;
        self.emit(Op::CallLoop(routine));
        Ok(())
    }

    /// A loop over the upper value.
    fn loop_code(&mut self, node: &For, routine: Option<u32>) -> Parsed<()> {
        let at = self.at;
        let outer = self.frame;
        let is_extended = node.is_recursive
            || (self.reads_loop && !undeclared(&node.body, &[known::LOOP]).is_empty())
            || has_scoped_block(&node.body);
        let frame = self.scopes.frame(Some(outer));
        let loop_variable = is_extended.then(|| self.scopes.declare_parameter(frame, known::LOOP));
        self.scopes.visit_for_body(frame, node);
        let slot = match loop_variable {
            Some(ident) => Some(self.slot_of(ident)?),
            None => None,
        };
        let test_frame = self.scopes.frame(Some(outer));
        if node.test.is_some() {
            self.scopes.visit_for_test(test_frame, node);
        }
        if let (Some(test), true) = (&node.test, is_extended) {
            // The loop knows its length and neighbours only among the items that pass.
            self.emit(Op::BeginCollect);
            let site = self.loop_site(None, None);
            self.emit(Op::LoopBegin(site));
            let start = self.here();
            let next = self.emit(Op::LoopNext(0));
            let skips = self.test_item(node, test, test_frame)?;
            self.emit(Op::Collect);
            self.emit(Op::Jump(start));
            for skip in skips {
                self.land(skip);
            }
            self.emit(Op::Pop);
            self.emit(Op::Jump(start));
            self.land(next);
            self.emit(Op::LoopEnd);
            self.emit(Op::EndCollect);
        }
        self.at = at;
        let site = self.loop_site(slot, routine);
        self.emit(Op::LoopBegin(site));
        let start = self.here();
        let next = self.emit(Op::LoopNext(0));
        if let (Some(test), false) = (&node.test, is_extended) {
            let skips = self.test_item(node, test, test_frame)?;
            let to_body = self.emit(Op::Jump(0));
            for skip in skips {
                self.land(skip);
            }
            self.emit(Op::Pop);
            self.emit(Op::Jump(start));
            self.land(to_body);
        }
        self.loops.push(OpenLoop { start, captures: self.captures, breaks: Vec::new() });
        self.inside(frame, |this| {
            // The targets come first, then what the frame copies from outside.
            this.assign(&node.target)?;
            this.enter(frame)?;
            this.body(&node.body)
        })?;
        self.at = at;
        if !node.otherwise.is_empty() {
            self.emit(Op::LoopPassed);
        }
        self.emit(Op::Jump(start));
        self.land(next);
        if let Some(open) = self.loops.pop() {
            open.breaks.into_iter().for_each(|jump| self.land(jump));
        }
        if node.otherwise.is_empty() {
            self.emit(Op::LoopEnd);
            return Ok(());
        }
        let to_end = self.emit(Op::JumpIfPassed(0));
        let else_frame = self.scopes.frame(Some(outer));
        self.scopes.visit_body(else_frame, &node.otherwise);
        self.inside(else_frame, |this| {
            this.enter(else_frame)?;
            this.body(&node.otherwise)
        })?;
        self.land(to_end);
        Ok(())
    }

    /// Whether the upper value passes the loop's test: it stays on the stack; the jumps that are taken if it does not.
    fn test_item(&mut self, node: &For, test: &Expr, frame: super::FrameId) -> Parsed<Vec<usize>> {
        self.inside(frame, |this| {
            this.enter(frame)?;
            this.emit(Op::Duplicate);
            this.assign(&node.target)?;
            let mut skips = Vec::new();
            this.jump_if_false(test, &mut skips)?;
            Ok(skips)
        })
    }

    fn macro_routine(&mut self, signature: &Signature, body: &[Stmt], name: Option<u32>) -> Parsed<u32> {
        let frame = self.scopes.frame(Some(self.frame));
        self.scopes.visit_macro(frame, signature, body);
        let special = match self.reads_call_names {
            true => undeclared(body, &[known::CALLER, known::KWARGS, known::VARARGS]),
            false => Vec::new(),
        };
        let mut declared = Vec::new();
        for special in special {
            if !signature.params.contains(&special) {
                declared.push((special, self.scopes.declare_parameter(frame, special)));
            } else if special == known::CALLER {
                let place = signature.params.iter().position(|param| *param == special).unwrap_or(0);
                if place + signature.defaults.len() < signature.params.len() {
                    return self.fail("the special parameter `caller` must be left out or have a default");
                }
            }
        }
        let parent = self.routine;
        self.routine(frame, parent, name, |this| {
            let mut slots = Vec::with_capacity(signature.params.len());
            for param in &signature.params {
                match this.scopes.find(frame, *param) {
                    Some(ident) => slots.push(this.slot_of(ident)?),
                    None => return this.fail("a parameter without a place"),
                }
            }
            for (name, ident) in declared {
                let slot = Some(this.slot_of(ident)?);
                let routine = &mut this.program.routines[this.routine as usize];
                match name {
                    known::CALLER => routine.caller_slot = slot,
                    known::KWARGS => routine.kwargs_slot = slot,
                    _ => routine.varargs_slot = slot,
                }
            }
            let routine = &mut this.program.routines[this.routine as usize];
            routine.params = signature.params.iter().map(|param| param.0).collect();
            routine.param_slots = slots.clone();
            this.enter(frame)?;
            let without_default = signature.params.len() - signature.defaults.len();
            for (index, (param, slot)) in signature.params.iter().zip(slots).enumerate() {
                let given = this.emit(Op::IfGiven(slot, 0));
                match index.checked_sub(without_default).and_then(|at| signature.defaults.get(at)) {
                    Some(default) => {
                        this.expr(default)?;
                        this.emit(Op::Store(slot));
                    }
                    None => {
                        this.emit(Op::NotGiven(slot, param.0));
                    }
                }
                this.land(given);
            }
            this.body(body)
        })
    }

    fn block(&mut self, name: NameId, is_scoped: bool, body: &[Stmt]) -> Parsed<()> {
        if self.blocks.contains(&name) {
            return self.fail(format!("block `{}` is there twice", self.program.name(name.0)));
        }
        self.blocks.push(name);
        if is_scoped {
            let frame = self.scopes.frame(Some(self.frame));
            self.scopes.visit_body(frame, body);
            return self.inside(frame, |this| {
                this.enter(frame)?;
                let loops = std::mem::take(&mut this.loops);
                this.body(body)?;
                this.loops = loops;
                Ok(())
            });
        }
        // jinja2: a block sees the variables of the template's top level, and no others.
        let frame = self.scopes.frame(None);
        self.scopes.visit_body(frame, body);
        let root = self.root;
        let routine = self.routine(frame, 0, Some(name.0), |this| {
            for ident in this.scopes.variables_of(frame) {
                let name = this.scopes.name_of(ident);
                let outer = this.scopes.find(root, name).map(|outer| this.scopes.storage(outer));
                if let (super::Load::Resolve, Some(super::Storage::Slot { slot: from, .. })) =
                    (this.scopes.load_of(ident), outer)
                {
                    let slot = this.slot_of(ident)?;
                    let global = this.global(name);
                    this.emit(Op::ResolveRoot { slot: slot as u16, from: from as u16, global });
                }
            }
            this.enter_rest(frame)?;
            this.body(body)
        })?;
        self.emit(Op::CallBlock(routine));
        Ok(())
    }

    /// Enters a block's frame, but for the variables that have their places already.
    fn enter_rest(&mut self, frame: super::FrameId) -> Parsed<()> {
        for ident in self.scopes.variables_of(frame) {
            if self.scopes.storage(ident) != super::Storage::Unknown {
                continue;
            }
            let name = self.scopes.name_of(ident);
            if self.scopes.is_global(ident) {
                let global = self.global(name);
                self.scopes.set_storage(ident, super::Storage::Global(global));
                continue;
            }
            let slot = self.slot_of(ident)?;
            if self.scopes.load_of(ident) == super::Load::Resolve {
                let global = self.global(name);
                self.emit(Op::Global(global));
                self.emit(Op::Store(slot));
            }
        }
        Ok(())
    }
}

fn has_scoped_block(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Block { is_scoped, .. } => *is_scoped,
        StmtKind::If { branches, otherwise } => {
            branches.iter().any(|(_, body)| has_scoped_block(body)) || has_scoped_block(otherwise)
        }
        StmtKind::For(node) => has_scoped_block(&node.body),
        _ => false,
    })
}
