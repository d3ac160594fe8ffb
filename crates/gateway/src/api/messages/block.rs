use rolecall::conversation::Json;
use rolecall::conversation::json::Object;

use crate::request::labels::check_cache_mark;
use crate::{Fault, FaultCode};

/// A block of a message's content.
pub enum Block<'a> {
    Text(&'a str),
    Thinking(&'a str),
    Use {
        id: &'a str,
        name: &'a str,
        input: &'a Object,
    },
    /// The text of a tool's result.
    Result {
        id: &'a str,
        text: String,
    },
}

/// A place in a request.
#[derive(Clone)]
pub struct RequestSpot {
    pub field: String,
    /// The index of the message.
    pub message: Option<usize>,
}

impl RequestSpot {
    pub fn within(&self, step: &str) -> RequestSpot {
        let field = if self.field.is_empty() { step.to_owned() } else { format!("{}{step}", self.field) };
        RequestSpot { field, message: self.message }
    }

    pub fn fault(&self, code: FaultCode, why: &str) -> Fault {
        let fault = Fault::at(&self.field, code, format!("{}: {why}", self.field));
        Fault { message_index: self.message.and_then(|index| u32::try_from(index).ok()), ..fault }
    }

    /// Returns the error for a kind of block, or a key, that the gateway does not have.
    pub fn unsupported(&self, what: &str) -> Fault {
        let fault = self.fault(FaultCode::UnsupportedParameter, &format!("the gateway does not support `{what}`"));
        Fault { help: Some("leave it out".into()), ..fault }
    }
}

/// Reads content: a text, or blocks.
pub fn read<'a>(content: &'a Json, spot: &RequestSpot) -> Result<Vec<Block<'a>>, Fault> {
    match content {
        Json::String(text) => Ok(vec![Block::Text(text)]),
        Json::Array(blocks) => {
            let each = blocks.iter().enumerate();
            each.map(|(index, block)| block_of(block, &spot.within(&format!("[{index}]")))).collect()
        }
        _ => Err(spot.fault(FaultCode::WrongType, "expected a text or a list of blocks")),
    }
}

/// Reads content that has texts alone, and returns them as one.
pub fn text_of(content: &Json, spot: &RequestSpot) -> Result<String, Fault> {
    let mut all = String::new();
    for (index, block) in read(content, spot)?.iter().enumerate() {
        let Block::Text(text) = block else {
            return Err(spot
                .within(&format!("[{index}].type"))
                .fault(FaultCode::WrongValue, "expected a block of text"));
        };
        all.push_str(text);
    }
    Ok(all)
}

fn block_of<'a>(block: &'a Json, spot: &RequestSpot) -> Result<Block<'a>, Fault> {
    let object = block.as_object().ok_or_else(|| spot.fault(FaultCode::WrongType, "expected a block"))?;
    let fields = BlockFields { object, spot };
    match fields.text("type")? {
        "text" => {
            fields.check(&["text", "cache_control", "citations"])?;
            fields.is_empty("citations")?;
            Ok(Block::Text(fields.text("text")?))
        }
        "thinking" => {
            fields.check(&["thinking", "signature"])?;
            Ok(Block::Thinking(fields.text("thinking")?))
        }
        "tool_use" => {
            if object.get("partial_json").is_some_and(|text| !text.is_null()) {
                let fault = spot.within(".partial_json").fault(FaultCode::CutCall, "the call was cut off");
                return Err(Fault { help: Some("leave the block out".into()), ..fault });
            }
            fields.check(&["id", "name", "input", "cache_control", "caller"])?;
            fields.is_called_directly()?;
            let input = object.get("input").and_then(Json::as_object);
            let input = input.ok_or_else(|| spot.within(".input").fault(FaultCode::WrongType, "expected an object"))?;
            Ok(Block::Use { id: fields.text("id")?, name: fields.text("name")?, input })
        }
        "tool_result" => {
            fields.check(&["tool_use_id", "content", "is_error", "cache_control"])?;
            let mut text = match object.get("content") {
                None | Some(Json::Null) => String::new(),
                Some(content) => text_of(content, &spot.within(".content"))?,
            };
            match object.get("is_error") {
                None | Some(Json::Null | Json::Bool(false)) => {}
                Some(Json::Bool(true)) => text.insert_str(0, "Error: "),
                Some(_) => return Err(spot.within(".is_error").fault(FaultCode::WrongType, "expected true or false")),
            }
            Ok(Block::Result { id: fields.text("tool_use_id")?, text })
        }
        other => Err(spot.within(".type").unsupported(other)),
    }
}

/// The fields of a block.
struct BlockFields<'a, 's> {
    object: &'a Object,
    spot: &'s RequestSpot,
}

impl<'a> BlockFields<'a, '_> {
    fn text(&self, key: &str) -> Result<&'a str, Fault> {
        let text = self.object.get(key).and_then(Json::as_str);
        text.ok_or_else(|| self.spot.within(&format!(".{key}")).fault(FaultCode::WrongType, "expected a text"))
    }

    /// Refuses keys other than the type and those that are known. Some clients send all keys of the
    /// answers back, with null for what is not there.
    fn check(&self, known: &[&str]) -> Result<(), Fault> {
        let at = |fault: Fault| Fault {
            message_index: self.spot.message.and_then(|index| u32::try_from(index).ok()),
            ..fault
        };
        check_cache_mark(self.object, &self.spot.field).map_err(at)?;
        let set = self.object.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key);
        let unknown = set.into_iter().find(|key| *key != "type" && !known.contains(key));
        unknown.map_or(Ok(()), |key| Err(self.spot.within(&format!(".{key}")).unsupported(key)))
    }

    fn is_empty(&self, key: &str) -> Result<(), Fault> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(()),
            Some(Json::Array(items)) if items.is_empty() => Ok(()),
            Some(_) => Err(self.spot.within(&format!(".{key}")).unsupported(key)),
        }
    }

    /// Refuses calls that a server's own tool made.
    fn is_called_directly(&self) -> Result<(), Fault> {
        let Some(caller) = self.object.get("caller").filter(|caller| !caller.is_null()) else { return Ok(()) };
        match caller.as_object().and_then(|caller| caller.get("type")).and_then(Json::as_str) {
            Some("direct") => Ok(()),
            _ => Err(self.spot.within(".caller").unsupported("caller")),
        }
    }
}
