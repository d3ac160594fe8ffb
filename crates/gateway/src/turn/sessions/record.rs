//! A finished turn as it is stored: what it added to the conversation.

use std::sync::Arc;

use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, Message};
use rolecall::session::{Finish, OnRewrite, Session};
use rolecall::{Error, Model};

use super::chain::{Chain, digest_of_ids, hex};
use super::size::Size;
use crate::engine::PromptIds;
use crate::request::number;
use crate::store::TurnId;

/// What a turn added.
#[derive(Clone, Debug)]
pub struct Record {
    /// The name of its model.
    pub model: String,
    /// The digest of the request without its messages, and of its instructions.
    pub setup: String,
    /// The number of messages at the start that are instructions, which the next request replaces.
    pub instructions: usize,
    /// The session before its first message. Only the first turn has it.
    pub saved: Option<String>,
    /// The messages that this session has, if the turns before are not stored.
    pub before: Vec<Message>,
    /// The messages before the reply.
    pub new: Vec<Message>,
    /// What was done with text that the template rewrites.
    pub on: OnRewrite,
    /// What the ids of its calls are derived from.
    pub call_seed: u64,
    /// The reply.
    pub reply: RecordReply,
    /// The reply as the client got it.
    pub said: Message,
    /// The number of ids that were kept, and the digest of those after them, with the reply's.
    pub kept: usize,
    pub sum: String,
    /// The whole answer, if it can be asked for later.
    pub response: Option<Json>,
}

/// A reply as the session has it.
#[derive(Clone, Debug)]
pub enum RecordReply {
    /// The ids that were sampled.
    Ids(Vec<u32>, Finish),
    /// The message alone, because not all of its ids are known, or because a stop text cut it.
    Message,
}

impl Record {
    /// Takes the turn in a session, and returns the number of ids that were kept.
    pub fn replay(&self, session: &mut Session) -> Result<usize, Error> {
        let before = session.len();
        let (new, is_open) = match &self.reply {
            RecordReply::Ids(..) => (self.new.clone(), true),
            RecordReply::Message => (self.new.iter().chain([&self.said]).cloned().collect(), false),
        };
        *session = session.clone().with_call_seed(self.call_seed);
        let plan = session.plan(&new)?;
        let mut kept = before.min(session.append(plan, self.on)?.keep);
        if is_open {
            kept = kept.min(session.open()?.keep);
        }
        if let RecordReply::Ids(ids, finish) = &self.reply {
            session.accept(ids, *finish)?;
        }
        Ok(kept)
    }

    /// Returns the text that is stored.
    pub fn write(&self) -> Vec<u8> {
        let length = |message: &Message| 32 + message.plain_text().map_or(0, str::len);
        let messages = self.before.iter().chain(&self.new).chain([&self.said]);
        let length: usize = messages.map(length).sum();
        let mut fields = RecordWriter(String::with_capacity(RECORD_ROOM + length + length / 16));
        fields.number("version", VERSION);
        fields.text("model", &self.model);
        fields.text("setup", &self.setup);
        fields.number("instructions", self.instructions as i64);
        fields.add("new", |text| list(text, &self.new, write_message));
        fields.text("on", name_of(self.on));
        fields.text("call_seed", &format!("{:x}", self.call_seed));
        fields.add("said", |text| write_message(text, &self.said));
        fields.number("kept", self.kept as i64);
        fields.text("sum", &self.sum);
        if let Some(saved) = &self.saved {
            fields.text("saved", saved);
        }
        if !self.before.is_empty() {
            fields.add("before", |text| list(text, &self.before, write_message));
        }
        if let RecordReply::Ids(ids, finish) = &self.reply {
            fields.add("ids", |text| list(text, ids, |text, id| text.push_str(itoa::Buffer::new().format(*id))));
            fields.text("finish", finish.name());
        }
        if let Some(response) = &self.response {
            fields.add("response", |text| json::write_into(text, response, &Layout::compact()));
        }
        fields.end().into_bytes()
    }

    /// Reads what [`write`](Self::write) returned. Returns `None` if it is damaged.
    pub fn read(bytes: &[u8]) -> Option<Record> {
        let Ok(Json::Object(mut record)) = json::parse(std::str::from_utf8(bytes).ok()?) else { return None };
        if number::integer(record.get("version")?) != Some(VERSION) {
            return None;
        }
        let reply = match record.get("ids") {
            None => RecordReply::Message,
            Some(ids) => {
                let ids = ids.as_array()?.iter().map(number::id).collect::<Option<Vec<u32>>>()?;
                let finish = record.get("finish")?.as_str()?;
                let all = [Finish::Stop, Finish::Length, Finish::Abort];
                RecordReply::Ids(ids, all.into_iter().find(|known| known.name() == finish)?)
            }
        };
        let messages = |value: Option<Json>| match value {
            Some(Json::Array(messages)) => messages.into_iter().map(message).collect::<Option<Vec<Message>>>(),
            _ => None,
        };
        let new = messages(record.remove("new"))?;
        let before = match record.remove("before") {
            None => Vec::new(),
            before => messages(before)?,
        };
        let text = |key: &str| record.get(key).and_then(Json::as_str).map(str::to_owned);
        let count = |key: &str| usize::try_from(number::count(record.get(key)?)?).ok();
        let on = text("on")?;
        let seed = text("call_seed").map_or(Some(0), |seed| u64::from_str_radix(&seed, 16).ok())?;
        Some(Record {
            model: text("model")?,
            setup: text("setup")?,
            instructions: count("instructions")?,
            saved: text("saved"),
            before,
            new,
            on: POLICIES.into_iter().find(|known| name_of(*known) == on)?,
            call_seed: seed,
            reply,
            said: message(record.get("said")?.clone())?,
            kept: count("kept")?,
            sum: text("sum")?,
            response: record.get("response").cloned(),
        })
    }
}

const VERSION: i64 = 1;

/// The usual number of bytes of a record besides its messages.
const RECORD_ROOM: usize = 2048;

pub const POLICIES: [OnRewrite; 3] = [OnRewrite::Keep, OnRewrite::Rewrite, OnRewrite::Refuse];

/// Returns the word of a policy, in records, requests and answers.
pub fn name_of(on: OnRewrite) -> &'static str {
    match on {
        OnRewrite::Keep => "keep",
        OnRewrite::Rewrite => "rewrite",
        OnRewrite::Refuse => "refuse",
    }
}

/// Returns the policy of a word.
pub fn policy_of(name: &str) -> Option<OnRewrite> {
    POLICIES.into_iter().find(|known| name_of(*known) == name)
}

/// The text of an object, written field by field: its messages may be long, and are not copied into one.
struct RecordWriter(String);

impl RecordWriter {
    fn add(&mut self, key: &str, write: impl FnOnce(&mut String)) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        json::write_string(&mut self.0, key, false);
        self.0.push(':');
        write(&mut self.0);
    }

    fn text(&mut self, key: &str, value: &str) {
        self.add(key, |text| json::write_string(text, value, false));
    }

    fn number(&mut self, key: &str, value: i64) {
        self.add(key, |text| text.push_str(itoa::Buffer::new().format(value)));
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn list<T>(text: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    text.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write(text, item);
    }
    text.push(']');
}

fn write_message(text: &mut String, message: &Message) {
    json::write_object_into(text, message.as_object(), &Layout::compact());
}

fn message(value: Json) -> Option<Message> {
    match value {
        Json::Object(object) => Message::from_object(object).ok(),
        _ => None,
    }
}

/// A conversation that was taken up again from its records.
#[derive(Clone)]
pub struct ReplayedConversation {
    /// The session, unless the model is another one now.
    pub session: Option<Session>,
    /// The messages, as clients know them.
    pub messages: Vec<Arc<Message>>,
    /// The digest of all of them, unless it was not needed yet.
    pub chain: Option<Chain>,
    pub last: Arc<Record>,
    /// The ids that were sent last, unless the engine was not asked by this process.
    pub sent: PromptIds,
    /// Whether the store has it, unless it was removed there.
    pub is_stored: bool,
    /// If it is only in memory: the turn to which one of its names led in a shared store then.
    pub beside: Option<TurnId>,
    pub size: Size,
}

/// Takes a conversation up again, from its first turn on. Returns `None` if the records are damaged.
pub fn replay<'a>(model: &Model, records: impl Iterator<Item = &'a [u8]>) -> Option<ReplayedConversation> {
    let records = records.map(Record::read).collect::<Option<Vec<Record>>>()?;
    let first = records.first()?;
    let mut session = model.restore_session(first.saved.as_deref()?).ok();
    for record in &records {
        session = session.and_then(|mut session| {
            let kept = record.replay(&mut session).ok()?;
            (kept == record.kept && sum_of(&session, kept) == record.sum).then_some(session)
        });
    }
    let messages = records.iter().flat_map(|record| record.before.iter().chain(&record.new).chain([&record.said]));
    let messages: Vec<Arc<Message>> = messages.cloned().map(Arc::new).collect();
    let ids = session.as_ref().map_or(0, Session::len);
    let size = Size::default().after(ids, messages.iter().map(|message| &**message));
    Some(ReplayedConversation {
        session,
        messages,
        chain: None,
        last: Arc::new(records.into_iter().next_back()?),
        sent: PromptIds::default(),
        is_stored: true,
        beside: None,
        size,
    })
}

/// Returns the digest of a session's ids after the first `kept` ones.
pub fn sum_of(session: &Session, kept: usize) -> String {
    hex(&digest_of_ids(&session.ids_from(kept))[..16])
}

/// Returns the whole answer that a record has.
pub fn response_of(record: &[u8]) -> Option<Json> {
    Record::read(record)?.response
}

/// Returns the request without messages as it is compared with that of the next turn.
pub fn setup_of(model: &str, request: &rolecall::Request, instructions: &[Message]) -> String {
    let chain = Chain::new(model, request);
    instructions.iter().fold(chain, |chain, message| chain.push(message)).hex()
}
