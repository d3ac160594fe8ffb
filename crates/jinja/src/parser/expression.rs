//! Parses expressions with jinja2's precedence, loosest first: conditional, or, and, not,
//! comparison, + -, ~, * / // %, **, unary, postfix, filters and tests.

use std::borrow::Cow;

use super::ast::{ArgList, Args, BinaryOp, CompareOp, Expr, ExprKind, Target};
use super::{ParseResult, Parser, known};
use crate::lexer::{Op, TokenKind};

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> ParseResult<Expr> {
        self.deeper(Self::conditional)
    }

    pub(super) fn without_conditional(&mut self) -> ParseResult<Expr> {
        self.deeper(|parser| parser.operators(Level::Or))
    }

    fn conditional(&mut self) -> ParseResult<Expr> {
        let mut at = self.at();
        let mut value = self.operators(Level::Or)?;
        while self.skip_name("if") {
            let test = self.operators(Level::Or)?;
            let otherwise = if self.skip_name("else") { Some(self.deeper(Self::conditional)?) } else { None };
            value = self.expr(ExprKind::Conditional(Box::new((test, value, otherwise))), at)?;
            at = self.at();
        }
        Ok(value)
    }

    /// Parses operators that bind at least as tightly as `lowest`.
    fn operators(&mut self, lowest: Level) -> ParseResult<Expr> {
        let at = self.at();
        let mut left = if lowest <= Level::Not && self.skip_name("not") {
            let inner = self.deeper(|parser| parser.operators(Level::Not))?;
            self.expr(ExprKind::Not(Box::new(inner)), at)?
        } else {
            self.unary(true)?
        };
        while let Some(level) = self.operator_level()
            && level >= lowest
        {
            left = self.operator(level, left, at)?;
        }
        Ok(left)
    }

    /// Returns the binding level of the operator at the current token, if there is one.
    fn operator_level(&self) -> Option<Level> {
        Some(match self.current().kind {
            TokenKind::Op(op) => match op {
                Op::Binary(BinaryOp::Add | BinaryOp::Sub) => Level::Sum,
                Op::Tilde => Level::Concat,
                Op::Binary(BinaryOp::Pow) => Level::Power,
                Op::Binary(_) => Level::Product,
                Op::Compare(_) => Level::Compare,
                _ => return None,
            },
            TokenKind::Name("or") => Level::Or,
            TokenKind::Name("and") => Level::And,
            TokenKind::Name("in") => Level::Compare,
            TokenKind::Name("not") if self.next_is_name("in") => Level::Compare,
            _ => return None,
        })
    }

    /// Parses the operator after `left`, together with the operators that follow it in the same
    /// n-ary expression.
    fn operator(&mut self, level: Level, left: Expr, at: u32) -> ParseResult<Expr> {
        let kind = match level {
            Level::Or => ExprKind::Or(self.more(left, |parser| parser.skip_name("or"), Level::And)?),
            Level::And => ExprKind::And(self.more(left, |parser| parser.skip_name("and"), Level::Not)?),
            Level::Concat => ExprKind::Concat(self.more(left, |parser| parser.skip_op(Op::Tilde), Level::Product)?),
            Level::Sum if self.is_op(ADD) => {
                ExprKind::Sum(self.more(left, |parser| parser.skip_op(ADD), Level::Concat)?)
            }
            Level::Compare => {
                let mut operands = Vec::with_capacity(1);
                while let Some(op) = self.compare_operator() {
                    operands.push((op, self.operators(Level::Sum)?));
                }
                ExprKind::Compare(Box::new(left), operands)
            }
            // jinja2: `**` is left-associative like the others, and unary minus binds tighter.
            Level::Not | Level::Sum | Level::Product | Level::Power => {
                let TokenKind::Op(Op::Binary(op)) = self.current().kind else { return Ok(left) };
                let tighter = match level {
                    Level::Sum => Level::Concat,
                    Level::Product => Level::Power,
                    _ => Level::Unary,
                };
                self.advance();
                let right = self.operators(tighter)?;
                ExprKind::Binary(op, Box::new(left), Box::new(right))
            }
            Level::Unary => return Ok(left),
        };
        self.expr(kind, at)
    }

    /// Parses all operands of an n-ary operator.
    fn more(&mut self, first: Expr, skip: impl Fn(&mut Self) -> bool, tighter: Level) -> ParseResult<Vec<Expr>> {
        let mut parts = Vec::with_capacity(4);
        parts.push(first);
        while skip(self) {
            parts.push(self.operators(tighter)?);
        }
        Ok(parts)
    }

    fn compare_operator(&mut self) -> Option<CompareOp> {
        let op = match self.current().kind {
            TokenKind::Op(Op::Compare(op)) => op,
            TokenKind::Name("in") => CompareOp::In,
            TokenKind::Name("not") if self.next_is_name("in") => {
                self.advance();
                CompareOp::NotIn
            }
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    fn unary(&mut self, with_filter: bool) -> ParseResult<Expr> {
        let at = self.at();
        let mut node = if self.skip_op(Op::Binary(BinaryOp::Sub)) {
            let inner = self.deeper(|parser| parser.unary(false))?;
            self.expr(ExprKind::Negative(Box::new(inner)), at)?
        } else if self.skip_op(ADD) {
            let inner = self.deeper(|parser| parser.unary(false))?;
            self.expr(ExprKind::Positive(Box::new(inner)), at)?
        } else {
            self.primary()?
        };
        node = self.postfix(node)?;
        if with_filter { self.filters_and_tests(node) } else { Ok(node) }
    }

    pub(super) fn primary(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let kind = match &self.current().kind {
            TokenKind::Name("true" | "True") => ExprKind::Bool(true),
            TokenKind::Name("false" | "False") => ExprKind::Bool(false),
            TokenKind::Name("none" | "None") => ExprKind::None,
            TokenKind::Name(_) => {
                let name = self.expect_name()?;
                self.reads_loop |= name == known::LOOP;
                self.reads_call_names |= matches!(name, known::CALLER | known::KWARGS | known::VARARGS);
                return self.expr(ExprKind::Name(name), at);
            }
            TokenKind::Str(_) => return self.string(),
            TokenKind::Int(value) => ExprKind::Int(*value),
            TokenKind::BigInt(value) => ExprKind::BigInt(value.clone()),
            TokenKind::Float(value) => ExprKind::Float(*value),
            TokenKind::Op(Op::OpenParen) => {
                self.advance();
                let inner = self.deeper(|parser| parser.tuple(true, true))?;
                self.expect_op(Op::CloseParen)?;
                return Ok(inner);
            }
            TokenKind::Op(Op::OpenBracket) => return self.deeper(Self::list),
            TokenKind::Op(Op::OpenBrace) => return self.deeper(Self::dict),
            _ => return Err(self.expected("an expression")),
        };
        self.advance();
        self.expr(kind, at)
    }

    /// Parses a string; adjacent string literals are concatenated.
    fn string(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let mut text = Cow::Borrowed("");
        while let TokenKind::Str(part) = &mut self.tokens[self.position].kind {
            let part = std::mem::take(part);
            text = if text.is_empty() { part } else { text + part };
            self.position += 1;
        }
        let id = self.literals.push(&text, at, false);
        self.expr(ExprKind::Str(id), at)
    }

    /// Parses one expression, or several separated by commas, which form a tuple.
    pub(super) fn tuple(&mut self, with_conditional: bool, in_parentheses: bool) -> ParseResult<Expr> {
        let at = self.at();
        if self.is_tuple_end() {
            if !in_parentheses {
                return Err(self.expected("an expression"));
            }
            return self.expr(ExprKind::Tuple(Vec::new()), at);
        }
        let part = if with_conditional { Self::expression } else { Self::without_conditional };
        let first = part(self)?;
        if !self.is_op(Op::Comma) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip_op(Op::Comma) && !self.is_tuple_end() {
            items.push(part(self)?);
        }
        self.expr(ExprKind::Tuple(items), at)
    }

    fn is_tuple_end(&self) -> bool {
        matches!(self.current().kind, TokenKind::VariableEnd | TokenKind::BlockEnd | TokenKind::Op(Op::CloseParen))
    }

    fn list(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let items = self.items(Op::CloseBracket, Self::expression)?;
        self.expr(ExprKind::List(items), at)
    }

    fn dict(&mut self) -> ParseResult<Expr> {
        let at = self.at();
        let items = self.items(Op::CloseBrace, |parser| {
            let key = parser.expression()?;
            parser.expect_op(Op::Colon)?;
            Ok((key, parser.expression()?))
        })?;
        self.expr(ExprKind::Dict(items), at)
    }

    /// Parses comma-separated items from an opening bracket to `close`, with an optional trailing
    /// comma.
    fn items<T>(&mut self, close: Op, item: impl Fn(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        self.advance();
        let mut items = Vec::new();
        while !self.is_op(close) {
            if !items.is_empty() {
                self.expect_op(Op::Comma)?;
                if self.is_op(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        self.advance();
        Ok(items)
    }

    fn postfix(&mut self, mut node: Expr) -> ParseResult<Expr> {
        loop {
            node = match self.current().kind {
                TokenKind::Op(Op::Dot) => self.attribute(node)?,
                TokenKind::Op(Op::OpenBracket) => self.subscript(node)?,
                TokenKind::Op(Op::OpenParen) => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn filters_and_tests(&mut self, mut node: Expr) -> ParseResult<Expr> {
        loop {
            node = match self.current().kind {
                TokenKind::Op(Op::Pipe) => {
                    self.advance();
                    self.filter(Some(node))?
                }
                TokenKind::Name("is") => self.test(node)?,
                TokenKind::Op(Op::OpenParen) => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn attribute(&mut self, node: Expr) -> ParseResult<Expr> {
        self.advance();
        let at = self.at();
        match self.current().kind {
            TokenKind::Name(_) => {
                let name = self.expect_name()?;
                self.expr(ExprKind::Attribute(Box::new(node), name), at)
            }
            TokenKind::Int(index) => {
                self.advance();
                let index = self.expr(ExprKind::Int(index), at)?;
                self.expr(ExprKind::Item(Box::new(node), Box::new(index)), at)
            }
            _ => Err(self.expected("a name or a number after the dot")),
        }
    }

    fn subscript(&mut self, node: Expr) -> ParseResult<Expr> {
        let at = self.at();
        self.advance();
        let mut parts = Vec::new();
        if !self.is_op(Op::CloseBracket) {
            let first = self.subscribed()?;
            if self.skip_op(Op::CloseBracket) {
                return match first {
                    Subscript::Item(index) => self.expr(ExprKind::Item(Box::new(node), Box::new(index)), at),
                    Subscript::Slice(bounds) => self.expr(ExprKind::Slice(Box::new(node), bounds), at),
                };
            }
            parts.push(first);
        }
        while !self.is_op(Op::CloseBracket) {
            self.expect_op(Op::Comma)?;
            parts.push(self.subscribed()?);
        }
        self.advance();
        let mut items = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Subscript::Item(item) => items.push(item),
                // Python: a tuple of slices is not a valid index for any value that a template can
                // have.
                Subscript::Slice(_) => return Err(self.fail("a slice cannot be combined with other indexes")),
            }
        }
        let index = self.expr(ExprKind::Tuple(items), at)?;
        self.expr(ExprKind::Item(Box::new(node), Box::new(index)), at)
    }

    fn subscribed(&mut self) -> ParseResult<Subscript> {
        let mut bounds = [None, None, None];
        if !self.is_op(Op::Colon) {
            let first = self.expression()?;
            if !self.is_op(Op::Colon) {
                return Ok(Subscript::Item(first));
            }
            bounds[0] = Some(first);
        }
        self.advance();
        if !matches!(self.current().kind, TokenKind::Op(Op::Colon | Op::CloseBracket | Op::Comma)) {
            bounds[1] = Some(self.expression()?);
        }
        if self.skip_op(Op::Colon) && !matches!(self.current().kind, TokenKind::Op(Op::CloseBracket | Op::Comma)) {
            bounds[2] = Some(self.expression()?);
        }
        Ok(Subscript::Slice(Box::new(bounds)))
    }

    fn call(&mut self, node: Expr) -> ParseResult<Expr> {
        let at = self.at();
        let args = self.arguments()?;
        self.expr(ExprKind::Call(Box::new(node), ArgList::new(args)), at)
    }

    fn arguments(&mut self) -> ParseResult<Args> {
        self.expect_op(Op::OpenParen)?;
        let mut args = Args::default();
        let mut is_first = true;
        while !self.is_op(Op::CloseParen) {
            if !is_first {
                self.expect_op(Op::Comma)?;
                if self.is_op(Op::CloseParen) {
                    break;
                }
            }
            is_first = false;
            let is_valid = if self.skip_op(Op::Binary(BinaryOp::Mul)) {
                let is_valid = args.is_plain();
                args.spread = Some(self.expression()?);
                is_valid
            } else if self.skip_op(Op::Binary(BinaryOp::Pow)) {
                let is_valid = args.spread_keywords.is_none();
                args.spread_keywords = Some(self.expression()?);
                is_valid
            } else if matches!(self.current().kind, TokenKind::Name(_)) && self.next_is_op(Op::Assign) {
                let name = self.expect_name()?;
                self.advance();
                args.keywords.push((name, self.expression()?));
                args.spread_keywords.is_none()
            } else {
                args.positional.push(self.expression()?);
                args.is_plain() && args.keywords.is_empty()
            };
            if !is_valid {
                return Err(self.fail("the arguments of a call are out of order"));
            }
        }
        self.expect_op(Op::CloseParen)?;
        if let Some((name, _)) = args
            .keywords
            .iter()
            .enumerate()
            .find_map(|(at, pair)| args.keywords[..at].iter().find(|other| other.0 == pair.0))
        {
            let name = &self.names[name.0 as usize];
            return Err(self.fail(format!("keyword argument `{name}` is given twice")));
        }
        Ok(args)
    }

    fn dotted_name(&mut self) -> ParseResult<super::NameId> {
        let name = self.expect_name()?;
        if !self.is_op(Op::Dot) {
            return Ok(name);
        }
        // No filter or test has a dot in its name; the full name is kept for the error message.
        let mut dotted = self.names[name.0 as usize].to_string();
        while self.skip_op(Op::Dot) {
            let part = self.expect_name()?;
            dotted.push('.');
            dotted.push_str(&self.names[part.0 as usize]);
        }
        self.names.push(dotted.into());
        Ok(super::NameId(self.names.len() as u32 - 1))
    }

    /// Parses a filter after the `|`.
    pub(super) fn filter(&mut self, subject: Option<Expr>) -> ParseResult<Expr> {
        let at = self.at();
        let name = self.dotted_name()?;
        let args = if self.is_op(Op::OpenParen) { self.arguments()? } else { Args::default() };
        self.expr(ExprKind::Filter(subject.map(Box::new), name, ArgList::new(args)), at)
    }

    /// Parses a chain of filters. In a filter block, the first one has no `|` before it.
    pub(super) fn filter_chain(&mut self, mut starts_inline: bool) -> ParseResult<Option<Expr>> {
        let mut node = None;
        while starts_inline || self.is_op(Op::Pipe) {
            if !starts_inline {
                self.advance();
            }
            starts_inline = false;
            node = Some(self.filter(node)?);
        }
        Ok(node)
    }

    fn test(&mut self, node: Expr) -> ParseResult<Expr> {
        let at = self.at();
        self.advance();
        let is_negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let mut args = Args::default();
        match self.current().kind {
            TokenKind::Op(Op::OpenParen) => args = self.arguments()?,
            TokenKind::Name("is") => return Err(self.fail("tests cannot be chained with `is`")),
            TokenKind::Name("else" | "or" | "and") => {}
            TokenKind::Name(_)
            | TokenKind::Str(_)
            | TokenKind::Int(_)
            | TokenKind::BigInt(_)
            | TokenKind::Float(_)
            | TokenKind::Op(Op::OpenBracket | Op::OpenBrace) => {
                let argument = self.primary()?;
                args.positional.push(self.postfix(argument)?);
            }
            _ => {}
        }
        let test = self.expr(ExprKind::Test(Box::new(node), name, ArgList::new(args)), at)?;
        if is_negated { self.expr(ExprKind::Not(Box::new(test)), at) } else { Ok(test) }
    }

    /// Parses an assignment target of `set` or `for`.
    pub(super) fn target(&mut self, with_namespace: bool) -> ParseResult<Target> {
        let first = self.simple_target(with_namespace)?;
        if !self.is_op(Op::Comma) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip_op(Op::Comma) && !self.is_tuple_end() {
            items.push(self.simple_target(with_namespace)?);
        }
        Ok(Target::Tuple(items))
    }

    fn simple_target(&mut self, with_namespace: bool) -> ParseResult<Target> {
        let at = self.at();
        match self.current().kind {
            TokenKind::Name("true" | "True" | "false" | "False" | "none" | "None") => {
                Err(self.fail("a constant cannot be assigned to"))
            }
            TokenKind::Name(_) => {
                let name = self.expect_name()?;
                if with_namespace && self.skip_op(Op::Dot) {
                    return Ok(Target::Attribute(name, self.expect_name()?, at));
                }
                Ok(Target::Name(name, at))
            }
            TokenKind::Op(Op::OpenParen) => {
                self.advance();
                let inner = self.deeper(|parser| {
                    if parser.is_op(Op::CloseParen) {
                        return Ok(Target::Tuple(Vec::new()));
                    }
                    parser.target(with_namespace)
                })?;
                self.expect_op(Op::CloseParen)?;
                Ok(inner)
            }
            _ => Err(self.expected("a name to assign to")),
        }
    }
}

const ADD: Op = Op::Binary(BinaryOp::Add);

/// The binding levels of operators, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Concat,
    Product,
    Power,
    Unary,
}

enum Subscript {
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
}
