//! Typed reading of a saved object's fields.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;

use super::damaged;
use crate::Error;

/// The fields of an object, and where it is.
pub(super) struct Fields<'a> {
    object: &'a Object,
    place: String,
}

/// The greatest number of a saved session, so that sums do not overflow.
const GREATEST: i64 = 1 << 40;

impl<'a> Fields<'a> {
    pub fn new(object: &'a Object, place: &str) -> Fields<'a> {
        Fields { object, place: place.to_owned() }
    }

    pub fn object_of(&self) -> &'a Object {
        self.object
    }

    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn expected(&self, key: &str, what: &str) -> Error {
        damaged(&self.at(key), &format!("expected {what}"))
    }

    /// Returns a field, or `None` if it is missing or null.
    pub fn optional(&self, key: &str) -> Option<&'a Json> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&self, key: &str) -> Result<&'a str, Error> {
        self.object.get(key).and_then(Json::as_str).ok_or_else(|| self.expected(key, "text"))
    }

    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        self.object.get(key).and_then(Json::as_bool).ok_or_else(|| self.expected(key, "true or false"))
    }

    pub fn number(&self, key: &str) -> Result<usize, Error> {
        let number = self.object.get(key).and_then(as_number).filter(|number| *number <= GREATEST);
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.expected(key, "a whole number"))
    }

    pub fn optional_number(&self, key: &str) -> Result<Option<usize>, Error> {
        self.optional(key).map(|_| self.number(key)).transpose()
    }

    /// Returns a finite number that is not negative.
    pub fn weight(&self, key: &str) -> Result<f32, Error> {
        let number = match self.object.get(key) {
            Some(Json::Number(number)) => number.spelling().parse::<f32>().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.expected(key, "a weight"))
    }

    /// Returns a list of ids or positions.
    pub fn numbers(&self, key: &str) -> Result<Vec<u32>, Error> {
        let items = self.object.get(key).and_then(Json::as_array).ok_or_else(|| self.expected(key, "a list"))?;
        let number = |item: &Json| as_number(item).and_then(|number| u32::try_from(number).ok());
        let numbers: Option<Vec<u32>> = items.iter().map(number).collect();
        numbers.ok_or_else(|| self.expected(key, "a list of whole numbers"))
    }

    pub fn object(&self, key: &str) -> Result<Fields<'a>, Error> {
        let object = self.object.get(key).and_then(Json::as_object);
        object.map(|object| Fields::new(object, &self.at(key))).ok_or_else(|| self.expected(key, "an object"))
    }

    pub fn optional_object(&self, key: &str) -> Result<Option<Fields<'a>>, Error> {
        self.optional(key).map(|_| self.object(key)).transpose()
    }

    pub fn objects(&self, key: &str) -> Result<Vec<Fields<'a>>, Error> {
        let items = self.object.get(key).and_then(Json::as_array).ok_or_else(|| self.expected(key, "a list"))?;
        let field = |(at, item): (usize, &'a Json)| {
            let place = format!("{}[{at}]", self.at(key));
            item.as_object()
                .map(|object| Fields::new(object, &place))
                .ok_or_else(|| damaged(&place, "expected an object"))
        };
        items.iter().enumerate().map(field).collect()
    }
}

pub(super) fn as_number(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}
