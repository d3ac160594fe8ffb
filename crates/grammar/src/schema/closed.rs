//! The schema as passed to engines. If an object does not mention additional properties, xgrammar
//! forbids them and llguidance allows them. With an explicit keyword in the schema, both behave the
//! same.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

/// Returns the schema of a tool that takes no arguments.
pub(super) fn no_arguments() -> Json {
    Json::Object(object! { "type" => "object", "properties" => Object::new(), "additionalProperties" => false })
}

/// Reports whether an object that does not mention additional properties has none.
pub(super) fn is_closed(schema: &Object) -> bool {
    let says = ["patternProperties", "allOf", "anyOf", "oneOf", "unevaluatedProperties", "$ref", "if"];
    schema.get("properties").is_some() && !says.iter().any(|key| schema.get(key).is_some())
}

/// Adds the explicit keyword to every object in the schema. Sorts the properties alphabetically if
/// the format sorts its keys.
pub(super) fn closed(schema: &Json, sorted: bool) -> Json {
    let Json::Object(object) = schema else { return schema.clone() };
    let each = object.iter().map(|(key, value)| (key.to_owned(), inner(key, value, sorted)));
    let mut out: Object = each.collect();
    if out.get("additionalProperties").is_none() {
        if is_closed(object) {
            out.insert("additionalProperties", Json::Bool(false));
        } else if object.get("type").and_then(Json::as_str) == Some("object") && object.get("properties").is_none() {
            out.insert("additionalProperties", Json::Bool(true));
        }
    }
    Json::Object(out)
}

fn inner(key: &str, value: &Json, sorted: bool) -> Json {
    match (key, value) {
        ("properties" | "$defs" | "definitions", Json::Object(schemas)) => {
            let mut entries: Vec<(String, Json)> =
                schemas.iter().map(|(name, schema)| (name.to_owned(), closed(schema, sorted))).collect();
            if sorted {
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
            Json::Object(entries.into_iter().collect())
        }
        ("anyOf" | "oneOf" | "prefixItems", Json::Array(schemas)) => {
            Json::Array(schemas.iter().map(|schema| closed(schema, sorted)).collect())
        }
        ("items" | "additionalProperties", schema) => closed(schema, sorted),
        _ => value.clone(),
    }
}
