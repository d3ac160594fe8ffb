//! Parses tokens into a syntax tree, as jinja2's parser does. Start at [`parse`].

pub(crate) mod ast;
mod expression;
mod statement;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ast::{Expr, ExprKind, NameId, Tree};

use crate::error::{ErrorKind, Fault, LimitKind};
use crate::lexer::{Op, Token, TokenKind, describe, describe_op, tokenize};
use crate::limits::Limits;
use crate::output::Literals;

/// An error and its position in the source.
pub(crate) type Failure = (Fault, usize);
pub(crate) type ParseResult<T> = Result<T, Failure>;

/// Parses a normalized source.
pub(crate) fn parse(source: &str, limits: &Limits) -> ParseResult<Tree> {
    let tokens = tokenize(source)?;
    let mut parser = Parser {
        tokens,
        position: 0,
        names: Vec::with_capacity(64),
        places: [0; 512],
        displaced: HashMap::new(),
        literals: Literals::with_room(source.len()),
        nesting: 0,
        reads_loop: false,
        reads_call_names: false,
        most: limits.nesting,
    };
    for name in KNOWN_NAMES {
        parser.intern(name);
    }
    let body = parser.body(&[])?;
    let Parser { names, literals, reads_loop, reads_call_names, .. } = parser;
    Ok(Tree { body, names, literals, reads_loop, reads_call_names })
}

/// Names with the same number in every template; see [`known`].
const KNOWN_NAMES: [&str; 8] = ["loop", "caller", "varargs", "kwargs", "index0", "index", "first", "last"];

/// The most different names in a template, more than any real one has.
const MOST_NAMES: usize = 4096;

/// The most parameters of one macro, which are searched linearly.
const MOST_PARAMETERS: usize = 1000;

pub(crate) mod known {
    use super::ast::NameId;

    pub(crate) const LOOP: NameId = NameId(0);
    pub(crate) const CALLER: NameId = NameId(1);
    pub(crate) const VARARGS: NameId = NameId(2);
    pub(crate) const KWARGS: NameId = NameId(3);
    pub(crate) const INDEX0: NameId = NameId(4);
    pub(crate) const INDEX: NameId = NameId(5);
    pub(crate) const FIRST: NameId = NameId(6);
    pub(crate) const LAST: NameId = NameId(7);
}

pub(crate) struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    position: usize,
    names: Vec<Box<str>>,
    /// A hash table of names. A slot holds the number of its first name plus one, or 0 if it is
    /// empty.
    places: [u32; 512],
    /// The names whose slot was taken.
    displaced: HashMap<&'s str, NameId>,
    literals: Literals,
    nesting: usize,
    reads_loop: bool,
    reads_call_names: bool,
    most: usize,
}

impl<'s> Parser<'s> {
    fn intern(&mut self, name: &'s str) -> NameId {
        let hash = name.bytes().fold(0u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let place = (hash ^ hash >> 15) as usize % self.places.len();
        let next = NameId(self.names.len() as u32);
        match self.places[place] {
            0 => self.places[place] = next.0 + 1,
            known if *self.names[known as usize - 1] == *name => return NameId(known - 1),
            _ => match self.displaced.entry(name) {
                Entry::Occupied(known) => return *known.get(),
                Entry::Vacant(entry) => {
                    entry.insert(next);
                }
            },
        }
        self.names.push(name.into());
        next
    }

    fn current(&self) -> &Token<'s> {
        // The last token is `End`, and `advance` never passes it.
        &self.tokens[self.position]
    }

    fn at(&self) -> u32 {
        self.current().at
    }

    fn advance(&mut self) {
        if self.position + 1 < self.tokens.len() {
            self.position += 1;
        }
    }

    fn is_op(&self, op: Op) -> bool {
        matches!(self.current().kind, TokenKind::Op(found) if found == op)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.current().kind, TokenKind::Name(found) if found == name)
    }

    fn next_is_name(&self, name: &str) -> bool {
        matches!(self.tokens.get(self.position + 1), Some(Token { kind: TokenKind::Name(found), .. }) if *found == name)
    }

    fn next_is_op(&self, op: Op) -> bool {
        matches!(self.tokens.get(self.position + 1), Some(Token { kind: TokenKind::Op(found), .. }) if *found == op)
    }

    fn skip_op(&mut self, op: Op) -> bool {
        let found = self.is_op(op);
        if found {
            self.advance();
        }
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.advance();
        }
        found
    }

    fn expect_op(&mut self, op: Op) -> ParseResult<()> {
        if self.skip_op(op) { Ok(()) } else { Err(self.expected(&describe_op(op))) }
    }

    fn expect_name(&mut self) -> ParseResult<NameId> {
        let TokenKind::Name(name) = self.current().kind else { return Err(self.expected("a name")) };
        if self.names.len() > MOST_NAMES {
            let fault =
                Fault::new(ErrorKind::Limit(LimitKind::Source), format!("more than {MOST_NAMES} different names"));
            return Err((fault, self.at() as usize));
        }
        self.advance();
        Ok(self.intern(name))
    }

    fn expect_word(&mut self, word: &str) -> ParseResult<()> {
        if self.skip_name(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    #[cold]
    fn expected(&self, what: &str) -> Failure {
        self.fail(format!("expected {what}, found {}", describe(&self.current().kind)))
    }

    #[cold]
    fn fail(&self, message: impl Into<String>) -> Failure {
        (Fault::syntax(message), self.at() as usize)
    }

    /// Parses a construct one nesting level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.nesting >= self.most {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    #[cold]
    fn too_deep(&self) -> Failure {
        (Fault::limit(LimitKind::Nesting, self.most), self.at() as usize)
    }

    /// Creates an expression, unless it is nested too deeply.
    fn expr(&self, kind: ExprKind, at: u32) -> ParseResult<Expr> {
        let mut below = 0;
        kind.for_each_child(&mut |child| below = below.max(child.depth));
        let depth = 1 + below;
        if depth as usize > self.most + 1 {
            return Err(self.too_deep());
        }
        Ok(Expr { kind, at, depth })
    }
}
