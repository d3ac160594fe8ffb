//! Computes the text a template may write, as a graph of its literals that tells which may be
//! adjacent in an output.
//!
//! Every literal is in the graph, even one that is only compared. A value that is not the
//! template's own may be anything, including empty, so it becomes an empty node: the text before
//! and after it may be adjacent.

mod names;
mod strings;

use std::collections::HashMap;

use super::calls::QUESTIONS;
use crate::limits::Limits;
use crate::parser::ast::{Args, BinaryOp, Expr, ExprKind, NameId, Stmt, StmtKind, Tree};
use crate::parser::{ParseResult, parse};

/// The most nodes in a graph; the largest known template has a twentieth of that.
const MOST_NODES: usize = 1 << 17;
/// The most format strings that one expression may be.
const MOST_STRINGS: usize = 64;
/// The most nested substitutions of variables.
const DEEPEST: usize = 24;

/// Filters that only read their arguments. The arguments of any other filter may be written.
const READING_FILTERS: [&str; 9] =
    ["trim", "select", "reject", "selectattr", "rejectattr", "sort", "unique", "groupby", "length"];
/// Methods that only read their arguments, like those that ask about a string. The arguments of any
/// other method may be written.
const READING_METHODS: [&str; 10] = [
    "strip",
    "lstrip",
    "rstrip",
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "splitlines",
];

/// The literals of a template, and which of them may follow each other in its output.
///
/// ```
/// use rolecall_jinja::{Limits, Template, NodeContent};
/// let template = Template::compile("{{ '<|' ~ 'end' ~ '|>' }}", &Limits::default())?;
/// let writes = template.writes(&Limits::default())?;
/// assert!(writes.is_complete);
/// assert!(writes.nodes.iter().any(|node| node.written == NodeContent::Text("end".into())));
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// The nodes; each may start a text.
    pub nodes: Vec<WritesNode>,
    /// Whether all possible adjacencies are included; a template may be too large for that.
    pub is_complete: bool,
}

/// A part of the text that a template may write.
#[derive(Clone, Debug)]
pub struct WritesNode {
    /// The content of the node.
    pub written: NodeContent,
    /// The nodes that may follow.
    pub next: Vec<u32>,
}

/// The content of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeContent {
    /// Nothing of the template's own.
    Nothing,
    /// Text of the template.
    Text(Box<str>),
    /// The role of a message.
    Role,
    /// A caller's variable.
    Variable(Box<str>),
}

/// Computes the graph of a normalized source.
pub(crate) fn writes(source: &str, limits: &Limits) -> ParseResult<Writes> {
    let tree = parse(source, limits)?;
    let mut builder = Builder::new(&tree);
    for text in tree.literals.texts() {
        builder.text(text);
    }
    builder.find_macros(&tree.body);
    builder.learn(&tree.body);
    builder.body(&tree.body);
    for chain in std::mem::take(&mut builder.chains) {
        builder.value(chain);
    }
    Ok(Writes { is_complete: builder.nodes.len() < MOST_NODES, nodes: builder.nodes })
}

/// The entry and exit nodes of a part of the graph.
type Subgraph = (u32, u32);

/// A possible value of a variable.
#[derive(Clone, Copy)]
enum PossibleValue<'t> {
    Of(&'t Expr),
    /// An item of a list, or a value of a dict.
    In(&'t Expr),
    /// Any string nested in the expression, at any depth.
    Within(&'t Expr),
    /// A body, and the filters applied to it.
    Block(&'t [Stmt], Option<&'t Expr>),
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
    values: HashMap<Name, Vec<PossibleValue<'t>>>,
    macros: HashMap<NameId, (&'t [NameId], &'t [Stmt])>,
    /// Expressions that concatenate or transform text.
    chains: Vec<&'t Expr>,
    /// The names being substituted, whether whole or as an item, and the part of each.
    open: Vec<(Name, Use, Subgraph)>,
    /// The bodies of `call` blocks, which `caller()` writes.
    bodies: Vec<&'t [Stmt]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Whole,
    Item,
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
            bodies: Vec::new(),
        }
    }

    fn name(&self, id: NameId) -> &'t str {
        &self.tree.names[id.0 as usize]
    }

    fn add(&mut self, written: NodeContent) -> u32 {
        // A full graph is incomplete and stops growing.
        if self.nodes.len() < MOST_NODES {
            self.nodes.push(WritesNode { written, next: Vec::new() });
        }
        self.nodes.len() as u32 - 1
    }

    fn one(&mut self, written: NodeContent) -> Subgraph {
        let node = self.add(written);
        (node, node)
    }

    fn text(&mut self, text: &str) -> Subgraph {
        self.one(if text.is_empty() { NodeContent::Nothing } else { NodeContent::Text(text.into()) })
    }

    fn literal(&mut self, id: u32) -> Subgraph {
        self.text(self.tree.literals.text(id).unwrap_or_default())
    }

    fn nothing(&mut self) -> Subgraph {
        self.one(NodeContent::Nothing)
    }

    fn link(&mut self, from: u32, to: u32) {
        let next = &mut self.nodes[from as usize].next;
        if from != to && next.last() != Some(&to) {
            next.push(to);
        }
    }

    fn row(&mut self, parts: impl IntoIterator<Item = Subgraph>) -> Subgraph {
        let mut parts = parts.into_iter();
        let Some(mut whole) = parts.next() else { return self.nothing() };
        for part in parts {
            self.link(whole.1, part.0);
            whole.1 = part.1;
        }
        whole
    }

    fn either(&mut self, parts: Vec<Subgraph>) -> Subgraph {
        if let [only] = parts.as_slice() {
            return *only;
        }
        let (first, last) = (self.add(NodeContent::Nothing), self.add(NodeContent::Nothing));
        for part in &parts {
            self.link(first, part.0);
            self.link(part.1, last);
        }
        if parts.is_empty() {
            self.link(first, last);
        }
        (first, last)
    }

    /// Repeats a part any number of times, including zero.
    fn repeated(&mut self, part: Subgraph) -> Subgraph {
        let (first, last) = (self.add(NodeContent::Nothing), self.add(NodeContent::Nothing));
        self.link(first, part.0);
        self.link(part.1, first);
        self.link(first, last);
        (first, last)
    }

    fn body(&mut self, body: &'t [Stmt]) -> Subgraph {
        let mut parts = Vec::new();
        for stmt in body {
            if self.nodes.len() >= MOST_NODES {
                break;
            }
            parts.extend(self.statement(stmt));
        }
        self.row(parts)
    }

    fn statement(&mut self, stmt: &'t Stmt) -> Option<Subgraph> {
        Some(match &stmt.kind {
            StmtKind::Data(id) => self.literal(*id),
            StmtKind::Print(value) => self.value(value),
            StmtKind::If { branches, otherwise } => {
                let mut parts: Vec<Subgraph> = branches.iter().map(|(_, body)| self.body(body)).collect();
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
            StmtKind::FilterBlock { body, filter } => self.filtered(body, Some(filter)),
            StmtKind::With { body, .. }
            | StmtKind::Generation(body)
            | StmtKind::Block { body, .. }
            | StmtKind::Scope(body) => self.body(body),
            StmtKind::Set(..) | StmtKind::Do(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Foreign { .. } => {
                return None;
            }
        })
    }

    /// Returns the text that an expression may write.
    fn value(&mut self, expr: &'t Expr) -> Subgraph {
        if self.nodes.len() >= MOST_NODES {
            return self.nothing();
        }
        match &expr.kind {
            ExprKind::Str(id) => self.literal(*id),
            ExprKind::Name(name) => self.variable(Name::Variable(*name)),
            ExprKind::Sum(items) | ExprKind::Concat(items) => {
                let parts: Vec<Subgraph> = items.iter().map(|item| self.value(item)).collect();
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
            ExprKind::Attribute(_, name) if self.name(*name) == "role" => self.one(NodeContent::Role),
            ExprKind::Attribute(node, name) => match &node.kind {
                ExprKind::Name(space) => {
                    let parts = vec![self.variable(Name::Attribute(*space, *name)), self.items(node)];
                    self.either(parts)
                }
                _ => self.items(node),
            },
            ExprKind::Item(node, index) => match index.kind {
                ExprKind::Str(id) if self.tree.literals.text(id) == Some("role") => self.one(NodeContent::Role),
                _ if matches!(index.kind, ExprKind::Str(_) | ExprKind::Int(_)) || self.is_own(node) => self.items(node),
                // In a message, a computed key may be any key.
                _ => {
                    let parts = vec![self.items(node), self.one(NodeContent::Role)];
                    self.either(parts)
                }
            },
            ExprKind::Slice(node, _) => self.value(node),
            ExprKind::Binary(BinaryOp::Mod, left, right) => {
                let values = self.values_of(right);
                self.filled_all(left, '%', &values)
            }
            ExprKind::Filter(Some(subject), name, args) => self.filter(subject, *name, args),
            ExprKind::Filter(None, name, args) if !READING_FILTERS.contains(&self.name(*name)) => {
                self.mixed(None, args)
            }
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

    fn filter(&mut self, subject: &'t Expr, name: NameId, args: &'t Args) -> Subgraph {
        match self.name(name) {
            "join" => self.joined(subject, args.positional.first().or_else(|| self.keyword(args, "d"))),
            "format" => {
                let values: Vec<&Expr> = args.expressions().collect();
                self.filled_all(subject, '%', &values)
            }
            "default" | "d" => {
                let mut parts = vec![self.value(subject)];
                parts.extend(args.expressions().map(|other| self.value(other)));
                self.either(parts)
            }
            "first" | "last" | "random" | "min" | "max" => self.items(subject),
            name if READING_FILTERS.contains(&name) => self.value(subject),
            _ => self.mixed(Some(subject), args),
        }
    }

    fn call(&mut self, callee: &'t Expr, args: &'t Args) -> Subgraph {
        match &callee.kind {
            ExprKind::Name(name) => match self.macros.get(name).copied() {
                Some((_, body)) => self.inside(Name::Variable(*name), Use::Whole, |builder| builder.body(body)),
                None if self.name(*name) == "caller" => self.inside(Name::Variable(*name), Use::Whole, |builder| {
                    let bodies = builder.bodies.clone();
                    let parts = bodies.into_iter().map(|body| builder.body(body)).collect();
                    builder.either(parts)
                }),
                None if self.name(*name) == "raise_exception" => self.nothing(),
                // A function that a variable stands for, such as a joiner.
                None if self.values.contains_key(&Name::Variable(*name)) => self.mixed(Some(callee), args),
                None => self.mixed(None, args),
            },
            ExprKind::Attribute(node, method) => match (self.name(*method), &node.kind) {
                ("join", _) => match args.positional.first() {
                    Some(list) => self.joined(list, Some(node)),
                    None => self.nothing(),
                },
                ("format" | "format_map", _) => {
                    let values: Vec<&Expr> = args.expressions().flat_map(|value| self.values_of(value)).collect();
                    self.filled_all(node, '{', &values)
                }
                ("get" | "pop", _) => {
                    let mut parts = vec![self.items(node)];
                    parts.extend(args.positional.iter().skip(1).map(|other| self.value(other)));
                    self.either(parts)
                }
                ("replace", _) => {
                    let mut parts = vec![self.value(node)];
                    parts.extend(args.positional.iter().skip(1).map(|by| self.value(by)));
                    let either = self.either(parts);
                    self.repeated(either)
                }
                (name, _) if READING_METHODS.contains(&name) || QUESTIONS.contains(&name) => self.value(node),
                _ => self.mixed(Some(node), args),
            },
            _ => self.mixed(Some(callee), args),
        }
    }

    fn keyword(&self, args: &'t Args, wanted: &str) -> Option<&'t Expr> {
        args.keywords.iter().find(|(name, _)| self.name(*name) == wanted).map(|(_, value)| value)
    }

    /// Returns any texts of a value and of the arguments of its filter or method, in any order.
    fn mixed(&mut self, subject: Option<&'t Expr>, args: &'t Args) -> Subgraph {
        let is_silent = |expr: &&Expr| !matches!(expr.kind, ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::None);
        let args: Vec<&Expr> = args.expressions().filter(is_silent).collect();
        let mut parts: Vec<Subgraph> = subject.into_iter().map(|subject| self.value(subject)).collect();
        if args.is_empty() {
            return self.either(parts);
        }
        for arg in args {
            parts.push(self.value(arg));
            parts.push(self.items(arg));
        }
        let either = self.either(parts);
        self.repeated(either)
    }

    /// Returns the text of a body that filters are applied to.
    fn filtered(&mut self, body: &'t [Stmt], filter: Option<&'t Expr>) -> Subgraph {
        let Some(filter) = filter else { return self.body(body) };
        let parts = vec![self.body(body), self.value(filter)];
        let either = self.either(parts);
        self.repeated(either)
    }

    /// Returns the text that a variable may hold, over all its assignments.
    fn variable(&mut self, name: Name) -> Subgraph {
        let Some(values) = self.values.get(&name).cloned() else {
            return match name {
                Name::Variable(id) => self.one(NodeContent::Variable(self.name(id).into())),
                Name::Attribute(..) => self.nothing(),
            };
        };
        self.inside(name, Use::Whole, |builder| {
            let parts = values
                .iter()
                .map(|value| match value {
                    PossibleValue::Of(expr) => builder.value(expr),
                    PossibleValue::In(expr) => builder.items(expr),
                    PossibleValue::Within(expr) => builder.within(expr),
                    PossibleValue::Block(body, filter) => builder.filtered(body, *filter),
                })
                .collect();
            builder.either(parts)
        })
    }

    /// Substitutes a name, which may refer to itself, as with a variable that text is appended to
    /// repeatedly.
    fn inside(&mut self, name: Name, way: Use, part: impl FnOnce(&mut Self) -> Subgraph) -> Subgraph {
        if let Some((.., whole)) = self.open.iter().find(|(open, same, _)| *open == name && *same == way) {
            return *whole;
        }
        if self.open.len() >= DEEPEST {
            return self.nothing();
        }
        let (first, last) = (self.add(NodeContent::Nothing), self.add(NodeContent::Nothing));
        self.open.push((name, way, (first, last)));
        let part = part(self);
        self.open.pop();
        self.link(first, part.0);
        self.link(part.1, last);
        (first, last)
    }

    /// Reports whether an expression is a list or dict written in the template.
    fn is_own(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::List(_) | ExprKind::Tuple(_) | ExprKind::Dict(_) => true,
            ExprKind::Name(name) => self.values.get(&Name::Variable(*name)).is_some_and(|values| {
                let is_own = |value: &PossibleValue<'_>| match value {
                    PossibleValue::Of(expr) => {
                        matches!(expr.kind, ExprKind::List(_) | ExprKind::Tuple(_) | ExprKind::Dict(_))
                    }
                    _ => false,
                };
                values.iter().all(is_own)
            }),
            _ => false,
        }
    }

    /// Returns the text that an item of a list or a value of a dict may hold.
    fn items(&mut self, expr: &'t Expr) -> Subgraph {
        let ExprKind::Name(name) = &expr.kind else { return self.items_of(vec![PossibleValue::Of(expr)]) };
        let name = Name::Variable(*name);
        match self.values.get(&name).cloned() {
            Some(values) => self.inside(name, Use::Item, |builder| builder.items_of(values)),
            None => self.nothing(),
        }
    }

    fn items_of(&mut self, values: Vec<PossibleValue<'t>>) -> Subgraph {
        let mut parts = Vec::new();
        for value in values {
            match value {
                PossibleValue::Of(Expr { kind: ExprKind::List(items) | ExprKind::Tuple(items), .. }) => {
                    parts.extend(items.iter().map(|item| self.value(item)));
                }
                PossibleValue::Of(Expr { kind: ExprKind::Dict(entries), .. }) => {
                    parts.extend(entries.iter().map(|(_, value)| self.value(value)));
                }
                PossibleValue::Of(expr) | PossibleValue::In(expr) | PossibleValue::Within(expr) => {
                    parts.push(self.within(expr))
                }
                PossibleValue::Block(..) => {}
            }
        }
        self.either(parts)
    }
}
