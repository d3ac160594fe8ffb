use std::io;

use crate::file_kind;

/// Returns the message of a system error in lower case, without the error number.
pub fn io_message(error: &io::Error) -> String {
    if let Some(kind) = file_kind::of_error(error) {
        return kind.to_string();
    }
    let text = match error.kind() {
        io::ErrorKind::NotFound => return "no such file or folder".into(),
        io::ErrorKind::IsADirectory => return "it is a folder".into(),
        io::ErrorKind::PermissionDenied => return "permission denied".into(),
        _ => error.to_string(),
    };
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_lowercase()
}
