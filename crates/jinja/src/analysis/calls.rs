use super::known::{ConstantValue, KnownFacts};
use super::path::WordId;
use super::record::TestRecord;
use super::{ParseResult, Use, Walk};
use crate::builtins::functions::Function;
use crate::parser::ast::{Args, Expr, ExprKind, NameId};
use crate::parser::known as names;

/// String methods that test or search a string.
pub(super) const QUESTIONS: [&str; 16] = [
    "startswith",
    "endswith",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
    "isdigit",
    "isalpha",
    "isalnum",
    "isspace",
    "isupper",
    "islower",
    "istitle",
    "isdecimal",
    "isnumeric",
];

/// The facts about the arguments of a call.
struct ArgumentFacts {
    positional: Vec<KnownFacts>,
    keywords: Vec<(NameId, KnownFacts)>,
}

impl ArgumentFacts {
    fn first(&self) -> KnownFacts {
        self.positional.first().cloned().unwrap_or_default()
    }
}

impl<'t> Walk<'t> {
    /// Reports whether a callee is a method that tests or searches a string.
    pub(super) fn asks(&self, callee: &Expr) -> bool {
        matches!(&callee.kind, ExprKind::Attribute(_, name) if QUESTIONS.contains(&self.name(*name)))
    }

    fn given(&mut self, args: &'t Args) -> ParseResult<ArgumentFacts> {
        let positional = self.values(&args.positional)?;
        let keywords = args.keywords.iter().map(|(name, value)| Ok((*name, self.value(value)?)));
        let mut given = ArgumentFacts { keywords: keywords.collect::<ParseResult<_>>()?, positional };
        for spread in args.spread.iter().chain(&args.spread_keywords) {
            let known = self.value(spread)?;
            given.positional.push(known.value(&mut self.paths));
        }
        Ok(given)
    }

    /// Evaluates a call; a call block passes its body as `caller`.
    pub(super) fn call_expression(&mut self, expr: &'t Expr, caller: Option<KnownFacts>) -> ParseResult<KnownFacts> {
        let ExprKind::Call(callee, args) = &expr.kind else { return self.value(expr) };
        let given = self.given(args)?;
        match &callee.kind {
            ExprKind::Name(names::LOOP) if !self.loops.is_empty() => {
                if let Some(at) = self.loops.last().copied() {
                    let first = given.first();
                    self.has_learned |= self.recursions.entry(at).or_default().join(first);
                }
                Ok(KnownFacts::default())
            }
            ExprKind::Name(name) if !self.is_set(*name) && Function::find(self.name(*name)).is_some() => {
                let function = Function::find(self.name(*name));
                Ok(function.map_or_else(KnownFacts::default, |function| self.call_function(function, given, callee.at)))
            }
            ExprKind::Attribute(node, name) => {
                let subject = self.value(node)?;
                if subject.spaces.is_empty() && subject.macros.is_empty() {
                    return self.method(&subject, *name, given, callee.at);
                }
                let callee = self.value(callee)?;
                Ok(self.call_known(&callee, &given, caller))
            }
            _ => {
                let known = self.value(callee)?;
                if known.macros.is_empty() {
                    // A caller's function.
                    self.record.read(&known.is, Use::Changed, callee.at);
                }
                Ok(self.call_known(&known, &given, caller))
            }
        }
    }

    fn call_known(&mut self, callee: &KnownFacts, given: &ArgumentFacts, caller: Option<KnownFacts>) -> KnownFacts {
        let mut result = KnownFacts::default();
        for at in &callee.macros {
            result.join(self.call_macro(*at, &given.positional, &given.keywords, caller.clone()));
        }
        result
    }

    fn call_function(&mut self, function: Function, given: ArgumentFacts, at: u32) -> KnownFacts {
        self.record.call(function, given.first(), at);
        match function {
            Function::Namespace => {
                let mut fields = Vec::with_capacity(given.keywords.len());
                for (name, known) in given.keywords {
                    fields.push((self.word(name), known));
                }
                for known in given.positional {
                    fields.extend(known.fields.iter().cloned());
                }
                let space = self.spaces.entry(at).or_default();
                for (word, known) in fields {
                    self.has_learned |= match space.iter_mut().find(|(key, _)| *key == word) {
                        Some((_, field)) => field.join(known),
                        None => {
                            space.push((word, known));
                            true
                        }
                    };
                }
                KnownFacts::space(at)
            }
            Function::Dict => {
                let mut known = given.first();
                let mut fields = Vec::with_capacity(given.keywords.len());
                for (name, value) in given.keywords {
                    fields.push((self.word(name), value));
                }
                known.join(KnownFacts::dict(fields, None));
                known
            }
            _ => {
                let mut made = KnownFacts::default();
                for known in given.positional.iter().chain(given.keywords.iter().map(|(_, known)| known)) {
                    self.record.read(&known.is, Use::Changed, at);
                    made.join(known.made(None));
                }
                made
            }
        }
    }

    fn method(&mut self, subject: &KnownFacts, name: NameId, given: ArgumentFacts, at: u32) -> ParseResult<KnownFacts> {
        let spelling = self.name(name);
        let word = self.word(name);
        match spelling {
            "get" | "pop" if !given.positional.is_empty() => {
                let key = given.first();
                let mut found = KnownFacts::default();
                for key in self.keys(&key) {
                    found.join(subject.key(key, &mut self.paths));
                }
                if key.constants.is_empty() {
                    found.join(subject.value(&mut self.paths));
                }
                if let Some(default) = given.positional.get(1) {
                    found.join(default.clone());
                }
                return Ok(found);
            }
            "items" => {
                self.record.read(&subject.is, Use::Iterated, at);
                return Ok(subject.pairs(&mut self.paths));
            }
            "values" => {
                let values = subject.value(&mut self.paths);
                return Ok(KnownFacts::list_of(values));
            }
            "copy" => return Ok(subject.clone()),
            _ => {}
        }
        if QUESTIONS.contains(&spelling) {
            let with = given.first();
            let mut both = subject.clone();
            both.join(KnownFacts::made_of(with.all_paths(), &[]));
            self.record.compare(&both, TestRecord::Method(word), with, at);
            return Ok(both.made(Some(word)));
        }
        Ok(self.made_by(subject, word, &given, at))
    }

    /// Returns the facts about the result of a filter or a method.
    fn made_by(&mut self, subject: &KnownFacts, word: WordId, given: &ArgumentFacts, at: u32) -> KnownFacts {
        self.record.read(&subject.all_paths(), Use::Changed, at);
        let mut made = subject.made(Some(word));
        for known in given.positional.iter().chain(given.keywords.iter().map(|(_, known)| known)) {
            self.record.read(&known.is, Use::Changed, at);
            made.join(known.made(None));
        }
        made
    }

    /// Evaluates a filter, or a chain of them on the body of a block.
    pub(super) fn filtered(&mut self, expr: &'t Expr, body: KnownFacts) -> ParseResult<KnownFacts> {
        let ExprKind::Filter(subject, name, args) = &expr.kind else { return self.value(expr) };
        let known = match subject {
            Some(inner) if has_no_subject(inner) => self.filtered(inner, body)?,
            _ => body,
        };
        let given = self.given(args)?;
        self.filter(known, *name, given, expr.at)
    }

    fn filter(&mut self, known: KnownFacts, name: NameId, given: ArgumentFacts, at: u32) -> ParseResult<KnownFacts> {
        let word = self.word(name);
        Ok(match self.name(name) {
            "list" | "sort" | "reverse" | "unique" => known,
            "first" | "last" | "random" | "min" | "max" => known.item(&mut self.paths),
            "items" | "dictsort" => {
                self.record.read(&known.is, Use::Iterated, at);
                known.pairs(&mut self.paths)
            }
            "default" | "d" => {
                let mut either = known;
                either.join(given.first());
                either
            }
            "attr" => {
                let mut found = KnownFacts::default();
                for key in self.keys(&given.first()) {
                    found.join(known.key(key, &mut self.paths));
                }
                found
            }
            "map" => {
                let item = known.item(&mut self.paths);
                let attribute = given.keywords.iter().find(|(name, _)| self.name(*name) == "attribute");
                let items = match attribute.map(|(_, known)| known.clone()) {
                    Some(attribute) => {
                        let mut found = KnownFacts::default();
                        for key in self.keys(&attribute) {
                            found.join(item.key(key, &mut self.paths));
                        }
                        found
                    }
                    None => self.made_by(&item, word, &given, at),
                };
                KnownFacts::list_of(items)
            }
            "select" | "reject" => {
                let item = known.item(&mut self.paths);
                self.selected(&item, &given.positional, at);
                known
            }
            "selectattr" | "rejectattr" => {
                let item = known.item(&mut self.paths);
                for key in self.keys(&given.first()) {
                    let field = item.key(key, &mut self.paths);
                    self.selected(&field, given.positional.get(1..).unwrap_or(&[]), at);
                }
                known
            }
            _ => self.made_by(&known, word, &given, at),
        })
    }

    /// Records the test that `select` applies to each item, given by name with its argument.
    fn selected(&mut self, known: &KnownFacts, args: &[KnownFacts], at: u32) {
        let tests = args.first().map(|name| self.keys(name)).unwrap_or_default();
        let with = args.get(1).cloned().unwrap_or_default();
        match tests.first() {
            Some(test) => self.record.compare(known, TestRecord::Is(*test), with, at),
            None => self.record.compare(known, TestRecord::True, with, at),
        }
    }

    /// Returns the strings that a value may be; of `a.b`, the last name.
    pub(super) fn keys(&mut self, known: &KnownFacts) -> Vec<WordId> {
        let tree = self.tree;
        let texts = known.constants.iter().filter_map(|constant| match constant {
            ConstantValue::Text(id) => tree.literals.text(*id),
            _ => None,
        });
        let keys: Vec<&str> = texts.collect();
        keys.into_iter().map(|key| self.paths.word(key)).collect()
    }
}

/// Reports whether a chain of filters starts with the body of a block.
fn has_no_subject(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Filter(None, ..) => true,
        ExprKind::Filter(Some(inner), ..) => has_no_subject(inner),
        _ => false,
    }
}
