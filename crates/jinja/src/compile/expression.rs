//! Compiles expressions, each of which leaves one value on the stack.

mod call;

use super::Compiler;
use super::program::{Field, Key, Op, TypeTest};
use super::scope::Storage;
use crate::parser::ParseResult;
use crate::parser::ast::{Args, BinaryOp, CompareOp, Expr, ExprKind, NameId};

impl Compiler {
    /// Reports whether jinja2 evaluates an expression at compile time.
    fn is_constant(&self, expr: &Expr) -> bool {
        let mut is_constant = match &expr.kind {
            ExprKind::Name(_) | ExprKind::Call(..) | ExprKind::Filter(None, ..) => false,
            ExprKind::Filter(Some(_), name, _) => !OF_CONTEXT.contains(&self.program.name(name.0)),
            _ => true,
        };
        expr.kind.for_each_child(&mut |child| is_constant = is_constant && self.is_constant(child));
        is_constant
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> ParseResult<()> {
        let outer = std::mem::replace(&mut self.at, expr.at);
        let result = self.expr_at(expr);
        self.at = outer;
        result
    }

    // Long: one arm for each kind of expression, most of them a few lines.
    fn expr_at(&mut self, expr: &Expr) -> ParseResult<()> {
        match &expr.kind {
            ExprKind::None => self.emit(Op::None),
            ExprKind::Bool(true) => self.emit(Op::True),
            ExprKind::Bool(false) => self.emit(Op::False),
            ExprKind::Int(value) => self.emit(Op::Int(*value)),
            ExprKind::Float(value) => self.emit(Op::Float(*value)),
            ExprKind::BigInt(value) => {
                self.program.bigs.push((**value).clone());
                self.emit(Op::Big(self.program.bigs.len() as u32 - 1))
            }
            ExprKind::Str(id) => self.emit(Op::Literal(*id)),
            ExprKind::Name(name) => {
                self.load_name(*name);
                return Ok(());
            }
            ExprKind::List(items) => {
                self.all(items)?;
                self.emit(Op::List(items.len() as u32))
            }
            ExprKind::Tuple(items) => {
                self.all(items)?;
                self.emit(Op::Tuple(items.len() as u32))
            }
            ExprKind::Dict(items) => {
                for (key, value) in items {
                    self.expr(key)?;
                    self.expr(value)?;
                }
                self.emit(Op::Dict(items.len() as u32))
            }
            ExprKind::Attribute(node, name) => match self.field(expr) {
                Some(field) => self.emit(Op::Field(field)),
                None => {
                    self.expr(node)?;
                    self.emit(Op::Attribute(name.0))
                }
            },
            ExprKind::Item(node, index) => match (&index.kind, self.field(expr)) {
                (_, Some(field)) => self.emit(Op::Field(field)),
                (ExprKind::Str(id), None) => {
                    self.expr(node)?;
                    self.emit(Op::ItemLiteral(*id))
                }
                _ => {
                    self.expr(node)?;
                    self.expr(index)?;
                    self.emit(Op::Item)
                }
            },
            ExprKind::Slice(node, bounds) => {
                self.expr(node)?;
                for bound in bounds.iter() {
                    match bound {
                        Some(bound) => self.expr(bound)?,
                        None => {
                            self.emit(Op::None);
                        }
                    }
                }
                self.emit(Op::Slice)
            }
            ExprKind::Call(callee, args) => return self.call(callee, args, None, false),
            ExprKind::Filter(subject, name, args) => {
                if let Some(subject) = subject {
                    self.expr(subject)?;
                }
                return self.filter(*name, args);
            }
            ExprKind::Test(node, name, args) => {
                if let Some((kind, is_opposite)) = self.quick_test(*name, args) {
                    self.test_kind(node, kind)?;
                    self.emit(Op::PushFlag(!is_opposite))
                } else {
                    self.expr(node)?;
                    return self.test(*name, args);
                }
            }
            ExprKind::Not(node) => {
                self.expr(node)?;
                self.emit(Op::Not)
            }
            ExprKind::Negative(node) => match node.kind {
                ExprKind::Int(value) if value != i64::MIN => self.emit(Op::Int(-value)),
                ExprKind::Float(value) => self.emit(Op::Float(-value)),
                _ => {
                    self.expr(node)?;
                    self.emit(Op::Negative)
                }
            },
            ExprKind::Positive(node) => {
                self.expr(node)?;
                self.emit(Op::Positive)
            }
            ExprKind::Sum(items) => {
                self.checked_chain(items)?;
                self.emit(Op::JoinChain(items.len() as u32))
            }
            // jinja2 writes negative constants into Python code without parentheses, so `**` binds
            // more tightly than the sign.
            ExprKind::Binary(BinaryOp::Pow, left, right) if negated(left).is_some() && !self.is_constant(right) => {
                self.expr(negated(left).unwrap_or(left))?;
                self.expr(right)?;
                self.emit(Op::Binary(BinaryOp::Pow));
                self.emit(Op::Negative)
            }
            ExprKind::Binary(op, left, right) => {
                self.expr(left)?;
                self.expr(right)?;
                self.emit(Op::Binary(*op))
            }
            ExprKind::Concat(items) => {
                self.all(items)?;
                self.emit(Op::Concat(items.len() as u32))
            }
            ExprKind::Compare(first, rest) => return self.comparison(first, rest),
            ExprKind::And(items) => return self.short_circuit(items, Op::And(0)),
            ExprKind::Or(items) => return self.short_circuit(items, Op::Or(0)),
            ExprKind::Conditional(parts) => return self.conditional(parts, Self::expr, Some(Op::NoElse)),
        };
        Ok(())
    }

    /// Compiles a conditional whose branches are compiled by `branch`. Without an `else`, emits
    /// `missing`.
    fn conditional(
        &mut self,
        (test, then, otherwise): &(Expr, Expr, Option<Expr>),
        branch: fn(&mut Self, &Expr) -> ParseResult<()>,
        missing: Option<Op>,
    ) -> ParseResult<()> {
        let was_soft = std::mem::replace(&mut self.is_soft, true);
        let mut to_else = Vec::new();
        self.jump_if(test, false, &mut to_else)?;
        branch(self, then)?;
        let to_end = self.emit(Op::Jump(0));
        to_else.into_iter().for_each(|jump| self.land(jump));
        match (otherwise, missing) {
            (Some(otherwise), _) => branch(self, otherwise)?,
            (None, Some(missing)) => {
                self.emit(missing);
            }
            (None, None) => {}
        }
        self.land(to_end);
        self.is_soft = was_soft;
        Ok(())
    }

    fn all(&mut self, items: &[Expr]) -> ParseResult<()> {
        items.iter().try_for_each(|item| self.expr(item))
    }

    /// Returns the field for an attribute or literal item of a variable of this routine.
    pub(super) fn field(&self, expr: &Expr) -> Option<Field> {
        let (node, key) = match &expr.kind {
            ExprKind::Attribute(node, name) => (node, Key::name(name.0, self.program.name(name.0))),
            ExprKind::Item(node, index) => match index.kind {
                ExprKind::Str(id) => (node, Key::literal(id)),
                _ => return None,
            },
            _ => return None,
        };
        match node.kind {
            ExprKind::Name(name) => {
                Some(Field { slot: self.own_slot(name)?, variable: u16::try_from(name.0).ok()?, key })
            }
            _ => None,
        }
    }

    /// Returns the global that an expression names.
    fn global_name(&mut self, expr: &Expr) -> Option<u32> {
        let ExprKind::Name(name) = expr.kind else { return None };
        if self.program.name(name.0) == "self" {
            return None;
        }
        match self.scopes.find(self.frame, name).map(|ident| self.scopes.storage(ident)) {
            Some(Storage::Global(global)) => Some(global),
            Some(Storage::Slot { .. }) => None,
            Some(Storage::Unknown) | None => Some(self.global(name)),
        }
    }

    fn slot_name(&self, expr: &Expr) -> Option<u32> {
        self.slot_of_name(expr).map(|(slot, _)| slot)
    }

    /// Returns the slot and the name of a variable of this routine.
    fn slot_of_name(&self, expr: &Expr) -> Option<(u32, u32)> {
        match expr.kind {
            ExprKind::Name(name) => Some((u32::from(self.own_slot(name)?), name.0)),
            _ => None,
        }
    }

    /// Compiles a condition and reports whether its result is inverted.
    fn condition(&mut self, expr: &Expr) -> ParseResult<bool> {
        let outer = std::mem::replace(&mut self.at, expr.at);
        let mut is_inverted = false;
        match &expr.kind {
            ExprKind::Compare(first, rest) if rest.len() == 1 => {
                let (op, right) = &rest[0];
                match (op, &right.kind) {
                    (CompareOp::Eq | CompareOp::Ne, ExprKind::Str(id)) => {
                        is_inverted = *op == CompareOp::Ne;
                        match self.field(first) {
                            Some(field) => self.emit(Op::EqualsField(field, *id)),
                            None => {
                                self.expr(first)?;
                                self.emit(Op::EqualsStack(*id))
                            }
                        };
                    }
                    _ => match (op, &first.kind, self.slot_name(right)) {
                        (CompareOp::In | CompareOp::NotIn, ExprKind::Str(id), Some(slot)) => {
                            is_inverted = *op == CompareOp::NotIn;
                            self.emit(Op::LiteralInSlot(*id, slot));
                        }
                        _ => {
                            self.expr(first)?;
                            self.expr(right)?;
                            self.emit(Op::CompareStack(*op));
                        }
                    },
                }
            }
            ExprKind::Test(node, name, args) => match self.quick_test(*name, args) {
                Some((kind, opposite)) => {
                    is_inverted = opposite;
                    self.test_kind(node, kind)?;
                }
                None => {
                    self.expr(expr)?;
                    self.emit(Op::TruthStack);
                }
            },
            _ => {
                if let Some(field) = self.field(expr) {
                    self.emit(Op::TruthField(field));
                } else if let Some(slot) = self.slot_name(expr) {
                    self.emit(Op::TruthSlot(slot));
                } else if let Some(global) = self.global_name(expr) {
                    self.emit(Op::TruthGlobal(global));
                } else {
                    self.expr(expr)?;
                    self.emit(Op::TruthStack);
                }
            }
        }
        self.at = outer;
        Ok(is_inverted)
    }

    /// Compiles a condition on the kind of a value.
    fn test_kind(&mut self, node: &Expr, kind: TypeTest) -> ParseResult<()> {
        if let Some(field) = self.field(node) {
            self.emit(Op::IsField(field, kind));
        } else if let Some(slot) = self.slot_name(node) {
            self.emit(Op::IsSlot(slot, kind));
        } else if let Some(global) = self.global_name(node) {
            self.emit(Op::IsGlobal(global, kind));
        } else {
            self.expr(node)?;
            self.emit(Op::IsStack(kind));
        }
        Ok(())
    }

    /// Returns the kind that a simple type test checks for, and whether the test is inverted.
    fn quick_test(&self, name: NameId, args: &Args) -> Option<(TypeTest, bool)> {
        if !args.is_plain() || args.expressions().next().is_some() {
            return None;
        }
        Some(match self.program.name(name.0) {
            "defined" => (TypeTest::Defined, false),
            "undefined" => (TypeTest::Defined, true),
            "none" => (TypeTest::None, false),
            "string" => (TypeTest::String, false),
            "mapping" => (TypeTest::Mapping, false),
            "true" => (TypeTest::True, false),
            "false" => (TypeTest::False, false),
            "iterable" => (TypeTest::Iterable, false),
            "sequence" => (TypeTest::Sequence, false),
            _ => return None,
        })
    }

    fn short_circuit(&mut self, items: &[Expr], op: Op) -> ParseResult<()> {
        let mut jumps = Vec::new();
        for (index, item) in items.iter().enumerate() {
            self.expr(item)?;
            if index + 1 < items.len() {
                jumps.push(self.emit(op));
            }
        }
        jumps.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn comparison(&mut self, first: &Expr, rest: &[(CompareOp, Expr)]) -> ParseResult<()> {
        self.expr(first)?;
        if let [(op @ (CompareOp::Eq | CompareOp::Ne), Expr { kind: ExprKind::Str(id), .. })] = rest {
            self.emit(Op::EqualsStack(*id));
            self.emit(Op::PushFlag(*op == CompareOp::Eq));
            return Ok(());
        }
        let mut jumps = Vec::new();
        for (index, (op, item)) in rest.iter().enumerate() {
            self.expr(item)?;
            if index + 1 < rest.len() {
                jumps.push(self.emit(Op::CompareChain(*op, 0)));
            } else {
                self.emit(Op::Compare(*op));
            }
        }
        jumps.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    /// Jumps if the truth of a condition is `when`, and otherwise continues. Adds the jumps to
    /// `taken`.
    pub(super) fn jump_if(&mut self, expr: &Expr, when: bool, taken: &mut Vec<usize>) -> ParseResult<()> {
        match (&expr.kind, when) {
            // Any single item decides.
            (ExprKind::And(items), false) | (ExprKind::Or(items), true) => {
                items.iter().try_for_each(|item| self.jump_if(item, when, taken))
            }
            // All items before the last must agree, or the last is skipped.
            (ExprKind::And(items), true) | (ExprKind::Or(items), false) => {
                let Some((last, before)) = items.split_last() else { return Ok(()) };
                let mut skipped = Vec::new();
                for item in before {
                    self.jump_if(item, !when, &mut skipped)?;
                }
                self.jump_if(last, when, taken)?;
                skipped.into_iter().for_each(|jump| self.land(jump));
                Ok(())
            }
            (ExprKind::Not(node), _) => self.jump_if(node, !when, taken),
            _ => {
                let is_inverted = self.condition(expr)?;
                taken.push(self.emit(if is_inverted == when { Op::JumpUnless(0) } else { Op::JumpWhen(0) }));
                Ok(())
            }
        }
    }

    /// Compiles `a + b + c`: the values stay separate on the stack as long as they are strings.
    fn checked_chain(&mut self, items: &[Expr]) -> ParseResult<()> {
        for (index, item) in items.iter().enumerate() {
            self.expr(item)?;
            if index > 0 {
                self.emit(Op::CheckChain(index as u32 + 1));
            }
        }
        Ok(())
    }

    /// Writes the value of an expression.
    pub(super) fn print(&mut self, expr: &Expr) -> ParseResult<()> {
        let outer = std::mem::replace(&mut self.at, expr.at);
        match &expr.kind {
            ExprKind::Str(id) => {
                self.emit(Op::EmitLiteral(*id));
            }
            ExprKind::Concat(items) => items.iter().try_for_each(|item| self.print(item))?,
            ExprKind::Sum(items) => self.print_sum(items)?,
            ExprKind::Conditional(parts) => self.conditional(parts, Self::print, None)?,
            ExprKind::Call(callee, args) => self.call(callee, args, None, true)?,
            ExprKind::Filter(Some(subject), name, args) if args.is_plain() && self.program.name(name.0) == "tojson" => {
                self.expr(subject)?;
                let shape = self.arguments(args, None)?;
                self.emit(Op::EmitJson(shape));
            }
            _ => match (self.field(expr), self.slot_name(expr)) {
                (Some(field), _) => {
                    self.emit(Op::EmitField(field));
                }
                (None, Some(slot)) => {
                    self.emit(Op::EmitSlot(slot));
                }
                (None, None) => {
                    self.expr(expr)?;
                    self.emit(Op::Emit);
                }
            },
        }
        self.at = outer;
        Ok(())
    }

    fn print_sum(&mut self, items: &[Expr]) -> ParseResult<()> {
        let starts_with_text = matches!(items, [Expr { kind: ExprKind::Str(_), .. }, ..]);
        if !starts_with_text || self.makes_markup {
            self.checked_chain(items)?;
            self.emit(Op::EmitChain(items.len() as u32));
            return Ok(());
        }
        for item in items {
            match item.kind {
                ExprKind::Str(id) => {
                    self.emit(Op::EmitLiteral(id));
                }
                _ => match (self.field(item), self.slot_of_name(item)) {
                    (Some(field), _) => {
                        let outer = std::mem::replace(&mut self.at, item.at);
                        self.emit(Op::EmitAddendField(field));
                        self.at = outer;
                    }
                    (None, Some((slot, name))) => {
                        self.emit(Op::EmitAddendSlot(slot, name));
                    }
                    (None, None) => {
                        self.expr(item)?;
                        self.emit(Op::EmitAddend);
                    }
                },
            }
        }
        Ok(())
    }
}

/// Returns the operand of a constant written with a minus sign.
fn negated(expr: &Expr) -> Option<&Expr> {
    let ExprKind::Negative(number) = &expr.kind else { return None };
    match number.kind {
        ExprKind::Int(0) => None,
        ExprKind::Int(_) | ExprKind::BigInt(_) | ExprKind::Float(_) => Some(number),
        _ => None,
    }
}

/// Filters that depend on the render context, so that jinja2 cannot evaluate them at compile time.
const OF_CONTEXT: [&str; 6] = ["map", "select", "reject", "selectattr", "rejectattr", "random"];
