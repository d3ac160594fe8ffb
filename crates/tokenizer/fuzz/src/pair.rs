//! A tokenizer in our own engine and in others.

use rolecall_tokenizer::{Error, HuggingFace, SentencePiece, TextPlace, Token, Tokenizer, TokenizerKind, is_tekken};

/// A tokenizer in our own engine and in others.
pub struct Pair {
    pub name: String,
    own: Box<dyn Tokenizer>,
    reference: Box<dyn Tokenizer>,
    /// Another encoder, if it reads the file.
    fastokens: Option<fastokens::Tokenizer>,
    /// Whether some text may lie outside all spans.
    drops_text: bool,
}

impl Pair {
    /// Reads a file of any kind.
    pub fn read(name: &str, file: &[u8], config: Option<&[u8]>) -> Result<Self, Error> {
        let (own, reference): (Box<dyn Tokenizer>, Box<dyn Tokenizer>) = if !file.trim_ascii_start().starts_with(b"{") {
            let load = || SentencePiece::from_bytes(file, config);
            (Box::new(load()?), Box::new(load()?.with_reference_engine()))
        } else if is_tekken(file) {
            let load = || HuggingFace::from_tekken(file, config);
            (Box::new(load()?), Box::new(load()?.with_reference_engine()?))
        } else {
            let load = || HuggingFace::from_bytes(file, config);
            (Box::new(load()?), Box::new(load()?.with_reference_engine()?))
        };
        Ok(Self { name: name.to_owned(), own, reference, fastokens: None, drops_text: false })
    }

    /// Compares with fastokens as well, if it reads the file.
    pub fn with_fastokens(mut self, file: &[u8]) -> Self {
        // fastokens 0.3.5 encodes runs of spaces otherwise than `tokenizers` where characters are merged.
        if self.own.kind() == TokenizerKind::ByteLevelBpe {
            let file = serde_json::from_slice(file).ok();
            self.fastokens = file.and_then(|file| fastokens::Tokenizer::from_json(file).ok());
        }
        self
    }

    pub fn dropping_text(self, drops_text: bool) -> Self {
        Self { drops_text, ..self }
    }

    pub fn is_native(&self) -> bool {
        matches!(self.own.engine(), rolecall_tokenizer::Engine::Native)
    }

    /// Returns the texts of control tokens and others that a text may spell.
    pub fn added(&self) -> Vec<String> {
        let added = self.own.added_tokens().iter().map(|token| token.text.clone());
        added.chain(self.own.text_tokens().into_iter().map(|token| token.text)).collect()
    }

    /// Checks that all engines, and all ways to ask, give the same tokens.
    pub fn check(&self, text: &str, most: usize) {
        for place in [TextPlace::Start, TextPlace::Inside] {
            let about = |what: &str| format!("{}, {what}, {place:?}", self.name);
            let encode = |tokenizer: &dyn Tokenizer| {
                let mut tokens = Vec::new();
                tokenizer.encode_ordinary(text, place, &mut tokens).map(|()| tokens).map_err(|e| e.to_string())
            };
            let expected = encode(&*self.reference);
            for time in ["first", "second"] {
                expect(&encode(&*self.own), &expected, text, &about(time));
            }
            let Ok(expected) = expected else { continue };
            self.check_spans(text, &expected, &about("spans"));

            let mut parts = Vec::new();
            let done = self.own.encode_in_parts(text, place, &mut |part| parts.extend_from_slice(part));
            expect(&done.map(|()| parts).map_err(|e| e.to_string()), &Ok(expected.clone()), text, &about("in parts"));

            let mut alone = Vec::new();
            let done = self.own.encode_ids(text, place, &mut alone);
            expect(&done.map(|()| alone).map_err(|e| e.to_string()), &ids(&expected), text, &about("ids"));

            let mut first = Vec::new();
            self.own.encode_at_most(text, place, most, &mut first).expect("the whole text can be encoded");
            let is_enough = first.len() > most || first.len() == expected.len();
            assert!(is_enough, "{}: {} of {} tokens", about("at most"), first.len(), expected.len());
            let same = expected.get(..first.len()).unwrap_or_default().to_vec();
            expect(&ids(&first), &ids(&same), text, &about("at most"));

            let read = |tokenizer: &dyn Tokenizer| {
                let mut tokens = Vec::new();
                tokenizer.encode_reference(text, place, &mut tokens).map(|()| tokens).map_err(|e| e.to_string())
            };
            let expected = read(&*self.reference);
            expect(&read(&*self.own), &expected, text, &about("as the reference"));
            if let (Some(fastokens), TextPlace::Start, Ok(expected)) = (&self.fastokens, place, expected) {
                let found = fastokens.encode_with_special_tokens(text, false).map_err(|e| e.to_string());
                let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
                expect(&found, &Ok(expected), text, &about("fastokens"));
            }
        }
    }

    /// Checks that spans are whole characters, in order, and leave out no text.
    fn check_spans(&self, text: &str, tokens: &[Token], what: &str) {
        let mut reached = 0;
        let mut last = 0;
        for token in tokens {
            let (range, slice) = (token.range(), text.get(token.range()));
            assert!(slice.is_some(), "{what}: {token:?} cuts a character of {text:?}");
            let is_empty = range.is_empty() && !text.is_empty();
            assert!(!is_empty, "{what}: {token:?} is empty in {text:?}");
            assert!(range.start >= last, "{what}: {token:?} is out of order in {text:?}");
            assert!(self.drops_text || range.start <= reached, "{what}: a gap before {token:?} in {text:?}");
            (last, reached) = (range.start, reached.max(range.end));
        }
        assert!(self.drops_text || reached == text.len(), "{what}: the end of {text:?} is left out");
    }
}

fn ids(tokens: &[Token]) -> Result<Vec<u32>, String> {
    Ok(tokens.iter().map(|token| token.id).collect())
}

fn expect<T: PartialEq + std::fmt::Debug>(
    found: &Result<Vec<T>, String>,
    expected: &Result<Vec<T>, String>,
    text: &str,
    what: &str,
) {
    if found == expected {
        return;
    }
    if let (Ok(found), Ok(expected)) = (found, expected) {
        let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
        let show = |tokens: &[T]| format!("{:?}", tokens.iter().skip(at).take(4).collect::<Vec<_>>());
        panic!("{what}: token {at}: found {}, expected {} in {text:?}", show(found), show(expected));
    }
    panic!("{what}: found {:?}, expected {:?} in {text:?}", found.as_ref().err(), expected.as_ref().err());
}
