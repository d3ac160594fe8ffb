use super::known::{ConstantValue, KnownFacts};
use super::{Macro, ParseResult, Use, Walk};
use crate::parser::ast::{For, NameId, Signature, Stmt, StmtKind, Target};
use crate::parser::known as names;

impl<'t> Walk<'t> {
    pub(super) fn body(&mut self, body: &'t [Stmt]) -> ParseResult<()> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &'t Stmt) -> ParseResult<()> {
        self.charge(stmt.at, 1)?;
        match &stmt.kind {
            StmtKind::Data(id) => self.write(KnownFacts::constant(ConstantValue::Text(*id))),
            StmtKind::Print(value) => {
                let known = self.value(value)?;
                self.record.read(&known.all_paths(), Use::Printed, value.at);
                self.write(known);
            }
            StmtKind::If { branches, otherwise } => {
                for (test, _) in branches {
                    self.decide(test)?;
                }
                let bodies = branches.iter().map(|(_, body)| body.as_slice());
                self.one_of(stmt.at, bodies.chain([otherwise.as_slice()]))?;
            }
            StmtKind::For(parts) => self.for_loop(parts, stmt.at)?,
            StmtKind::Set(target, value) => {
                let known = self.value(value)?;
                self.assign(target, known, stmt.at)?;
            }
            StmtKind::SetBlock { target, filter, body } => {
                let mut known = self.captured(|walk| walk.inside(|walk| walk.body(body)))?;
                if let Some(filter) = filter {
                    known = self.filtered(filter, known)?;
                }
                self.assign(target, known, stmt.at)?;
            }
            StmtKind::Macro { name, signature, body } => {
                let word = self.word(*name);
                self.record.assign(word, stmt.at);
                self.set(*name, KnownFacts::routine(stmt.at), stmt.at)?;
                self.routine(stmt.at, signature, body)?;
            }
            StmtKind::CallBlock { signature, call, body } => {
                self.routine(stmt.at, signature, body)?;
                let caller = KnownFacts::routine(stmt.at);
                let known = self.call_expression(call, Some(caller))?;
                self.record.read(&known.all_paths(), Use::Printed, call.at);
                self.write(known);
            }
            StmtKind::FilterBlock { filter, body } => {
                let known = self.captured(|walk| walk.inside(|walk| walk.body(body)))?;
                let known = self.filtered(filter, known)?;
                self.write(known);
            }
            StmtKind::With { targets, body } => {
                let values = targets.iter().map(|(_, value)| self.value(value)).collect::<ParseResult<Vec<_>>>()?;
                self.inside(|walk| {
                    for ((target, value), known) in targets.iter().zip(values) {
                        walk.assign(target, known, value.at)?;
                    }
                    walk.body(body)
                })?;
            }
            StmtKind::Generation(body) | StmtKind::Scope(body) | StmtKind::Block { body, .. } => {
                self.inside(|walk| walk.body(body))?;
            }
            StmtKind::Do(value) => drop(self.value(value)?),
            StmtKind::Break | StmtKind::Continue | StmtKind::Foreign { .. } => {}
        }
        Ok(())
    }

    /// Adds a written value to the innermost capture, if there is one.
    fn write(&mut self, known: KnownFacts) {
        if let Some(capture) = self.captures.last_mut() {
            let mut made = known.made(None);
            made.join(KnownFacts::constants(&known.constants));
            capture.join(made);
        }
    }

    fn for_loop(&mut self, parts: &'t For, at: u32) -> ParseResult<()> {
        let mut iterated = self.value(&parts.iter)?;
        self.record.read(&iterated.is, Use::Iterated, parts.iter.at);
        if let Some(known) = self.recursions.get(&at) {
            iterated.join(known.clone());
        }
        let item = iterated.item(&mut self.paths);
        self.charge(at, item.size())?;
        self.loops.push(at);
        let result = self.inside(|walk| {
            let near = ["previtem", "nextitem"].map(|name| (walk.paths.word(name), item.clone()));
            walk.set(names::LOOP, KnownFacts::dict(near.into(), None), at)?;
            walk.assign(&parts.target, item, at)?;
            if let Some(test) = &parts.test {
                walk.decide(test)?;
            }
            walk.body(&parts.body)
        });
        self.loops.pop();
        result?;
        self.inside(|walk| walk.body(&parts.otherwise))
    }

    fn assign(&mut self, target: &'t Target, known: KnownFacts, at: u32) -> ParseResult<()> {
        match target {
            Target::Name(name, at) => {
                let word = self.word(*name);
                // `{% set x = x | default(1) %}` keeps a value of the caller.
                let own = self.paths.root(word);
                if !known.is.contains(&own) {
                    self.record.assign(word, *at);
                }
                self.set(*name, known, *at)
            }
            Target::Attribute(name, attribute, _) => {
                let word = self.word(*attribute);
                for space in self.lookup(*name, at)?.spaces.clone() {
                    let fields = self.spaces.entry(space).or_default();
                    self.has_learned |= match fields.iter_mut().find(|(key, _)| *key == word) {
                        Some((_, field)) => field.join(known.clone()),
                        None => {
                            fields.push((word, known.clone()));
                            true
                        }
                    };
                }
                Ok(())
            }
            Target::Tuple(targets) => {
                for (index, target) in targets.iter().enumerate() {
                    let part = known.part(index, &mut self.paths);
                    self.assign(target, part, at)?;
                }
                Ok(())
            }
        }
    }

    /// Walks the body of a macro or call block, with the facts known about its arguments.
    fn routine(&mut self, at: u32, signature: &'t Signature, body: &'t [Stmt]) -> ParseResult<()> {
        let defaults = signature.defaults.iter().map(|value| self.value(value)).collect::<ParseResult<Vec<_>>>()?;
        self.signatures.insert(at, &signature.params);
        let Macro { params, caller, .. } = self.macros.entry(at).or_default();
        params.resize_with(signature.params.len(), KnownFacts::default);
        let mut given = params.clone();
        let caller = caller.clone();
        let first_default = given.len().saturating_sub(defaults.len());
        for (param, default) in given.iter_mut().skip(first_default).zip(defaults) {
            param.join(default);
        }
        let outer_loops = std::mem::take(&mut self.loops);
        self.in_macro += 1;
        let written = self.captured(|walk| {
            walk.inside(|walk| {
                walk.set(names::CALLER, caller, at)?;
                for (name, known) in signature.params.iter().zip(given) {
                    walk.set(*name, known, at)?;
                }
                walk.body(body)
            })
        });
        self.in_macro -= 1;
        self.loops = outer_loops;
        if let Some(known) = self.macros.get_mut(&at) {
            self.has_learned |= known.output.join(written?);
        }
        Ok(())
    }

    /// Calls a macro with the facts about its arguments, and returns the facts about its output.
    pub(super) fn call_macro(
        &mut self,
        at: u32,
        positional: &[KnownFacts],
        keywords: &[(NameId, KnownFacts)],
        caller: Option<KnownFacts>,
    ) -> KnownFacts {
        let params = self.signatures.get(&at).copied();
        let Some(callee) = self.macros.get_mut(&at) else { return KnownFacts::default() };
        callee.params.resize_with(params.map_or(0, <[NameId]>::len), KnownFacts::default);
        for (param, known) in callee.params.iter_mut().zip(positional) {
            self.has_learned |= param.join(known.clone());
        }
        for (name, known) in keywords {
            let place = params.and_then(|params| params.iter().position(|param| param == name));
            if let Some(param) = place.and_then(|place| callee.params.get_mut(place)) {
                self.has_learned |= param.join(known.clone());
            }
        }
        if let Some(caller) = caller {
            self.has_learned |= callee.caller.join(caller);
        }
        callee.output.clone()
    }
}
