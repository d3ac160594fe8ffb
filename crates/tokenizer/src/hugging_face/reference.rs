use std::collections::BTreeSet;
use std::sync::Arc;

use tokenizers::{Model, ModelWrapper, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType};
use tokenizers::{PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

use super::super::{AddedToken, Error, TextPlace, Token, check_length};
use super::forgery::Forgery;
use super::plain::PlainTokens;
use super::prefix_space;
use crate::combining::cover_marks;

/// A `tokenizer.json` run by the `tokenizers` crate.
///
/// Ordinary text bypasses the crate's added vocabulary: only the normalizer, the pre-tokenizer and
/// the model process it. The model's own vocabulary may still contain a token such as `<s>`;
/// `forgery` splits it.
pub(super) struct Reference {
    whole: Arc<Whole>,
    forgery: Forgery,
    plain: PlainTokens,
}

/// The parts that do not depend on which tokens are kept out of text.
pub(super) struct Whole {
    /// The complete tokenizer, but without post-processor, truncation and padding, which would
    /// change ids and spans.
    tokenizer: tokenizers::Tokenizer,
    /// The pre-tokenizer used after a control token, if it differs from the one at the start of the
    /// prompt.
    inside: Option<PreTokenizerWrapper>,
}

impl Whole {
    /// Assembles the parts of a file, with these added tokens.
    pub fn new(
        model: ModelWrapper,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
        added: &[AddedToken],
    ) -> Result<Self, Error> {
        let malformed = |error: tokenizers::Error| Error::malformed("added_tokens", error.to_string());
        let mut tokenizer = tokenizers::Tokenizer::new(model);
        tokenizer.with_normalizer(normalizer).map_err(malformed)?;
        tokenizer.with_pre_tokenizer(pre_tokenizer);
        tokenizer
            .add_tokens(added.iter().map(|token| tokenizers::AddedToken {
                content: token.text.clone(),
                single_word: token.single_word,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
                normalized: token.normalized,
                special: token.special,
            }))
            .map_err(malformed)?;
        let inside = tokenizer.get_pre_tokenizer().and_then(prefix_space::inside);
        Ok(Self { tokenizer, inside })
    }

    pub fn model(&self) -> &ModelWrapper {
        self.tokenizer.get_model()
    }
}

impl Reference {
    /// Creates an engine that keeps these tokens out of text.
    pub fn new(
        whole: Arc<Whole>,
        added: &[AddedToken],
        out: &BTreeSet<u32>,
        unknown: Option<u32>,
        byte_fallback: bool,
    ) -> Result<Self, Error> {
        let plain: Vec<_> = added.iter().filter(|token| !out.contains(&token.id)).cloned().collect();
        let plain = PlainTokens::new(plain, whole.tokenizer.get_normalizer())?;
        let forgery = Forgery::new(whole.model(), out, unknown, byte_fallback);
        Ok(Self { whole, forgery, plain })
    }

    pub fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        check_length(text)?;
        let run = self.normalize_ordinary(text)?;
        let model = self.whole.tokenizer.get_model();
        self.encode(text, run, place, |word| self.forgery.tokenize(model, word), out)
    }

    pub fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), Error> {
        check_length(text)?;
        let added = self.whole.tokenizer.get_added_vocabulary();
        let run = added.extract_and_normalize(self.whole.tokenizer.get_normalizer(), text);
        self.encode(text, run, place, |word| self.whole.tokenizer.get_model().tokenize(word), out)
    }

    /// Appends the added tokens found in a text.
    pub fn find_added(&self, text: &str, out: &mut Vec<Token>) {
        let added = self.whole.tokenizer.get_added_vocabulary();
        let run = added.extract_and_normalize(self.whole.tokenizer.get_normalizer(), text);
        for (_, span, tokens) in run.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            out.extend(tokens.iter().flatten().map(|token| Token::covering(token.id, span, text)));
        }
    }

    /// Splits off only the added tokens that text may encode to, then normalizes.
    fn normalize_ordinary(&self, text: &str) -> Result<PreTokenizedString, Error> {
        let mut run = PreTokenizedString::from(text);
        self.plain.split_raw(&mut run)?;
        if let Some(normalizer) = self.whole.tokenizer.get_normalizer() {
            run.normalize(|text| normalizer.normalize(text)).map_err(Error::unencodable)?;
        }
        self.plain.split_normalized(&mut run)?;
        Ok(run)
    }

    fn encode(
        &self,
        text: &str,
        mut run: PreTokenizedString,
        place: TextPlace,
        tokenize: impl Fn(&str) -> tokenizers::Result<Vec<tokenizers::Token>>,
        out: &mut Vec<Token>,
    ) -> Result<(), Error> {
        let pre_tokenizer = match place {
            TextPlace::Start => self.whole.tokenizer.get_pre_tokenizer(),
            TextPlace::Inside => self.whole.inside.as_ref().or(self.whole.tokenizer.get_pre_tokenizer()),
        };
        if let Some(pre_tokenizer) = pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut run).map_err(Error::unencodable)?;
        }
        run.tokenize(|word| tokenize(word.get())).map_err(Error::unencodable)?;
        let encoding = run.into_encoding(None, 0, OffsetType::Byte).map_err(Error::unencodable)?;
        let spans = encoding.get_offsets().iter();
        let first = out.len();
        out.extend(encoding.get_ids().iter().zip(spans).map(|(&id, &span)| Token::covering(id, span, text)));
        cover_marks(text, text.len(), &mut out[first..]);
        Ok(())
    }
}
