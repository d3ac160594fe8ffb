use std::collections::HashMap;
use std::fmt;

/// The path to a caller's value: a variable, followed by keys and items.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The variable.
    pub variable: String,
    /// The steps from the variable to the value.
    pub steps: Vec<PathStep>,
}

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStep {
    /// Any item of a list, or the value of an unknown key.
    Item,
    /// A key or an attribute.
    Key(String),
}

/// Formats the path like `messages[].tool_calls[].function.name`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variable)?;
        self.steps.iter().try_for_each(|step| match step {
            PathStep::Item => f.write_str("[]"),
            PathStep::Key(key) => write!(f, ".{key}"),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WordId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PathId(u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Link {
    Root(WordId),
    Key(PathId, WordId),
    Item(PathId),
}

/// All words and paths in use, by number.
#[derive(Default)]
pub(super) struct Paths {
    words: Vec<Box<str>>,
    word_ids: HashMap<Box<str>, WordId>,
    links: Vec<(Link, u32)>,
    link_ids: HashMap<Link, PathId>,
}

/// The most steps in a path.
const DEEPEST: u32 = 12;
/// How often the same key may occur in a path, since a template may walk down a tree of any depth.
const MOST_ALIKE: usize = 2;

impl Paths {
    pub fn word(&mut self, text: &str) -> WordId {
        if let Some(id) = self.word_ids.get(text) {
            return *id;
        }
        let id = WordId(self.words.len() as u32);
        self.words.push(text.into());
        self.word_ids.insert(text.into(), id);
        id
    }

    pub fn text(&self, word: WordId) -> &str {
        &self.words[word.0 as usize]
    }

    pub fn root(&mut self, word: WordId) -> PathId {
        self.link(Link::Root(word), 0)
    }

    pub fn key(&mut self, path: PathId, word: WordId) -> PathId {
        let (mut next, mut alike, mut last) = (path, 0, path);
        while let Link::Key(above, _) | Link::Item(above) = self.links[next.0 as usize].0 {
            if matches!(self.links[next.0 as usize].0, Link::Key(_, known) if known == word) {
                alike += 1;
                if alike == 1 {
                    last = next;
                }
            }
            next = above;
        }
        match alike {
            MOST_ALIKE => last,
            _ => self.step(path, Link::Key(path, word)),
        }
    }

    pub fn item(&mut self, path: PathId) -> PathId {
        self.step(path, Link::Item(path))
    }

    fn step(&mut self, path: PathId, link: Link) -> PathId {
        match self.links[path.0 as usize].1 {
            DEEPEST => path,
            depth => self.link(link, depth + 1),
        }
    }

    fn link(&mut self, link: Link, depth: u32) -> PathId {
        *self.link_ids.entry(link).or_insert_with(|| {
            self.links.push((link, depth));
            PathId(self.links.len() as u32 - 1)
        })
    }

    pub fn path(&self, id: PathId) -> Path {
        let mut steps = Vec::new();
        let mut next = id;
        loop {
            match self.links[next.0 as usize].0 {
                Link::Root(word) => {
                    steps.reverse();
                    return Path { variable: self.text(word).to_owned(), steps };
                }
                Link::Key(path, word) => {
                    steps.push(PathStep::Key(self.text(word).to_owned()));
                    next = path;
                }
                Link::Item(path) => {
                    steps.push(PathStep::Item);
                    next = path;
                }
            }
        }
    }
}
