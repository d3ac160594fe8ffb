//! Filters, tests, functions and methods, in one file for each family. Each file holds the
//! functions and their table.

pub(crate) mod braces;
pub(crate) mod case;
mod containers;
pub(crate) mod functions;
mod groups;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod lazy;
pub(crate) mod methods;
mod numbers;
#[cfg(test)]
mod origin_law;
pub(crate) mod percent;
mod pretty;
mod sequences;
pub(crate) mod strings;
pub(crate) mod tests;
mod texts;
mod url;
mod wrap;

use crate::error::{Fault, Res};
use crate::value::Value;
use crate::value::text::Str;
use crate::vm::World;

/// A filter or a method; its first argument is the subject.
pub(crate) type FilterFn = for<'a> fn(&World<'a>, Args<'_, 'a>) -> Res<Value<'a>>;
pub(crate) type TestFn = for<'a> fn(&World<'a>, Args<'_, 'a>) -> Res<bool>;

/// The filters by family.
const FILTERS: [&[(&str, FilterFn)]; 10] = [
    sequences::FILTERS,
    texts::FILTERS,
    json::FILTERS,
    lazy::FILTERS,
    numbers::FILTERS,
    groups::FILTERS,
    html::FILTERS,
    wrap::FILTERS,
    url::FILTERS,
    pretty::FILTERS,
];

/// Returns the filter with the given name.
pub(crate) fn filter(name: &str) -> Option<FilterFn> {
    FILTERS.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// Returns the test with the given name.
pub(crate) fn test(name: &str) -> Option<TestFn> {
    tests::TESTS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// The arguments of a call: the subject (of a filter, test or method), then the positional and the
/// keyword arguments.
#[derive(Clone, Copy)]
pub(crate) struct Args<'s, 'a> {
    pub(crate) values: &'s [Value<'a>],
    /// The names of the keyword arguments, which are the last values.
    pub(crate) names: &'s [&'a str],
}

impl<'s, 'a> Args<'s, 'a> {
    /// Returns the subject.
    #[inline]
    pub(crate) fn subject(&self) -> &'s Value<'a> {
        // Every filter, test and method is called with a subject.
        self.values.first().unwrap_or(&Value::Missing)
    }

    /// Returns the subject as a string: the receiver of a string method.
    pub(crate) fn subject_str(&self) -> Res<&'s Str<'a>> {
        match self.subject() {
            Value::Str(text) => Ok(text),
            other => Err(Fault::type_error(format!("expected a str, found '{}'", other.kind()))),
        }
    }

    /// Returns the positional arguments after the subject.
    pub(crate) fn positional(&self) -> &'s [Value<'a>] {
        let end = self.values.len() - self.names.len();
        self.values.get(1..end).unwrap_or(&[])
    }

    /// Returns all positional arguments of a function, which has no subject.
    pub(crate) fn all_positional(&self) -> &'s [Value<'a>] {
        &self.values[..self.values.len() - self.names.len()]
    }

    pub(crate) fn keywords(&self) -> impl Iterator<Item = (&'a str, &'s Value<'a>)> {
        let start = self.values.len() - self.names.len();
        self.names.iter().copied().zip(&self.values[start..])
    }

    /// Binds the arguments after the subject to parameters by position and name.
    pub(crate) fn bind<const N: usize>(&self, function: &str, params: [&str; N]) -> Res<[Option<&'s Value<'a>>; N]> {
        self.bind_to(function, self.positional(), params)
    }

    /// Binds the arguments of a function to parameters by position and name.
    pub(crate) fn bind_all<const N: usize>(
        &self,
        function: &str,
        params: [&str; N],
    ) -> Res<[Option<&'s Value<'a>>; N]> {
        self.bind_to(function, self.all_positional(), params)
    }

    fn bind_to<const N: usize>(
        &self,
        function: &str,
        positional: &'s [Value<'a>],
        params: [&str; N],
    ) -> Res<[Option<&'s Value<'a>>; N]> {
        let mut bound = [None; N];
        if positional.len() > N {
            let message = format!("{function}() takes at most {N} argument(s) ({} given)", positional.len());
            return Err(Fault::type_error(message));
        }
        for (slot, value) in bound.iter_mut().zip(positional) {
            *slot = Some(value);
        }
        for (name, value) in self.keywords() {
            match params.iter().position(|param| *param == name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                Some(_) => {
                    return Err(Fault::type_error(format!("{function}() got multiple values for argument '{name}'")));
                }
                None => {
                    return Err(Fault::type_error(format!("{function}() got an unexpected keyword argument '{name}'")));
                }
            }
        }
        Ok(bound)
    }
}

/// Returns a required argument.
pub(crate) fn needed<'s, 'a>(function: &str, name: &str, value: Option<&'s Value<'a>>) -> Res<&'s Value<'a>> {
    value.ok_or_else(|| Fault::type_error(format!("{function}() missing required argument: '{name}'")))
}

/// Returns a string argument.
pub(crate) fn str_arg<'s, 'a>(value: &'s Value<'a>) -> Res<&'s Str<'a>> {
    match value {
        Value::Str(text) => Ok(text),
        Value::Undefined(_) => Err(Fault::type_error("expected a str, found 'Undefined'")),
        other => Err(Fault::type_error(format!("expected a str, found '{}'", other.kind()))),
    }
}

/// Evaluates a boolean argument, with a default.
pub(crate) fn flag<'a>(world: &World<'a>, value: Option<&Value<'a>>, default: bool) -> bool {
    value.map_or(default, |value| value.is_true(world))
}

/// Converts an integer argument, with a default.
pub(crate) fn int_arg(value: Option<&Value<'_>>, default: i64) -> Res<i64> {
    value.map_or(Ok(default), crate::value::number::index)
}
