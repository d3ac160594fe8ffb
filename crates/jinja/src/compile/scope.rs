//! Resolves names to variables as jinja2's idtracking does, before anything runs. A frame (a loop
//! body, a macro, a `with`) has its own copy of every name that is set inside it. A name that is
//! only read is looked up in the enclosing frames.

use std::collections::BTreeMap;

use crate::parser::ast::{Expr, ExprKind, For, NameId, Signature, Stmt, StmtKind, Target};

/// The number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(u32);

/// The number of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ident(u32);

/// The initial value of a variable when its frame is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Set by a call or a loop.
    Parameter,
    /// The value of the name in the context.
    Resolve,
    /// The value of an outer variable.
    Alias(Ident),
    /// Unset.
    Undefined,
}

/// Where a variable's value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Not determined yet.
    Unknown,
    /// In a slot of a routine.
    Slot { routine: u32, slot: u32 },
    /// In the context, since nothing sets it.
    Global(u32),
}

#[derive(Debug)]
struct Variable {
    name: NameId,
    load: Load,
    is_stored: bool,
    storage: Storage,
}

/// An insertion-ordered map from names to items. A source may contain very many names, so lookup
/// must not be linear.
#[derive(Debug)]
struct NameMap<T> {
    list: Vec<(NameId, T)>,
    places: BTreeMap<NameId, usize>,
}

impl<T> Default for NameMap<T> {
    fn default() -> NameMap<T> {
        NameMap { list: Vec::new(), places: BTreeMap::new() }
    }
}

impl<T: Copy> NameMap<T> {
    fn get(&self, name: NameId) -> Option<T> {
        self.places.get(&name).map(|place| self.list[*place].1)
    }

    fn contains(&self, name: NameId) -> bool {
        self.places.contains_key(&name)
    }

    fn set(&mut self, name: NameId, item: T) {
        match self.places.get(&name) {
            Some(place) => self.list[*place].1 = item,
            None => {
                self.places.insert(name, self.list.len());
                self.list.push((name, item));
            }
        }
    }

    /// Removes and returns the entries added after the first `count`.
    fn split_off(&mut self, count: usize) -> Vec<(NameId, T)> {
        let added = self.list.split_off(count);
        for (name, _) in &added {
            self.places.remove(name);
        }
        added
    }
}

#[derive(Debug, Default)]
struct Frame {
    parent: Option<FrameId>,
    refs: NameMap<Ident>,
    stores: NameMap<()>,
    /// All variables of the frame, including those of branches not currently visited.
    all: NameMap<Ident>,
}

/// All frames of a template.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    frames: Vec<Frame>,
    variables: Vec<Variable>,
}

impl Scopes {
    pub(crate) fn frame(&mut self, parent: Option<FrameId>) -> FrameId {
        self.frames.push(Frame { parent, ..Frame::default() });
        FrameId(self.frames.len() as u32 - 1)
    }

    fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    fn get_mut(&mut self, frame: FrameId) -> &mut Frame {
        &mut self.frames[frame.0 as usize]
    }

    pub(crate) fn find(&self, frame: FrameId, name: NameId) -> Option<Ident> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            let frame = self.get(frame);
            if let Some(ident) = frame.refs.get(name) {
                return Some(ident);
            }
            next = frame.parent;
        }
        None
    }

    /// Reports whether a frame or an enclosing one sets a name.
    pub(crate) fn is_set_around(&self, frame: FrameId, name: NameId) -> bool {
        let mut next = Some(frame);
        while let Some(frame) = next {
            let frame = self.get(frame);
            if frame.stores.contains(name) {
                return true;
            }
            next = frame.parent;
        }
        false
    }

    fn define(&mut self, frame: FrameId, name: NameId, load: Load) -> Ident {
        let ident = self.get(frame).all.get(name).unwrap_or_else(|| {
            self.variables.push(Variable { name, load, is_stored: false, storage: Storage::Unknown });
            let ident = Ident(self.variables.len() as u32 - 1);
            self.get_mut(frame).all.set(name, ident);
            ident
        });
        self.variables[ident.0 as usize].load = load;
        self.get_mut(frame).refs.set(name, ident);
        ident
    }

    fn note_store(&mut self, frame: FrameId, name: NameId) {
        self.get_mut(frame).stores.set(name, ());
    }

    fn mark_stored(&mut self, frame: FrameId, name: NameId) {
        if let Some(ident) = self.find(frame, name) {
            self.variables[ident.0 as usize].is_stored = true;
        }
    }

    fn load(&mut self, frame: FrameId, name: NameId) {
        if self.find(frame, name).is_none() {
            self.define(frame, name, Load::Resolve);
        }
    }

    pub(crate) fn store(&mut self, frame: FrameId, name: NameId) {
        self.note_store(frame, name);
        if !self.get(frame).refs.contains(name) {
            let outer = self.get(frame).parent.and_then(|parent| self.find(parent, name));
            self.define(frame, name, outer.map_or(Load::Undefined, Load::Alias));
        }
        self.mark_stored(frame, name);
    }

    pub(crate) fn declare_parameter(&mut self, frame: FrameId, name: NameId) -> Ident {
        self.note_store(frame, name);
        let ident = self.define(frame, name, Load::Parameter);
        self.variables[ident.0 as usize].is_stored = true;
        ident
    }

    /// Returns the variables of a frame in order of first use.
    pub(crate) fn variables_of(&self, frame: FrameId) -> Vec<Ident> {
        self.get(frame).refs.list.iter().map(|(_, ident)| *ident).collect()
    }

    pub(crate) fn load_of(&self, ident: Ident) -> Load {
        self.variables[ident.0 as usize].load
    }

    pub(crate) fn name_of(&self, ident: Ident) -> NameId {
        self.variables[ident.0 as usize].name
    }

    /// Reports whether nothing sets the variable, so that it always has the value from the context.
    pub(crate) fn is_global(&self, ident: Ident) -> bool {
        let variable = &self.variables[ident.0 as usize];
        variable.load == Load::Resolve && !variable.is_stored
    }

    pub(crate) fn storage(&self, ident: Ident) -> Storage {
        self.variables[ident.0 as usize].storage
    }

    pub(crate) fn set_storage(&mut self, ident: Ident, storage: Storage) {
        self.variables[ident.0 as usize].storage = storage;
    }

    // The effects of a frame's statements on its names, in source order.

    pub(crate) fn visit_body(&mut self, frame: FrameId, body: &[Stmt]) {
        for stmt in body {
            self.visit(frame, stmt);
        }
    }

    pub(crate) fn visit_target(&mut self, frame: FrameId, target: &Target, is_parameter: bool) {
        match target {
            Target::Name(name, _) if is_parameter => {
                self.declare_parameter(frame, *name);
            }
            Target::Name(name, _) => self.store(frame, *name),
            Target::Attribute(name, ..) => self.load(frame, *name),
            Target::Tuple(items) => {
                for item in items {
                    self.visit_target(frame, item, is_parameter);
                }
            }
        }
    }

    pub(crate) fn visit_for_body(&mut self, frame: FrameId, node: &For) {
        self.visit_target(frame, &node.target, true);
        self.visit_body(frame, &node.body);
    }

    pub(crate) fn visit_for_test(&mut self, frame: FrameId, node: &For) {
        self.visit_target(frame, &node.target, true);
        if let Some(test) = &node.test {
            self.visit_expr(frame, test);
        }
    }

    /// Visits the parameters, defaults and body of a macro.
    pub(crate) fn visit_macro(&mut self, frame: FrameId, signature: &Signature, body: &[Stmt]) {
        for name in &signature.params {
            self.declare_parameter(frame, *name);
        }
        for default in &signature.defaults {
            self.visit_expr(frame, default);
        }
        self.visit_body(frame, body);
    }

    fn visit(&mut self, frame: FrameId, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Data(_) | StmtKind::Break | StmtKind::Continue => {}
            // Their contents belong to frames of their own.
            StmtKind::Generation(_) | StmtKind::Block { .. } | StmtKind::Scope(_) => {}
            StmtKind::Print(value) | StmtKind::Do(value) => self.visit_expr(frame, value),
            StmtKind::If { branches, otherwise } => self.visit_if(frame, branches, otherwise),
            StmtKind::For(node) => self.visit_expr(frame, &node.iter),
            StmtKind::Set(target, value) => {
                self.visit_expr(frame, value);
                self.visit_target(frame, target, false);
            }
            StmtKind::SetBlock { target, .. } => self.visit_target(frame, target, false),
            StmtKind::Macro { name, .. } => self.store(frame, *name),
            StmtKind::CallBlock { call, .. } => self.visit_expr(frame, call),
            StmtKind::FilterBlock { filter, .. } => self.visit_expr(frame, filter),
            StmtKind::With { targets, .. } => {
                for (_, value) in targets {
                    self.visit_expr(frame, value);
                }
            }
            StmtKind::Foreign { template, names, .. } => {
                self.visit_expr(frame, template);
                for name in names {
                    self.store(frame, *name);
                }
            }
        }
    }

    /// Visits a conditional. A branch sees the names known before it, but not those set in the
    /// other branches. After the conditional, the names set in any branch count as set.
    fn visit_if(&mut self, frame: FrameId, branches: &[(Expr, Vec<Stmt>)], otherwise: &[Stmt]) {
        let Some(((test, body), rest)) = branches.split_first() else {
            return self.visit_body(frame, otherwise);
        };
        self.visit_expr(frame, test);
        let refs_before = self.get(frame).refs.list.len();
        let stores_before = self.get(frame).stores.list.len();
        let mut added_refs: Vec<(NameId, Ident)> = Vec::new();
        let mut added_stores: Vec<(NameId, ())> = Vec::new();
        for branch in 0..3 {
            match branch {
                0 => self.visit_body(frame, body),
                // jinja2 treats all `elif`s as one branch, in which each sees the ones before it.
                1 => {
                    for branch in rest {
                        self.visit_if(frame, std::slice::from_ref(branch), &[]);
                    }
                }
                _ => self.visit_body(frame, otherwise),
            }
            let found = self.get_mut(frame);
            added_refs.extend(found.refs.split_off(refs_before));
            added_stores.extend(found.stores.split_off(stores_before));
        }
        for (name, ident) in added_refs {
            let refs = &mut self.get_mut(frame).refs;
            if !refs.contains(name) {
                refs.set(name, ident);
            }
        }
        for (name, ()) in added_stores {
            if self.get(frame).stores.contains(name) {
                continue;
            }
            self.note_store(frame, name);
            let Some(target) = self.find(frame, name) else { continue };
            let outer = self.get(frame).parent.and_then(|parent| self.find(parent, name));
            let variable = &mut self.variables[target.0 as usize];
            variable.load = outer.map_or(Load::Resolve, Load::Alias);
            variable.is_stored = true;
        }
    }

    pub(crate) fn visit_expr(&mut self, frame: FrameId, expr: &Expr) {
        match &expr.kind {
            ExprKind::None
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::BigInt(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_) => {}
            ExprKind::Name(name) => self.load(frame, *name),
            other => other.for_each_child(&mut |child| self.visit_expr(frame, child)),
        }
    }
}

/// Returns which of these names a body reads before setting them, including nested bodies but not
/// blocks.
pub(crate) fn undeclared(body: &[Stmt], names: &[NameId]) -> Vec<NameId> {
    let mut search = UndeclaredNames { open: names.to_vec(), found: Vec::new() };
    search.body(body);
    search.found
}

struct UndeclaredNames {
    open: Vec<NameId>,
    found: Vec<NameId>,
}

impl UndeclaredNames {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            if self.open.is_empty() {
                return;
            }
            self.stmt(stmt);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Name(name) = &expr.kind {
            if self.open.contains(name) && !self.found.contains(name) {
                self.found.push(*name);
            }
            return;
        }
        expr.kind.for_each_child(&mut |child| self.expr(child));
    }

    fn set(&mut self, name: NameId) {
        self.open.retain(|open| *open != name);
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Name(name, _) => self.set(*name),
            Target::Attribute(..) => {}
            Target::Tuple(items) => items.iter().for_each(|item| self.target(item)),
        }
    }

    fn signature(&mut self, signature: &Signature) {
        signature.params.iter().for_each(|name| self.set(*name));
        signature.defaults.iter().for_each(|default| self.expr(default));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Data(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Block { .. } => {}
            StmtKind::Print(value) | StmtKind::Do(value) => self.expr(value),
            StmtKind::If { branches, otherwise } => {
                for (test, body) in branches {
                    self.expr(test);
                    self.body(body);
                }
                self.body(otherwise);
            }
            StmtKind::For(node) => {
                self.target(&node.target);
                self.expr(&node.iter);
                self.body(&node.body);
                self.body(&node.otherwise);
                if let Some(test) = &node.test {
                    self.expr(test);
                }
            }
            StmtKind::Set(target, value) => {
                self.target(target);
                self.expr(value);
            }
            StmtKind::SetBlock { target, filter, body } => {
                self.target(target);
                if let Some(filter) = filter {
                    self.expr(filter);
                }
                self.body(body);
            }
            StmtKind::Macro { signature, body, .. } => {
                self.signature(signature);
                self.body(body);
            }
            StmtKind::CallBlock { signature, call, body } => {
                self.expr(call);
                self.signature(signature);
                self.body(body);
            }
            StmtKind::FilterBlock { filter, body } => {
                self.body(body);
                self.expr(filter);
            }
            StmtKind::With { targets, body } => {
                targets.iter().for_each(|(target, _)| self.target(target));
                targets.iter().for_each(|(_, value)| self.expr(value));
                self.body(body);
            }
            StmtKind::Generation(body) | StmtKind::Scope(body) => self.body(body),
            StmtKind::Foreign { template, .. } => self.expr(template),
        }
    }
}
