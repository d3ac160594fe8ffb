use std::sync::Arc;

use rolecall_encode::{Decoder, Error};
use rolecall_parse::{Event, OutputParser, Stop};

/// Reads a model's ids: the id of a control token is a mark, the same characters in ordinary tokens are not.
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
pub struct IdParser {
    parser: OutputParser,
    decoder: Arc<Decoder>,
    /// Those of the id at hand.
    bytes: Vec<u8>,
}

impl IdParser {
    /// A parser that is given the ids of the decoder's tokenizer; its reply was made with the decoder's
    /// [`markers`](Decoder::markers).
    pub fn new(parser: OutputParser, decoder: Arc<Decoder>) -> IdParser {
        IdParser { parser, decoder, bytes: Vec::new() }
    }

    /// Takes the next id. One that the tokenizer has not got is refused, and nothing is lost by it.
    pub fn push(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.bytes.clear();
        self.decoder.append(id, &mut self.bytes)?;
        self.parser.push_bytes(&self.bytes, self.decoder.is_marker(id), sink);
        Ok(())
    }

    /// Ends the output and gives what was kept back.
    pub fn finish(mut self, stop: Stop, sink: &mut impl FnMut(Event<'_>)) {
        self.parser.finish(stop, sink);
    }
}
