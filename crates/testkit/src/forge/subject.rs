use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use fastrand::Rng;
use rolecall::conversation::{Conversation, Json};
use rolecall::encode::{Encoder, Protection};
use rolecall::format::Format;
use rolecall::render::{Options, RuleMode, Writer};
use rolecall::template::{ChatTemplate, DateTime, Forms, TemplateOptions};
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::{TextPlace, TokenRef};
use rolecall::{Encoded, Prompt};

use super::Marks;
use super::draft::{Draft, Side};
use super::talk::{Habits, Texts, talk};
use crate::generate;

/// The date of every conversation, which some templates write.
const DAY: DateTime = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };

/// A format or template with a tokenizer, on which conversations are tried.
pub struct Subject {
    /// The name of the subject, by which `--only` selects it.
    pub label: String,
    /// The format or template that writes the prompts.
    pub voice: Voice,
    /// The tokenizer that encodes the prompts.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// The protection from which the encoder is built.
    pub protection: Arc<Protection>,
    /// The markers that hostile texts attack with and honest texts may contain.
    pub marks: Marks,
    pub(super) bound: OnceLock<Result<Bound, String>>,
    /// Whether some maker could have this tokenizer, so that its ids for a whole text are
    /// meaningful.
    pub is_real: bool,
}

/// An encoder, and the facts to check its ids against. Built on first use, because there are
/// thousands of subjects.
pub struct Bound {
    /// The encoder.
    pub encoder: Encoder,
    /// The ids that text must never become, each with its spellings.
    pub protected: HashMap<u32, Vec<String>>,
    /// The protected ids that the reference finds in text; sentencepiece finds none of its control
    /// tokens there.
    pub spelled: HashSet<u32>,
}

/// The writer of a prompt.
#[derive(Clone)]
pub enum Voice {
    /// A format.
    Format(Arc<Format>),
    /// A chat template.
    Template {
        /// The template.
        template: Arc<ChatTemplate>,
        /// What the template accepts.
        habits: Arc<Habits>,
        /// Whether the template's analysis finds a branch on message text.
        gated: bool,
    },
}

impl Subject {
    /// Makes the conversation of a seed. A higher `simplicity` leaves out more that could be
    /// refused.
    pub fn draft(&self, seed: u64, simplicity: u32) -> Draft {
        // Scramble the seed, so that neighbouring seeds give unlike conversations.
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(simplicity));
        let mut texts = Texts::new(&self.marks, rng.fork());
        match &self.voice {
            Voice::Template { habits, .. } => {
                let request = talk(habits, simplicity, &mut rng, &mut texts);
                Draft { request, options: Options::default(), words: texts.words }
            }
            Voice::Format(format) => {
                let rules = if rng.u8(..3) == 0 { RuleMode::Reference } else { RuleMode::Enforce };
                let made = generate::conversation(format, rng.u64(..), rules, &mut |_| texts.name());
                Draft { request: made.request, options: made.options, words: texts.words }
            }
        }
    }

    /// Renders one side of a draft, or returns the code of the refusal.
    pub fn render(&self, draft: &Draft, side: Side) -> Result<Prompt, String> {
        let conversation = conversation(draft.filled(side))?;
        let prompt = match &self.voice {
            Voice::Format(format) => Writer::format(format.clone(), draft.options(side).clone()).render(&conversation),
            Voice::Template { template, .. } => {
                // Choose by a property of the draft itself, so that a conversation is always
                // rendered the same way.
                let forms = if draft.words.len().is_multiple_of(4) { Forms::AsGiven } else { Forms::AsWanted };
                let options = TemplateOptions { now: Some(DAY), forms, ..TemplateOptions::default() };
                Writer::template(template.clone(), options.clone()).render(&conversation)
            }
        };
        prompt.map_err(|error| match &error {
            rolecall::render::Error::Template { error, .. } => format!("template: {}", error.kind().code()),
            other => other.code().to_owned(),
        })
    }

    /// Returns the encoder, or the code of the refusal.
    pub fn bound(&self) -> Result<&Bound, String> {
        let bound = self.bound.get_or_init(|| {
            let encoder = Encoder::new(&self.protection, Arc::clone(&self.tokenizer));
            let encoder = encoder.map_err(|error| error.code().to_owned())?;
            let format = match &self.voice {
                Voice::Format(format) => Some(format.as_ref()),
                Voice::Template { .. } => None,
            };
            let protected = protected(&encoder, format, &self.marks);
            Ok(Bound { spelled: spelled(&encoder, &protected), protected, encoder })
        });
        bound.as_ref().map_err(String::clone)
    }

    /// Encodes a prompt, or returns the code of the refusal.
    pub fn encode(&self, prompt: &Prompt) -> Result<Encoded, String> {
        self.bound()?.encoder.encode(prompt).map_err(|error| error.code().to_owned())
    }
}

fn conversation(request: Json) -> Result<Conversation, String> {
    Conversation::from_json(request).map_err(|error| format!("conversation: {}", error.code()))
}

/// Finds the ids that text must never become, independently of the encoder's own set: tokens
/// flagged special, tokens named in a file, words of a template or format, and a format's control
/// tokens.
pub fn protected(encoder: &Encoder, format: Option<&Format>, marks: &Marks) -> HashMap<u32, Vec<String>> {
    let tokenizer = encoder.tokenizer();
    let mut protected: HashMap<u32, Vec<String>> = HashMap::new();
    let listed = tokenizer.chat_control_tokens();
    let is_named = |id: u32, text: &str| {
        tokenizer.named().iter().any(|named| match &named.token {
            TokenRef::Id(named) => *named == id,
            TokenRef::Text(named) => named == text,
        })
    };
    for token in tokenizer.added_tokens() {
        let is_word = match listed {
            Some(listed) => listed.contains(&token.text),
            None => marks.literals.iter().any(|literal| literal.contains(&token.text)),
        };
        if token.special || is_word || is_named(token.id, &token.text) {
            protected.entry(token.id).or_default().push(token.text.clone());
        }
    }
    // Words that look like markers in a template and that the tokenizer has as one token, whatever
    // their flags. A format lists its control tokens; its other words (`user`, a comma) are words
    // of the language.
    let is_spelled = |word: &&String| {
        format.is_none() && listed.is_none() && marks.literals.iter().any(|literal| literal.contains(*word))
    };
    for word in marks.words.iter().filter(is_spelled) {
        let mut tokens = Vec::new();
        let encoded = tokenizer.encode_reference(word, TextPlace::Inside, &mut tokens);
        if let (Ok(()), [token]) = (encoded, tokens.as_slice())
            && tokenizer.token_text(token.id).as_ref() == Some(word)
            && !protected.contains_key(&token.id)
        {
            protected.insert(token.id, vec![word.clone()]);
        }
    }
    for control in format.into_iter().flat_map(|format| format.controls.iter()) {
        let id = control.id.filter(|_| control.by_id || control.appended);
        let Some(id) = control.texts().find_map(|text| tokenizer.token_id(text)).or(id) else { continue };
        protected.entry(id).or_default().extend(control.texts().map(str::to_owned));
    }
    protected
}

/// Returns the protected ids that the reference gives to a text that spells them.
pub fn spelled(encoder: &Encoder, protected: &HashMap<u32, Vec<String>>) -> HashSet<u32> {
    let mut tokens = Vec::new();
    let mut is_found = |id: u32, text: &str| {
        tokens.clear();
        encoder.tokenizer().encode_reference(text, TextPlace::Inside, &mut tokens).is_ok()
            && matches!(tokens.as_slice(), [token] if token.id == id)
    };
    let found = protected.iter().filter(|(id, texts)| texts.iter().any(|text| is_found(**id, text)));
    found.map(|(id, _)| *id).collect()
}
