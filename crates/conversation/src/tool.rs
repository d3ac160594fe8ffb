use crate::json::Object;
use crate::{Error, Json, Place, Problem, object};

/// A tool that the model can call.
///
/// ```
/// use rolecall_conversation::{Tool, json};
/// let bare = Tool::from_json(json::parse(r#"{"name": "f", "parameters": {}}"#)?).expect("a function");
/// let wrapped = json::write(&bare.wrapped().expect("a function"), &json::Layout::compact());
/// assert_eq!(wrapped, r#"{"type":"function","function":{"name":"f","parameters":{}}}"#);
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    /// A function with a name, a description and a schema of its parameters.
    Function {
        /// The object as it was given, with or without the wrapper
        /// `{"type": "function", "function": ..}`.
        object: Object,
        /// Whether the object has the wrapper.
        wrapped: bool,
    },
    /// The code interpreter: `{"type": "code_interpreter"}`.
    CodeInterpreter,
    /// A text that describes a tool in any form, as in LMFlow's data sets. Few formats write it.
    Text(String),
}

impl Tool {
    /// Reads and checks a tool.
    pub fn from_json(value: Json) -> Result<Tool, Error> {
        let object = match value {
            Json::Object(object) => object,
            Json::String(text) => return Ok(Tool::Text(text)),
            other => {
                let expected = "a tool such as {\"type\": \"function\", \"function\": {..}}";
                return Err(Error::wrong_type("", expected, &other));
            }
        };
        let kind = match object.get("type") {
            Some(Json::String(kind)) if object.get("function").is_some() || object.get("name").is_none() => {
                kind.as_str()
            }
            _ => "",
        };
        match kind {
            "code_interpreter" => {
                // It has no settings. A cache mark says nothing to the model.
                let is_other = |key: &str, value: &Json| !matches!(key, "type" | "cache_control") && !value.is_null();
                return match object.iter().find(|(key, value)| is_other(key, value)) {
                    None => Ok(Tool::CodeInterpreter),
                    Some((key, _)) => Err(Error { place: Place::field(key.to_owned()), problem: Problem::UnknownKey }),
                };
            }
            "" | "function" => {}
            other => {
                return Err(Error {
                    place: Place::field("type"),
                    problem: Problem::UnknownType { known: "`function`, `code_interpreter`", found: other.to_owned() },
                });
            }
        }
        let wrapped = match object.get("function") {
            Some(Json::Object(_)) => true,
            Some(other) => return Err(Error::wrong_type("function", "an object", other)),
            None => false,
        };
        let tool = Tool::Function { object, wrapped };
        let path = if wrapped { "function.name" } else { "name" };
        match tool.function().and_then(|function| function.get("name")) {
            Some(Json::String(_)) => Ok(tool),
            Some(other) => Err(Error::wrong_type(path, "a string", other)),
            None => Err(Error::missing(path)),
        }
    }

    /// Returns the function without its wrapper.
    pub fn function(&self) -> Option<&Object> {
        match self {
            Tool::Function { object, wrapped: true } => object.get("function").and_then(Json::as_object),
            Tool::Function { object, wrapped: false } => Some(object),
            Tool::CodeInterpreter | Tool::Text(_) => None,
        }
    }

    /// Returns the function in its wrapper, which is added if it was missing.
    pub fn wrapped(&self) -> Option<Json> {
        match self {
            Tool::Function { object, wrapped: true } => Some(Json::Object(object.clone())),
            Tool::Function { object, wrapped: false } => {
                Some(Json::Object(object! { "type" => "function", "function" => object.clone() }))
            }
            Tool::CodeInterpreter | Tool::Text(_) => None,
        }
    }

    /// Returns the name of the function. The name of a tool that is a text is not known, and empty here.
    pub fn name(&self) -> &str {
        if let Tool::Text(_) = self {
            return "";
        }
        let name = self.function().and_then(|function| function.get("name")).and_then(Json::as_str);
        name.unwrap_or("code_interpreter")
    }

    /// Returns the tool as JSON, from which [`Tool::from_json`] reads the same tool.
    ///
    /// ```
    /// use rolecall_conversation::{Json, Tool};
    /// let text = Tool::from_json(Json::from("now(): the time")).expect("a text");
    /// assert_eq!(text.to_json(), Json::from("now(): the time"));
    /// ```
    pub fn to_json(&self) -> Json {
        match self {
            Tool::Function { object, .. } => Json::Object(object.clone()),
            Tool::CodeInterpreter => object! { "type" => "code_interpreter" }.into(),
            Tool::Text(text) => Json::from(text.as_str()),
        }
    }
}
