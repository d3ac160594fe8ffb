//! Calls, filters and tests.

use super::super::Compiler;
use super::super::program::Op;
use crate::builtins;
use crate::builtins::methods::MethodSite;
use crate::parser::ParseResult;
use crate::parser::ast::{Args, Expr, ExprKind, NameId};

impl Compiler {
    /// Compiles a call; `caller` is the routine of a call block's body.
    pub(in crate::compile) fn call(
        &mut self,
        callee: &Expr,
        args: &Args,
        caller: Option<u32>,
        is_printed: bool,
    ) -> ParseResult<()> {
        if !args.is_plain() {
            self.expr(callee)?;
            self.spread(args)?;
            if let Some(routine) = caller {
                let name = self.keyword_literal(crate::parser::known::CALLER);
                self.emit(Op::Literal(name));
                self.emit(Op::MakeMacro(routine));
                self.emit(Op::Dict(1));
                self.emit(Op::ExtendDict);
            }
            self.emit(Op::CallSpread);
            if is_printed {
                self.emit(if caller.is_some() { Op::EmitText } else { Op::Emit });
            }
            return Ok(());
        }
        if let (ExprKind::Attribute(node, name), None) = (&callee.kind, caller) {
            self.expr(node)?;
            let is_simple = |arg: &Expr| {
                matches!(
                    arg.kind,
                    ExprKind::Str(_) | ExprKind::Int(_) | ExprKind::None | ExprKind::Bool(_) | ExprKind::Name(_)
                )
            };
            if !args.expressions().all(is_simple) {
                self.emit(Op::CheckReceiver(name.0));
            }
            let shape = self.arguments(args, None)?;
            let site = match self.program.sites.iter().position(|(known, _)| *known == name.0) {
                Some(known) => known as u32,
                None => {
                    let site = MethodSite::new(self.program.name(name.0));
                    self.program.sites.push((name.0, site));
                    self.program.sites.len() as u32 - 1
                }
            };
            self.emit(Op::CallMethod(site, shape));
            if is_printed {
                self.emit(Op::Emit);
            }
            return Ok(());
        }
        self.expr(callee)?;
        let shape = self.arguments(args, caller)?;
        self.emit(match (is_printed, caller) {
            (false, _) => Op::Call(shape),
            (true, None) => Op::CallEmit(shape),
            (true, Some(_)) => Op::CallEmitText(shape),
        });
        Ok(())
    }

    /// Pushes the arguments and returns their shape.
    pub(super) fn arguments(&mut self, args: &Args, caller: Option<u32>) -> ParseResult<u32> {
        self.all(&args.positional)?;
        let mut names: Vec<NameId> = Vec::with_capacity(args.keywords.len());
        for (name, value) in &args.keywords {
            self.expr(value)?;
            names.push(*name);
        }
        if let Some(routine) = caller {
            self.emit(Op::MakeMacro(routine));
            names.push(crate::parser::known::CALLER);
        }
        Ok(self.shape(args.positional.len(), &names))
    }

    /// Pushes the arguments as a list and a dict.
    pub(super) fn spread(&mut self, args: &Args) -> ParseResult<()> {
        self.all(&args.positional)?;
        self.emit(Op::List(args.positional.len() as u32));
        if let Some(spread) = &args.spread {
            self.expr(spread)?;
            self.emit(Op::Extend);
        }
        for (name, value) in &args.keywords {
            let id = self.keyword_literal(*name);
            self.emit(Op::Literal(id));
            self.expr(value)?;
        }
        self.emit(Op::Dict(args.keywords.len() as u32));
        if let Some(spread) = &args.spread_keywords {
            self.expr(spread)?;
            self.emit(Op::ExtendDict);
        }
        Ok(())
    }

    /// Creates a literal for a keyword name.
    pub(super) fn keyword_literal(&mut self, name: NameId) -> u32 {
        self.literals.push(self.program.name(name.0), self.at, false)
    }

    /// Applies a filter to the top value.
    pub(in crate::compile) fn filter(&mut self, name: NameId, args: &Args) -> ParseResult<()> {
        let found = builtins::filter(self.program.name(name.0));
        if found.is_none() && !self.is_soft {
            return self.fail(format!("no filter named `{}`", self.program.name(name.0)));
        }
        let Some(run) = found else {
            args.expressions().try_for_each(|arg| self.expr(arg))?;
            self.emit(Op::NoFilter(name.0));
            return Ok(());
        };
        let known = self.program.filters.iter().position(|known| std::ptr::fn_addr_eq(*known, run));
        let filter = known.unwrap_or_else(|| {
            self.program.filters.push(run);
            self.program.filters.len() - 1
        }) as u32;
        let has_arguments = args.expressions().next().is_some() || !args.is_plain();
        let of_its_own = match self.program.name(name.0) {
            "length" | "count" => Some(Op::Length),
            "trim" => Some(Op::Trim),
            _ => None,
        };
        if let (Some(op), false) = (of_its_own, has_arguments) {
            self.emit(op);
            return Ok(());
        }
        self.apply(args, |shape| Op::Filter(filter, shape), Op::FilterSpread(filter))
    }

    pub(super) fn test(&mut self, name: NameId, args: &Args) -> ParseResult<()> {
        let spelling = self.program.name(name.0);
        let found = builtins::test(spelling);
        if found.is_none() && !self.is_soft {
            return self.fail(format!("no test named `{}`", self.program.name(name.0)));
        }
        let Some(run) = found else {
            args.expressions().try_for_each(|arg| self.expr(arg))?;
            self.emit(Op::NoTest(name.0));
            return Ok(());
        };
        self.program.tests.push(run);
        let test = self.program.tests.len() as u32 - 1;
        self.apply(args, |shape| Op::Test(test, shape), Op::TestSpread(test))
    }

    /// Pushes the arguments and applies a filter or test to them: `plain` takes their shape, and
    /// `spread` takes a list and a dict.
    fn apply(&mut self, args: &Args, plain: impl FnOnce(u32) -> Op, spread: Op) -> ParseResult<()> {
        if args.is_plain() {
            let shape = self.arguments(args, None)?;
            self.emit(plain(shape));
        } else {
            self.spread(args)?;
            self.emit(spread);
        }
        Ok(())
    }
}
