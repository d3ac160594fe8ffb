//! Strings that are joined, filled in, or nested in lists and dicts.

use std::collections::HashSet;

use super::{Builder, DEEPEST, MOST_STRINGS, Name, PossibleValue, Subgraph};
use crate::parser::ast::{Expr, ExprKind};

impl<'t> Builder<'t> {
    /// Returns any string inside a list, a dict or an expression that creates one, at any depth.
    pub(super) fn within(&mut self, expr: &'t Expr) -> Subgraph {
        let (mut texts, mut seen) = (Vec::new(), HashSet::new());
        let mut open = vec![expr];
        while let Some(expr) = open.pop() {
            let mut variable = |name: Name, open: &mut Vec<&'t Expr>| {
                if seen.insert(name) {
                    open.extend(self.values.get(&name).into_iter().flatten().filter_map(|value| match value {
                        PossibleValue::Of(expr) | PossibleValue::In(expr) | PossibleValue::Within(expr) => Some(*expr),
                        PossibleValue::Block(..) => None,
                    }));
                }
            };
            match &expr.kind {
                ExprKind::Str(id) => texts.push(*id),
                ExprKind::List(items)
                | ExprKind::Tuple(items)
                | ExprKind::Sum(items)
                | ExprKind::Concat(items)
                | ExprKind::And(items)
                | ExprKind::Or(items) => open.extend(items),
                ExprKind::Dict(entries) => open.extend(entries.iter().flat_map(|(key, value)| [key, value])),
                ExprKind::Conditional(parts) => open.extend([Some(&parts.1), parts.2.as_ref()].into_iter().flatten()),
                ExprKind::Attribute(node, name) => {
                    open.push(node);
                    if let ExprKind::Name(space) = &node.kind {
                        variable(Name::Attribute(*space, *name), &mut open);
                    }
                }
                ExprKind::Item(node, _) | ExprKind::Slice(node, _) => open.push(node),
                ExprKind::Filter(node, _, args) => {
                    open.extend(node.as_deref());
                    open.extend(args.expressions());
                }
                ExprKind::Binary(_, left, right) => open.extend([&**left, &**right]),
                ExprKind::Call(callee, args) => {
                    open.push(callee);
                    open.extend(args.expressions());
                }
                ExprKind::Name(name) => variable(Name::Variable(*name), &mut open),
                _ => {}
            }
        }
        texts.sort_unstable();
        texts.dedup();
        let parts = texts.into_iter().map(|id| self.literal(id)).collect();
        self.either(parts)
    }

    pub(super) fn joined(&mut self, list: &'t Expr, separator: Option<&'t Expr>) -> Subgraph {
        let between = match separator {
            Some(separator) => self.value(separator),
            None => self.nothing(),
        };
        match &list.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => {
                let mut row = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        row.push(match separator {
                            Some(separator) => self.value(separator),
                            None => self.nothing(),
                        });
                    }
                    row.push(self.value(item));
                }
                self.row(row)
            }
            _ => {
                let items = self.items(list);
                let both = self.row([items, between]);
                self.repeated(both)
            }
        }
    }

    pub(super) fn values_of(&self, expr: &'t Expr) -> Vec<&'t Expr> {
        match &expr.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().collect(),
            ExprKind::Dict(entries) => entries.iter().map(|(_, value)| value).collect(),
            _ => vec![expr],
        }
    }

    /// Fills the placeholders of a format string with values, for every string that the expression
    /// may be.
    pub(super) fn filled_all(&mut self, string: &'t Expr, sign: char, values: &[&'t Expr]) -> Subgraph {
        let mut strings = Vec::new();
        self.strings_of(string, 0, &mut strings);
        let parts = strings.into_iter().map(|id| self.filled(id, sign, values)).collect();
        self.either(parts)
    }

    pub(super) fn strings_of(&self, expr: &'t Expr, depth: usize, found: &mut Vec<u32>) {
        match &expr.kind {
            ExprKind::Str(id) => found.push(*id),
            ExprKind::Name(name) if depth < DEEPEST && found.len() < MOST_STRINGS => {
                for value in self.values.get(&Name::Variable(*name)).into_iter().flatten() {
                    if let PossibleValue::Of(expr) | PossibleValue::In(expr) | PossibleValue::Within(expr) = value {
                        self.strings_of(expr, depth + 1, found);
                    }
                }
            }
            // The parts of a computed format string are used individually.
            _ if depth < DEEPEST && found.len() < MOST_STRINGS => {
                expr.kind.for_each_child(&mut |child| self.strings_of(child, depth + 1, found));
            }
            _ => {}
        }
    }

    /// Fills the placeholders (`%s`, `%(key)s` or `{}`) of a literal with values.
    pub(super) fn filled(&mut self, id: u32, sign: char, values: &[&'t Expr]) -> Subgraph {
        let text = self.tree.literals.text(id).unwrap_or_default();
        let mut row = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(sign) {
            row.push(self.text(&rest[..at]));
            let hole = &rest[at..];
            let end = match sign {
                '{' => hole.find('}').map_or(hole.len(), |end| end + 1),
                _ => {
                    // The key of `%(key)s` may contain letters.
                    let key = if hole.starts_with("%(") { hole.find(')').unwrap_or(0) } else { 0 };
                    hole.char_indices()
                        .skip_while(|(end, _)| *end <= key)
                        .find(|(_, c)| c.is_ascii_alphabetic() || *c == '%')
                        .map_or(hole.len(), |(end, c)| end + c.len_utf8())
                }
            };
            let parts = values.iter().map(|value| self.value(value)).collect();
            row.push(self.either(parts));
            rest = &hole[end..];
        }
        row.push(self.text(rest));
        self.row(row)
    }
}
