use crate::json::{self, Object};
use crate::{Error, Json, Place, Problem};

/// A tool call of the model.
///
/// ```
/// use rolecall_conversation::{Arguments, Call, json};
/// let value = json::parse(r#"{"id": "1", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}"#)?;
/// let call = Call::from_json(&value).expect("a call");
/// assert_eq!(call, Call::Function { id: Some("1"), name: "f", arguments: Arguments::Text("{\"x\": 1.0}") });
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call<'a> {
    /// A function call with arguments.
    Function {
        /// The id that the result refers to.
        id: Option<&'a str>,
        /// The name of the function.
        name: &'a str,
        /// The arguments.
        arguments: Arguments<'a>,
    },
    /// Code for the code interpreter.
    CodeInterpreter {
        /// The id that the result refers to.
        id: Option<&'a str>,
        /// The code.
        code: &'a str,
    },
}

/// The arguments of a tool call, in the form in which they were given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arguments<'a> {
    /// The JSON text of an object. Empty text means no arguments.
    Text(&'a str),
    /// An object.
    Value(&'a Object),
    /// Missing, or `null`.
    None,
}

impl<'a> Arguments<'a> {
    /// Returns the arguments as an object. Parses them if they are text.
    pub fn to_object(self) -> Result<Object, String> {
        match self {
            Arguments::Value(object) => Ok(object.clone()),
            Arguments::None => Ok(Object::new()),
            Arguments::Text(text) if text.trim().is_empty() => Ok(Object::new()),
            Arguments::Text(text) => match json::parse(text) {
                Ok(Json::Object(object)) => Ok(object),
                Ok(Json::Null) => Ok(Object::new()),
                Ok(other) => Err(format!("expected an object, found {}", other.kind())),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

impl<'a> Call<'a> {
    /// Reads one of a message's `tool_calls` and checks its arguments.
    pub fn from_json(value: &'a Json) -> Result<Call<'a>, Error> {
        let call = Call::read(value)?;
        if let Call::Function { arguments, .. } = call
            && let Err(why) = arguments.to_object()
        {
            let wrapped = value.as_object().is_some_and(|object| object.get("function").is_some());
            let field = if wrapped { "function.arguments" } else { "arguments" };
            return Err(Error { place: Place::field(field), problem: Problem::Arguments(why) });
        }
        Ok(call)
    }

    /// Reads a call without checking the text of its arguments.
    pub(crate) fn read(value: &'a Json) -> Result<Call<'a>, Error> {
        let Json::Object(object) = value else {
            return Err(Error::wrong_type("", "a call such as {\"type\": \"function\", \"function\": {..}}", value));
        };
        let id = optional_text(object, "id")?;
        match optional_text(object, "type")? {
            Some("code_interpreter") => {
                let Some(inner) = object.get("code_interpreter") else {
                    return Err(Error::missing("code_interpreter"));
                };
                let Json::Object(inner) = inner else {
                    return Err(Error::wrong_type("code_interpreter", "an object such as {\"input\": \"..\"}", inner));
                };
                match inner.get("input") {
                    Some(Json::String(code)) => Ok(Call::CodeInterpreter { id, code }),
                    Some(other) => Err(Error::wrong_type("code_interpreter.input", "a string", other)),
                    None => Err(Error::missing("code_interpreter.input")),
                }
            }
            None | Some("function") => match object.get("function") {
                Some(Json::Object(function)) => function_call(id, function).map_err(|error| error.under("function")),
                Some(other) => Err(Error::wrong_type("function", "an object with a name and arguments", other)),
                None => function_call(id, object),
            },
            Some(other) => Err(Error {
                place: Place::field("type"),
                problem: Problem::UnknownType { known: "`function`, `code_interpreter`", found: other.to_owned() },
            }),
        }
    }

    /// Returns the id that the result refers to.
    pub fn id(&self) -> Option<&'a str> {
        match self {
            Call::Function { id, .. } | Call::CodeInterpreter { id, .. } => *id,
        }
    }
}

fn function_call<'a>(id: Option<&'a str>, function: &'a Object) -> Result<Call<'a>, Error> {
    let name = match function.get("name") {
        Some(Json::String(name)) => name,
        Some(other) => return Err(Error::wrong_type("name", "a string", other)),
        None => return Err(Error::missing("name")),
    };
    let arguments = match function.get("arguments") {
        Some(Json::String(text)) => Arguments::Text(text),
        Some(Json::Object(object)) => Arguments::Value(object),
        None | Some(Json::Null) => Arguments::None,
        Some(other) => return Err(Error::wrong_type("arguments", "an object or its JSON text", other)),
    };
    Ok(Call::Function { id, name, arguments })
}

fn optional_text<'a>(object: &'a Object, key: &'static str) -> Result<Option<&'a str>, Error> {
    match object.get(key) {
        Some(Json::String(text)) => Ok(Some(text)),
        None | Some(Json::Null) => Ok(None),
        Some(other) => Err(Error::wrong_type(key, "a string", other)),
    }
}
