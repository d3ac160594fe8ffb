use crate::json::Object;
use crate::{Error, Json, Problem};

/// A part of a message's content.
///
/// ```
/// use rolecall_conversation::{Part, json};
/// let value = json::parse(r#"{"type": "file", "file": {"filename": "data.csv"}}"#)?;
/// let Ok(Part::File(file)) = Part::from_json(&value) else { panic!("a file") };
/// assert_eq!(file.path(), Some("data.csv"));
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// Text.
    Text(&'a str),
    /// An image. Holds the whole part.
    Image(&'a Object),
    /// Audio. Holds the whole part.
    Audio(&'a Object),
    /// A video. Holds the whole part.
    Video(&'a Object),
    /// A file that the user attaches.
    File(File<'a>),
}

/// A file part: `{"type": "file", "file": {"path" or "filename": .., "size": ..}}`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct File<'a> {
    object: &'a Object,
}

impl<'a> File<'a> {
    fn field(self, key: &str) -> Option<&'a Json> {
        let inner = self.object.get("file").and_then(Json::as_object).unwrap_or(self.object);
        inner.get(key)
    }

    /// Returns the path, or the name if there is no path.
    pub fn path(self) -> Option<&'a str> {
        ["path", "filename", "name", "file_id"].into_iter().find_map(|key| self.field(key)?.as_str())
    }

    /// Returns the key of what the file holds, or of where somebody keeps it, which no prompt can have.
    pub fn content_key(self) -> Option<&'static str> {
        let is_there = |key: &&str| self.field(key).is_some_and(|value| !value.is_null());
        ["file_data", "file_id", "file_url"].into_iter().find(is_there)
    }

    /// Returns the size as it was given.
    pub fn size(self) -> Option<&'a Json> {
        self.field("size").filter(|size| !size.is_null())
    }
}

const KNOWN: &str = "`text`, `image`, `image_url`, `audio`, `input_audio`, `video`, `video_url`, `file`";

impl<'a> Part<'a> {
    /// Reads and checks a part.
    pub fn from_json(value: &'a Json) -> Result<Part<'a>, Error> {
        let Json::Object(object) = value else {
            return match value {
                // Several clients send a bare string as a text part.
                Json::String(text) => Ok(Part::Text(text)),
                other => Err(Error::wrong_type("", "a part such as {\"type\": \"text\", \"text\": \"..\"}", other)),
            };
        };
        let kind = match object.get("type") {
            Some(Json::String(kind)) => kind.as_str(),
            Some(other) => return Err(Error::wrong_type("type", "a string", other)),
            None if object.get("text").is_some() => "text",
            None => return Err(Error::missing("type")),
        };
        match kind {
            "text" | "input_text" | "output_text" => match object.get("text") {
                Some(Json::String(text)) => Ok(Part::Text(text)),
                Some(other) => Err(Error::wrong_type("text", "a string", other)),
                None => Err(Error::missing("text")),
            },
            "image" | "image_url" | "input_image" => Ok(Part::Image(object)),
            "audio" | "audio_url" | "input_audio" => Ok(Part::Audio(object)),
            "video" | "video_url" => Ok(Part::Video(object)),
            "file" | "input_file" => Ok(Part::File(File { object })),
            other => Err(Error {
                place: crate::Place::field("type"),
                problem: Problem::UnknownType { known: KNOWN, found: other.to_owned() },
            }),
        }
    }

    /// Returns the kind of part.
    pub fn kind(&self) -> &'static str {
        match self {
            Part::Text(_) => "text",
            Part::Image(_) => "image",
            Part::Audio(_) => "audio",
            Part::Video(_) => "video",
            Part::File(_) => "file",
        }
    }
}
