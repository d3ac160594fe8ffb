//! Parsing of schemas. A keyword that a grammar does not enforce loosens the shape and is recorded
//! as a note.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;

use super::{Form, ObjectShape, Property, Purpose, Shape, closed, expression, values};
use crate::Note;

/// The maximum string length that is enforced. A longer length is only recorded as a note.
const MOST: usize = 4000;
/// The maximum number of definitions that are read. A reference to a further one is only recorded
/// as a note.
const MOST_DEFINITIONS: usize = 1000;
/// The maximum nesting depth of schemas, with those that references lead to.
pub(crate) const MAX_DEPTH: usize = 200;

/// Keywords that do not affect which values match.
const ANNOTATIONS: [&str; 18] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "strict",
    "$anchor",
    "contentEncoding",
    "contentMediaType",
];

/// Returns the shape of a schema, its definitions, and notes on the keywords that are not enforced.
pub(super) fn read(purpose: &Purpose, root: &Json) -> (Shape, Vec<Shape>, Vec<Note>) {
    let mut reader = SchemaReader { purpose, root, refs: Vec::new(), defs: Vec::new(), depth: 0, notes: Vec::new() };
    let shape = reader.shape(root, "");
    reader.break_circles();
    let (shape, defs) = values::without_empty(shape, reader.defs);
    (shape, defs, reader.notes)
}

struct SchemaReader<'a> {
    purpose: &'a Purpose,
    root: &'a Json,
    /// The reference of each definition.
    refs: Vec<String>,
    defs: Vec<Shape>,
    depth: usize,
    notes: Vec<Note>,
}

impl SchemaReader<'_> {
    fn note(&mut self, at: &str, keyword: &str) {
        let note = Note::Keyword { purpose: self.purpose.clone(), at: at.to_owned(), keyword: keyword.to_owned() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn shape(&mut self, schema: &Json, at: &str) -> Shape {
        match schema {
            Json::Bool(false) => Shape::Union(Vec::new()),
            Json::Object(object) => {
                self.depth += 1;
                let shape = self.object_schema(object, at);
                self.depth -= 1;
                shape
            }
            Json::Bool(true) => Shape::Any,
            _ => {
                // It is no schema.
                let (at, keyword) = at.rsplit_once('/').unwrap_or(("", at));
                self.note(at, keyword);
                Shape::Any
            }
        }
    }

    fn object_schema(&mut self, schema: &Object, at: &str) -> Shape {
        let mut followed: Vec<&str> = Vec::new();
        let shape = self.main_keyword(schema, at, &mut followed);
        for (key, value) in schema.iter() {
            let is_enforced = followed.contains(&key) && is_of_type(key, value);
            if !is_enforced && !ANNOTATIONS.contains(&key) {
                self.note(at, key);
            }
        }
        shape
    }

    /// Returns the shape for the most specific keyword, and adds the enforced keywords to
    /// `followed`.
    fn main_keyword<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        if let Some(Json::String(reference)) = schema.get("$ref") {
            followed.push("$ref");
            return self.reference(reference, at);
        }
        if let Some(value) = schema.get("const") {
            followed.extend(["const", "type", "enum"]);
            return Shape::Const(value.clone());
        }
        if let Some(Json::Array(values)) = schema.get("enum") {
            followed.extend(["enum", "type", "nullable"]);
            return Shape::Union(values.iter().cloned().map(Shape::Const).collect());
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(Json::Array(schemas)) = schema.get(keyword) else { continue };
            // Next to `properties`, alternatives usually list different required properties.
            let alone = schema.get("properties").is_none() && (keyword != "allOf" || schemas.len() == 1);
            if !alone || schemas.is_empty() {
                continue;
            }
            followed.extend([keyword, "type"]);
            let each = schemas.iter().enumerate();
            let shapes: Vec<Shape> =
                each.map(|(index, schema)| self.shape(schema, &format!("{at}/{keyword}/{index}"))).collect();
            return union(shapes);
        }
        followed.push("type");
        let mut shapes: Vec<Shape> = match schema.get("type") {
            Some(Json::String(kind)) => vec![self.typed(kind, schema, at, followed)],
            Some(Json::Array(kinds)) => {
                let kinds: Vec<&str> = kinds.iter().filter_map(Json::as_str).collect();
                kinds.into_iter().map(|kind| self.typed(kind, schema, at, followed)).collect()
            }
            _ => vec![self.untyped(schema, at, followed)],
        };
        if schema.get("nullable").and_then(Json::as_bool) == Some(true) {
            shapes.push(Shape::Null);
        }
        if schema.get("nullable").is_some() {
            followed.push("nullable");
        }
        union(shapes)
    }

    /// Infers the type of a schema without `type` from its other keywords.
    fn untyped<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        let speaks = |keys: &[&str]| keys.iter().any(|key| schema.get(key).is_some());
        if speaks(&["properties", "required", "additionalProperties"]) {
            return self.typed("object", schema, at, followed);
        }
        Shape::Any
    }

    fn typed<'s>(&mut self, kind: &str, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        match kind {
            "null" => Shape::Null,
            "boolean" | "bool" => Shape::Bool,
            "integer" | "int" => self.integer(schema, at, followed),
            "number" | "float" => Shape::Number,
            "string" | "str" => self.string(schema, at, followed),
            "array" | "list" => self.array(schema, at, followed),
            "object" | "dict" => self.object(schema, at, followed),
            _ => {
                self.note(at, "type");
                Shape::Any
            }
        }
    }

    fn integer<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        followed.extend(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]);
        let mut bound = |key: &'static str| match schema.get(key) {
            Some(Json::Number(number)) => {
                let whole = number.as_i64().filter(|whole| whole.unsigned_abs() < 1 << 60);
                if whole.is_none() {
                    self.note(at, key);
                }
                whole
            }
            Some(_) => {
                self.note(at, key);
                None
            }
            None => None,
        };
        let above = bound("exclusiveMinimum").map(|bound| bound + 1);
        let below = bound("exclusiveMaximum").map(|bound| bound - 1);
        let min = bound("minimum").max(above);
        let max = match (bound("maximum"), below) {
            (Some(max), Some(below)) => Some(max.min(below)),
            (max, below) => max.or(below),
        };
        Shape::Integer { min, max }
    }

    fn string<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        let min = count(schema, "minLength", followed).unwrap_or(0);
        let max = count(schema, "maxLength", followed);
        let mut form = Form { min, max, pattern: None };
        if let Some(Json::String(expression)) = schema.get("pattern") {
            form.pattern = expression::read(expression);
            if form.pattern.is_some() {
                followed.push("pattern");
                // The pattern takes precedence, because one pattern cannot also enforce the
                // lengths.
                if (min > 0 || max.is_some()) && form.pattern.is_some() {
                    self.note(at, if max.is_some() { "maxLength" } else { "minLength" });
                }
            }
        }
        Shape::String(form)
    }

    fn array<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        let min = count(schema, "minItems", followed).unwrap_or(0);
        let max = count(schema, "maxItems", followed);
        let items = match (schema.get("prefixItems"), schema.get("items")) {
            (None, Some(Json::Array(_))) | (Some(_), _) => Shape::Any,
            (None, Some(items)) => {
                followed.push("items");
                self.shape(items, &format!("{at}/items"))
            }
            (None, None) => Shape::Any,
        };
        Shape::Array { items: Box::new(items), min, max }
    }

    fn object<'s>(&mut self, schema: &'s Object, at: &str, followed: &mut Vec<&'s str>) -> Shape {
        followed.extend(["properties", "required", "additionalProperties"]);
        let required: Vec<&str> = match schema.get("required") {
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        let mut properties = Vec::new();
        if let Some(Json::Object(listed)) = schema.get("properties") {
            for (name, inner) in listed.iter() {
                let shape = self.shape(inner, &format!("{at}/properties/{name}"));
                properties.push(Property { name: name.to_owned(), shape, required: required.contains(&name) });
            }
        }
        let others = match schema.get("additionalProperties") {
            Some(Json::Bool(false)) => None,
            Some(Json::Bool(true)) => Some(Shape::Any),
            Some(inner) => Some(self.shape(inner, &format!("{at}/additionalProperties"))),
            None if closed::is_closed(schema) => None,
            None => Some(Shape::Any),
        };
        for name in required {
            if !properties.iter().any(|property| property.name == name) {
                let shape = others.clone().unwrap_or(Shape::Any);
                properties.push(Property { name: name.to_owned(), shape, required: true });
            }
        }
        Shape::Object(ObjectShape { properties, others: others.map(Box::new) })
    }

    fn reference(&mut self, reference: &str, at: &str) -> Shape {
        if let Some(known) = self.refs.iter().position(|known| known == reference) {
            return Shape::Ref(known);
        }
        let is_pointer = reference == "#" || reference.starts_with("#/");
        let Some(target) = find(self.root, reference).filter(|_| is_pointer) else {
            self.note(at, "$ref");
            return Shape::Any;
        };
        if self.refs.len() == MOST_DEFINITIONS || self.depth >= MAX_DEPTH {
            self.note(at, "$ref");
            return Shape::Any;
        }
        let target = target.clone();
        let def = self.refs.len();
        self.refs.push(reference.to_owned());
        self.defs.push(Shape::Any);
        let shape = self.shape(&target, reference.trim_start_matches('#'));
        self.defs[def] = shape;
        Shape::Ref(def)
    }

    /// Breaks definitions that refer directly to themselves, which have no values that a grammar
    /// could express.
    fn break_circles(&mut self) {
        for def in 0..self.defs.len() {
            if self.leads_to(&self.defs[def], def, &mut vec![false; self.defs.len()]) {
                self.defs[def] = Shape::Any;
                let at = self.refs[def].trim_start_matches('#').to_owned();
                self.note(&at, "$ref");
            }
        }
    }

    fn leads_to(&self, shape: &Shape, def: usize, seen: &mut Vec<bool>) -> bool {
        match shape {
            Shape::Ref(next) if *next == def => true,
            Shape::Ref(next) if seen[*next] => false,
            Shape::Ref(next) => {
                seen[*next] = true;
                self.leads_to(&self.defs[*next], def, seen)
            }
            Shape::Union(shapes) => shapes.iter().any(|shape| self.leads_to(shape, def, seen)),
            _ => false,
        }
    }
}

fn union(mut shapes: Vec<Shape>) -> Shape {
    match shapes.len() {
        1 => shapes.remove(0),
        _ if shapes.contains(&Shape::Any) => Shape::Any,
        _ => Shape::Union(shapes),
    }
}

/// Returns the target of a local reference such as `#/$defs/point`.
fn find<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    let pointer = reference.strip_prefix('#')?;
    let mut at = root;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        at = match at {
            Json::Object(object) => object.get(&step)?,
            Json::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

/// Returns the count under a key, and adds the key to those that the grammar enforces.
/// Reports whether the value of a keyword has a type that means something.
fn is_of_type(keyword: &str, value: &Json) -> bool {
    let is_text = |value: &Json| value.as_str().is_some();
    let are_texts = |value: &Json| value.as_array().is_some_and(|texts| texts.iter().all(is_text));
    match keyword {
        "type" => is_text(value) || are_texts(value),
        "required" => are_texts(value),
        "properties" => value.as_object().is_some(),
        "nullable" => value.as_bool().is_some(),
        _ => true,
    }
}

fn count<'s>(schema: &Object, key: &'s str, followed: &mut Vec<&'s str>) -> Option<usize> {
    let Some(Json::Number(number)) = schema.get(key) else { return None };
    let count = usize::try_from(number.as_i64()?).ok().filter(|count| *count <= MOST)?;
    followed.push(key);
    Some(count)
}
