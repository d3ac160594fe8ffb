//! Parts of messages that no engine sees.

use rolecall::conversation::{Message, Part};

use crate::{Fault, FaultCode};

/// Refuses parts that an engine that gets ids cannot see.
pub fn refuse_media(messages: &[Message], has_template: bool) -> Result<(), Fault> {
    messages.iter().enumerate().try_for_each(|(index, message)| refuse_media_of(index, message, has_template))
}

/// Refuses what an engine that gets ids cannot see, whatever a template writes for it. Some formats have a
/// place for the name of a file, and templates have none.
fn refuse_media_of(index: usize, message: &Message, has_template: bool) -> Result<(), Fault> {
    let is_media = |part: &Part<'_>| match part {
        Part::Text(_) => false,
        Part::File(file) => has_template || file.content_key().is_some(),
        Part::Image(_) | Part::Audio(_) | Part::Video(_) => true,
    };
    let Some((at, part)) = message.parts().enumerate().find(|(_, part)| is_media(part)) else { return Ok(()) };
    let kind = part.kind();
    let message = format!("messages[{index}]: the gateway does not support {kind} parts");
    let help = match part {
        Part::File(_) if !has_template => {
            "name the file by `path`; `/v1/responses` takes uploaded files as `input_file`"
        }
        _ => "send text only",
    };
    let help = Some(help.into());
    let fault = Fault::at(&format!("content[{at}]"), FaultCode::UnsupportedParameter, message);
    Err(Fault { message_index: u32::try_from(index).ok(), help, ..fault })
}

#[cfg(test)]
mod tests {
    use rolecall::conversation::{Message, json};

    use super::refuse_media_of;

    fn message(content: &str) -> Message {
        let text = format!(r#"{{"role": "user", "content": {content}, "name": "ann"}}"#);
        Message::from_object(json::parse(&text).unwrap().as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_no_engine_sees_is_refused() {
        let file = message(r#"[{"type": "text", "text": "a"}, {"type": "file", "file": {"path": "b"}}]"#);
        assert_eq!(refuse_media_of(0, &file, false), Ok(()));
        assert!(refuse_media_of(0, &file, true).is_err());
        for own in [r#""file_id": "file-1""#, r#""filename": "a.csv", "file_data": "data:,1""#] {
            let kept = message(&format!(r#"[{{"type": "file", "file": {{{own}}}}}]"#));
            assert!(refuse_media_of(0, &kept, false).is_err(), "{own}");
        }
        for kind in ["image_url", "input_audio", "video_url"] {
            let media = message(&format!(r#"[{{"type": "text", "text": "a"}}, {{"type": "{kind}", "{kind}": {{}}}}]"#));
            let fault = refuse_media_of(3, &media, false).unwrap_err();
            assert_eq!((fault.param.as_deref(), fault.message_index), (Some("content[1]"), Some(3)), "{kind}");
        }
    }
}
