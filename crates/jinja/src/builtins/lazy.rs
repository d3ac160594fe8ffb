//! Filters that return generators: `map`, `select` and the like, `items`, `batch`, `slice` and
//! `unique`.

use std::collections::HashMap;

use super::{Args, FilterFn, flag, int_arg, needed, str_arg};
use crate::error::{Fault, Res};
use crate::value::compare::{equal, hash};
use crate::value::iter::{Generator, Iter};
use crate::value::{Value, subscript};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("map", map),
    ("select", |world, args| select(world, args, false, false)),
    ("reject", |world, args| select(world, args, true, false)),
    ("selectattr", |world, args| select(world, args, false, true)),
    ("rejectattr", |world, args| select(world, args, true, true)),
    ("items", items),
    ("batch", batch),
    ("slice", slice),
    ("unique", unique),
];

/// The pending work of a generator.
pub(crate) struct Lazy<'a> {
    source: Value<'a>,
    work: Work<'a>,
}

enum Work<'a> {
    Attribute { path: Path<'a>, default: Option<Value<'a>> },
    Filter { call: FilterCall<'a> },
    Select { path: Option<Path<'a>>, test: Option<FilterCall<'a>>, is_rejecting: bool },
    Refuse(String),
    Items,
    Batch { size: i64, fill: Option<Value<'a>> },
    Slice { slices: i64, fill: Option<Value<'a>> },
    Unique { path: Path<'a>, is_case_sensitive: bool },
}

impl Work<'_> {
    /// Returns the name that Python prints for the generator.
    fn python_name(&self) -> &'static str {
        match self {
            Work::Attribute { .. } | Work::Filter { .. } | Work::Refuse(_) => "generator object sync_do_map",
            Work::Select { .. } => "generator object select_or_reject",
            Work::Items => "generator object do_items",
            Work::Batch { .. } => "generator object do_batch",
            Work::Slice { .. } => "generator object sync_do_slice",
            Work::Unique { .. } => "generator object sync_do_unique",
        }
    }
}

/// A filter or test with its additional arguments.
struct FilterCall<'a> {
    name: String,
    values: Vec<Value<'a>>,
    names: Vec<&'a str>,
}

impl<'a> FilterCall<'a> {
    /// Takes the filter or test named by the argument at `skip`, with the arguments that follow as
    /// its own.
    fn new(args: Args<'_, 'a>, skip: usize) -> Res<Option<FilterCall<'a>>> {
        let Some(name) = args.positional().get(skip) else { return Ok(None) };
        let mut values = vec![Value::Missing];
        values.extend_from_slice(&args.values[skip + 2..]);
        Ok(Some(FilterCall { name: str_arg(name)?.plain().to_owned(), values, names: args.names.to_vec() }))
    }

    fn filter(&mut self, world: &World<'a>, item: Value<'a>) -> Res<Value<'a>> {
        let Some(run) = super::filter(&self.name) else {
            return Err(Fault::unsupported(format!("no filter named '{}'", self.name)));
        };
        self.values[0] = item;
        run(world, Args { values: &self.values, names: &self.names })
    }

    fn test(&mut self, world: &World<'a>, item: Value<'a>) -> Res<bool> {
        let Some(run) = super::test(&self.name) else {
            return Err(Fault::unsupported(format!("no test named '{}'", self.name)));
        };
        self.values[0] = item;
        run(world, Args { values: &self.values, names: &self.names })
    }

    fn depth(&self) -> u32 {
        self.values.iter().map(Value::depth).max().unwrap_or(0)
    }
}

impl<'a> Lazy<'a> {
    /// Returns the nesting depth of the values.
    pub(crate) fn depth(&self) -> u32 {
        let of_work = match &self.work {
            Work::Attribute { default: value, .. }
            | Work::Batch { fill: value, .. }
            | Work::Slice { fill: value, .. } => value.as_ref().map_or(0, Value::depth),
            Work::Filter { call } => call.depth(),
            Work::Select { test, .. } => test.as_ref().map_or(0, FilterCall::depth),
            Work::Refuse(_) | Work::Items | Work::Unique { .. } => 0,
        };
        self.source.depth().max(of_work)
    }

    /// Computes all items up to the first error, and returns that error.
    pub(crate) fn run(self, world: &World<'a>) -> (Vec<Value<'a>>, Option<Fault>) {
        let mut out = Vec::new();
        let error = self.fill(world, &mut out).err();
        (out, error)
    }

    // Long: one arm for each kind of work; each arm is a short loop over the same source.
    fn fill(self, world: &World<'a>, out: &mut Vec<Value<'a>>) -> Res<()> {
        let source = self.source;
        let passes_nothing =
            matches!(self.work, Work::Attribute { .. } | Work::Filter { .. } | Work::Select { .. } | Work::Refuse(_));
        if passes_nothing && !source.is_true(world) {
            return Ok(());
        }
        let push = |out: &mut Vec<Value<'a>>, item: Value<'a>| {
            if out.len() == out.capacity() {
                world.meter.check(out.len() * 2 * size_of::<Value<'a>>())?;
            }
            out.push(item);
            Ok::<(), Fault>(())
        };
        match self.work {
            Work::Refuse(message) => return Err(Fault::type_error(message)),
            Work::Items => {
                if source.is_undefined() {
                    return Ok(());
                }
                if !source.is_mapping() {
                    return Err(Fault::type_error("Can only get item pairs from a mapping."));
                }
                for index in 0..source.size(world).unwrap_or(0) {
                    world.work(64)?;
                    if let Some((key, value)) = source.entry_at(world, index)? {
                        push(out, Value::tuple(world, vec![key, value])?)?;
                    }
                }
            }
            Work::Attribute { path, default } => {
                let mut iter = Iter::new(world, &source)?;
                while let Some(item) = iter.next(world)? {
                    push(out, path.get(world, &item, default.as_ref())?)?;
                }
            }
            Work::Filter { mut call } => {
                let mut iter = Iter::new(world, &source)?;
                while let Some(item) = iter.next(world)? {
                    world.work(192)?;
                    push(out, call.filter(world, item)?)?;
                }
            }
            Work::Select { path, mut test, is_rejecting } => {
                let mut iter = Iter::new(world, &source)?;
                while let Some(item) = iter.next(world)? {
                    world.work(64)?;
                    let value = match &path {
                        Some(path) => path.get(world, &item, None)?,
                        None => item.clone(),
                    };
                    let holds = match &mut test {
                        Some(test) => test.test(world, value)?,
                        None => value.is_true(world),
                    };
                    if holds != is_rejecting {
                        push(out, item)?;
                    }
                }
            }
            Work::Batch { size, fill } => {
                let mut iter = Iter::new(world, &source)?;
                let mut batch = Vec::new();
                while let Some(item) = iter.next(world)? {
                    world.work(64)?;
                    if batch.len() as i64 == size {
                        push(out, Value::list(world, std::mem::take(&mut batch))?)?;
                    }
                    batch.push(item);
                }
                if !batch.is_empty() {
                    if let Some(fill) = fill {
                        let missing = usize::try_from(size).unwrap_or(0).saturating_sub(batch.len());
                        world.check_items(missing)?;
                        batch.extend(std::iter::repeat_n(fill, missing));
                    }
                    push(out, Value::list(world, batch)?)?;
                }
            }
            Work::Slice { slices, fill } => {
                let items = crate::value::iter::collect(world, &source)?;
                if slices == 0 {
                    return Err(Fault::value("integer division or modulo by zero"));
                }
                let slices = usize::try_from(slices).unwrap_or(0);
                if slices == 0 {
                    return Ok(());
                }
                world.check_items(slices)?;
                let (each, extra) = (items.len() / slices, items.len() % slices);
                let mut start = 0;
                for number in 0..slices {
                    world.work(64)?;
                    let end = start + each + usize::from(number < extra);
                    let mut part = items[start..end].to_vec();
                    if number >= extra {
                        part.extend(fill.clone());
                    }
                    push(out, Value::list(world, part)?)?;
                    start = end;
                }
            }
            Work::Unique { path, is_case_sensitive } => {
                let mut seen: HashMap<u64, Vec<Value<'a>>> = HashMap::new();
                let mut iter = Iter::new(world, &source)?;
                while let Some(item) = iter.next(world)? {
                    world.work(256)?;
                    let key = path.get(world, &item, None)?;
                    let key = if is_case_sensitive { key } else { ignore_case(world, key)? };
                    let known = seen.entry(hash(world, &key, 0)?).or_default();
                    let mut is_new = true;
                    for other in known.iter() {
                        world.work(64)?;
                        if equal(world, other, &key, 0)? {
                            is_new = false;
                            break;
                        }
                    }
                    if is_new {
                        world.meter.check(seen_bytes(out.len()))?;
                        known.push(key);
                        push(out, item)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn seen_bytes(count: usize) -> usize {
    count * (size_of::<Value<'_>>() * 6 + 64)
}

/// An attribute path as accepted by filters: `name`, `name.0.other`, or an index.
pub(crate) struct Path<'a>(Vec<Value<'a>>);

impl<'a> Path<'a> {
    pub(crate) fn new(world: &World<'a>, attribute: Option<&Value<'a>>) -> Res<Path<'a>> {
        let mut parts = Vec::new();
        match attribute {
            None | Some(Value::None) => {}
            Some(Value::Str(text)) => {
                for part in text.plain().split('.') {
                    let is_index = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                    parts.push(match part.parse() {
                        Ok(index) if is_index => Value::Int(index),
                        _ => Value::Str(text.slice(world, text.range_of(part))?),
                    });
                }
            }
            Some(other) => parts.push(other.clone()),
        }
        Ok(Path(parts))
    }

    pub(crate) fn get(&self, world: &World<'a>, item: &Value<'a>, default: Option<&Value<'a>>) -> Res<Value<'a>> {
        let mut found = item.clone();
        for part in &self.0 {
            world.work(64)?;
            found = subscript::item(world, &found, part)?;
            if let Some(default) = default
                && found.is_undefined()
            {
                found = default.clone();
            }
        }
        Ok(found)
    }
}

/// Converts strings to lowercase, for case-insensitive sorting and matching.
pub(crate) fn ignore_case<'a>(world: &World<'a>, value: Value<'a>) -> Res<Value<'a>> {
    match &value {
        Value::Str(text) => {
            world.work(text.plain().len())?;
            let needs_change = text.plain().chars().any(|c| !c.is_ascii_lowercase() && c.is_alphabetic());
            if needs_change { text.map(world, super::case::lower).map(Value::Str) } else { Ok(value) }
        }
        _ => Ok(value),
    }
}

fn lazy<'a>(world: &World<'a>, args: Args<'_, 'a>, work: Work<'a>) -> Res<Value<'a>> {
    Generator::value(world, work.python_name(), Lazy { source: args.subject().clone(), work })
}

fn map<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let attribute = args.keywords().find(|(name, _)| *name == "attribute").map(|(_, value)| value);
    if args.positional().is_empty()
        && let Some(attribute) = attribute
    {
        let default = args.keywords().find(|(name, _)| *name == "default").map(|(_, value)| value.clone());
        let default = default.filter(|value| !matches!(value, Value::None));
        let unknown = args.keywords().find(|(name, _)| !matches!(*name, "attribute" | "default"));
        let work = match unknown {
            Some((name, _)) => Work::Refuse(format!("Unexpected keyword argument '{name}'")),
            None => Work::Attribute { path: Path::new(world, Some(attribute))?, default },
        };
        return lazy(world, args, work);
    }
    let work = match FilterCall::new(args, 0)? {
        Some(call) => Work::Filter { call },
        None => Work::Refuse("map requires a filter argument".to_owned()),
    };
    lazy(world, args, work)
}

fn select<'a>(world: &World<'a>, args: Args<'_, 'a>, is_rejecting: bool, by_attribute: bool) -> Res<Value<'a>> {
    let (path, skip) = match (by_attribute, args.positional().first()) {
        (false, _) => (None, 0),
        (true, Some(attribute)) => (Some(Path::new(world, Some(attribute))?), 1),
        (true, None) => {
            return lazy(world, args, Work::Refuse("Missing parameter for attribute name".to_owned()));
        }
    };
    let test = FilterCall::new(args, skip)?;
    lazy(world, args, Work::Select { path, test, is_rejecting })
}

fn items<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    args.bind::<0>("items", [])?;
    lazy(world, args, Work::Items)
}

fn batch<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [size, fill] = args.bind("batch", ["linecount", "fill_with"])?;
    let size = int_arg(Some(needed("batch", "linecount", size)?), 0)?;
    let fill = fill.cloned().filter(|fill| !matches!(fill, Value::None));
    lazy(world, args, Work::Batch { size, fill })
}

fn slice<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [slices, fill] = args.bind("slice", ["slices", "fill_with"])?;
    let slices = int_arg(Some(needed("slice", "slices", slices)?), 0)?;
    let fill = fill.cloned().filter(|fill| !matches!(fill, Value::None));
    lazy(world, args, Work::Slice { slices, fill })
}

fn unique<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [case_sensitive, attribute] = args.bind("unique", ["case_sensitive", "attribute"])?;
    let work =
        Work::Unique { path: Path::new(world, attribute)?, is_case_sensitive: flag(world, case_sensitive, false) };
    lazy(world, args, work)
}

/// Creates an iterator that yields its items once.
pub(super) fn iterator<'a>(world: &World<'a>, name: &'static str, items: Vec<Value<'a>>) -> Res<Value<'a>> {
    use crate::value::iter::{Generator, GeneratorState};
    let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
    world.check_depth(depth)?;
    world.work(512)?;
    let state = GeneratorState::running(world, items, None)?;
    Ok(Value::Generator(std::rc::Rc::new(Generator { state: state.into(), depth, name })))
}
