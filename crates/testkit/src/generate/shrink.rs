//! The smallest value that still fails.

use rolecall::conversation::Json;

/// Removes everything from a failing value that it still fails without. The value must fail to
/// begin with.
pub fn shrink(failing: &Json, fails: impl Fn(&Json) -> bool) -> Json {
    let mut smallest = failing.clone();
    let mut tries = 3_000;
    loop {
        let mut smaller = false;
        let mut number = 0;
        while let Some(candidate) = without(&smallest, &mut number.clone()) {
            tries -= 1;
            if tries == 0 {
                return smallest;
            }
            match fails(&candidate) {
                true => {
                    smallest = candidate;
                    smaller = true;
                }
                false => number += 1,
            }
        }
        if !smaller {
            return smallest;
        }
    }
}

/// Returns the value without its n-th element or key, counted through all levels, or `None` past
/// the last one.
fn without(value: &Json, n: &mut usize) -> Option<Json> {
    match value {
        Json::Array(items) => {
            for at in 0..items.len() {
                if *n == 0 {
                    let mut items = items.clone();
                    items.remove(at);
                    return Some(Json::Array(items));
                }
                *n -= 1;
                if let Some(smaller) = without(&items[at], n) {
                    let mut items = items.clone();
                    items[at] = smaller;
                    return Some(Json::Array(items));
                }
            }
            None
        }
        Json::Object(object) => {
            for (key, inner) in object.iter() {
                if *n == 0 {
                    let mut object = object.clone();
                    object.remove(key);
                    return Some(Json::Object(object));
                }
                *n -= 1;
                if let Some(smaller) = without(inner, n) {
                    let mut object = object.clone();
                    object.insert(key, smaller);
                    return Some(Json::Object(object));
                }
            }
            None
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::json::{self, Layout};

    use super::*;

    #[test]
    fn the_smallest_failing_value_is_found() {
        let value = json::parse(r#"{"a": [1, {"b": "x", "c": [2, 3]}], "d": null}"#).unwrap();
        let fails = |value: &Json| json::write(value, &Layout::compact()).contains('3');
        let smallest = shrink(&value, fails);
        assert_eq!(json::write(&smallest, &Layout::compact()), r#"{"a":[{"c":[3]}]}"#);
    }
}
