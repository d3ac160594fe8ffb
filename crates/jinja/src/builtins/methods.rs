//! The attributes of Python's types that templates can access, and those that the sandbox refuses.

use super::{Args, FilterFn, containers, strings};
use crate::error::{ErrorKind, Fault, Res};
use crate::value::Value;
use crate::vm::World;

/// A method of a type.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    run: Option<FilterFn>,
}

impl Method {
    pub(super) const fn new(name: &'static str, run: FilterFn) -> Method {
        Method { name, run: Some(run) }
    }

    /// Creates a method that would modify its receiver, and is therefore refused.
    pub(super) const fn refused(name: &'static str) -> Method {
        Method { name, run: None }
    }

    pub(crate) fn is_unsafe(&self) -> bool {
        self.run.is_none()
    }

    #[inline]
    pub(crate) fn call<'a>(&self, world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
        match self.run {
            Some(run) => run(world, args),
            None => Err(Fault::new(
                ErrorKind::Security,
                format!("access to attribute '{}' of '{}' object is unsafe.", self.name, args.subject().kind()),
            )),
        }
    }
}

/// Returns the method with the given name for a value's type.
pub(crate) fn find(value: &Value<'_>, name: &str) -> Option<&'static Method> {
    let table: &'static [Method] = match value {
        Value::Str(_) => strings::METHODS,
        Value::Dict(_) | Value::InputDict(..) => containers::DICT,
        list if list.is_list() => containers::LIST,
        Value::Tuple(_) | Value::Range(_) => containers::TUPLE,
        Value::Int(_) | Value::Bool(_) | Value::Big(_) => containers::INT,
        Value::Float(_) => containers::FLOAT,
        Value::Loop(_) => containers::LOOP,
        Value::Cycler(_) => containers::CYCLER,
        _ => return None,
    };
    table.iter().find(|method| method.name == name)
}

/// The methods with a given name for the most common receiver types, looked up once when a template
/// is compiled.
#[derive(Clone, Copy)]
pub(crate) struct MethodSite {
    pub(crate) of_str: Option<&'static Method>,
    pub(crate) of_dict: Option<&'static Method>,
    pub(crate) of_list: Option<&'static Method>,
}

impl MethodSite {
    pub(crate) fn new(name: &str) -> MethodSite {
        let find = |table: &'static [Method]| table.iter().find(|method| method.name == name);
        MethodSite { of_str: find(strings::METHODS), of_dict: find(containers::DICT), of_list: find(containers::LIST) }
    }
}

/// Reports whether Python's `getattr` on a dict finds this name, so that the key of that name is
/// not looked up.
#[inline]
pub(crate) fn is_dict_attribute(name: &str) -> bool {
    match name.as_bytes() {
        [b'c', ..] => matches!(name, "clear" | "copy"),
        [b'f', ..] => name == "fromkeys",
        [b'g', ..] => name == "get",
        [b'i', ..] => name == "items",
        [b'k', ..] => name == "keys",
        [b'p', ..] => matches!(name, "pop" | "popitem"),
        [b's', ..] => name == "setdefault",
        [b'u', ..] => name == "update",
        [b'v', ..] => name == "values",
        [b'_', b'_', ..] => true,
        _ => false,
    }
}
