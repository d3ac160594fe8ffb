use std::sync::Arc;

use rolecall_encode::{Decoder, Error};
use rolecall_parse::{Event, OutputParser, Stop, Within};

/// Parses a model's output from token ids. The id of a control token is a marker; ordinary tokens
/// that spell the same characters are not.
///
/// ```
/// use std::sync::Arc;
/// use rolecall::tokenizer::HuggingFace;
/// use rolecall::{Reading, Stop};
/// use rolecall::encode::Decoder;
/// use rolecall::format::registry;
/// use rolecall::parse::{IdParser, OutputParser, ParseOptions, Reply};
/// let json = br#"{
///   "added_tokens": [{"id": 2, "content": "<|im_end|>", "special": true,
///                     "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
///   "model": {"type": "BPE", "vocab": {"H": 0, "i": 1}, "merges": []}
/// }"#;
/// let decoder = Arc::new(Decoder::new(Arc::new(HuggingFace::from_bytes(json, None)?)));
/// let registry = registry();
/// let format = registry.get("chatml").expect("built in");
/// let reply = Arc::new(Reply::with_tokens(format, &decoder.markers()));
/// let options = ParseOptions { prompt_tail: "<|im_start|>assistant\n".into(), ..ParseOptions::default() };
///
/// let mut parser = IdParser::new(OutputParser::new(&reply, options), decoder);
/// let mut reading = Reading::default();
/// for id in [0, 1, 2] {
///     parser.push(id, &mut |event| reading.add(&event))?;
/// }
/// parser.finish(Stop::End, &mut |event| reading.add(&event));
/// assert_eq!(reading.content, "Hi");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IdParser {
    parser: OutputParser,
    decoder: Arc<Decoder>,
    /// The bytes of the current id.
    bytes: Vec<u8>,
}

impl IdParser {
    /// Returns a parser for the ids of the decoder's tokenizer. The parser's
    /// [`Reply`](crate::parse::Reply) must have been made with the decoder's
    /// [`markers`](Decoder::markers).
    pub fn new(parser: OutputParser, decoder: Arc<Decoder>) -> IdParser {
        IdParser { parser, decoder, bytes: Vec::new() }
    }

    /// Returns a parser that emits the place of each delta of the answer and of the reasoning before the
    /// delta, as [`Event::Place`].
    pub fn with_places(self) -> IdParser {
        IdParser { parser: self.parser.with_places(), ..self }
    }

    /// Parses the next id. An id that the tokenizer does not have is an error; the parser's state
    /// does not change.
    pub fn push(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.bytes.clear();
        self.decoder.append(id, &mut self.bytes)?;
        self.parser.push_bytes(&self.bytes, self.decoder.is_marker(id), sink);
        Ok(())
    }

    /// Returns the number of bytes at the end of the output that were not parsed yet. See
    /// [`OutputParser::pending_bytes`].
    pub fn pending_bytes(&self) -> usize {
        self.parser.pending_bytes()
    }

    /// Parses the next ids. An id that the tokenizer does not have is an error; then none of the ids
    /// was parsed.
    pub fn push_all(&mut self, ids: &[u32], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.bytes.clear();
        let mut ends = Vec::with_capacity(ids.len());
        for id in ids {
            self.decoder.append(*id, &mut self.bytes)?;
            ends.push(self.bytes.len());
        }
        let mut start = 0;
        for (id, end) in ids.iter().zip(ends) {
            self.parser.push_bytes(&self.bytes[start..end], self.decoder.is_marker(*id), sink);
            start = end;
        }
        Ok(())
    }

    /// Parses text that the model sampled with ordinary tokens, where an engine does not tell their ids.
    pub fn push_text(&mut self, text: &str, sink: &mut impl FnMut(Event<'_>)) {
        self.parser.push_bytes(text.as_bytes(), false, sink);
    }

    /// Parses text of an engine that returns no ids at all. It does not say what wrote the text, so what
    /// spells a marker is one.
    pub fn push_spelled(&mut self, text: &str, sink: &mut impl FnMut(Event<'_>)) {
        self.parser.push_text(text, sink);
    }

    /// Parses the next id, whose bytes are known.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8], is_marker: bool, sink: &mut impl FnMut(Event<'_>)) {
        self.parser.push_bytes(bytes, is_marker, sink);
    }

    /// Parses the beginning of the bytes that ordinary ids stand for, as far as it certainly belongs
    /// to the open call, and returns its length.
    pub(crate) fn push_in_call(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) -> usize {
        self.parser.push_in_call(bytes, sink)
    }

    /// Returns the part of the turn that the output has reached.
    pub fn within(&self) -> Within {
        self.parser.within()
    }

    /// Ends the output and emits the events that were held back.
    pub fn finish(mut self, stop: Stop, sink: &mut impl FnMut(Event<'_>)) {
        self.parser.finish(stop, sink);
    }
}
