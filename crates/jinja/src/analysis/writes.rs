//! What a template may write of its own, as a graph of its literals: which of them may stand beside each other in an output.
//!
//! Every literal is in it, printed or only compared. A value that is not the template's own may be anything, nothing too, so that
//! it is an empty node; what stands before it and behind it may then meet.

use std::collections::HashMap;

use crate::limits::Limits;
use crate::parser::ast::{Args, BinaryOp, Expr, ExprKind, NameId, Stmt, StmtKind, Target, Tree};
use crate::parser::{Parsed, parse};

/// Nodes of one graph; the largest known template has a twentieth.
const MOST_NODES: usize = 1 << 17;
/// Variables that are put in for each other.
const DEEPEST: usize = 24;

/// A template's literals, and which may follow which in its output.
///
/// ```
/// use rolecall_jinja::{Limits, Template, Written};
/// let template = Template::compile("{{ '<|' ~ 'end' ~ '|>' }}", &Limits::default())?;
/// let writes = template.writes(&Limits::default())?;
/// assert!(writes.is_complete);
/// assert!(writes.nodes.iter().any(|node| node.written == Written::Text("end".into())));
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// The nodes; each may begin a text.
    pub nodes: Vec<WritesNode>,
    /// Whether all that may stand side by side is known; a template may be too large for that.
    pub is_complete: bool,
}

/// A part of what a template may write.
#[derive(Clone, Debug)]
pub struct WritesNode {
    /// What it writes.
    pub written: Written,
    /// What may come next.
    pub next: Vec<u32>,
}

/// What a part of a template writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nothing of its own.
    Nothing,
    /// A text of its own.
    Text(Box<str>),
    /// The role of a message.
    Role,
    /// A variable of the caller's.
    Variable(Box<str>),
}

/// The graph of a normalised source.
pub(crate) fn writes(source: &str, limits: &Limits) -> Parsed<Writes> {
    let tree = parse(source, limits)?;
    let mut builder = Builder::new(&tree);
    for text in tree.literals.texts() {
        builder.text(text);
    }
    builder.learn(&tree.body);
    builder.body(&tree.body);
    for chain in std::mem::take(&mut builder.chains) {
        builder.value(chain);
    }
    Ok(Writes { is_complete: builder.nodes.len() < MOST_NODES, nodes: builder.nodes })
}

/// Where a part of the graph is entered and left.
type Part = (u32, u32);

/// What a variable may be.
#[derive(Clone, Copy)]
enum Value<'t> {
    Of(&'t Expr),
    /// An item of a list or a value of a dict.
    In(&'t Expr),
    Block(&'t [Stmt]),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Variable(NameId),
    /// `ns.attribute`
    Attribute(NameId, NameId),
}

struct Builder<'t> {
    tree: &'t Tree,
    nodes: Vec<WritesNode>,
    values: HashMap<Name, Vec<Value<'t>>>,
    macros: HashMap<NameId, (&'t [NameId], &'t [Stmt])>,
    /// Texts that are put together somewhere.
    chains: Vec<&'t Expr>,
    /// What is being put in.
    open: Vec<Name>,
}

impl<'t> Builder<'t> {
    fn new(tree: &'t Tree) -> Builder<'t> {
        Builder {
            tree,
            nodes: Vec::new(),
            values: HashMap::new(),
            macros: HashMap::new(),
            chains: Vec::new(),
            open: Vec::new(),
        }
    }

    fn name(&self, id: NameId) -> &'t str {
        &self.tree.names[id.0 as usize]
    }

    fn add(&mut self, written: Written) -> u32 {
        // A full graph is not complete, and stays small.
        if self.nodes.len() < MOST_NODES {
            self.nodes.push(WritesNode { written, next: Vec::new() });
        }
        self.nodes.len() as u32 - 1
    }

    fn one(&mut self, written: Written) -> Part {
        let node = self.add(written);
        (node, node)
    }

    fn text(&mut self, text: &str) -> Part {
        self.one(if text.is_empty() { Written::Nothing } else { Written::Text(text.into()) })
    }

    fn literal(&mut self, id: u32) -> Part {
        self.text(self.tree.literals.text(id).unwrap_or_default())
    }

    fn nothing(&mut self) -> Part {
        self.one(Written::Nothing)
    }

    fn link(&mut self, from: u32, to: u32) {
        let next = &mut self.nodes[from as usize].next;
        if from != to && next.last() != Some(&to) {
            next.push(to);
        }
    }

    fn row(&mut self, parts: impl IntoIterator<Item = Part>) -> Part {
        let mut parts = parts.into_iter();
        let Some(mut whole) = parts.next() else { return self.nothing() };
        for part in parts {
            self.link(whole.1, part.0);
            whole.1 = part.1;
        }
        whole
    }

    fn either(&mut self, parts: Vec<Part>) -> Part {
        if let [only] = parts.as_slice() {
            return *only;
        }
        let (first, last) = (self.add(Written::Nothing), self.add(Written::Nothing));
        for part in &parts {
            self.link(first, part.0);
            self.link(part.1, last);
        }
        if parts.is_empty() {
            self.link(first, last);
        }
        (first, last)
    }

    /// The parts again and again, or none.
    fn repeated(&mut self, part: Part) -> Part {
        let (first, last) = (self.add(Written::Nothing), self.add(Written::Nothing));
        self.link(first, part.0);
        self.link(part.1, first);
        self.link(first, last);
        (first, last)
    }

    fn body(&mut self, body: &'t [Stmt]) -> Part {
        let mut parts = Vec::new();
        for stmt in body {
            if self.nodes.len() >= MOST_NODES {
                break;
            }
            parts.extend(self.statement(stmt));
        }
        self.row(parts)
    }

    fn statement(&mut self, stmt: &'t Stmt) -> Option<Part> {
        Some(match &stmt.kind {
            StmtKind::Data(id) => self.literal(*id),
            StmtKind::Print(value) => self.value(value),
            StmtKind::If { branches, otherwise } => {
                let mut parts: Vec<Part> = branches.iter().map(|(_, body)| self.body(body)).collect();
                parts.push(self.body(otherwise));
                self.either(parts)
            }
            StmtKind::For(parts) => {
                let body = self.body(&parts.body);
                let body = self.repeated(body);
                let otherwise = self.body(&parts.otherwise);
                self.row([body, otherwise])
            }
            StmtKind::CallBlock { call, body, .. } => {
                let parts = vec![self.value(call), self.body(body)];
                let either = self.either(parts);
                self.repeated(either)
            }
            StmtKind::Macro { body, .. } => {
                self.body(body);
                return None;
            }
            StmtKind::SetBlock { body, .. } => {
                self.body(body);
                return None;
            }
            StmtKind::FilterBlock { body, .. }
            | StmtKind::With { body, .. }
            | StmtKind::Generation(body)
            | StmtKind::Block { body, .. }
            | StmtKind::Scope(body) => self.body(body),
            StmtKind::Set(..) | StmtKind::Do(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Foreign { .. } => {
                return None;
            }
        })
    }

    /// What an expression may write.
    fn value(&mut self, expr: &'t Expr) -> Part {
        if self.nodes.len() >= MOST_NODES {
            return self.nothing();
        }
        match &expr.kind {
            ExprKind::Str(id) => self.literal(*id),
            ExprKind::Name(name) => self.variable(Name::Variable(*name)),
            ExprKind::Sum(items) | ExprKind::Concat(items) => {
                let parts: Vec<Part> = items.iter().map(|item| self.value(item)).collect();
                self.row(parts)
            }
            ExprKind::And(items) | ExprKind::Or(items) => {
                let parts = items.iter().map(|item| self.value(item)).collect();
                self.either(parts)
            }
            ExprKind::Conditional(parts) => {
                let mut either = vec![self.value(&parts.1)];
                either.push(match &parts.2 {
                    Some(otherwise) => self.value(otherwise),
                    None => self.nothing(),
                });
                self.either(either)
            }
            ExprKind::Attribute(_, name) if self.name(*name) == "role" => self.one(Written::Role),
            ExprKind::Attribute(node, name) => match &node.kind {
                ExprKind::Name(space) => {
                    let parts = vec![self.variable(Name::Attribute(*space, *name)), self.items(node)];
                    self.either(parts)
                }
                _ => self.items(node),
            },
            ExprKind::Item(node, index) => match index.kind {
                ExprKind::Str(id) if self.tree.literals.text(id) == Some("role") => self.one(Written::Role),
                _ => self.items(node),
            },
            ExprKind::Slice(node, _) => self.value(node),
            ExprKind::Binary(BinaryOp::Mod, left, right) => match left.kind {
                ExprKind::Str(id) => {
                    let values = self.values_of(right);
                    self.filled(id, '%', &values)
                }
                _ => self.nothing(),
            },
            ExprKind::Filter(Some(subject), name, args) => match (self.name(*name), &subject.kind) {
                ("join", _) => self.joined(subject, args.positional.first()),
                ("format", ExprKind::Str(id)) => {
                    let values: Vec<&Expr> = args.expressions().collect();
                    self.filled(*id, '%', &values)
                }
                ("default" | "d", _) => {
                    let mut parts = vec![self.value(subject)];
                    parts.extend(args.positional.first().map(|other| self.value(other)));
                    self.either(parts)
                }
                _ => self.value(subject),
            },
            ExprKind::Call(callee, args) => self.call(callee, args),
            ExprKind::Binary(..)
            | ExprKind::None
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::BigInt(_)
            | ExprKind::Float(_)
            | ExprKind::List(_)
            | ExprKind::Tuple(_)
            | ExprKind::Dict(_)
            | ExprKind::Filter(None, ..)
            | ExprKind::Test(..)
            | ExprKind::Not(_)
            | ExprKind::Negative(_)
            | ExprKind::Positive(_)
            | ExprKind::Compare(..) => self.nothing(),
        }
    }

    fn call(&mut self, callee: &'t Expr, args: &'t Args) -> Part {
        match &callee.kind {
            ExprKind::Name(name) => match self.macros.get(name).copied() {
                Some((_, body)) => self.inside(Name::Variable(*name), |builder| builder.body(body)),
                None => self.nothing(),
            },
            ExprKind::Attribute(node, method) => match (self.name(*method), &node.kind) {
                ("join", _) => match args.positional.first() {
                    Some(list) => self.joined(list, Some(node)),
                    None => self.nothing(),
                },
                ("format", ExprKind::Str(id)) => {
                    let values: Vec<&Expr> = args.expressions().collect();
                    self.filled(*id, '{', &values)
                }
                ("get", _) => self.items(node),
                _ => self.value(node),
            },
            _ => self.nothing(),
        }
    }

    /// What a variable may be, wherever it is set.
    fn variable(&mut self, name: Name) -> Part {
        let Some(values) = self.values.get(&name).cloned() else {
            return match name {
                Name::Variable(id) => self.one(Written::Variable(self.name(id).into())),
                Name::Attribute(..) => self.nothing(),
            };
        };
        self.inside(name, |builder| {
            let parts = values
                .iter()
                .map(|value| match value {
                    Value::Of(expr) => builder.value(expr),
                    Value::In(expr) => builder.items(expr),
                    Value::Block(body) => builder.body(body),
                })
                .collect();
            builder.either(parts)
        })
    }

    fn inside(&mut self, name: Name, part: impl FnOnce(&mut Self) -> Part) -> Part {
        if self.open.contains(&name) || self.open.len() >= DEEPEST {
            return self.nothing();
        }
        self.open.push(name);
        let part = part(self);
        self.open.pop();
        part
    }

    /// What an item of a list, or a value of a dict, may be.
    fn items(&mut self, expr: &'t Expr) -> Part {
        let parts: Vec<Part> = match &expr.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().map(|item| self.value(item)).collect(),
            ExprKind::Dict(entries) => entries.iter().map(|(_, value)| self.value(value)).collect(),
            ExprKind::Name(name) => {
                let name = Name::Variable(*name);
                let Some(values) = self.values.get(&name).cloned() else { return self.nothing() };
                return self.inside(name, |builder| {
                    let mut parts = Vec::new();
                    for value in &values {
                        if let Value::Of(expr) = value {
                            parts.push(builder.items(expr));
                        }
                    }
                    builder.either(parts)
                });
            }
            _ => return self.nothing(),
        };
        self.either(parts)
    }

    fn joined(&mut self, list: &'t Expr, separator: Option<&'t Expr>) -> Part {
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

    fn values_of(&self, expr: &'t Expr) -> Vec<&'t Expr> {
        match &expr.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().collect(),
            _ => vec![expr],
        }
    }

    /// A literal with values put into its holes, which `%s` or `{}` are.
    fn filled(&mut self, id: u32, sign: char, values: &[&'t Expr]) -> Part {
        let text = self.tree.literals.text(id).unwrap_or_default();
        let mut row = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(sign) {
            row.push(self.text(&rest[..at]));
            let hole = &rest[at..];
            let end = match sign {
                '{' => hole.find('}').map_or(hole.len(), |end| end + 1),
                _ => hole
                    .char_indices()
                    .skip(1)
                    .find(|(_, c)| c.is_ascii_alphabetic() || *c == '%')
                    .map_or(hole.len(), |(end, c)| end + c.len_utf8()),
            };
            let parts = values.iter().map(|value| self.value(value)).collect();
            row.push(self.either(parts));
            rest = &hole[end..];
        }
        row.push(self.text(rest));
        self.row(row)
    }

    /// Reads what variables and macros are, all over the template.
    fn learn(&mut self, body: &'t [Stmt]) {
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
                    self.assign(&parts.target, Value::In(&parts.iter));
                    self.learn(&parts.body);
                    self.learn(&parts.otherwise);
                }
                StmtKind::Set(target, value) => {
                    self.learn_in(value);
                    self.assign(target, Value::Of(value));
                }
                StmtKind::SetBlock { target, filter, body } => {
                    filter.iter().for_each(|filter| self.learn_in(filter));
                    self.assign(target, Value::Block(body));
                    self.learn(body);
                }
                StmtKind::Macro { name, signature, body } => {
                    self.macros.insert(*name, (&signature.params, body));
                    let defaults = signature.params.iter().rev().zip(signature.defaults.iter().rev());
                    for (param, value) in defaults {
                        self.values.entry(Name::Variable(*param)).or_default().push(Value::Of(value));
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
                        self.assign(target, Value::Of(value));
                    }
                    self.learn(body);
                }
                StmtKind::Generation(body) | StmtKind::Block { body, .. } | StmtKind::Scope(body) => self.learn(body),
                StmtKind::Data(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Foreign { .. } => {}
            }
        }
    }

    fn learn_in(&mut self, expr: &'t Expr) {
        if matches!(expr.kind, ExprKind::Sum(_) | ExprKind::Concat(_) | ExprKind::Filter(..) | ExprKind::Call(..)) {
            self.chains.push(expr);
        }
        if let ExprKind::Call(callee, args) = &expr.kind
            && let ExprKind::Name(name) = &callee.kind
        {
            let params = self.macros.get(name).map_or(&[][..], |(params, _)| *params);
            for (param, value) in params.iter().zip(&args.positional) {
                self.values.entry(Name::Variable(*param)).or_default().push(Value::Of(value));
            }
            for (param, value) in &args.keywords {
                if params.contains(param) {
                    self.values.entry(Name::Variable(*param)).or_default().push(Value::Of(value));
                }
            }
        }
        expr.kind.for_each_child(&mut |child| self.learn_in(child));
    }

    fn assign(&mut self, target: &'t Target, value: Value<'t>) {
        match target {
            Target::Name(name, _) => {
                self.values.entry(Name::Variable(*name)).or_default().push(value);
                // What a namespace begins with.
                if let Value::Of(Expr { kind: ExprKind::Call(_, args), .. }) = value {
                    for (attribute, value) in &args.keywords {
                        let attribute = Name::Attribute(*name, *attribute);
                        self.values.entry(attribute).or_default().push(Value::Of(value));
                    }
                }
            }
            Target::Attribute(space, attribute, _) => {
                self.values.entry(Name::Attribute(*space, *attribute)).or_default().push(value);
            }
            Target::Tuple(targets) => {
                if let Value::Of(Expr { kind: ExprKind::Tuple(items) | ExprKind::List(items), .. }) = value {
                    for (target, value) in targets.iter().zip(items) {
                        self.assign(target, Value::Of(value));
                    }
                } else {
                    for target in targets {
                        if let Target::Name(name, _) = target {
                            self.values.entry(Name::Variable(*name)).or_default();
                        }
                    }
                }
            }
        }
    }
}
