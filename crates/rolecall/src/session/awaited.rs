//! What is known about the reply that a session awaits.

use std::sync::Arc;

use rolecall_conversation::Tool;
use rolecall_grammar::{self as grammar, Grammar};
use rolecall_parse::Reply as ReplyLayouts;

use super::{Session, SessionError};
use crate::Error;
use crate::parse::IdParser;

impl Session {
    /// Returns a parser for the ids of the awaited reply, to read them while they are sampled.
    ///
    /// It emits what [`accept`](Self::accept) finds in the same ids, with the same ids of calls. `accept`
    /// also considers how the reply ends: it decides what stop tokens mean that the layouts do not read.
    ///
    /// ```no_run
    /// use rolecall::session::Finish;
    /// use rolecall::{Model, Reading, Request, Stop};
    /// let model = Model::open("path/to/model")?;
    /// let mut session = model.session(Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?)?;
    /// session.open()?;
    /// let (mut reader, mut reading, mut sampled) = (session.reader()?, Reading::default(), Vec::new());
    /// for id in engine() {
    ///     reader.push(id, &mut |event| reading.add(&event))?;
    ///     sampled.push(id);
    /// }
    /// reader.finish(Stop::End, &mut |event| reading.add(&event));
    /// session.accept(&sampled, Finish::Stop)?;
    /// # fn engine() -> Vec<u32> { Vec::new() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reader(&self) -> Result<IdParser, Error> {
        let Some(sent) = self.sent.as_ref().filter(|_| self.is_open) else { return Err(SessionError::NotOpen.into()) };
        Ok(self.parser(&self.tail(sent)))
    }

    /// Returns the ids that may end a reply, each with whether the layouts of a reply read it. Those that
    /// they read must be passed to the parser, because they mean something to it. The others end the reply
    /// and are no part of it.
    pub fn reply_stops(&self) -> Vec<(u32, bool)> {
        self.setup.stop_ids.iter().map(|id| (*id, self.setup.reads(*id))).collect()
    }

    /// Returns the layouts by which replies are parsed.
    pub fn reply_layouts(&self) -> &Arc<ReplyLayouts> {
        self.setup.reply_layouts()
    }

    /// Returns the tools that are offered.
    pub fn tools(&self) -> &[Tool] {
        self.setup.tools()
    }

    /// Returns a grammar of what an engine may sample as the awaited reply. The tools, the tokens and the
    /// end of the prompt are those of the session.
    pub fn grammar(&self, options: grammar::Options) -> Result<Grammar, Error> {
        let Some(sent) = self.sent.as_ref().filter(|_| self.is_open) else { return Err(SessionError::NotOpen.into()) };
        let prompt_tail = Some(self.tail(sent).into_owned());
        let (tools, layouts) = (self.setup.tools().to_vec(), self.setup.layouts()?);
        let tokens = self.setup.model.tokens_or(options.tokens)?;
        let options = grammar::Options { tools, prompt_tail, tokens, ..options };
        grammar::grammar(&layouts, &options).map_err(Error::Grammar)
    }
}
