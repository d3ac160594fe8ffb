use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprBinary, Lit, ReturnType, Stmt, Type, UnOp};

/// A place in a source file where a small bug can be planted.
#[derive(Clone, Debug)]
pub struct Site {
    /// The path in the workspace.
    pub file: String,
    /// The bytes of the file to replace; empty for an insertion.
    pub range: Range<usize>,
    pub line: usize,
    pub column: usize,
    pub change: Change,
}

/// The effect of a mutation.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another operator between the same operands.
    Operator { left: Range<usize>, right: Range<usize>, old: String, new: &'static str },
    /// A condition that always has one value.
    Condition(bool),
    /// `!` is removed; the range is the operand.
    Not(Range<usize>),
    /// Another number.
    Number { new: String },
    /// The end of a range is moved by one.
    End(&'static str),
    /// A statement is removed.
    Drop,
    /// A function returns immediately.
    Return(&'static str),
}

impl Site {
    /// Describes the mutation.
    pub fn told(&self, source: &str) -> String {
        let cut = |range: &Range<usize>| shortened(source.get(range.clone()).unwrap_or_default());
        match &self.change {
            Change::Operator { left, right, old, new } => {
                format!("`{} {old} {}`: `{old}` becomes `{new}`", cut(left), cut(right))
            }
            Change::Condition(value) => format!("condition `{}` is always {value}", cut(&self.range)),
            Change::Not(operand) => format!("`!{}` loses its `!`", cut(operand)),
            Change::Number { new } => format!("`{}` becomes `{new}`", cut(&self.range)),
            Change::End(by) => format!("range end `{}` becomes `{}{by}`", cut(&self.range), cut(&self.range)),
            Change::Drop => format!("`{}` is left out", cut(&self.range)),
            Change::Return("") => "the function returns at once".to_owned(),
            Change::Return(value) => format!("the function returns `{value}` at once"),
        }
    }
}

fn shortened(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(60) {
        Some((at, _)) => format!("{}..", &words[..at]),
        None => words,
    }
}

/// Finds all sites of a file, in the order of the text. Tests, constants, patterns and the contents
/// of macros are skipped, and so are the sizes passed to `with_capacity` and `reserve`, which
/// change no result.
pub fn sites(file: &str, source: &str) -> Result<Vec<Site>, String> {
    let tree = syn::parse_file(source).map_err(|error| format!("{file}: {error}"))?;
    let mut finder = Finder { file, found: Vec::new() };
    finder.visit_file(&tree);
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    found: Vec<Site>,
}

impl Finder<'_> {
    fn add(&mut self, span: Span, change: Change) {
        let start = span.start();
        self.add_at(span.byte_range(), start.line, start.column + 1, change);
    }

    fn add_at(&mut self, range: Range<usize>, line: usize, column: usize, change: Change) {
        self.found.push(Site { file: self.file.to_owned(), range, line, column, change });
    }

    fn condition(&mut self, condition: &Expr, values: &[bool]) {
        if !has_let(condition) {
            for value in values {
                self.add(condition.span(), Change::Condition(*value));
            }
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if block.stmts.is_empty() {
            return;
        }
        let open = block.brace_token.span.open();
        let at = open.byte_range().end;
        let start = block.stmts[0].span().start();
        for value in returned(&signature.output) {
            self.add_at(at..at, start.line, start.column + 1, Change::Return(value));
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) && item.sig.constness.is_none() {
            self.body(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) && item.sig.constness.is_none() {
            self.body(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let is_debug = item
            .trait_
            .as_ref()
            .is_some_and(|(_, path, _)| path.segments.last().is_some_and(|last| last.ident == "Debug"));
        if !is_for_tests(&item.attrs) && !is_debug {
            visit::visit_item_impl(self, item);
        }
    }

    // Compile-time code cannot check which mutation is on.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if !matches!(&*call.func, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "with_capacity"))
        {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "reserve" {
            return self.visit_expr(&call.receiver);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement
            && can_be_left_out(expression)
        {
            self.add(statement.span(), Change::Drop);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.condition(&expression.cond, &[true, false]);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        self.condition(&expression.cond, &[false]);
        visit::visit_expr_while(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, &[true, false]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_range(&mut self, range: &'ast syn::ExprRange) {
        if let Some(end) = &range.end {
            for by in [" + 1", " - 1"] {
                self.add(end.span(), Change::End(by));
            }
        }
        visit::visit_expr_range(self, range);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            self.add(unary.span(), Change::Not(unary.expr.span().byte_range()));
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if let Some((old, new)) = exchanged(&binary.op)
            && !has_let(&binary.left)
            && !has_let(&binary.right)
        {
            let (left, right) = (binary.left.span().byte_range(), binary.right.span().byte_range());
            self.add(binary.span(), Change::Operator { left, right, old: old.to_owned(), new });
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        if let Lit::Int(number) = &literal.lit
            && let Ok(value) = number.base10_parse::<u64>()
        {
            let suffix = number.suffix();
            self.add(literal.span(), Change::Number { new: format!("{}{suffix}", value.saturating_add(1)) });
            if value > 0 {
                self.add(literal.span(), Change::Number { new: format!("{}{suffix}", value - 1) });
            }
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test"))
    })
}

/// Reports whether a condition contains `let` and so must not be in parentheses.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn can_be_left_out(expression: &Expr) -> bool {
    match expression {
        Expr::Assign(_) | Expr::Call(_) => true,
        Expr::MethodCall(call) => call.method != "reserve",
        Expr::Binary(binary) => is_assignment(&binary.op),
        Expr::Try(inner) => can_be_left_out(&inner.expr),
        _ => false,
    }
}

fn is_assignment(operator: &BinOp) -> bool {
    exchanged(operator).is_some_and(|(old, _)| matches!(old, "+=" | "-=" | "*=" | "|=" | "&="))
}

fn exchanged(operator: &BinOp) -> Option<(&'static str, &'static str)> {
    Some(match operator {
        BinOp::Lt(_) => ("<", "<="),
        BinOp::Le(_) => ("<=", "<"),
        BinOp::Gt(_) => (">", ">="),
        BinOp::Ge(_) => (">=", ">"),
        BinOp::Eq(_) => ("==", "!="),
        BinOp::Ne(_) => ("!=", "=="),
        BinOp::And(_) => ("&&", "||"),
        BinOp::Or(_) => ("||", "&&"),
        BinOp::Add(_) => ("+", "-"),
        BinOp::Sub(_) => ("-", "+"),
        BinOp::Mul(_) => ("*", "+"),
        BinOp::Div(_) => ("/", "*"),
        BinOp::BitAnd(_) => ("&", "|"),
        BinOp::BitOr(_) => ("|", "&"),
        BinOp::Shl(_) => ("<<", ">>"),
        BinOp::Shr(_) => (">>", "<<"),
        BinOp::AddAssign(_) => ("+=", "-="),
        BinOp::SubAssign(_) => ("-=", "+="),
        BinOp::MulAssign(_) => ("*=", "+="),
        BinOp::BitOrAssign(_) => ("|=", "&="),
        BinOp::BitAndAssign(_) => ("&=", "|="),
        _ => return None,
    })
}

/// Returns values that a function of this type may return immediately. Values that do not compile
/// are dropped later.
fn returned(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, of) = output else { return vec![""] };
    match &**of {
        Type::Path(path) => match path.path.segments.last().map(|last| last.ident.to_string()).as_deref() {
            Some("bool") => vec!["true", "false"],
            Some("Option") => vec!["None"],
            Some("Result") => vec!["Ok(Default::default())"],
            Some("usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" | "isize") => vec!["0", "1"],
            _ => vec!["Default::default()"],
        },
        Type::Reference(_) => vec!["Default::default()"],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::sites;

    fn told(source: &str) -> Vec<String> {
        sites("x.rs", source).unwrap().iter().map(|site| format!("{}: {}", site.line, site.told(source))).collect()
    }

    #[test]
    fn sites_are_found_where_code_runs_and_nowhere_else() {
        let source = "const N: usize = 3;\nfn f(a: &[u8]) -> bool {\n    go(a);\n    let é = [0; 4];\n    é < a\n}\n\
                      #[cfg(test)]\nmod tests { fn g() { h(1); } }\n";
        assert_eq!(
            told(source),
            [
                "3: the function returns `true` at once",
                "3: the function returns `false` at once",
                "3: `go(a);` is left out",
                "4: `0` becomes `1`",
                "5: `é < a`: `<` becomes `<=`",
            ]
        );
    }

    #[test]
    fn conditions_that_take_apart_stay() {
        let source = "fn f() { if let Some(x) = a && x == 2 { go() } }";
        assert_eq!(
            told(source),
            [
                "1: the function returns at once",
                "1: `x == 2`: `==` becomes `!=`",
                "1: `2` becomes `3`",
                "1: `2` becomes `1`"
            ]
        );
    }
}
