//! Files that a message attaches: parts `input_file`. The model is told of them, and its code finds them.

use std::collections::BTreeMap;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall_interpreter::Folder;

use super::field::{needed_text, object, refuse_others, typed_text, unsupported};
use crate::gateway::Gateway;
use crate::store::Owner;
use crate::{Fault, FaultCode};

/// The files that a client has uploaded, by their ids: names and sizes.
#[derive(Clone, Debug, Default)]
pub struct UploadedFiles(BTreeMap<String, (String, u64)>);

/// A file of a message.
#[derive(Clone, Debug)]
pub struct AttachedFile {
    pub id: String,
    /// Where the request attaches it.
    pub path: String,
}

/// The content of a user's message.
#[derive(Default)]
pub struct UserContent {
    /// The parts in the shape of chat completions.
    pub chat: Vec<Json>,
    /// The parts as they are shown later.
    pub shown: Vec<Json>,
    pub files: Vec<AttachedFile>,
}

/// The type of the part.
pub const INPUT_FILE: &str = "input_file";

impl UploadedFiles {
    /// Returns the files of a client, if any may be attached.
    pub fn of(gateway: &Gateway, owner: Owner) -> UploadedFiles {
        let files = gateway.containers.iter().flat_map(|containers| containers.uploads.sizes(owner));
        UploadedFiles(files.collect())
    }

    /// Reads the parts of a user's message.
    pub fn read(&self, parts: &[Json], path: &str) -> Result<UserContent, Fault> {
        let mut content = UserContent::default();
        for (index, part) in parts.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let is_file = part.as_object().and_then(|part| part.get("type")?.as_str()) == Some(INPUT_FILE);
            if is_file {
                self.read_file(object(part, &path)?, &path, &mut content)?;
                continue;
            }
            let text = typed_text(part, &path, &["input_text", "output_text", "text", INPUT_FILE])?;
            content.chat.push(object! { "type" => "text", "text" => text.as_str() }.into());
            content.shown.push(object! { "type" => "input_text", "text" => text }.into());
        }
        Ok(content)
    }

    fn read_file(&self, part: &Object, path: &str, content: &mut UserContent) -> Result<(), Fault> {
        for key in ["file_data", "file_url"] {
            if part.get(key).is_some_and(|value| !value.is_null()) {
                return Err(unsupported(
                    &format!("{path}.{key}"),
                    "upload the file to `/v1/files`, and send its `file_id`",
                ));
            }
        }
        refuse_others(part, path, &["type", "file_id", "filename"])?;
        let id = needed_text(part, path, "file_id")?;
        let field = format!("{path}.file_id");
        let Some((name, size)) = self.0.get(id) else {
            let message = format!("{field}: there is no file `{id}`");
            let help =
                Some("upload it to `/v1/files` with the same key; without `interpreter.enabled` there are none".into());
            return Err(Fault { help, ..Fault::at(&field, FaultCode::FileNotFound, message) });
        };
        // A client may say the name, but the code finds the file under its own.
        if part.get("filename").and_then(Json::as_str).is_some_and(|given| given != name) {
            let field = format!("{path}.filename");
            let message = format!("{field}: the file was uploaded as `{name}`");
            return Err(Fault::at(&field, FaultCode::Conflict, message));
        }
        content.chat.push(Folder::part(name, *size));
        content.shown.push(object! { "type" => INPUT_FILE, "file_id" => id, "filename" => name.as_str() }.into());
        content.files.push(AttachedFile { id: id.to_owned(), path: path.to_owned() });
        Ok(())
    }
}
