use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, Message};
use rolecall::{Event, Reading};

use crate::Fault;
use crate::reply::token_odds::TokenOdds;
use crate::reply::usage::Usage;
use crate::turn::History;
use crate::turn::hosted_calls::{HostedKind, HostedResult};

/// Writes the answer to a request in the shape of one API.
///
/// A whole answer needs `open` and `whole` alone; what `event` writes for it is dropped. A stream begins with
/// `open` and `begin`, has what `event` writes, and ends with `end`, or with `fault`.
pub trait ReplyWriter: Send {
    /// Returns a fault with its place in the API's own request.
    fn placed(&self, fault: Fault) -> Fault {
        fault
    }

    /// Takes what is known before the first event.
    fn open(&mut self, _opening: &Opening<'_>) {}

    /// Writes what comes before the first event.
    fn begin(&mut self, _opening: &Opening<'_>, _out: &mut Frames) {}

    /// Takes the number of ids of one of the replies so far, before the events of the last of them.
    fn count(&mut self, _choice: usize, _ids: u64) {}

    /// Writes an event of one of the replies.
    fn event(&mut self, choice: usize, event: &Event<'_>, out: &mut Frames);

    /// Takes how likely the next token was. Every token is there, except those of a stop text.
    fn odds(&mut self, _choice: usize, _odds: &TokenOdds) {}

    /// Takes how likely the tokens of the text of the next event were, each with the number of characters
    /// of that text before it. A token that lies in several texts is reported with the first.
    fn text_odds(&mut self, _choice: usize, _odds: Vec<(usize, TokenOdds)>) {}

    /// Takes the id of the container in which code runs. Each call of code that ends is run then.
    fn contained(&mut self, _container: &str) {}

    /// Writes that the next call is being run.
    fn runs(&mut self, _kind: HostedKind, _out: &mut Frames) {}

    /// Writes what became of the call that was being run.
    fn ran(&mut self, _ran: &HostedResult, _out: &mut Frames) {}

    /// Returns the answer under whose name it can be asked for later, if it can. `results` are those of calls that ran
    /// here, if calls of the client are open beside them.
    fn stored(&mut self, _done: &Done<'_>, _results: &[Message]) -> Option<Json> {
        None
    }

    /// Writes what comes after the last event. All replies are stored by then.
    fn end(&mut self, done: &Done<'_>, out: &mut Frames);

    /// Writes an error in mid-stream.
    fn fault(&mut self, fault: &Fault, out: &mut Frames) {
        out.data(&fault.to_json());
    }

    /// Returns the whole answer.
    fn whole(&mut self, done: &Done<'_>) -> Json;
}

/// What is known of an answer before its first id.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The ids of the prompt.
    pub usage: &'a Usage,
    /// Whether a call may be sent only when it ends, because the model writes its id last.
    pub holds_calls: bool,
    /// What was done with the conversation so far.
    pub history: History,
}

/// A finished answer.
#[derive(Debug)]
pub struct Done<'a> {
    /// The replies, in the order of their choices.
    pub said: &'a [WholeReply],
    /// The ids that it took.
    pub usage: &'a Usage,
}

/// A finished reply.
#[derive(Clone, Debug, Default)]
pub struct WholeReply {
    /// What the client reads.
    pub reading: Reading,
    /// How likely its tokens were, if that was asked for.
    pub odds: Vec<TokenOdds>,
    /// The stop text that ended it.
    pub stop_text: Option<String>,
}

/// The server-sent events of a stream.
#[derive(Debug, Default)]
pub struct Frames(String);

impl Frames {
    /// Adds an event without a name.
    pub fn data(&mut self, value: &Json) {
        self.0 += "data: ";
        json::write_into(&mut self.0, value, &Layout::compact());
        self.0 += "\n\n";
    }

    /// Adds an event with a name.
    pub fn named(&mut self, name: &str, value: &Json) {
        self.0 += "event: ";
        self.0 += name;
        self.0 += "\n";
        self.data(value);
    }

    /// Adds a value in a line of its own, as LMDeploy's interactive mode does.
    pub fn line(&mut self, value: &Json) {
        json::write_into(&mut self.0, value, &Layout::compact());
        self.0 += "\n";
    }

    /// Adds the line after which OpenAI's streams end.
    pub fn done(&mut self) {
        self.0 += "data: [DONE]\n\n";
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text, and begins anew.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}
