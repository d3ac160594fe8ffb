use super::known::{ConstantValue, KnownFacts};
use super::path::WordId;
use super::record::TestRecord;
use super::{ParseResult, Use, Walk};
use crate::parser::ast::{CompareOp, Expr, ExprKind};

impl<'t> Walk<'t> {
    /// Evaluates an expression to the facts about its value.
    // Long: one arm for each kind of expression; splitting it would hide which kinds are handled.
    pub(super) fn value(&mut self, expr: &'t Expr) -> ParseResult<KnownFacts> {
        self.charge(expr.at, 1)?;
        let known = match &expr.kind {
            ExprKind::None => KnownFacts::constant(ConstantValue::None),
            ExprKind::Bool(value) => KnownFacts::constant(ConstantValue::Bool(*value)),
            ExprKind::Int(value) => KnownFacts::constant(ConstantValue::Int(*value)),
            ExprKind::Float(value) => KnownFacts::constant(ConstantValue::Float(*value)),
            ExprKind::Str(id) => KnownFacts::constant(ConstantValue::Text(*id)),
            ExprKind::BigInt(_) => KnownFacts::default(),
            ExprKind::Name(name) => self.lookup(*name, expr.at)?,
            ExprKind::List(items) | ExprKind::Tuple(items) => KnownFacts::list(self.values(items)?),
            ExprKind::Dict(entries) => {
                let mut fields = Vec::with_capacity(entries.len());
                let mut others: Option<KnownFacts> = None;
                for (key, value) in entries {
                    let known = self.value(value)?;
                    match self.constant_key(key) {
                        Some(word) => fields.push((word, known)),
                        None => {
                            let key = self.value(key)?;
                            let others = others.get_or_insert_default();
                            others.join(known);
                            others.join(key.made(None));
                        }
                    }
                }
                KnownFacts::dict(fields, others)
            }
            ExprKind::Attribute(node, name) => {
                let word = self.word(*name);
                let known = self.value(node)?;
                self.key_of(&known, word)
            }
            ExprKind::Item(node, index) => {
                let known = self.value(node)?;
                match (self.constant_key(index), &index.kind) {
                    (Some(word), _) => self.key_of(&known, word),
                    (None, ExprKind::Int(at @ 0..)) => known.part(*at as usize, &mut self.paths),
                    _ => {
                        let index = self.value(index)?;
                        self.record.read(&index.is, Use::Changed, expr.at);
                        let mut found = KnownFacts::default();
                        for key in self.keys(&index) {
                            found.join(self.key_of(&known, key));
                        }
                        let is_text = |constant: &ConstantValue| matches!(constant, ConstantValue::Text(_));
                        if index.constants.is_empty()
                            || !index.constants.iter().all(is_text)
                            || !index.all_paths().is_empty()
                        {
                            found.join(known.value(&mut self.paths));
                        }
                        found
                    }
                }
            }
            ExprKind::Slice(node, bounds) => {
                let known = self.value(node)?;
                for bound in bounds.iter().flatten() {
                    let bound = self.value(bound)?;
                    self.record.read(&bound.all_paths(), Use::Changed, expr.at);
                }
                let word = self.paths.word("slice");
                known.cut(word)
            }
            ExprKind::Call(..) => self.call_expression(expr, None)?,
            ExprKind::Filter(Some(subject), ..) => {
                let known = self.value(subject)?;
                self.filtered(expr, known)?
            }
            ExprKind::Filter(None, ..) => KnownFacts::default(),
            ExprKind::Test(subject, name, args) => {
                let known = self.value(subject)?;
                let word = self.word(*name);
                let mut with = KnownFacts::default();
                for value in args.expressions() {
                    with.join(self.value(value)?);
                }
                let mut both = known;
                both.join(KnownFacts::made_of(with.all_paths(), &[]));
                self.record.compare(&both, TestRecord::Is(word), with, expr.at);
                both.made(None)
            }
            ExprKind::Not(inner) => self.decide(inner)?.made(None),
            ExprKind::Negative(node) | ExprKind::Positive(node) => {
                let known = self.value(node)?;
                match (&expr.kind, known.constants.as_slice()) {
                    (ExprKind::Negative(_), [ConstantValue::Int(value)]) => {
                        KnownFacts::constant(ConstantValue::Int(value.saturating_neg()))
                    }
                    (ExprKind::Positive(_), [ConstantValue::Int(_)]) => known,
                    _ => known.made(None),
                }
            }
            ExprKind::Sum(items) => {
                let values = self.values(items)?;
                self.added(values, expr.at)
            }
            ExprKind::Binary(_, left, right) => {
                let values = vec![self.value(left)?, self.value(right)?];
                self.put_together(&values, expr.at)
            }
            ExprKind::Concat(items) => {
                let values = self.values(items)?;
                self.put_together(&values, expr.at)
            }
            ExprKind::Compare(first, rest) => {
                let mut left = self.value(first)?;
                let mut all = KnownFacts::default();
                for (operator, right) in rest {
                    let right = self.value(right)?;
                    let mut both = left.clone();
                    both.join(KnownFacts::made_of(right.all_paths(), &right.through));
                    let (with, asked) = match left.all_paths().is_empty() {
                        true => (flat_constants(&left), turned(*operator)),
                        false => (flat_constants(&right), spelling(*operator)),
                    };
                    self.record.compare(&both, TestRecord::Operator(asked), with, expr.at);
                    all.join(both.made(None));
                    left = right;
                }
                all
            }
            ExprKind::And(items) | ExprKind::Or(items) => {
                let mut all = KnownFacts::default();
                if let Some((last, others)) = items.split_last() {
                    for item in others {
                        all.join(self.decide(item)?);
                    }
                    all.join(self.value(last)?);
                }
                all
            }
            ExprKind::Conditional(parts) => {
                let (test, value, otherwise) = &**parts;
                self.decide(test)?;
                let mut known = self.value(value)?;
                if let Some(otherwise) = otherwise {
                    known.join(self.value(otherwise)?);
                }
                known
            }
        };
        self.charge(expr.at, known.size())?;
        Ok(known)
    }

    pub(super) fn values(&mut self, items: &'t [Expr]) -> ParseResult<Vec<KnownFacts>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    /// Evaluates an expression whose truth decides something.
    pub(super) fn decide(&mut self, expr: &'t Expr) -> ParseResult<KnownFacts> {
        self.charge(expr.at, 1)?;
        match &expr.kind {
            ExprKind::Not(inner) => Ok(self.decide(inner)?.made(None)),
            ExprKind::And(items) | ExprKind::Or(items) => {
                let mut all = KnownFacts::default();
                for item in items {
                    all.join(self.decide(item)?);
                }
                Ok(all)
            }
            // These record their own tests.
            ExprKind::Compare(..) | ExprKind::Test(..) => self.value(expr),
            ExprKind::Call(callee, _) if self.asks(callee) => self.value(expr),
            _ => {
                let known = self.value(expr)?;
                self.record.compare(&known, TestRecord::True, KnownFacts::default(), expr.at);
                Ok(known)
            }
        }
    }

    /// Returns the facts about an attribute of a value, which may be a namespace.
    fn key_of(&mut self, known: &KnownFacts, word: WordId) -> KnownFacts {
        let mut found = known.key(word, &mut self.paths);
        for space in &known.spaces {
            let fields = self.spaces.get(space).map_or(&[][..], Vec::as_slice);
            if let Some((_, field)) = fields.iter().find(|(key, _)| *key == word) {
                found.join(field.clone());
            }
        }
        found
    }

    pub(super) fn constant_key(&mut self, expr: &Expr) -> Option<WordId> {
        match expr.kind {
            ExprKind::Str(id) => {
                let tree = self.tree;
                Some(self.paths.word(tree.literals.text(id)?))
            }
            _ => None,
        }
    }

    /// Evaluates a concatenation of several values.
    fn put_together(&mut self, values: &[KnownFacts], at: u32) -> KnownFacts {
        let mut all = KnownFacts::default();
        for known in values {
            self.record.read(&known.is, Use::Changed, at);
            all.join(known.made(None));
        }
        all
    }

    /// Evaluates a sum: a string, a number, or a list with the items of all lists.
    fn added(&mut self, values: Vec<KnownFacts>, at: u32) -> KnownFacts {
        if !values.iter().any(KnownFacts::is_container) {
            return self.put_together(&values, at);
        }
        let mut items = KnownFacts::default();
        for known in values {
            items.join(known.item(&mut self.paths));
        }
        KnownFacts::list_of(items)
    }
}

/// Returns the constants of a value, and of its items if it is a list.
fn flat_constants(known: &KnownFacts) -> KnownFacts {
    let mut flat = KnownFacts::constants(&known.constants);
    for part in &known.parts {
        flat.join(KnownFacts::constants(&part.constants));
    }
    flat
}

/// Returns the operator as seen from the right operand.
fn turned(operator: CompareOp) -> &'static str {
    match operator {
        CompareOp::Eq | CompareOp::Ne => spelling(operator),
        CompareOp::Lt => ">",
        CompareOp::Le => ">=",
        CompareOp::Gt => "<",
        CompareOp::Ge => "<=",
        CompareOp::In => "contains",
        CompareOp::NotIn => "does not contain",
    }
}

fn spelling(operator: CompareOp) -> &'static str {
    match operator {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::In => "in",
        CompareOp::NotIn => "not in",
    }
}
