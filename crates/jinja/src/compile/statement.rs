//! Compiles statements, which leave the stack unchanged.

use super::program::Op;
use super::scope::undeclared;
use super::{Compiler, OpenLoop};
use crate::parser::ast::{Expr, ExprKind, For, NameId, Signature, Stmt, StmtKind, Target};
use crate::parser::{ParseResult, known};

impl Compiler {
    pub(super) fn body(&mut self, body: &[Stmt]) -> ParseResult<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    // Long: one arm for each kind of statement; the longer ones have their own functions.
    fn stmt(&mut self, stmt: &Stmt) -> ParseResult<()> {
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
                let message = format!("`{tag}` needs another template, but none is available");
                let id = self.message(message);
                self.emit(Op::Refuse(id));
            }
        }
        Ok(())
    }

    /// Adds an error message to the table of names.
    pub(super) fn message(&mut self, message: String) -> u32 {
        self.program.names.push(message.into());
        self.program.names.len() as u32 - 1
    }

    fn capture(&mut self, part: impl FnOnce(&mut Self) -> ParseResult<()>) -> ParseResult<()> {
        self.emit(Op::BeginCapture);
        self.captures += 1;
        part(self)?;
        self.captures -= 1;
        self.emit(Op::EndCapture);
        Ok(())
    }

    fn if_stmt(&mut self, branches: &[(Expr, Vec<Stmt>)], otherwise: &[Stmt]) -> ParseResult<()> {
        let was_soft = std::mem::replace(&mut self.is_soft, true);
        let mut to_end = Vec::new();
        for (index, (test, body)) in branches.iter().enumerate() {
            let mut to_next = Vec::new();
            self.jump_if(test, false, &mut to_next)?;
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

    fn set_stmt(&mut self, target: &Target, value: &Expr) -> ParseResult<()> {
        self.check_namespaces(target);
        if let Target::Name(name, _) = target {
            let field = self.field(value);
            match (field, &value.kind) {
                (Some(field), _) => {
                    let slot = self.target_slot(*name)?;
                    self.at = value.at;
                    self.emit(Op::StoreField(field, slot));
                    return Ok(());
                }
                (None, ExprKind::Str(id)) => {
                    let slot = self.target_slot(*name)?;
                    self.emit(Op::StoreLiteral(*id, slot));
                    return Ok(());
                }
                _ => {}
            }
        }
        self.expr(value)?;
        self.assign(target)
    }

    /// jinja2 checks that the target of an attribute assignment is a namespace before it evaluates
    /// the value.
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

    /// Assigns the top value.
    fn assign(&mut self, target: &Target) -> ParseResult<()> {
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

    fn for_stmt(&mut self, node: &For) -> ParseResult<()> {
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

    /// Compiles a loop over the top value.
    fn loop_code(&mut self, node: &For, routine: Option<u32>) -> ParseResult<()> {
        let at = self.at;
        let outer = self.frame;
        let is_extended = node.is_recursive
            || (self.reads_loop && !undeclared(&node.body, &[known::LOOP]).is_empty())
            || has_scoped_block(&node.body)
            || has_scoped_block(&node.otherwise);
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
        let look_ahead = match &node.test {
            Some(test) if is_extended => Some(self.test_routine(node, test)?),
            _ => None,
        };
        self.at = at;
        let site = self.loop_site(slot, routine, look_ahead);
        self.emit(Op::LoopBegin(site));
        let start = self.here();
        let next = self.emit(Op::LoopNext(0));
        if let Some(test) = &node.test {
            let tested = is_extended.then(|| self.emit(Op::JumpIfTested(0)));
            let skips = self.test_item(node, test, test_frame, is_extended)?;
            if is_extended {
                self.emit(Op::LoopPass);
            }
            let to_body = self.emit(Op::Jump(0));
            for skip in skips {
                self.land(skip);
            }
            self.emit(Op::LoopSkip(start));
            self.land(to_body);
            tested.into_iter().for_each(|jump| self.land(jump));
        }
        self.loops.push(OpenLoop { start, captures: self.captures, breaks: Vec::new() });
        self.inside(frame, |this| {
            // The targets come first, then the copies of outer variables.
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

    /// Compiles the test of a loop as a routine, for looking ahead. It takes the top value and
    /// leaves the result of the test and the item.
    fn test_routine(&mut self, node: &For, test: &Expr) -> ParseResult<u32> {
        let frame = self.scopes.frame(Some(self.frame));
        self.scopes.visit_for_test(frame, node);
        self.routine(frame, self.routine, Some(known::LOOP.0), |this| {
            this.enter(frame)?;
            this.assign(&node.target)?;
            this.expr(test)?;
            this.load_target(&node.target);
            Ok(())
        })
    }

    /// Loads the values assigned to a target. jinja2 recreates the items of a loop with a test, so
    /// several targets give a tuple.
    fn load_target(&mut self, target: &Target) {
        match target {
            Target::Name(name, _) | Target::Attribute(name, ..) => self.load_name(*name),
            Target::Tuple(items) => {
                items.iter().for_each(|item| self.load_target(item));
                self.emit(Op::Tuple(items.len() as u32));
            }
        }
    }

    /// Tests the top value, which stays on the stack, and returns the jumps taken if it fails.
    fn test_item(
        &mut self,
        node: &For,
        test: &Expr,
        frame: super::FrameId,
        is_extended: bool,
    ) -> ParseResult<Vec<usize>> {
        self.inside(frame, |this| {
            this.enter(frame)?;
            this.emit(Op::Duplicate);
            this.assign(&node.target)?;
            let mut skips = Vec::new();
            this.jump_if(test, false, &mut skips)?;
            if let (true, Target::Tuple(_)) = (is_extended, &node.target) {
                this.emit(Op::Pop);
                this.load_target(&node.target);
            }
            Ok(skips)
        })
    }

    fn macro_routine(&mut self, signature: &Signature, body: &[Stmt], name: Option<u32>) -> ParseResult<u32> {
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
                    return self.fail("the special parameter `caller` must be omitted or have a default");
                }
            }
        }
        let parent = self.routine;
        self.routine(frame, parent, name, |this| {
            let mut slots = Vec::with_capacity(signature.params.len());
            for param in &signature.params {
                match this.scopes.find(frame, *param) {
                    Some(ident) => slots.push(this.slot_of(ident)?),
                    None => return this.fail("a parameter without a slot"),
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

    fn block(&mut self, name: NameId, is_scoped: bool, body: &[Stmt]) -> ParseResult<()> {
        if self.blocks.contains(&name) {
            return self.fail(format!("block `{}` is defined twice", self.program.name(name.0)));
        }
        self.blocks.push(name);
        let sites = self.block_sites.clone();
        if sites.is_empty() {
            self.block_sites.push(self.root);
        }
        if is_scoped {
            self.block_sites.push(self.frame);
        }
        let frame = self.scopes.frame(None);
        self.scopes.visit_body(frame, body);
        let routine = self.routine(frame, self.routine, Some(name.0), |this| {
            this.enter(frame)?;
            this.body(body)
        })?;
        self.block_sites = sites;
        self.emit(Op::CallBlock(routine));
        Ok(())
    }
}

fn has_scoped_block(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Block { is_scoped, body, .. } => *is_scoped || has_scoped_block(body),
        StmtKind::If { branches, otherwise } => {
            branches.iter().any(|(_, body)| has_scoped_block(body)) || has_scoped_block(otherwise)
        }
        StmtKind::For(node) => has_scoped_block(&node.body) || has_scoped_block(&node.otherwise),
        StmtKind::With { body, .. }
        | StmtKind::Scope(body)
        | StmtKind::Generation(body)
        | StmtKind::SetBlock { body, .. }
        | StmtKind::FilterBlock { body, .. }
        | StmtKind::CallBlock { body, .. }
        | StmtKind::Macro { body, .. } => has_scoped_block(body),
        StmtKind::Data(_)
        | StmtKind::Print(_)
        | StmtKind::Do(_)
        | StmtKind::Set(..)
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Foreign { .. } => false,
    })
}
