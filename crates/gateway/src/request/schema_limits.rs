//! What is asked of the schemas that become grammars. A grammar takes longer to build than its schema looks:
//! each list within a list doubles it, and each property is compared with the others.

use rolecall::conversation::Json;

use crate::{Fault, FaultCode};

/// The most values in a schema.
const MOST_VALUES: usize = 1000;

/// The most lists within lists.
const MOST_LISTS: usize = 8;

/// The most tools of which one must be called.
pub const MOST_TOOLS: usize = 512;

/// Refuses a schema whose grammar would take long.
pub fn check(field: &str, schema: &Json) -> Result<(), Fault> {
    let mut values = 0;
    // JSON nests at most 200 levels.
    let lists = measure(schema, &mut values);
    let why = if values > MOST_VALUES {
        format!("the schema has {values} values, and a grammar can have at most {MOST_VALUES}")
    } else if lists > MOST_LISTS {
        format!("the schema has {lists} lists within each other, and a grammar can have at most {MOST_LISTS}")
    } else {
        return Ok(());
    };
    let help = Some("make the schema smaller, or let the model choose whether it follows it".into());
    Err(Fault { help, ..Fault::at(field, FaultCode::SchemaTooLarge, why) })
}

/// Counts the values, and returns how many lists are within each other.
fn measure(schema: &Json, values: &mut usize) -> usize {
    *values += 1;
    match schema {
        Json::Object(object) => {
            let inner = |(key, value): (&str, &Json)| {
                let is_list = matches!(key, "items" | "prefixItems" | "additionalProperties");
                measure(value, values) + usize::from(is_list && value.as_object().is_some())
            };
            object.iter().map(inner).max().unwrap_or_default()
        }
        Json::Array(items) => items.iter().map(|item| measure(item, values)).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::Json;
    use rolecall::conversation::object;

    use super::check;
    use crate::FaultCode;

    fn code(schema: &Json) -> Option<FaultCode> {
        check("response_format", schema).err().map(|fault| fault.code)
    }

    #[test]
    fn schemas_that_are_too_large_or_too_deep_are_refused() {
        let of = |count: usize| -> Json {
            let properties: Vec<Json> = (0..count).map(|at| object! { "const" => at.to_string() }.into()).collect();
            object! { "anyOf" => properties }.into()
        };
        assert_eq!(code(&of(400)), None);
        assert_eq!(code(&of(600)), Some(FaultCode::SchemaTooLarge));
        let nested = |levels: usize| {
            (0..levels).fold(Json::from(object! {}), |inner, _| object! { "type" => "array", "items" => inner }.into())
        };
        assert_eq!(code(&nested(8)), None);
        assert_eq!(code(&nested(9)), Some(FaultCode::SchemaTooLarge));
    }
}
