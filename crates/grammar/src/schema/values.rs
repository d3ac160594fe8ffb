//! Removal of shapes that no value matches. A grammar that led into one would have no way out.

use super::{ObjectShape, Property, Shape};

/// Returns a shape and its definitions without the alternatives and optional properties that no
/// value matches. If no value matches the whole shape, it becomes an empty union.
pub(super) fn without_empty(shape: Shape, defs: Vec<Shape>) -> (Shape, Vec<Shape>) {
    // A definition has values if one can be built from definitions that are known to have some.
    let mut known = vec![false; defs.len()];
    loop {
        let next: Vec<bool> = defs.iter().map(|def| has_values(def, &known)).collect();
        if next == known {
            break;
        }
        known = next;
    }
    let kept = |shape: Shape| kept(shape, &known).unwrap_or(Shape::Union(Vec::new()));
    (kept(shape), defs.into_iter().map(kept).collect())
}

fn has_values(shape: &Shape, known: &[bool]) -> bool {
    match shape {
        Shape::Ref(def) => known[*def],
        Shape::Union(shapes) => shapes.iter().any(|shape| has_values(shape, known)),
        Shape::Integer { min: Some(min), max: Some(max) } => min <= max,
        Shape::String(form) => form.pattern.is_some() || form.max.is_none_or(|max| form.min <= max),
        Shape::Array { items, min, max } => {
            max.is_none_or(|max| *min <= max) && (*min == 0 || has_values(items, known))
        }
        Shape::Object(object) => {
            object.properties.iter().all(|property| !property.required || has_values(&property.shape, known))
        }
        Shape::Any | Shape::Null | Shape::Bool | Shape::Integer { .. } | Shape::Number | Shape::Const(_) => true,
    }
}

fn kept(shape: Shape, known: &[bool]) -> Option<Shape> {
    if !has_values(&shape, known) {
        return None;
    }
    Some(match shape {
        Shape::Union(shapes) => Shape::Union(shapes.into_iter().filter_map(|shape| kept(shape, known)).collect()),
        Shape::Array { items, min, max } => match kept(*items, known) {
            Some(items) => Shape::Array { items: Box::new(items), min, max },
            None => Shape::Array { items: Box::new(Shape::Any), min: 0, max: Some(0) },
        },
        Shape::Object(object) => {
            let ObjectShape { properties, others } = object;
            let properties = properties.into_iter().filter_map(|property| {
                let shape = kept(property.shape, known)?;
                Some(Property { shape, ..property })
            });
            let others = others.and_then(|others| kept(*others, known)).map(Box::new);
            Shape::Object(ObjectShape { properties: properties.collect(), others })
        }
        other => other,
    })
}
