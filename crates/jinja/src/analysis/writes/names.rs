//! What the names of a template stand for.

use super::{Builder, Name, PossibleValue};
use crate::parser::ast::{Expr, ExprKind, Stmt, StmtKind, Target};

impl<'t> Builder<'t> {
    /// Collects all macros, since one may be called before its definition.
    pub(super) fn find_macros(&mut self, body: &'t [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Macro { name, signature, body } => {
                    self.macros.insert(*name, (&signature.params, body));
                    self.find_macros(body);
                }
                StmtKind::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.find_macros(body));
                    self.find_macros(otherwise);
                }
                StmtKind::For(parts) => {
                    self.find_macros(&parts.body);
                    self.find_macros(&parts.otherwise);
                }
                StmtKind::CallBlock { body, .. } => {
                    self.bodies.push(body);
                    self.find_macros(body);
                }
                StmtKind::SetBlock { body, .. }
                | StmtKind::FilterBlock { body, .. }
                | StmtKind::With { body, .. }
                | StmtKind::Generation(body)
                | StmtKind::Block { body, .. }
                | StmtKind::Scope(body) => self.find_macros(body),
                _ => {}
            }
        }
    }

    /// Collects the possible values of all variables in the template.
    pub(super) fn learn(&mut self, body: &'t [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Print(value) | StmtKind::Do(value) => self.learn_in(value),
                StmtKind::If { branches, otherwise } => {
                    for (test, body) in branches {
                        self.learn_in(test);
                        self.learn(body);
                    }
                    self.learn(otherwise);
                }
                StmtKind::For(parts) => {
                    self.learn_in(&parts.iter);
                    parts.test.iter().for_each(|test| self.learn_in(test));
                    self.assign(&parts.target, PossibleValue::In(&parts.iter));
                    self.learn(&parts.body);
                    self.learn(&parts.otherwise);
                }
                StmtKind::Set(target, value) => {
                    self.learn_in(value);
                    self.assign(target, PossibleValue::Of(value));
                }
                StmtKind::SetBlock { target, filter, body } => {
                    filter.iter().for_each(|filter| self.learn_in(filter));
                    self.assign(target, PossibleValue::Block(body, filter.as_ref()));
                    self.learn(body);
                }
                StmtKind::Macro { signature, body, .. } => {
                    let defaults = signature.params.iter().rev().zip(signature.defaults.iter().rev());
                    for (param, value) in defaults {
                        self.values.entry(Name::Variable(*param)).or_default().push(PossibleValue::Of(value));
                    }
                    self.learn(body);
                }
                StmtKind::CallBlock { call, body, .. } => {
                    self.learn_in(call);
                    self.learn(body);
                }
                StmtKind::FilterBlock { filter, body } => {
                    self.learn_in(filter);
                    self.learn(body);
                }
                StmtKind::With { targets, body } => {
                    for (target, value) in targets {
                        self.learn_in(value);
                        self.assign(target, PossibleValue::Of(value));
                    }
                    self.learn(body);
                }
                StmtKind::Generation(body) | StmtKind::Block { body, .. } | StmtKind::Scope(body) => self.learn(body),
                StmtKind::Data(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Foreign { .. } => {}
            }
        }
    }

    pub(super) fn learn_in(&mut self, expr: &'t Expr) {
        if matches!(expr.kind, ExprKind::Sum(_) | ExprKind::Concat(_) | ExprKind::Filter(..) | ExprKind::Call(..)) {
            self.chains.push(expr);
        }
        if let ExprKind::Call(callee, args) = &expr.kind
            && let ExprKind::Name(name) = &callee.kind
        {
            let params = self.macros.get(name).map_or(&[][..], |(params, _)| *params);
            for (param, value) in params.iter().zip(&args.positional) {
                self.values.entry(Name::Variable(*param)).or_default().push(PossibleValue::Of(value));
            }
            for (param, value) in &args.keywords {
                if params.contains(param) {
                    self.values.entry(Name::Variable(*param)).or_default().push(PossibleValue::Of(value));
                }
            }
        }
        expr.kind.for_each_child(&mut |child| self.learn_in(child));
    }

    pub(super) fn assign(&mut self, target: &'t Target, value: PossibleValue<'t>) {
        match target {
            Target::Name(name, _) => {
                self.values.entry(Name::Variable(*name)).or_default().push(value);
                // The initial attributes of a namespace.
                if let PossibleValue::Of(Expr { kind: ExprKind::Call(_, args), .. }) = value {
                    for (attribute, value) in &args.keywords {
                        let attribute = Name::Attribute(*name, *attribute);
                        self.values.entry(attribute).or_default().push(PossibleValue::Of(value));
                    }
                }
            }
            Target::Attribute(space, attribute, _) => {
                self.values.entry(Name::Attribute(*space, *attribute)).or_default().push(value);
            }
            Target::Tuple(targets) => {
                if let PossibleValue::Of(Expr { kind: ExprKind::Tuple(items) | ExprKind::List(items), .. }) = value {
                    for (target, value) in targets.iter().zip(items) {
                        self.assign(target, PossibleValue::Of(value));
                    }
                } else {
                    let (PossibleValue::Of(expr) | PossibleValue::In(expr) | PossibleValue::Within(expr)) = value
                    else {
                        return;
                    };
                    for target in targets {
                        self.assign(target, PossibleValue::Within(expr));
                    }
                }
            }
        }
    }
}
