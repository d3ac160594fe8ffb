use std::fmt::{self, Display};

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Layout, Number, Object};

use super::schema::Schema;
use super::types::Types;

/// The maximum number of comparisons of a value with a schema, in addition to [`BUDGET_OF_A_BYTE`]
/// per byte of the arguments. Everything beyond is accepted.
const BUDGET: usize = 20_000;
const BUDGET_OF_A_BYTE: usize = 4;

/// The maximum depth of nested schemas. Everything beyond is accepted.
const MAX_DEPTH: usize = 500;

/// The maximum length of a value in a message, and the maximum number of listed values or keys.
const SHOWN: usize = 40;
const LISTED: usize = 6;

/// Returns a message about the first difference between a JSON text, such as a call's arguments, and
/// its schema, or `None` if they match or the text is not valid JSON.
///
/// Regular expressions (`pattern`, `patternProperties`), `format`, `not` and conditions are not
/// checked, so every reported difference is real.
///
/// ```
/// use rolecall_conversation::json;
/// let schema = json::parse(r#"{"type": "object", "required": ["city"]}"#).expect("it is JSON");
/// assert_eq!(rolecall_parse::check_schema(r#"{"city": "Oslo"}"#, &schema), None);
/// let difference = rolecall_parse::check_schema("{}", &schema);
/// assert_eq!(difference.as_deref(), Some("expected `city`, which is required"));
/// ```
pub fn check_schema(arguments: &str, schema: &Json) -> Option<String> {
    let value = json::parse(arguments).ok()?;
    let mut check = Check { budget: BUDGET + BUDGET_OF_A_BYTE * arguments.len() };
    check.difference(&value, Schema::new(schema), SchemaPath::Whole, 0)
}

/// The place of a value in the arguments.
#[derive(Clone, Copy)]
enum SchemaPath<'a> {
    Whole,
    Key(&'a SchemaPath<'a>, &'a str),
    Item(&'a SchemaPath<'a>, usize),
}

impl Display for SchemaPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaPath::Whole => Ok(()),
            SchemaPath::Key(SchemaPath::Whole, key) => f.write_str(key),
            SchemaPath::Key(outer, key) => write!(f, "{outer}.{key}"),
            SchemaPath::Item(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

impl SchemaPath<'_> {
    /// Reports that the value at this place is not `wanted`.
    fn differs(&self, wanted: impl Display, found: impl Display) -> Option<String> {
        Some(match self {
            SchemaPath::Whole => format!("expected {wanted}, found {found}"),
            place => format!("expected {wanted} at `{place}`, found {found}"),
        })
    }
}

struct Check {
    budget: usize,
}

impl Check {
    fn difference(&mut self, value: &Json, schema: Schema<'_>, place: SchemaPath<'_>, depth: usize) -> Option<String> {
        if depth == MAX_DEPTH || self.budget == 0 {
            return None;
        }
        self.budget -= 1;
        if schema.node() == &Json::Bool(false) {
            return place.differs("nothing", value.kind());
        }
        if value.is_null() && schema.keyword("nullable") == Some(&Json::Bool(true)) {
            return None;
        }
        of_type(value, schema, place)
            .or_else(|| of_listed(value, schema, place))
            .or_else(|| match value {
                Json::Number(number) => of_number(number, schema, place),
                Json::String(string) => of_string(string, schema, place),
                Json::Array(items) => self.of_list(items, schema, place, depth),
                Json::Object(object) => self.of_object(object, schema, place, depth),
                Json::Null | Json::Bool(_) => None,
            })
            .or_else(|| {
                let mut all = schema.referred().into_iter().chain(schema.listed("allOf"));
                all.find_map(|part| self.difference(value, part, place, depth + 1))
            })
            .or_else(|| {
                let mut choices = ["anyOf", "oneOf"].into_iter();
                choices.find_map(|choice| self.of_choices(value, choice, schema, place, depth))
            })
    }

    /// Reports a difference if none of the choices matches. For a single choice, reports its
    /// difference.
    fn of_choices(
        &mut self,
        value: &Json,
        keyword: &str,
        schema: Schema<'_>,
        place: SchemaPath<'_>,
        depth: usize,
    ) -> Option<String> {
        let mut first = None;
        let mut count = 0;
        for choice in schema.listed(keyword) {
            let difference = self.difference(value, choice, place, depth + 1)?;
            first.get_or_insert(difference);
            count += 1;
        }
        match count {
            0 | 1 => first,
            _ => place.differs(format_args!("a value that matches one of {count} schemas"), shown(value)),
        }
    }

    fn of_list(&mut self, items: &[Json], schema: Schema<'_>, place: SchemaPath<'_>, depth: usize) -> Option<String> {
        let count = items.len();
        if let Some(least) = count_of(schema, "minItems").filter(|least| count < *least) {
            return place.differs(format_args!("at least {least} items"), count);
        }
        if let Some(most) = count_of(schema, "maxItems").filter(|most| count > *most) {
            return place.differs(format_args!("at most {most} items"), count);
        }
        // Earlier versions of JSON Schema list the first items' schemas under `items`.
        let first = ["prefixItems", "items"].into_iter().find_map(|name| schema.keyword(name)?.as_array());
        let first = first.unwrap_or_default();
        let rest = schema.keyword("items").filter(|items| items.as_array().is_none());
        for (index, item) in items.iter().enumerate() {
            if let Some(node) = first.get(index).or(rest) {
                let found = self.difference(item, schema.at(node), SchemaPath::Item(&place, index), depth + 1);
                if found.is_some() {
                    return found;
                }
            }
        }
        if schema.keyword("uniqueItems") == Some(&Json::Bool(true)) {
            for (index, item) in items.iter().enumerate() {
                self.budget = self.budget.checked_sub(index)?;
                if let Some(earlier) = items[..index].iter().position(|earlier| is_same(earlier, item)) {
                    return SchemaPath::Item(&place, index)
                        .differs("a distinct item", format_args!("item {earlier} again"));
                }
            }
        }
        None
    }

    fn of_object(
        &mut self,
        object: &Object,
        schema: Schema<'_>,
        place: SchemaPath<'_>,
        depth: usize,
    ) -> Option<String> {
        let required = schema.keyword("required").and_then(Json::as_array).unwrap_or_default();
        if let Some(missing) = required.iter().filter_map(Json::as_str).find(|key| object.get(key).is_none()) {
            return Some(format!("expected `{}`, which is required", SchemaPath::Key(&place, missing)));
        }
        if let Some(least) = count_of(schema, "minProperties").filter(|least| object.len() < *least) {
            return place.differs(format_args!("at least {least} keys"), object.len());
        }
        if let Some(most) = count_of(schema, "maxProperties").filter(|most| object.len() > *most) {
            return place.differs(format_args!("at most {most} keys"), object.len());
        }
        let empty = Object::new();
        let properties = schema.keyword("properties").and_then(Json::as_object).unwrap_or(&empty);
        // A pattern may allow any other key.
        let others = match schema.keyword("patternProperties") {
            Some(_) => None,
            None => schema.keyword("additionalProperties"),
        };
        for (key, value) in object.iter() {
            let found = match (properties.get(key), others) {
                (None, Some(Json::Bool(false))) => {
                    let known = listed(properties.iter().map(|(key, _)| format!("`{key}`")));
                    let known = if properties.is_empty() { "no key".to_owned() } else { format!("one of {known}") };
                    Some(format!("expected {known}, found `{}`", SchemaPath::Key(&place, key)))
                }
                (Some(node), _) | (None, Some(node)) => {
                    self.difference(value, schema.at(node), SchemaPath::Key(&place, key), depth + 1)
                }
                (None, None) => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

fn of_type(value: &Json, schema: Schema<'_>, place: SchemaPath<'_>) -> Option<String> {
    let types = Types::named(schema.keyword("type")?);
    if Types::of(value).is_within(types) {
        return None;
    }
    let found = match value {
        Json::Number(number) => number.spelling(),
        value => value.kind(),
    };
    place.differs(types, found)
}

fn of_listed(value: &Json, schema: Schema<'_>, place: SchemaPath<'_>) -> Option<String> {
    if let Some(wanted) = schema.keyword("const").filter(|wanted| !is_same(wanted, value)) {
        return place.differs(shown(wanted), shown(value));
    }
    let values = schema.keyword("enum")?.as_array()?;
    match values.iter().any(|wanted| is_same(wanted, value)) {
        true => None,
        false => place.differs(format_args!("one of {}", listed(values.iter().map(shown))), shown(value)),
    }
}

fn of_number(number: &Number, schema: Schema<'_>, place: SchemaPath<'_>) -> Option<String> {
    type Fits = fn(f64, f64) -> bool;
    const LIMITS: [(&str, &str, Fits); 5] = [
        ("minimum", "at least", |found, limit| found >= limit),
        ("maximum", "at most", |found, limit| found <= limit),
        ("exclusiveMinimum", "more than", |found, limit| found > limit),
        ("exclusiveMaximum", "less than", |found, limit| found < limit),
        // Binary fractions are rarely exact.
        ("multipleOf", "a multiple of", |found, limit| {
            let times = found / limit;
            limit == 0.0 || !times.is_finite() || (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
        }),
    ];
    let found = number.as_f64()?;
    LIMITS.iter().find_map(|(keyword, words, fits)| {
        let Json::Number(limit) = schema.keyword(keyword)? else { return None };
        match fits(found, limit.as_f64()?) {
            true => None,
            false => place.differs(format_args!("{words} {}", limit.spelling()), number.spelling()),
        }
    })
}

fn of_string(string: &str, schema: Schema<'_>, place: SchemaPath<'_>) -> Option<String> {
    let (least, most) = (count_of(schema, "minLength"), count_of(schema, "maxLength"));
    if least.is_none() && most.is_none() {
        return None;
    }
    let count = string.chars().count();
    if let Some(least) = least.filter(|least| count < *least) {
        return place.differs(format_args!("at least {least} characters"), count);
    }
    let most = most.filter(|most| count > *most)?;
    place.differs(format_args!("at most {most} characters"), count)
}

fn count_of(schema: Schema<'_>, keyword: &str) -> Option<usize> {
    match schema.keyword(keyword)? {
        Json::Number(number) => usize::try_from(number.as_i64()?).ok(),
        _ => None,
    }
}

/// Reports whether JSON Schema considers two values equal. `1` equals `1.0`, and the order of keys
/// is irrelevant.
fn is_same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let mut entries = one.iter();
            one.len() == other.len()
                && entries.all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

/// Returns a value as JSON, truncated.
fn shown(value: &Json) -> String {
    let text = json::write(value, &Layout::default());
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

fn listed(values: impl ExactSizeIterator<Item = String>) -> String {
    let rest = values.len().saturating_sub(LISTED);
    let mut text = values.take(LISTED).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        text.push_str(&format!(" and {rest} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"type": "object", "required": ["city"], "additionalProperties": false, "properties": {
        "city": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^x"},
        "days": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": 9, "multipleOf": 2},
        "part": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.1},
        "unit": {"enum": ["C", "F", 1]},
        "fixed": {"const": {"a": [1]}},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3, "uniqueItems": true},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false},
        "meta": {"type": ["object", "null"], "properties": {"deep": {"type": "array", "items": {"$ref": "#/$defs/point"}}},
            "additionalProperties": {"type": "boolean"}, "maxProperties": 2},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
        "one": {"oneOf": [{"type": "boolean"}]},
        "both": {"allOf": [{"minimum": 1}, {"maximum": 3}]},
        "any": {}, "never": false, "open": {"type": "string", "nullable": true},
        "tree": {"$ref": "#/$defs/tree"}, "loop": {"$ref": "#/properties/loop"}, "odd": {"type": "varchar", "required": true}
    }, "$defs": {"point": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}},
        "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}}}}}"##;

    #[test]
    fn the_first_difference_is_said_with_its_place() {
        let schema = json::parse(SCHEMA).unwrap();
        let cases = [
            ("{}", "expected `city`, which is required"),
            ("[]", "expected an object, found a list"),
            (r#"{"city": 5}"#, "expected a string at `city`, found 5"),
            (r#"{"city": "x"}"#, "expected at least 2 characters at `city`, found 1"),
            (r#"{"city": "ääääää"}"#, "expected at most 5 characters at `city`, found 6"),
            (
                r#"{"city": "Oslo", "x": 1}"#,
                "expected one of `city`, `days`, `part`, `unit`, `fixed`, `tags` and 11 more, found `x`",
            ),
            (r#"{"city": "Oslo", "days": "3"}"#, "expected an integer at `days`, found a string"),
            (r#"{"city": "Oslo", "days": 2.5}"#, "expected an integer at `days`, found 2.5"),
            (r#"{"city": "Oslo", "days": 0}"#, "expected at least 1 at `days`, found 0"),
            (r#"{"city": "Oslo", "days": 12}"#, "expected at most 10 at `days`, found 12"),
            (r#"{"city": "Oslo", "days": 9}"#, "expected less than 9 at `days`, found 9"),
            (r#"{"city": "Oslo", "days": 3}"#, "expected a multiple of 2 at `days`, found 3"),
            (r#"{"city": "Oslo", "part": 0}"#, "expected more than 0 at `part`, found 0"),
            (r#"{"city": "Oslo", "part": 0.25}"#, "expected a multiple of 0.1 at `part`, found 0.25"),
            (r#"{"city": "Oslo", "unit": "K"}"#, "expected one of \"C\", \"F\", 1 at `unit`, found \"K\""),
            (r#"{"city": "Oslo", "fixed": 1}"#, "expected {\"a\": [1]} at `fixed`, found 1"),
            (r#"{"city": "Oslo", "tags": []}"#, "expected at least 1 items at `tags`, found 0"),
            (r#"{"city": "Oslo", "tags": ["a", 1]}"#, "expected a string at `tags[1]`, found 1"),
            (
                r#"{"city": "Oslo", "tags": ["a", "b", "a"]}"#,
                "expected a distinct item at `tags[2]`, found item 0 again",
            ),
            (r#"{"city": "Oslo", "tags": ["a", "b", "c", "d"]}"#, "expected at most 3 items at `tags`, found 4"),
            (r#"{"city": "Oslo", "pair": ["a", "b"]}"#, "expected an integer at `pair[1]`, found a string"),
            (r#"{"city": "Oslo", "pair": ["a", 1, 2]}"#, "expected nothing at `pair[2]`, found a number"),
            (r#"{"city": "Oslo", "meta": 1}"#, "expected null or an object at `meta`, found 1"),
            (r#"{"city": "Oslo", "meta": {"deep": [{"x": 1}, {}]}}"#, "expected `meta.deep[1].x`, which is required"),
            (r#"{"city": "Oslo", "meta": {"b": 1}}"#, "expected a boolean at `meta.b`, found 1"),
            (
                r#"{"city": "Oslo", "meta": {"a": true, "b": true, "c": true}}"#,
                "expected at most 2 keys at `meta`, found 3",
            ),
            (
                r#"{"city": "Oslo", "either": "xy"}"#,
                "expected a value that matches one of 2 schemas at `either`, found \"xy\"",
            ),
            (r#"{"city": "Oslo", "one": 1}"#, "expected a boolean at `one`, found 1"),
            (r#"{"city": "Oslo", "both": 4}"#, "expected at most 3 at `both`, found 4"),
            (r#"{"city": "Oslo", "never": 4}"#, "expected nothing at `never`, found a number"),
            (
                r#"{"city": "Oslo", "tree": {"left": {"left": {"n": ""}}}}"#,
                "expected an integer at `tree.left.left.n`, found a string",
            ),
        ];
        for (arguments, difference) in cases {
            assert_eq!(check_schema(arguments, &schema).as_deref(), Some(difference), "{arguments}");
        }
        let fitting = r#"{"city": "Oslo", "days": 4.0, "part": 0.3, "unit": 1.0, "fixed": {"a": [1.0]}, "tags": ["a"], "pair": ["a", 1],
            "meta": null, "either": "x", "one": true, "both": 2, "any": [], "open": null, "loop": 1, "odd": 1, "tree": {"left": {}}}"#;
        assert_eq!(check_schema(fitting, &schema), None);
        assert_eq!(check_schema("{", &schema), None);
    }

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let schema =
            r##"{"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "allOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "string"}"##;
        let schema = json::parse(schema).unwrap();
        assert_eq!(check_schema("\"x\"", &schema), None);
        let _ = Schema::new(&schema).types();
        assert!(Schema::new(&schema).property("x").is_none());
    }
}
