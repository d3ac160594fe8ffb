//! Conversations that are ready to be written: rendered, encoded, with their loss, and truncated.

use std::sync::Arc;

use rolecall::answer::{self, Answer, Streamed};
use rolecall::conversation::Role;
use rolecall::dataset::Side;
use rolecall::encode::{EncodedToken, Note};
use rolecall::loss::{Loss, LossPolicy, LossTurns, TokenLoss, note_code, note_text, weights};
use rolecall::model::ModelPrompt;
use rolecall::training::{Part, Prepared, Samples, Served, Slot, TooLong, Truncate, Truncated, as_served, prepare};
use rolecall::{Encoded, Request};

use crate::batch::{Item, Line, Row, Rows, Told};
use crate::explain::Tokens;
use crate::failure::Failure;
use crate::job::{Encoding, Job, check_replies};
use crate::output::Output;
use crate::refusal::Refusal;

/// A conversation that is ready to be written.
pub struct Ready {
    pub prompt: ModelPrompt,
    pub encoded: Option<Encoded>,
    pub loss: Option<Loss>,
    pub truncated: Option<Truncated>,
    /// Which of several samples of the conversation it is.
    pub part: Option<Part>,
}

impl Job {
    /// Adds the results of a batch line, with ids and the loss if requested: either all of them, or
    /// none.
    pub fn answer(&self, line: Line<'_>, encoding: Option<Encoding>, rows: &mut Rows) -> Result<Told, Refusal> {
        let mut answers = Vec::new();
        for sample in self.read(line.text)? {
            for ready in self.ready_all(sample.request, encoding)? {
                answers.push((sample.side, ready));
            }
        }
        let mut told = Told::default();
        for (at, (side, ready)) in answers.into_iter().enumerate() {
            if at > 0 {
                rows.next_of_line();
            }
            told.tokens += ready.encoded.as_ref().map_or(0, |encoded| encoded.tokens.len() as u64);
            told.notes.extend(ready.notes());
            self.add(&ready, line.number, side, rows, &mut told)?;
        }
        Ok(told)
    }

    /// Renders a request, divides it into samples if requested, and prepares each of them.
    fn ready_all(&self, request: Request, encoding: Option<Encoding>) -> Result<Vec<Ready>, Refusal> {
        let (Some(policy), false) = (&self.loss, self.samples == Samples::Whole) else {
            return Ok(vec![self.ready(self.prompt_of(request)?, encoding)?]);
        };
        let whole = self.rendered(request)?;
        check_replies(&whole.request().conversation, whole.text().len())?;
        let last = last_reply(&whole);
        let mut served = as_served(whole.clone(), self.samples, |request| self.rendered(request))?;
        if policy.turns == LossTurns::Last {
            served.retain(|served| last_reply(&served.prompt) == last);
        }
        // A sample in which no reply is chosen is left out.
        let mut lenient = policy.clone();
        lenient.allow_empty = true;
        let mut samples = Vec::new();
        for served in served {
            let rewritten = served.rewritten;
            let from = served.from;
            let ready = self.ready_sample(served, encoding, &lenient)?;
            let has_loss = ready.loss.as_ref().is_some_and(|loss| !loss.spans.is_empty());
            if has_loss || ready.truncated.as_ref().is_some_and(|truncated| truncated.no_loss) {
                samples.push((ready, from, rewritten));
            }
        }
        if samples.is_empty() {
            let whole = Served { prompt: whole, from: 0, rewritten: None };
            return Ok(vec![self.ready_sample(whole, encoding, policy)?]);
        }
        let of = samples.len();
        let each = samples.into_iter().enumerate().map(|(index, (mut ready, from, rewritten))| {
            ready.part = (of > 1).then_some(Part { index, of, from, rewritten });
            ready
        });
        Ok(each.collect())
    }

    /// Prepares a prompt.
    pub fn ready(&self, prompt: ModelPrompt, encoding: Option<Encoding>) -> Result<Ready, Refusal> {
        self.ready_with(Served { prompt, from: 0, rewritten: None }, encoding, self.loss.as_ref())
    }

    fn ready_sample(
        &self,
        mut served: Served,
        encoding: Option<Encoding>,
        policy: &LossPolicy,
    ) -> Result<Ready, Refusal> {
        self.append_stop(&mut served.prompt)?;
        self.ready_with(served, encoding, Some(policy))
    }

    fn ready_with(
        &self,
        Served { prompt, from, .. }: Served,
        encoding: Option<Encoding>,
        policy: Option<&LossPolicy>,
    ) -> Result<Ready, Refusal> {
        let Some(encoding) = encoding else {
            let loss = policy.map(|policy| prompt.loss(policy)).transpose()?;
            return Ok(Ready { prompt, encoded: None, loss, truncated: None, part: None });
        };
        let encoded = encoding.of(&prompt)?;
        let policy = policy.map(|policy| (policy, self.edges));
        let render = |request: Arc<Request>| -> Result<_, Refusal> {
            let prompt = self.prompt_of(request)?;
            let encoded = encoding.of(&prompt)?;
            Ok((prompt, encoded))
        };
        let prepared = prepare(prompt, encoded, policy, from, encoding.limit, render)?;
        let Prepared { prompt, encoded, loss, truncated } = prepared;
        Ok(Ready { prompt, encoded: Some(encoded), loss, truncated, part: None })
    }

    /// Adds one result to a batch.
    fn add(
        &self,
        ready: &Ready,
        number: u64,
        side: Option<Side>,
        rows: &mut Rows,
        told: &mut Told,
    ) -> Result<(), Refusal> {
        let Ready { prompt, encoded, loss, truncated, part } = ready;
        let (encoded, truncated) = (encoded.as_ref(), truncated.as_ref());
        let request = prompt.request();
        let loss = loss.as_ref().map(|loss| TokenLoss { loss, edges: self.edges });
        if let Rows::Columns { wanted, .. } | Rows::Samples { wanted, .. } = rows
            && !wanted.weights
            && loss.is_some_and(|loss| !loss.loss.is_uniform())
        {
            told.note("unwritten_weights", "weights other than 1 are not written without `--loss-weights`");
        }
        match (&mut *rows, encoded) {
            (Rows::Lines(text), _) => {
                let id = request.id.as_ref();
                answer::write(text, &Answer { id, side, prompt, encoded, loss, truncated, part: *part });
                Ok(())
            }
            (Rows::Columns { .. }, Some(encoded)) => {
                let weights = loss.map(|loss| weights(encoded, loss.loss, loss.edges).collect()).unwrap_or_default();
                rows.push(&Row { number, request, side, prompt, encoded, weights, truncated })
            }
            (Rows::Samples { length, items, .. }, Some(encoded)) => {
                let ids = encoded.ids();
                if side.is_some() {
                    return Err(Refusal::PackedPair);
                }
                if ids.is_empty() || ids.len() > *length as usize {
                    return Err(Refusal::Unpacked(TooLong { ids: ids.len(), most: *length as usize }));
                }
                let weights = match loss {
                    Some(loss) => weights(encoded, loss.loss, loss.edges).collect(),
                    None => vec![0.0; ids.len()],
                };
                items.push(Item::Sample(Slot { source: number, ids, weights }));
                Ok(())
            }
            // Columns and samples are only made with ids.
            (Rows::Columns { .. } | Rows::Samples { .. }, None) => Ok(()),
        }
    }

    /// Writes the result as a line of JSON, with the loss if requested.
    pub fn stream(
        &self,
        prompt: &ModelPrompt,
        encoded: Option<(&Tokens, &[Note])>,
        (loss, truncated): (Option<&Loss>, Option<&Truncated>),
        output: &Output,
    ) -> Result<(), Failure> {
        let notes = encoded.map_or(&[][..], |(_, notes)| notes);
        let id = prompt.request().id.as_ref();
        let loss = loss.map(|loss| TokenLoss { loss, edges: self.edges });
        let each;
        let mut streamed = Streamed { id, prompt, tokens: None, notes, loss, truncated };
        if let Some((tokens, _)) = encoded {
            each = move || Box::new(tokens.iter()) as Box<dyn Iterator<Item = EncodedToken>>;
            streamed.tokens = Some(&each);
        }
        output.stream(|out| {
            answer::stream(out, &streamed, |_| Ok(()))?;
            out.write_all(b"\n")
        })
    }
}

fn last_reply(prompt: &ModelPrompt) -> Option<usize> {
    let messages = &prompt.request().conversation.messages;
    messages.iter().rposition(|message| *message.role() == Role::Assistant)
}

impl Ready {
    /// Returns what a trainer should know, each with a stable code.
    fn notes(&self) -> Vec<(&'static str, String)> {
        let loss = self.loss.iter().flat_map(|loss| &loss.notes);
        let mut notes: Vec<_> = loss.map(|note| (note_code(note), note_text(note))).collect();
        notes.extend(self.truncated.iter().flat_map(truncation_notes));
        if let Some(Part { index: 0, of, rewritten, .. }) = self.part {
            let why = rewritten.map(|rewritten| match rewritten.message {
                Some(message) => format!(": rendering message {} changes message {message}", rewritten.by),
                None => format!(": rendering message {} changes what comes before", rewritten.by),
            });
            notes.push(("several_samples", format!("{of} samples{}", why.unwrap_or_default())));
        }
        notes
    }
}

/// Returns what truncation did, each with a stable code.
pub fn truncation_notes(truncated: &Truncated) -> Vec<(&'static str, String)> {
    let Truncated { by, ids, kept, cut, messages, no_loss } = truncated;
    let how = match (by, messages.len()) {
        (Truncate::Right, _) => "from the right".to_owned(),
        (Truncate::Left, _) if *cut > 0 => "by whole turns from the left, and the last turn from the right".into(),
        (Truncate::Left, _) => "by whole turns from the left".into(),
        (Truncate::Oldest, count) => {
            let rest = if *cut > 0 { ", and the rest from the right" } else { "" };
            let messages = if count == 1 { "message" } else { "messages" };
            format!("by the {count} oldest {messages}{rest}")
        }
    };
    let mut notes = vec![("truncated", format!("truncated {how}: {kept} of {ids} ids are left"))];
    if *no_loss {
        notes.push(("truncated_loss", "no id that truncation left carries loss".into()));
    }
    notes
}
