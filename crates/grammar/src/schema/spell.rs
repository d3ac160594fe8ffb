//! Conversion of shapes to JSON Schema.

use rolecall_conversation::json::{Number, Object};
use rolecall_conversation::{Json, object};

use super::{Form, ObjectShape, Property, Shape};
use crate::print::regex;

/// Returns the schema of a shape, including the definitions that it may refer to.
pub(super) fn spelled(shape: &Shape, defs: &[Shape], sorted: bool) -> Json {
    let mut spelled = spell(shape, sorted);
    if let (Json::Object(object), false) = (&mut spelled, defs.is_empty() || !refers(shape)) {
        let each = defs.iter().enumerate().map(|(at, def)| (format!("d{at}"), spell(def, sorted)));
        object.insert("$defs", Json::Object(each.collect()));
    }
    spelled
}

fn refers(shape: &Shape) -> bool {
    match shape {
        Shape::Ref(_) => true,
        Shape::Union(shapes) => shapes.iter().any(refers),
        Shape::Array { items, .. } => refers(items),
        Shape::Object(object) => {
            object.properties.iter().any(|property| refers(&property.shape))
                || object.others.as_deref().is_some_and(refers)
        }
        _ => false,
    }
}

fn spell(shape: &Shape, sorted: bool) -> Json {
    let typed = |kind: &str| object! { "type" => kind };
    Json::Object(match shape {
        Shape::Any => Object::new(),
        Shape::Null => typed("null"),
        Shape::Bool => typed("boolean"),
        Shape::Integer { min, max } => {
            let mut object = typed("integer");
            for (key, bound) in [("minimum", min), ("maximum", max)] {
                if let Some(bound) = bound {
                    object.insert(key, Json::from(*bound));
                }
            }
            object
        }
        Shape::Number => typed("number"),
        Shape::String(form) => string(form),
        Shape::Const(value) => object! { "const" => value.clone() },
        Shape::Array { items, min, max } => {
            let mut object = typed("array");
            object.insert("items", spell(items, sorted));
            counts(&mut object, ("minItems", *min), ("maxItems", *max));
            object
        }
        Shape::Object(shape) => properties(shape, sorted),
        Shape::Union(shapes) if shapes.is_empty() => object! { "not" => Object::new() },
        Shape::Union(shapes) => {
            let each: Vec<Json> = shapes.iter().map(|shape| spell(shape, sorted)).collect();
            object! { "anyOf" => each }
        }
        Shape::Ref(def) => object! { "$ref" => format!("#/$defs/d{def}") },
    })
}

fn string(form: &Form) -> Object {
    let mut object = object! { "type" => "string" };
    match &form.pattern {
        Some(pattern) => object.insert("pattern", Json::from(format!("^(?:{})$", regex(pattern)))),
        None => counts(&mut object, ("minLength", form.min), ("maxLength", form.max)),
    }
    object
}

fn counts(object: &mut Object, (least, min): (&str, usize), (most, max): (&str, Option<usize>)) {
    let number = |count: usize| Json::Number(Number::from(count as i64));
    if min > 0 {
        object.insert(least, number(min));
    }
    if let Some(max) = max {
        object.insert(most, number(max));
    }
}

fn properties(shape: &ObjectShape, sorted: bool) -> Object {
    let mut listed: Vec<&Property> = shape.properties.iter().collect();
    if sorted {
        listed.sort_by(|one, other| one.name.cmp(&other.name));
    }
    let each = listed.iter().map(|property| (property.name.clone(), spell(&property.shape, sorted)));
    let needed = listed.iter().filter(|property| property.required).map(|property| Json::from(property.name.as_str()));
    let others = shape.others.as_ref().map_or(Json::Bool(false), |others| match **others {
        Shape::Any => Json::Bool(true),
        _ => spell(others, sorted),
    });
    object! {
        "type" => "object",
        "properties" => each.collect::<Object>(),
        "required" => needed.collect::<Vec<Json>>(),
        "additionalProperties" => others,
    }
}
