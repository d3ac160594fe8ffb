//! The syntax tree of a template, whose depth is bounded.

use num_bigint::BigInt;

/// A name in the template: its index in the table of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NameId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) at: u32,
    /// The height of the tree below this expression, itself included.
    pub(crate) depth: u32,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    None,
    Bool(bool),
    Int(i64),
    BigInt(Box<BigInt>),
    Float(f64),
    /// The number of a literal.
    Str(u32),
    Name(NameId),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attribute(Box<Expr>, NameId),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    Call(Box<Expr>, ArgList),
    /// Without a subject, the body of a filter block or set block is the subject.
    Filter(Option<Box<Expr>>, NameId, ArgList),
    Test(Box<Expr>, NameId, ArgList),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    /// `a + b + c`, left-associative.
    Sum(Vec<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a ~ b ~ c`
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// The condition, the value if it is true, and the value if it is false.
    Conditional(Box<(Expr, Expr, Option<Expr>)>),
}

impl ExprKind {
    /// Visits the direct subexpressions, in the order of jinja2's fields.
    pub(crate) fn for_each_child<'e>(&'e self, visit: &mut impl FnMut(&'e Expr)) {
        match self {
            ExprKind::None
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::BigInt(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Name(_) => {}
            ExprKind::List(items)
            | ExprKind::Tuple(items)
            | ExprKind::Sum(items)
            | ExprKind::Concat(items)
            | ExprKind::And(items)
            | ExprKind::Or(items) => items.iter().for_each(visit),
            ExprKind::Dict(items) => {
                for (key, value) in items {
                    visit(key);
                    visit(value);
                }
            }
            ExprKind::Attribute(node, _)
            | ExprKind::Not(node)
            | ExprKind::Negative(node)
            | ExprKind::Positive(node) => {
                visit(node);
            }
            ExprKind::Item(node, index) => {
                visit(node);
                visit(index);
            }
            ExprKind::Slice(node, bounds) => {
                visit(node);
                bounds.iter().flatten().for_each(visit);
            }
            ExprKind::Call(node, arguments) | ExprKind::Test(node, _, arguments) => {
                visit(node);
                arguments.expressions().for_each(visit);
            }
            ExprKind::Filter(node, _, arguments) => {
                if let Some(node) = node {
                    visit(node);
                }
                arguments.expressions().for_each(visit);
            }
            ExprKind::Binary(_, left, right) => {
                visit(left);
                visit(right);
            }
            ExprKind::Compare(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, item)| visit(item));
            }
            ExprKind::Conditional(parts) => {
                visit(&parts.0);
                visit(&parts.1);
                parts.2.iter().for_each(visit);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Expr>,
    pub(crate) keywords: Vec<(NameId, Expr)>,
    pub(crate) spread: Option<Expr>,
    pub(crate) spread_keywords: Option<Expr>,
}

/// The arguments of a call, without an allocation for an empty list.
#[derive(Debug)]
pub(crate) struct ArgList(Option<Box<Args>>);

static NO_ARGS: Args = Args { positional: Vec::new(), keywords: Vec::new(), spread: None, spread_keywords: None };

impl ArgList {
    pub(crate) fn new(args: Args) -> ArgList {
        let is_empty = args.is_plain() && args.positional.is_empty() && args.keywords.is_empty();
        ArgList(if is_empty { None } else { Some(Box::new(args)) })
    }
}

impl std::ops::Deref for ArgList {
    type Target = Args;

    fn deref(&self) -> &Args {
        self.0.as_deref().unwrap_or(&NO_ARGS)
    }
}

impl Args {
    pub(crate) fn is_plain(&self) -> bool {
        self.spread.is_none() && self.spread_keywords.is_none()
    }

    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let keywords = self.keywords.iter().map(|(_, value)| value);
        self.positional.iter().chain(keywords).chain(&self.spread).chain(&self.spread_keywords)
    }
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) enum Target {
    Name(NameId, u32),
    /// `ns.attribute`
    Attribute(NameId, NameId, u32),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) at: u32,
}

#[derive(Debug)]
pub(crate) enum StmtKind {
    /// The number of a literal.
    Data(u32),
    Print(Expr),
    If {
        branches: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    For(Box<For>),
    Set(Target, Expr),
    SetBlock {
        target: Target,
        filter: Option<Expr>,
        body: Vec<Stmt>,
    },
    Macro {
        name: NameId,
        signature: Signature,
        body: Vec<Stmt>,
    },
    CallBlock {
        signature: Signature,
        call: Expr,
        body: Vec<Stmt>,
    },
    FilterBlock {
        filter: Expr,
        body: Vec<Stmt>,
    },
    With {
        targets: Vec<(Target, Expr)>,
        body: Vec<Stmt>,
    },
    Generation(Vec<Stmt>),
    Block {
        name: NameId,
        is_scoped: bool,
        body: Vec<Stmt>,
    },
    /// `{% autoescape false %}`; no other value is supported.
    Scope(Vec<Stmt>),
    Do(Expr),
    Break,
    Continue,
    /// A tag that needs other templates, with the names it would set.
    Foreign {
        tag: &'static str,
        template: Expr,
        names: Vec<NameId>,
    },
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) iter: Expr,
    pub(crate) test: Option<Expr>,
    pub(crate) is_recursive: bool,
    pub(crate) body: Vec<Stmt>,
    pub(crate) otherwise: Vec<Stmt>,
}

#[derive(Debug, Default)]
pub(crate) struct Signature {
    pub(crate) params: Vec<NameId>,
    /// The default values of the last parameters.
    pub(crate) defaults: Vec<Expr>,
}

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) body: Vec<Stmt>,
    pub(crate) names: Vec<Box<str>>,
    pub(crate) literals: crate::output::Literals,
    /// `reads_loop`: whether `loop` is read anywhere. `reads_call_names`: whether `caller`,
    /// `kwargs` or `varargs` is.
    pub(crate) reads_loop: bool,
    pub(crate) reads_call_names: bool,
}
