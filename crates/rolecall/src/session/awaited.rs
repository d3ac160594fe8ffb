//! What is known about the reply that a session awaits.

use super::Session;
use crate::Error;
use crate::model::ReplyContext;

impl Session {
    /// Returns what is known about the awaited reply: parsers for its ids, to read them while they are
    /// sampled, the ids that may end it, and grammars of what an engine may sample. A session that is not open
    /// awaits none.
    ///
    /// A parser emits what [`accept`](Self::accept) finds in the same ids, with the same ids of calls.
    /// `accept` also considers how the reply ends: it decides what stop tokens mean that the layouts do not
    /// read.
    ///
    /// ```no_run
    /// use rolecall::session::Finish;
    /// use rolecall::{Model, Reading, Request, Stop};
    /// let model = Model::open("path/to/model")?;
    /// let mut session = model.session(Request::from_text(r#"[{"role": "user", "content": "Hi"}]"#)?)?;
    /// session.open()?;
    /// let (mut parser, mut reading, mut sampled) = (session.reply_context()?.id_parser()?, Reading::default(), Vec::new());
    /// for id in engine() {
    ///     parser.push(id, &mut |event| reading.add(&event))?;
    ///     sampled.push(id);
    /// }
    /// parser.finish(Stop::End, &mut |event| reading.add(&event));
    /// session.accept(&sampled, Finish::Stop)?;
    /// # fn engine() -> Vec<u32> { Vec::new() }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reply_context(&self) -> Result<ReplyContext, Error> {
        let sent = self.state.awaited()?;
        self.setup.reply_context(&self.tail(&sent.stock), self.call_ids())
    }
}
