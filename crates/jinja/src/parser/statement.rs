//! Parses text, `{{ }}` and `{% %}`.

use super::ast::{ExprKind, For, NameId, Signature, Stmt, StmtKind, Target};
use super::{MOST_PARAMETERS, ParseResult, Parser, known};
use crate::error::{ErrorKind, Fault, LimitKind};
use crate::lexer::{Op, TokenKind};

impl Parser<'_> {
    /// Parses statements up to one of the end tags, whose name is then the current token. Without
    /// end tags, parses up to the end of the template.
    pub(super) fn body(&mut self, end_tags: &[&str]) -> ParseResult<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            let at = self.at();
            match self.current().kind {
                TokenKind::Data(text) => {
                    self.advance();
                    let id = self.literals.push(text, at, true);
                    body.push(Stmt { kind: StmtKind::Data(id), at });
                }
                TokenKind::VariableBegin => {
                    self.advance();
                    let value = self.tuple(true, false)?;
                    if !matches!(self.current().kind, TokenKind::VariableEnd) {
                        return Err(self.expected("`}}`"));
                    }
                    self.advance();
                    body.push(Stmt { kind: StmtKind::Print(value), at });
                }
                TokenKind::BlockBegin => {
                    self.advance();
                    if matches!(self.current().kind, TokenKind::Name(name) if end_tags.contains(&name)) {
                        return Ok(body);
                    }
                    let at = self.at();
                    self.deeper(|parser| parser.statement(&mut body, at))?;
                    self.block_end()?;
                }
                TokenKind::End if end_tags.is_empty() => return Ok(body),
                TokenKind::End => {
                    let expected: Vec<String> = end_tags.iter().map(|tag| format!("`{tag}`")).collect();
                    return Err(self.expected(&expected.join(" or ")));
                }
                _ => return Err(self.expected("text or a tag")),
            }
        }
    }

    fn block_end(&mut self) -> ParseResult<()> {
        if !matches!(self.current().kind, TokenKind::BlockEnd) {
            return Err(self.expected("`%}`"));
        }
        self.advance();
        Ok(())
    }

    /// Parses the rest of an opening tag and the body up to one of the end tags, whose name is then
    /// the current token.
    fn inner_body(&mut self, end_tags: &[&str]) -> ParseResult<Vec<Stmt>> {
        self.skip_op(Op::Colon);
        self.block_end()?;
        self.body(end_tags)
    }

    /// Parses the same and consumes the name of the end tag.
    fn whole_body(&mut self, end_tag: &'static str) -> ParseResult<Vec<Stmt>> {
        let body = self.inner_body(&[end_tag])?;
        self.advance();
        Ok(body)
    }

    fn statement(&mut self, body: &mut Vec<Stmt>, at: u32) -> ParseResult<()> {
        let TokenKind::Name(tag) = self.current().kind else { return Err(self.expected("the name of a tag")) };
        self.advance();
        let kind = match tag {
            "if" => self.if_tag()?,
            "for" => self.for_tag()?,
            "set" => self.set_tag()?,
            "macro" => {
                let name = self.expect_name()?;
                let signature = self.signature()?;
                StmtKind::Macro { name, signature, body: self.whole_body("endmacro")? }
            }
            "call" => {
                let signature = if self.is_op(Op::OpenParen) { self.signature()? } else { Signature::default() };
                let call = self.expression()?;
                if !matches!(call.kind, ExprKind::Call(..)) {
                    return Err(self.fail("expected a call in the tag `call`"));
                }
                StmtKind::CallBlock { signature, call, body: self.whole_body("endcall")? }
            }
            "filter" => match self.filter_chain(true)? {
                Some(filter) => StmtKind::FilterBlock { filter, body: self.whole_body("endfilter")? },
                None => return Err(self.expected("a filter")),
            },
            "with" => self.with_tag()?,
            "generation" => StmtKind::Generation(self.whole_body("endgeneration")?),
            "block" => self.block_tag()?,
            "autoescape" => {
                let value = self.expression()?;
                if !matches!(value.kind, ExprKind::Bool(false)) {
                    return Err((Fault::unsupported("only `autoescape false` is supported"), at as usize));
                }
                StmtKind::Scope(self.whole_body("endautoescape")?)
            }
            "print" => {
                while self.current().kind != TokenKind::BlockEnd {
                    if !matches!(body.last(), Some(Stmt { at: last, kind: StmtKind::Print(_) }) if *last == at) {
                        // The first value of this tag has no comma before it.
                    } else {
                        self.expect_op(Op::Comma)?;
                    }
                    let value = self.expression()?;
                    body.push(Stmt { kind: StmtKind::Print(value), at });
                }
                return Ok(());
            }
            "do" => StmtKind::Do(self.tuple(true, false)?),
            "break" => StmtKind::Break,
            "continue" => StmtKind::Continue,
            "extends" | "include" | "import" | "from" => self.foreign_tag(tag)?,
            unknown => return Err((Fault::syntax(format!("unknown tag `{unknown}`")), at as usize)),
        };
        body.push(Stmt { kind, at });
        Ok(())
    }

    fn if_tag(&mut self) -> ParseResult<StmtKind> {
        let mut branches = Vec::new();
        loop {
            let test = self.tuple(false, false)?;
            let body = self.inner_body(&["elif", "else", "endif"])?;
            branches.push((test, body));
            let is_elif = self.is_name("elif");
            let is_else = self.is_name("else");
            self.advance();
            if is_elif {
                continue;
            }
            let otherwise = if is_else { self.whole_body("endif")? } else { Vec::new() };
            return Ok(StmtKind::If { branches, otherwise });
        }
    }

    fn for_tag(&mut self) -> ParseResult<StmtKind> {
        let target = self.target(false)?;
        self.expect_word("in")?;
        let iter = self.tuple(false, false)?;
        let test = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let is_recursive = self.skip_name("recursive");
        let body = self.inner_body(&["endfor", "else"])?;
        let has_else = self.is_name("else");
        self.advance();
        let otherwise = if has_else { self.whole_body("endfor")? } else { Vec::new() };
        if let Some(at) =
            stores_loop(&target).or_else(|| body_stores_loop(&body)).or_else(|| body_stores_loop(&otherwise))
        {
            let message = "the special variable `loop` cannot be assigned to in a loop";
            return Err((Fault::syntax(message), at as usize));
        }
        Ok(StmtKind::For(Box::new(For { target, iter, test, is_recursive, body, otherwise })))
    }

    fn set_tag(&mut self) -> ParseResult<StmtKind> {
        let target = self.target(true)?;
        if self.skip_op(Op::Assign) {
            return Ok(StmtKind::Set(target, self.tuple(true, false)?));
        }
        let filter = self.filter_chain(false)?;
        Ok(StmtKind::SetBlock { target, filter, body: self.whole_body("endset")? })
    }

    fn with_tag(&mut self) -> ParseResult<StmtKind> {
        let mut targets = Vec::new();
        while self.current().kind != TokenKind::BlockEnd {
            if !targets.is_empty() {
                self.expect_op(Op::Comma)?;
            }
            let target = self.target(false)?;
            self.expect_op(Op::Assign)?;
            targets.push((target, self.expression()?));
        }
        Ok(StmtKind::With { targets, body: self.whole_body("endwith")? })
    }

    fn block_tag(&mut self) -> ParseResult<StmtKind> {
        let TokenKind::Name(spelling) = self.current().kind else { return Err(self.expected("a name")) };
        let name = self.expect_name()?;
        let is_scoped = self.skip_name("scoped");
        if self.skip_name("required") {
            return Err(self.fail("a required block needs another template"));
        }
        let body = self.whole_body("endblock")?;
        self.skip_name(spelling);
        Ok(StmtKind::Block { name, is_scoped, body })
    }

    fn signature(&mut self) -> ParseResult<Signature> {
        let mut signature = Signature::default();
        self.expect_op(Op::OpenParen)?;
        while !self.is_op(Op::CloseParen) {
            if !signature.params.is_empty() {
                self.expect_op(Op::Comma)?;
            }
            let param = self.expect_name()?;
            if signature.params.len() == MOST_PARAMETERS {
                let message = format!("more than {MOST_PARAMETERS} parameters");
                return Err((Fault::new(ErrorKind::Limit(LimitKind::Source), message), self.at() as usize));
            }
            if signature.params.contains(&param) {
                return Err(self.fail(format!("parameter `{}` is defined twice", self.names[param.0 as usize])));
            }
            signature.params.push(param);
            if self.skip_op(Op::Assign) {
                signature.defaults.push(self.expression()?);
            } else if !signature.defaults.is_empty() {
                return Err(self.fail("a parameter without a default follows one that has a default"));
            }
        }
        self.expect_op(Op::CloseParen)?;
        Ok(signature)
    }

    /// Parses a tag that needs other templates, which do not exist here.
    fn foreign_tag(&mut self, tag: &str) -> ParseResult<StmtKind> {
        let template = self.expression()?;
        let mut names: Vec<NameId> = Vec::new();
        let tag = match tag {
            "extends" => "extends",
            "include" => {
                if self.skip_name("ignore") {
                    self.expect_word("missing")?;
                }
                "include"
            }
            "import" => {
                self.expect_word("as")?;
                names.push(self.expect_name()?);
                "import"
            }
            _ => {
                self.expect_word("import")?;
                loop {
                    if (self.is_name("with") || self.is_name("without")) && self.next_is_name("context") {
                        break;
                    }
                    let name = self.expect_name()?;
                    names.push(if self.skip_name("as") { self.expect_name()? } else { name });
                    if !self.skip_op(Op::Comma) {
                        break;
                    }
                }
                "from"
            }
        };
        if (self.is_name("with") || self.is_name("without")) && self.next_is_name("context") {
            self.advance();
            self.advance();
        }
        Ok(StmtKind::Foreign { tag, template, names })
    }
}

fn stores_loop(target: &Target) -> Option<u32> {
    match target {
        Target::Name(known::LOOP, at) => Some(*at),
        Target::Name(..) | Target::Attribute(..) => None,
        Target::Tuple(items) => items.iter().find_map(stores_loop),
    }
}

fn body_stores_loop(body: &[Stmt]) -> Option<u32> {
    body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Set(target, _) => stores_loop(target),
        StmtKind::SetBlock { target, body, .. } => stores_loop(target).or_else(|| body_stores_loop(body)),
        StmtKind::If { branches, otherwise } => {
            branches.iter().find_map(|(_, body)| body_stores_loop(body)).or_else(|| body_stores_loop(otherwise))
        }
        // Nested loops were checked when they were parsed.
        StmtKind::With { body, .. }
        | StmtKind::FilterBlock { body, .. }
        | StmtKind::Generation(body)
        | StmtKind::Scope(body)
        | StmtKind::Macro { body, .. }
        | StmtKind::CallBlock { body, .. }
        | StmtKind::Block { body, .. } => body_stores_loop(body),
        _ => None,
    })
}
