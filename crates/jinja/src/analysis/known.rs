use std::ops::{Deref, DerefMut};

use super::path::{PathId, Paths, WordId};

/// The facts known about a value. All are possibilities: more knowledge only adds to them.
///
/// The facts are boxed because trees are walked recursively, and each level holds several.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownFacts(Option<Box<Facts>>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// The caller's values that it may be.
    pub is: Vec<PathId>,
    /// The caller's values that it may be derived from.
    pub of: Vec<PathId>,
    /// The filters and methods it was derived with, in order.
    pub through: Vec<WordId>,
    pub constants: Vec<ConstantValue>,
    /// The entries, if it is a dict created by the template.
    pub fields: Vec<(WordId, KnownFacts)>,
    /// The items by index, if it is a list created by the template with known indexes.
    pub parts: Vec<KnownFacts>,
    /// The facts about other items.
    pub items: Option<KnownFacts>,
    /// Macros and namespaces, by the position of their definition.
    pub macros: Vec<u32>,
    pub spaces: Vec<u32>,
    /// Whether it grew too large to track its contents separately; this is permanent.
    pub is_flat: bool,
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ConstantValue {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The number of a literal.
    Text(u32),
}

/// The facts about a value of which nothing is known.
static NOTHING: Facts = Facts {
    is: Vec::new(),
    of: Vec::new(),
    through: Vec::new(),
    constants: Vec::new(),
    fields: Vec::new(),
    parts: Vec::new(),
    items: None,
    macros: Vec::new(),
    spaces: Vec::new(),
    is_flat: false,
};

impl Deref for KnownFacts {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for KnownFacts {
    fn deref_mut(&mut self) -> &mut Facts {
        self.0.get_or_insert_default()
    }
}

/// The most alternatives that are tracked for one value.
const MOST: usize = 24;
/// The most values tracked inside one value. Beyond that, only what it is derived from is known.
const LARGEST: usize = 256;

/// Adds missing items, and reports whether there were any.
fn add<T: PartialEq + Copy>(to: &mut Vec<T>, from: &[T]) -> bool {
    let before = to.len();
    for item in from {
        if to.len() < MOST && !to.contains(item) {
            to.push(*item);
        }
    }
    to.len() > before
}

impl KnownFacts {
    pub fn new(facts: Facts) -> KnownFacts {
        KnownFacts(Some(Box::new(facts)))
    }

    pub fn is(path: PathId) -> KnownFacts {
        KnownFacts::new(Facts { is: vec![path], ..Facts::default() })
    }

    /// Returns the facts about a value that may be any of these paths, after some filters and
    /// methods.
    pub fn same_as(paths: Vec<PathId>, through: &[WordId]) -> KnownFacts {
        KnownFacts::new(Facts { is: paths, through: through.to_vec(), ..Facts::default() })
    }

    pub fn made_of(paths: Vec<PathId>, through: &[WordId]) -> KnownFacts {
        KnownFacts::new(Facts { of: paths, through: through.to_vec(), ..Facts::default() })
    }

    pub fn constant(constant: ConstantValue) -> KnownFacts {
        KnownFacts::constants(&[constant])
    }

    pub fn constants(constants: &[ConstantValue]) -> KnownFacts {
        match constants {
            [] => KnownFacts::default(),
            some => KnownFacts::new(Facts { constants: some.to_vec(), ..Facts::default() }),
        }
    }

    /// Returns the facts about a macro or a call block.
    pub fn routine(at: u32) -> KnownFacts {
        KnownFacts::new(Facts { macros: vec![at], ..Facts::default() })
    }

    /// Returns the facts about a namespace.
    pub fn space(at: u32) -> KnownFacts {
        KnownFacts::new(Facts { spaces: vec![at], ..Facts::default() })
    }

    /// Returns the facts about a list whose items are at unknown indexes.
    pub fn list_of(item: KnownFacts) -> KnownFacts {
        KnownFacts::new(Facts { items: Some(item), ..Facts::default() }).bounded()
    }

    pub fn list(items: Vec<KnownFacts>) -> KnownFacts {
        if items.is_empty() {
            return KnownFacts::list_of(KnownFacts::default());
        }
        KnownFacts::new(Facts { parts: items, ..Facts::default() }).bounded()
    }

    pub fn dict(fields: Vec<(WordId, KnownFacts)>, others: Option<KnownFacts>) -> KnownFacts {
        KnownFacts::new(Facts { fields, items: others, ..Facts::default() }).bounded()
    }

    /// Returns the number of values in it.
    pub fn size(&self) -> usize {
        let inner = self.fields.iter().map(|(_, known)| known).chain(&self.parts).chain(&self.items);
        1 + self.is.len() + self.of.len() + inner.map(KnownFacts::size).sum::<usize>()
    }

    fn bounded(self) -> KnownFacts {
        match self.size() > LARGEST {
            true => self.flat(),
            false => self,
        }
    }

    /// Discards the facts about its contents.
    fn flat(self) -> KnownFacts {
        let mut flat = self.made(None);
        flat.is = self.is.clone();
        flat.constants = self.constants.clone();
        flat.macros = self.macros.clone();
        flat.spaces = self.spaces.clone();
        flat.is_flat = true;
        flat
    }

    /// Reports whether it is a list or a dict created by the template.
    pub fn is_container(&self) -> bool {
        !self.parts.is_empty() || self.items.is_some() || !self.fields.is_empty()
    }

    /// Returns all caller's values in it.
    pub fn all_paths(&self) -> Vec<PathId> {
        let mut paths = self.is.clone();
        add(&mut paths, &self.of);
        let inner = self.fields.iter().map(|(_, known)| known).chain(&self.parts).chain(&self.items);
        for known in inner {
            add(&mut paths, &known.all_paths());
        }
        paths
    }

    /// Returns the facts about a value derived from it by a filter, a method or an operator.
    pub fn made(&self, through: Option<WordId>) -> KnownFacts {
        let mut made = KnownFacts::made_of(self.all_paths(), &self.through);
        if let Some(word) = through
            && !made.of.is_empty()
        {
            add(&mut made.through, &[word]);
        }
        made
    }

    /// Adds the facts of another value, and reports whether any were new.
    pub fn join(&mut self, other: KnownFacts) -> bool {
        let other = if self.is_flat && !other.is_flat { other.flat() } else { other };
        let Some(mut other) = other.0.filter(|facts| **facts != NOTHING) else { return false };
        if self.0.as_deref().is_none_or(|facts| *facts == NOTHING) {
            self.0 = Some(other);
            return true;
        }
        let mut has_grown = add(&mut self.is, &other.is);
        has_grown |= add(&mut self.of, &other.of);
        has_grown |= add(&mut self.through, &other.through);
        has_grown |= add(&mut self.constants, &other.constants);
        has_grown |= add(&mut self.macros, &other.macros);
        has_grown |= add(&mut self.spaces, &other.spaces);
        for (key, known) in std::mem::take(&mut other.fields) {
            let is_full = self.fields.len() >= MOST;
            match self.fields.iter_mut().find(|(word, _)| *word == key) {
                Some((_, mine)) => has_grown |= mine.join(known),
                None if !is_full => {
                    self.fields.push((key, known));
                    has_grown = true;
                }
                None => {}
            }
        }
        if self.parts.len() == other.parts.len() {
            for (mine, known) in self.parts.iter_mut().zip(std::mem::take(&mut other.parts)) {
                has_grown |= mine.join(known);
            }
        } else {
            let mut items = self.items.take().unwrap_or_default();
            for known in std::mem::take(&mut self.parts).into_iter().chain(std::mem::take(&mut other.parts)) {
                has_grown |= items.join(known);
            }
            self.items = Some(items);
        }
        if let Some(items) = other.items.take() {
            match &mut self.items {
                Some(mine) => has_grown |= mine.join(items),
                None => {
                    self.items = Some(items);
                    has_grown = true;
                }
            }
        }
        if has_grown && !self.is_flat && self.size() > LARGEST {
            *self = std::mem::take(self).flat();
        }
        has_grown
    }

    /// Returns the facts about anything inside it: a part of a derived value is derived from the
    /// same values.
    fn inner(&self) -> KnownFacts {
        match self.of.is_empty() {
            true => KnownFacts::default(),
            false => KnownFacts::made_of(self.of.clone(), &self.through),
        }
    }

    /// Returns the facts about an attribute or an item with a constant key.
    pub fn key(&self, word: WordId, paths: &mut Paths) -> KnownFacts {
        // Strings have no keys: if the value may also be a dict, it is treated as a dict.
        let may_be_dict = !self.is.is_empty() || !self.fields.is_empty() || !self.spaces.is_empty();
        let mut found = if may_be_dict { KnownFacts::default() } else { self.inner() };
        found.is = self.is.iter().map(|path| paths.key(*path, word)).collect();
        match self.fields.iter().find(|(key, _)| *key == word) {
            Some((_, known)) => drop(found.join(known.clone())),
            None if !self.fields.is_empty() => {
                if let Some(others) = &self.items {
                    found.join(others.clone());
                }
            }
            None => {}
        }
        found
    }

    /// Returns the facts about any of its items.
    pub fn item(&self, paths: &mut Paths) -> KnownFacts {
        let mut found = self.inner();
        found.is = self.is.iter().map(|path| paths.item(*path)).collect();
        for known in self.parts.iter().chain(&self.items) {
            found.join(known.clone());
        }
        found
    }

    /// Returns the facts about the item at an index.
    pub fn part(&self, index: usize, paths: &mut Paths) -> KnownFacts {
        match self.parts.get(index) {
            Some(known) if self.is.is_empty() && self.items.is_none() => known.clone(),
            _ => self.item(paths),
        }
    }

    /// Returns the facts about the values of a dict.
    pub fn value(&self, paths: &mut Paths) -> KnownFacts {
        let mut found = self.item(paths);
        for (_, known) in &self.fields {
            found.join(known.clone());
        }
        found
    }

    /// Returns the facts about the key-value pairs of a dict.
    pub fn pairs(&self, paths: &mut Paths) -> KnownFacts {
        let pair = KnownFacts::list(vec![self.made(None), self.value(paths)]);
        KnownFacts::list_of(pair)
    }

    /// Returns the facts about a slice of it. A list keeps its items, but not their indexes.
    pub fn cut(mut self, slice: WordId) -> KnownFacts {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            let mut items = self.items.take().unwrap_or_default();
            for known in parts {
                items.join(known);
            }
            self.items = Some(items);
        }
        add(&mut self.through, &[slice]);
        self
    }
}
