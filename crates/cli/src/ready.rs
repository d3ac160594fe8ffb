//! Writes conversations that are ready: rendered, encoded, with their loss, and truncated.

use rolecall::answer::{self, Answer, StreamedAnswer};
use rolecall::dataset::Side;
use rolecall::encode::{EncodedToken, Note};
use rolecall::loss::{Loss, TokenLoss};
use rolecall::model::ModelPrompt;
use rolecall::training::{Ready, RowNote, TruncationReport};

use crate::batch::{BatchRow, Line, LineCounts, PackedItem, Rows};
use crate::explain::Tokens;
use crate::failure::Failure;
use crate::job::Job;
use crate::output::Output;
use crate::refusal::Refusal;

impl Job {
    /// Adds the results of a batch line: either all of them, or none.
    pub fn answer(&self, line: Line<'_>, rows: &mut Rows) -> Result<LineCounts, Refusal> {
        let answers = self.rows.prepare_all(&self.model, self.read(line.text)?)?;
        let mut told = LineCounts::default();
        for (at, (side, ready)) in answers.into_iter().enumerate() {
            if at > 0 {
                rows.next_of_line();
            }
            told.tokens += ready.encoded.as_ref().map_or(0, |encoded| encoded.tokens.len() as u64);
            let notes = ready.notes();
            self.add((&ready, &notes), line.number, side, rows, &mut told)?;
            notes.into_iter().for_each(|note| told.add(note));
        }
        Ok(told)
    }

    /// Adds one result to a batch.
    fn add(
        &self,
        (ready, notes): (&Ready, &[RowNote]),
        number: u64,
        side: Option<Side>,
        rows: &mut Rows,
        told: &mut LineCounts,
    ) -> Result<(), Refusal> {
        let Ready { prompt, encoded, truncated, part, .. } = ready;
        let (encoded, truncated) = (encoded.as_ref(), truncated.as_ref());
        let request = prompt.request();
        let edges = self.rows.edges;
        let loss = ready.token_loss(edges);
        if let Rows::Columns { wanted, .. } | Rows::Samples { wanted, .. } = rows
            && !wanted.weights
            && loss.is_some_and(|loss| !loss.loss.is_uniform())
        {
            told.note("unwritten_weights", "weights other than 1 are not written without `--loss-weights`");
        }
        match (&mut *rows, encoded) {
            (Rows::Lines(text), _) => {
                let id = request.id.as_ref();
                answer::write(
                    text,
                    &Answer { id, side, prompt: prompt.prompt(), encoded, loss, truncated, part: *part },
                );
                Ok(())
            }
            (Rows::Columns { .. }, Some(encoded)) => {
                let weights = loss.map(|_| ready.weights(edges)).unwrap_or_default();
                rows.push(&BatchRow {
                    number,
                    request,
                    side,
                    prompt: prompt.prompt(),
                    encoded,
                    weights,
                    truncated,
                    notes,
                })
            }
            (Rows::Samples { length, items, .. }, Some(_)) => {
                items.push(PackedItem::Sample(ready.slot(number, side, edges, *length)?));
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
        (loss, truncated): (Option<&Loss>, Option<&TruncationReport>),
        output: &Output,
    ) -> Result<(), Failure> {
        let notes = encoded.map_or(&[][..], |(_, notes)| notes);
        let id = prompt.request().id.as_ref();
        let loss = loss.map(|loss| TokenLoss { loss, edges: self.rows.edges });
        let each;
        let mut streamed = StreamedAnswer { id, prompt: prompt.prompt(), tokens: None, notes, loss, truncated };
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
