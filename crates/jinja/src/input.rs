use std::any::Any;
use std::collections::HashMap;

/// The caller's identifier for a value. The engine does not interpret it and returns it with every
/// piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

impl Tag {
    /// Returns the address of a value, which is unique as long as the value is borrowed.
    pub fn of<T: ?Sized>(value: &T) -> Tag {
        Tag(std::ptr::from_ref(value).cast::<()>() as usize as u64)
    }
}

/// Gives the engine access to the caller's own values, which are borrowed and never converted.
///
/// A value is a `&dyn Any`, so that a caller can lend values of types defined elsewhere; this trait
/// tells what each one is.
///
/// ```
/// use rolecall_jinja::{Context, Environment, InputValue, Inputs, Limits, Tag, Template};
/// use std::any::Any;
///
/// struct Words;
/// impl Inputs for Words {
///     fn value<'a>(&'a self, node: &'a dyn Any) -> InputValue<'a> {
///         match node.downcast_ref::<Vec<String>>() {
///             Some(_) => InputValue::List,
///             None => node.downcast_ref::<String>().map_or(InputValue::Null, |word| InputValue::Str(word)),
///         }
///     }
///     fn len(&self, node: &dyn Any) -> usize {
///         node.downcast_ref::<Vec<String>>().map_or(0, Vec::len)
///     }
///     fn item<'a>(&'a self, list: &'a dyn Any, index: usize) -> Option<&'a dyn Any> {
///         list.downcast_ref::<Vec<String>>()?.get(index).map(|word| word as &dyn Any)
///     }
/// }
/// let words = vec!["lent".to_owned(), "not copied".to_owned()];
/// let mut context = Context::reading(&Words);
/// context.set("words", &words);
/// let template = Template::compile("{{ words|join(', ') }}", &Limits::default())?;
/// assert_eq!(template.render(&context, &Environment::default())?.text(), "lent, not copied");
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
pub trait Inputs {
    /// Returns the type of a value, with its content if it is a scalar.
    fn value<'a>(&'a self, node: &'a dyn Any) -> InputValue<'a>;

    /// Returns the caller's tag for a value: by default, its address.
    fn tag(&self, node: &dyn Any) -> Tag {
        Tag::of(node)
    }

    /// Returns the number of items in a list, or of entries in a dict.
    fn len(&self, _node: &dyn Any) -> usize {
        0
    }

    /// Returns the item of a list at an index.
    fn item<'a>(&'a self, _list: &'a dyn Any, _index: usize) -> Option<&'a dyn Any> {
        None
    }

    /// Returns the value of a key in a dict.
    fn get<'a>(&'a self, _dict: &'a dyn Any, _key: &str) -> Option<&'a dyn Any> {
        None
    }

    /// Returns the entry of a dict at an index.
    fn entry<'a>(&'a self, _dict: &'a dyn Any, _index: usize) -> Option<InputEntry<'a>> {
        None
    }

    /// Returns how the keys, strings, numbers and words in a list or dict are spelled in the JSON
    /// text they were read from, in source order. `tojson` then writes them with the same spelling.
    /// With `None`, it writes them as Python does.
    fn spellings<'a>(&'a self, _node: &'a dyn Any) -> Option<&'a [String]> {
        None
    }

    /// Returns everything that the engine needs to know about a value. Implementors can keep the
    /// default of this and the next three methods; they exist so that a lookup is one call on the
    /// concrete type.
    fn look<'a>(&'a self, node: &'a dyn Any) -> InputNode<'a> {
        InputNode { node, value: self.value(node), tag: self.tag(node) }
    }

    /// Returns the same information about the item of a list at an index.
    fn look_at<'a>(&'a self, list: &'a dyn Any, index: usize) -> Option<InputNode<'a>> {
        self.item(list, index).map(|node| self.look(node))
    }

    /// Returns the entry of a dict at an index, and the same information about its value.
    fn look_entry<'a>(&'a self, dict: &'a dyn Any, index: usize) -> Option<(InputEntry<'a>, InputNode<'a>)> {
        self.entry(dict, index).map(|entry| (entry, self.look(entry.value)))
    }

    /// Writes the same information about the value of a key in a dict to `found`, which is `None`
    /// before the call. Templates look up keys all the time, and returning the result would copy it
    /// once more.
    fn look_up<'a>(&'a self, dict: &'a dyn Any, key: &str, found: &mut Option<InputNode<'a>>) {
        *found = self.get(dict, key).map(|node| self.look(node));
    }
}

/// A value of the caller, with the answers of its [`Inputs`].
#[derive(Clone, Copy)]
pub struct InputNode<'a> {
    /// The value.
    pub node: &'a dyn Any,
    /// Its type and scalar content.
    pub value: InputValue<'a>,
    /// The caller's tag.
    pub tag: Tag,
}

/// The type of a caller's value, in JSON terms.
#[derive(Clone, Copy, Debug)]
pub enum InputValue<'a> {
    /// `None`
    Null,
    /// `True` or `False`
    Bool(bool),
    /// A JSON number in its original spelling: an `int` of any size, or a `float` if it has a
    /// fraction or an exponent.
    Number(&'a str),
    /// A string.
    Str(&'a str),
    /// A list.
    List,
    /// A dict with string keys, in order.
    Dict,
}

/// An entry of a caller's dict.
#[derive(Clone, Copy)]
pub struct InputEntry<'a> {
    /// The key.
    pub key: &'a str,
    /// The caller's tag for the key; keys are text like any other.
    pub key_tag: Tag,
    /// The value.
    pub value: &'a dyn Any,
}

/// A value type for callers without one of their own.
///
/// ```
/// use rolecall_jinja::Input;
/// let user = Input::dict([("name", Input::from("Ada")), ("tags", Input::list([1.into(), true.into()]))]);
/// assert!(matches!(user, Input::Dict(entries) if entries.len() == 2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// `None`
    Null,
    /// `True` or `False`
    Bool(bool),
    /// A number in JSON spelling.
    Number(String),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Input>),
    /// A dict.
    Dict(Vec<(String, Input)>),
}

impl Input {
    /// Creates a list.
    pub fn list(items: impl IntoIterator<Item = Input>) -> Input {
        Input::List(items.into_iter().collect())
    }

    /// Creates a dict.
    pub fn dict<K: Into<String>>(entries: impl IntoIterator<Item = (K, Input)>) -> Input {
        Input::Dict(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Input {
        Input::Str(text.to_owned())
    }
}

impl From<bool> for Input {
    fn from(value: bool) -> Input {
        Input::Bool(value)
    }
}

impl From<i64> for Input {
    fn from(value: i64) -> Input {
        Input::Number(value.to_string())
    }
}

/// Reads [`Input`]s; the tag of a key is the address of its characters.
struct OwnInputs;

impl Inputs for OwnInputs {
    fn value<'a>(&'a self, node: &'a dyn Any) -> InputValue<'a> {
        match node.downcast_ref::<Input>() {
            None | Some(Input::Null) => InputValue::Null,
            Some(Input::Bool(value)) => InputValue::Bool(*value),
            Some(Input::Number(spelling)) => InputValue::Number(spelling),
            Some(Input::Str(text)) => InputValue::Str(text),
            Some(Input::List(_)) => InputValue::List,
            Some(Input::Dict(_)) => InputValue::Dict,
        }
    }

    fn len(&self, node: &dyn Any) -> usize {
        match node.downcast_ref::<Input>() {
            Some(Input::List(items)) => items.len(),
            Some(Input::Dict(entries)) => entries.len(),
            _ => 0,
        }
    }

    fn item<'a>(&'a self, list: &'a dyn Any, index: usize) -> Option<&'a dyn Any> {
        match list.downcast_ref::<Input>()? {
            Input::List(items) => items.get(index).map(|item| item as &dyn Any),
            _ => None,
        }
    }

    fn get<'a>(&'a self, dict: &'a dyn Any, key: &str) -> Option<&'a dyn Any> {
        match dict.downcast_ref::<Input>()? {
            Input::Dict(entries) => entries.iter().find(|(known, _)| known == key).map(|(_, value)| value as &dyn Any),
            _ => None,
        }
    }

    fn entry<'a>(&'a self, dict: &'a dyn Any, index: usize) -> Option<InputEntry<'a>> {
        match dict.downcast_ref::<Input>()? {
            Input::Dict(entries) => {
                let (key, value) = entries.get(index)?;
                Some(InputEntry { key, key_tag: Tag::of(key), value })
            }
            _ => None,
        }
    }
}

/// The variables for a rendering.
#[derive(Clone)]
pub struct Context<'a> {
    pub(crate) inputs: &'a dyn Inputs,
    entries: Vec<(&'a str, &'a dyn Any)>,
    /// The index of each variable by name, filled only when there are more than [`FEW`].
    places: HashMap<&'a str, usize>,
}

/// The most variables that are searched linearly.
const FEW: usize = 16;

impl Default for Context<'_> {
    fn default() -> Self {
        Context::reading(&OwnInputs)
    }
}

impl<'a> Context<'a> {
    /// Creates a context without variables, for values of type [`Input`].
    pub fn new() -> Context<'a> {
        Context::default()
    }

    /// Creates a context without variables, for values that `inputs` can read.
    pub fn reading(inputs: &'a dyn Inputs) -> Context<'a> {
        Context { inputs, entries: Vec::with_capacity(8), places: HashMap::new() }
    }

    /// Sets a variable, replacing an earlier one of the same name.
    pub fn set(&mut self, name: &'a str, value: &'a dyn Any) -> &mut Context<'a> {
        match self.place(name) {
            Some(place) => self.entries[place].1 = value,
            None => {
                self.entries.push((name, value));
                self.number();
            }
        }
        self
    }

    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&'a dyn Any> {
        self.place(name).map(|place| self.entries[place].1)
    }

    #[inline]
    fn place(&self, name: &str) -> Option<usize> {
        match self.entries.len() {
            0..=FEW => self.entries.iter().position(|(known, _)| *known == name),
            _ => self.places.get(name).copied(),
        }
    }

    /// Records the index of the last variable if there are more than [`FEW`].
    fn number(&mut self) {
        let known = match self.entries.len() {
            0..=FEW => return,
            count if self.places.is_empty() => 0..count,
            count => count - 1..count,
        };
        self.places.extend(known.map(|place| (self.entries[place].0, place)));
    }
}
