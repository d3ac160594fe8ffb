//! The ids of a rendered template, and which of them the reference's mask of generation blocks
//! covers: by the template's tags, and by origins.

use std::ops::Range;

use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::encode::{EncodedToken, Encoder, Protection};
use rolecall::loss::{Edges, Loss, LossPolicy, closers, overlapping, weights};
use rolecall::render::Writer;
use rolecall::template::{Forms, Nulls, TemplateOptions};
use rolecall::{Error, Prompt};

use super::hf_jinja::Rendered;
use super::{Context, generation};
use crate::Verdict;

/// The tokenizer that the rows were made with.
const TOKENIZER: &str = "qwen3";
const COUNT: &str = "qwen3_tokens";
const RUNS: &str = "qwen3_mask_runs";
const ERROR: &str = "qwen3_mask_error";
const CRASH: &str = "the reference fails at the mask of a conversation that it renders";

/// Reports whether a row has expectations about ids.
pub(super) fn concerns(row: &Object) -> bool {
    [COUNT, RUNS, ERROR].iter().any(|key| row.get(key).is_some())
}

/// Compares the number of ids, the mask by the template's tags, and the mask by origins.
pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let Some(tokenizer) = context.tokenizer(TOKENIZER) else {
        return Verdict::cannot_run("tokenizer not found (--tokenizers DIR)");
    };
    // The reference itself fails at these rows' masks, although it renders their text: it drops the
    // null content that the template needs.
    let error = row.get(ERROR).and_then(Json::as_str);
    if error.is_some_and(|error| !error.starts_with("ValueError")) && row.get("output").is_some() {
        return Verdict::Excused(CRASH);
    }
    let refused = |found: &str| match error {
        Some(_) => Verdict::Passed,
        None => Verdict::Failed { expected: "a mask".into(), found: found.to_owned() },
    };
    // The masks come from `apply_chat_template`, which drops null keys.
    let rendered = match context.jinja.render(row, Nulls::Missing, context.folders.templates.as_deref()) {
        Ok(Ok(rendered)) => rendered,
        Ok(Err(error)) => return refused(&error.to_string()),
        Err(verdict) => return verdict,
    };
    let encoder = Encoder::new(&Protection::default().with_template("template", &rendered.template), tokenizer);
    let encoded = match encoder.and_then(|encoder| encoder.encode_reference(&rendered.prompt)) {
        Ok(encoded) => encoded,
        Err(error) => return Verdict::Failed { expected: "ids".into(), found: error.to_string() },
    };
    // The reference refuses no mask because it is empty or lacks the end of a turn.
    let mut policy = LossPolicy::assistant();
    policy.allow_masked_stop = true;
    let has_messages = !rendered.conversation.messages.is_empty();
    policy.allow_empty = has_messages;
    policy.tagged = has_messages;
    let tagged = match loss(&rendered, &policy) {
        Ok(loss) => loss,
        Err(error) => return refused(&error.to_string()),
    };
    if row.get(ERROR).is_some() {
        return Verdict::Failed { expected: "a refusal".into(), found: "a mask".into() };
    }
    policy.tagged = false;
    let derived = match loss(&rendered, &policy) {
        Ok(loss) => loss,
        Err(error) => return Verdict::Failed { expected: "a derived mask".into(), found: error.to_string() },
    };
    let mask = |loss: &Loss| weights(&encoded, loss, Edges::Any).map(|weight| weight > 0.0).collect::<Vec<bool>>();
    let count = row.get(COUNT).cloned().unwrap_or(Json::Null);
    let blocks = overlapping(&encoded.tokens, &rendered.prompt.generated);
    Verdict::compare(&format!("{count:?}"), &format!("{:?}", Json::from(encoded.tokens.len() as i64)))
        .and(|| generation::compare(row.get(RUNS), &encoded.tokens, &rendered.prompt))
        .and(|| by_tags(&blocks, &mask(&tagged), &encoded.tokens, &rendered.prompt))
        .and(|| by_origins(&blocks, &mask(&derived), &encoded.tokens, &rendered.prompt, &derived))
}

fn loss(rendered: &Rendered, policy: &LossPolicy) -> Result<Loss, Error> {
    let Rendered { template, prompt, conversation, now, .. } = rendered;
    let mut stops: Vec<String> =
        template.tokens().iter().filter(|(name, _)| name == "eos_token").map(|(_, token)| token.clone()).collect();
    stops.extend(closers(&rolecall::infer::infer(template).format));
    let options = TemplateOptions { now: *now, forms: Forms::AsGiven, ..TemplateOptions::default() };
    Ok(Writer::template(template.clone(), options.clone()).loss(prompt, conversation, &stops, policy)?)
}

/// Compares the mask of the template's blocks with the loss of a policy that honours them. Loss is
/// for bytes, of which an empty block has none.
fn by_tags(blocks: &[bool], found: &[bool], tokens: &[EncodedToken], prompt: &Prompt) -> Verdict {
    compare(blocks, found, tokens, prompt, |token| is_around_nothing(token, prompt))
}

/// Reports whether an empty block lies within a token.
fn is_around_nothing(token: &EncodedToken, prompt: &Prompt) -> bool {
    prompt.generated.iter().any(|block| block.is_empty() && token.start < block.start && block.start < token.end)
}

/// Compares the mask of the template's blocks with the one derived from origins.
fn by_origins(wanted: &[bool], found: &[bool], tokens: &[EncodedToken], prompt: &Prompt, loss: &Loss) -> Verdict {
    let text = prompt.text();
    let touches = |range: &Range<usize>, token: &EncodedToken| range.start < token.end && token.start < range.end;
    compare(wanted, found, tokens, prompt, |token| {
        if is_around_nothing(token, prompt) {
            return true;
        }
        let tag = prompt.generated.iter().find(|block| touches(block, token));
        loss.replies.iter().any(|reply| {
            let turn = prompt.turns().iter().position(|turn| turn.message == reply.message);
            let turn = turn.map_or(reply.range.clone(), |at| prompt.turn_span(at));
            let own = &reply.range;
            match tag {
                // Rule 4: the tag includes white space after the stop, or the header and the text
                // of the generation prompt.
                Some(tag) => {
                    let after = own.end.max(token.start)..tag.end.min(token.end);
                    (token.start >= own.end && text.get(after).is_some_and(|text| text.trim().is_empty()))
                        || (touches(&turn, token) && token.end <= own.start)
                }
                // Rules 2 to 4: the reply starts before the tag, or ends after it with its stop.
                None => {
                    let mut blocks =
                        prompt.generated.iter().filter(|block| block.start < own.end && own.start < block.end);
                    let first = blocks.next();
                    let last = blocks.next_back().or(first);
                    let is_before = first.is_some_and(|block| token.end <= block.start);
                    let is_after = last.is_some_and(|block| token.start >= block.end);
                    own.contains(&token.start) && (is_before || is_after)
                }
            }
        })
    })
}

fn compare(
    wanted: &[bool],
    found: &[bool],
    tokens: &[EncodedToken],
    prompt: &Prompt,
    is_explained: impl Fn(&EncodedToken) -> bool,
) -> Verdict {
    let each = tokens.iter().zip(wanted.iter().zip(found));
    let different = each.filter(|(token, (wanted, found))| wanted != found && !is_explained(token));
    let shown: Vec<String> = different
        .map(|(token, (_, found))| {
            format!("{:?} {found}", &prompt.text()[Range { start: token.start, end: token.end }])
        })
        .collect();
    Verdict::compare("", &shown.join("; "))
}
