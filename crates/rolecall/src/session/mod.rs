//! Sessions: a conversation that grows, with only its new ids, and with sampled ids kept.
//!
//! A [`Session`] holds the ids that an engine has processed. [`plan`](Session::plan) shows what new
//! messages change, [`append`](Session::append) takes them, [`open`](Session::open) returns the ids
//! that the engine processes next, and [`accept`](Session::accept) takes the ids that it sampled.
//! Each operation that adds ids returns a [`Delta`]: how many ids stay, which are new, who wrote
//! them, and how the ids before were shown to be unchanged.
//!
//! # A conversation, step by step
//!
//! The *stock text* is what the template writes for all messages at once. A session never sends it as a whole again: it
//! renders the longer conversation, shows that the text that was sent is still its beginning, and encodes only what
//! follows. Here the template writes `>`, the content and `|` for each message, and `>` to open a reply; each character
//! is a token.
//!
//! | operation | stock text | new ids | state afterwards |
//! | --- | --- | --- | --- |
//! | a session with `a` | | | idle, `a` is pending |
//! | `open` | `>a\|>` | `>` `a` `\|` `>` | open: a reply is awaited |
//! | `accept` `b` `\|` | `>a\|>b\|` | `b` `\|`, sampled | replied |
//! | `plan`, `append` `a` | `>a\|>b\|>a\|>` | | replied, `a` is pending |
//! | `open` | `>a\|>b\|>a\|>` | `>` `a` `\|` `>` | open |
//! | `accept` `b`, cut off | `>a\|>b\|>a\|>b` | `b`, sampled | replied, without an end |
//! | `close` | `>a\|>b\|>a\|>b\|` | `\|`, which closes | replied |
//!
//! What the model sampled is never encoded again, even if the template would write it in another way; a note says so.
//! Where the template rewrites what was sent, the plan says what that costs, and the caller chooses.
//!
//! ```
//! use rolecall::conversation::Message;
//! use rolecall::session::{Finish, OnRewrite};
//! use rolecall::template::ModelTemplates;
//! use rolecall::tokenizer::HuggingFace;
//! use rolecall::{Model, Request};
//! let json = br#"{"added_tokens": [], "model": {"type": "BPE",
//!     "vocab": {"a": 0, "b": 1, "|": 2, ">": 3}, "merges": []}}"#;
//! let source = "{% for m in messages %}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}";
//! let mut templates = ModelTemplates::from_json(&source.into())?;
//! templates.set_token("eos_token", "|".into());
//! let tokenizer = std::sync::Arc::new(HuggingFace::from_bytes(json, None)?);
//! let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open()?;
//!
//! let mut session = model.session(Request::from_text(r#"[{"role": "user", "content": "a"}]"#)?)?;
//! assert_eq!(session.open()?.ids, [3, 0, 2, 3]);
//! session.accept(&[1, 2], Finish::Stop)?;
//! let plan = session.plan(&[Message::user("a")])?;
//! assert!(session.append(plan, OnRewrite::Refuse)?.ids.is_empty());
//! assert_eq!(session.open()?.ids, [3, 0, 2, 3]);
//! session.accept(&[1], Finish::Length)?;
//! assert_eq!(session.close()?.ids, [2]);
//! assert_eq!(session.bytes(), b">a|>b|>a|>b|");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The submodules: `state` says where a session stands between the last prompt and the next one; `line` holds the ids,
//! shared by forks; `stock` renders the conversation and
//! compares it with what was sent; `turn` has the operations of a turn; `awaited` has what is known
//! of a reply before it comes; `close` ends unfinished replies; `rewrite` replaces what a template
//! rewrites; `label` says who wrote an id; `notes` keeps what the caller was told. `rollout` makes a
//! sample for a trainer; `difference` compares a session with the stock rendering, by the pieces that
//! `align` finds; `import` begins with replies that nobody sampled here; `truncate` removes turns;
//! `save` writes and restores sessions. Start reading at [`Session::open`].

mod accept;
mod align;
mod awaited;
mod close;
mod delta;
mod difference;
mod error;
mod import;
mod label;
mod line;
mod notes;
mod plan;
mod reply;
mod rewrite;
mod rollout;
mod save;
mod segment;
mod state;
mod stock;
mod truncate;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rolecall_conversation::Message;
use rolecall_openai::Request;
use rolecall_render::DateTime;

use crate::model::setup::Setup;
use crate::parse::IdParser;
use crate::{Error, Model};
use line::Line;
use notes::Notes;
use state::State;
use stock::{Next, Stock};

pub use delta::{Delta, Proof, SessionNote};
pub use difference::{Difference, Gap, GapPart};
pub use error::SessionError;
pub use import::Seams;
pub(crate) use label::segments_of;
pub use plan::{OnRewrite, Plan, Rewrite};
pub use reply::{Finish, Reply};
pub use rollout::{Break, Rollout};
pub use segment::{Author, Segment, SegmentPart};
pub use truncate::{Cut, Keep};
pub use turn::NextTurn;

/// A conversation with a model as the ids that an engine has processed.
///
/// A clone is a fork: it shares all ids, and its cost does not depend on their number. An operation
/// that returns an error leaves the session as it was.
#[derive(Clone)]
pub struct Session {
    setup: Arc<Setup>,
    /// When it began, as chat templates see it. A format has no clock.
    clock: Option<DateTime>,
    line: Line,
    /// The first messages.
    head: Arc<[Arc<Message>]>,
    state: State,
    /// The first message that the last rendering of a chain of calls had at hand, if it needed more than
    /// the latest ones. Forks share it.
    needs_from: Arc<AtomicUsize>,
    /// The ids that were replaced.
    branches: Vec<Line>,
    /// What the caller was told.
    notes: Notes,
    /// How replies that the caller wrote are divided from the text around them.
    seams: Seams,
    /// What the ids of calls are derived from, with the index of their message.
    call_seed: u64,
    /// The most ids that are encoded at once.
    most_ids: usize,
}

/// The number of first messages that a rendering may look back to.
const HEAD: usize = 4;

impl Model {
    /// Begins a session. The request's messages are pending until [`Session::open`].
    pub fn session(&self, mut request: Request) -> Result<Session, Error> {
        if request.conversation.continue_final_message {
            return Err(SessionError::Continues.into());
        }
        let messages = std::mem::take(&mut request.conversation.messages);
        let setup = self.setup_of(request, None)?;
        let mut session = Session::empty(setup);
        session.add(messages.into_iter().map(Arc::new))?;
        Ok(session)
    }
}

impl Session {
    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Reports whether nothing was sent yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all ids.
    pub fn ids(&self) -> Vec<u32> {
        self.line.ids()
    }

    /// Returns the ids after the first `first` ones, in time that grows with their number.
    pub fn ids_from(&self, first: usize) -> Vec<u32> {
        self.line.ids_from(first)
    }

    /// Returns how many ids at the start are known to be the same as those of another session, because
    /// one went on from the other or both from a third. It takes time that grows with what they do not
    /// share. More ids may be equal.
    pub fn common_ids(&self, other: &Session) -> usize {
        self.line.common_ids(&other.line)
    }

    /// Returns the text of all ids. Sampled ids need not be valid UTF-8.
    pub fn bytes(&self) -> Vec<u8> {
        self.line.bytes()
    }

    /// Returns who wrote each run of ids.
    pub fn segments(&self) -> Vec<Segment> {
        self.line.segments()
    }

    /// Returns all messages, those without ids included.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages = self.line.all_messages();
        messages.extend(self.state.pending().iter().cloned());
        messages
    }

    /// Returns who wrote each run of ids from an index on.
    pub fn segments_from(&self, first: usize) -> Vec<Segment> {
        self.line.segments_from(first)
    }

    /// Encodes a text that stands for what the model sampled: text that spells a control token
    /// becomes this token. Use it where an engine returns no ids, and never for text from a user.
    pub fn encode_sampled(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.setup.encoder.encode_sampled(text)?)
    }

    /// Reports whether a reply is awaited.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Returns the last reply, if no new turn was opened since.
    pub fn reply(&self) -> Option<&Reply> {
        self.state.reply().map(|reply| &**reply)
    }

    /// Returns the ids of each branch that was replaced, in order.
    pub fn branches(&self) -> impl Iterator<Item = Vec<u32>> {
        self.branches.iter().map(Line::ids)
    }

    /// Derives the ids of later calls from a seed, for models that write none. Without one, the calls at one place have
    /// the same ids in all sessions. Forks and saved sessions keep it.
    ///
    /// ```no_run
    /// use rolecall::{Model, Request};
    /// let model = Model::open("path/to/model")?;
    /// let request = Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?;
    /// let session = model.session(request)?.with_call_seed(7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_call_seed(self, seed: u64) -> Session {
        Session { call_seed: seed, ..self }
    }

    /// Returns the same session with a limit on the ids that are encoded at once. The work on longer
    /// prompts stops there, with the code `too_many_tokens`. A limit is not saved.
    ///
    /// ```no_run
    /// use rolecall::{Model, Request};
    /// let model = Model::open("path/to/model")?;
    /// let request = Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?;
    /// let session = model.session(request)?.with_most_ids(4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_most_ids(self, most_ids: usize) -> Session {
        Session { most_ids, ..self }
    }

    /// Returns the seed of [`with_call_seed`](Self::with_call_seed), or 0.
    pub fn call_seed(&self) -> u64 {
        self.call_seed
    }

    /// Returns a parser for the ids of the next reply. `tail` is the end of the prompt.
    fn parser(&self, tail: &str) -> IdParser {
        self.setup.id_parser(tail, self.call_ids())
    }

    /// Returns the ids of the next reply's calls. Messages next to each other get seeds that have little in common.
    fn call_ids(&self) -> rolecall_parse::Ids {
        rolecall_parse::Ids::Seeded(self.call_seed.rotate_left(32) ^ self.line.messages() as u64)
    }

    /// Reports whether the next turn is likely rendered from where the last one ended. Otherwise its time
    /// grows with all messages.
    pub fn is_growing(&self) -> bool {
        self.state.stock().is_some_and(|stock| stock.growth.is_some())
    }

    /// Forgets how the last rendering can be continued, so that the next operation renders the whole
    /// conversation. Tests compare both ways.
    #[doc(hidden)]
    pub fn forget_growth(&mut self) {
        let without = |stock: &Arc<Stock>| Arc::new(Stock { growth: None, ..Stock::clone(stock) });
        if let Some(sent) = self.state.last_sent_mut() {
            sent.stock = without(&sent.stock);
        }
        if let Ok(waiting) = self.state.waiting_mut() {
            let next = waiting.next.take();
            waiting.next = next.map(|next| Arc::new(Next { stock: without(&next.stock), ..Next::clone(&next) }));
        }
    }

    /// Adds pending messages. A rendering that was planned without them no longer applies.
    fn add(&mut self, messages: impl IntoIterator<Item = Arc<Message>>) -> Result<(), SessionError> {
        let waiting = self.state.waiting_mut()?;
        waiting.messages.extend(messages);
        if self.head.len() < HEAD && self.line.messages() <= self.head.len() {
            let missing = waiting.messages.iter().skip(self.head.len() - self.line.messages().min(self.head.len()));
            let head = self.head.iter().chain(missing).take(HEAD).cloned();
            self.head = head.collect();
        }
        Ok(())
    }

    fn next_index(&self) -> usize {
        self.line.messages() + self.state.pending().len()
    }
}
