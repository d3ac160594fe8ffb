//! Conversations for property tests: everything that a format allows, from a seed, with texts from
//! the caller.
//!
//! The input is a format, a seed and a function that returns the text for each [`Spot`]. The output
//! is a request in OpenAI's JSON, and options. [`hostile`] makes texts that spell control tokens,
//! [`harmless`] makes a text of the same shape without them, and [`shrink`] finds the smallest
//! request that still fails.
//!
//! `maker` holds the state of a conversation under construction. `turns` chooses the order of its
//! messages, and `message`, `content` and `call` make them, with the names in `role`. `tool` makes
//! the offered tools, and `option` the options. `layout` inspects a format's layouts.

mod call;
mod content;
mod layout;
mod maker;
mod message;
mod option;
mod role;
mod shrink;
mod text;
mod tool;
mod turns;
mod value;

use std::sync::Arc;

use fastrand::Rng;
use rolecall::Origin;
use rolecall::conversation::Json;
use rolecall::format::{Format, Registry};
use rolecall::render::{Options, RuleMode};

pub use layout::{says_more, split_mark};
pub use shrink::shrink;
pub use text::{harmless, hostile, marks};
pub use value::{number, value};

use maker::Maker;

/// A place for a text in a generated conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The origin that the text must have in a prompt.
    pub origin: Origin,
    /// Whether formats may drop the text without a note, such as ids that nothing prints.
    pub silent: bool,
}

/// A generated conversation.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The request, in the shape of OpenAI's API.
    pub request: Json,
    /// How to render it.
    pub options: Options,
}

/// Makes a conversation for a format. The same seed makes the same conversation if `text` returns
/// the same texts.
///
/// With [`RuleMode::Enforce`], the conversation keeps the format's rules and contains nothing that
/// the format refuses. With [`RuleMode::Reference`], any role may follow any other, and parts,
/// calls and tools occur even if the format has no place for them.
pub fn conversation(format: &Format, seed: u64, rules: RuleMode, text: &mut dyn FnMut(&Spot) -> String) -> Generated {
    let rng = Rng::with_seed(seed);
    let mut maker = Maker {
        format,
        rng,
        rules,
        text,
        alone: None,
        offered: false,
        messages: Vec::new(),
        ids: Vec::new(),
        ends_open: false,
    };
    maker.alone = maker.text_alone();
    let mut request = maker.offers();
    match (maker.alone, rules) {
        (Some(slot), _) => maker.one_text(slot),
        (None, RuleMode::Enforce) => maker.keep_the_rules(),
        (None, RuleMode::Reference) => maker.break_the_rules(),
    }
    let messages = std::mem::take(&mut maker.messages).into_iter().map(Json::Object).collect();
    request.insert("messages", Json::Array(messages));
    maker.close(&mut request);
    let options = maker.options();
    Generated { request: Json::Object(request), options }
}

/// Returns every format, and its training variant where it has one.
pub fn variants(registry: &Registry) -> Vec<&Arc<Format>> {
    registry.iter().flat_map(|format| std::iter::once(format).chain(format.training.as_ref())).collect()
}

/// Returns the label of a format in failures.
pub fn label(format: &Format) -> String {
    match format.rules.turns.key() {
        "answered" | "paired" => format!("{} (training)", format.name),
        _ if format.rules.learned => format!("{} (training)", format.name),
        _ => format.name.clone(),
    }
}
