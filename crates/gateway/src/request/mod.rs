//! What a request asks for, whichever API it came by: read, checked, and refused if anything in it would be ignored.
//!
//! `chat_request` is a request for a conversation and `completing` one for texts. `sampling`, `answer_form`, `labels`,
//! `flag`, `number` and `schema_limits` read and bound its fields, `neutral` knows the settings that change nothing,
//! `media`, `unread` and `unread_tools` refuse what the model would not see, `by_text` is for engines that take text, and
//! `texts` finds control tokens in texts. Start reading at
//! `ChatRequest::read`.

pub(crate) mod answer_form;
pub(crate) mod by_text;
pub(crate) mod chat_request;
pub(crate) mod completing;
pub(crate) mod flag;
pub(crate) mod labels;
pub(crate) mod media;
pub(crate) mod neutral;
pub(crate) mod number;
pub(crate) mod sampling;
pub(crate) mod schema_limits;
pub(crate) mod texts;
pub(crate) mod unread;
pub(crate) mod unread_tools;
