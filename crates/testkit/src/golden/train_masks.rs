//! Loss masks of the peer that has them for some families, compared with those derived from
//! origins.
//!
//! Where the peer is wrong, PEER_VECTORS.md says by which rule. The rules are stated in terms of the
//! template's own renderings, so that each applies to every family.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Role, json};
use rolecall::encode::{EncodedToken, Encoder, Protection};
use rolecall::loss::{Edges, Loss, LossPolicy, RoleLoss, weights};
use rolecall::model::{ModelPrompt, Purpose, Settings};
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::Tokenizer;
use rolecall::{Error, Model, Request};

use super::parity::request;
use super::{Context, generation, parity, text};
use crate::Verdict;

/// The policy of every assistant message, with a stop token appended.
const CLOSED: &str = "final stop";

/// Models by template and special tokens.
#[derive(Default)]
pub(super) struct Models {
    models: HashMap<Key, Result<Model, String>>,
}

/// A template and its special tokens.
type Key = (String, Vec<(String, String)>);

pub(super) fn run(row: &Object, context: &mut Context) -> Verdict {
    let expected = row.get("expected").and_then(Json::as_object);
    let Some(wanted) = expected.and_then(|expected| expected.get("loss")).and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no `loss`");
    };
    let tokenizer = match context.recipes.tokenizer(text(row, "tokenizer"), context.folders.tokenizers.as_deref()) {
        Ok(tokenizer) => tokenizer,
        Err(why) => return Verdict::cannot_run(why),
    };
    let templates = row.get("templates").and_then(Json::as_array).unwrap_or_default();
    let mut verdict = Verdict::Passed;
    for template in templates.iter().filter_map(Json::as_str) {
        let model = match model(template, row, context) {
            Ok(model) => model,
            Err(why) => return Verdict::cannot_run(why),
        };
        let mut known = None;
        // Without a final stop, the row has the ids that a stop token adds, and the mask with it.
        let final_stop = expected.and_then(|expected| expected.get("final_stop")).and_then(Json::as_object);
        let closed = final_stop.and_then(|stop| stop.get("loss")).map(|runs| (CLOSED, runs));
        verdict = verdict.and(|| appended(&model, row, final_stop, &tokenizer));
        let generation = expected.and_then(|expected| expected.get("generation")).and_then(Json::as_object);
        verdict = match generation.and_then(|generation| generation.get(template)) {
            Some(runs) => verdict.and(|| tagged(&model, row, runs, &tokenizer)),
            None => verdict,
        };
        for (policy, runs) in wanted.iter().chain(closed) {
            let masked = match Masked::of(&model, row, policy, &tokenizer) {
                Ok(masked) => masked,
                Err(error) => {
                    return Verdict::Failed { expected: format!("{template}, {policy}"), found: error.to_string() };
                }
            };
            let openings = match known.get_or_insert_with(|| openings(&masked, &model, row)) {
                Ok(openings) => &*openings,
                Err(why) => {
                    return Verdict::Failed { expected: "the end of the generation prompt".into(), found: why.clone() };
                }
            };
            verdict = verdict.and(|| masked.compare(&format!("{template}, {policy}"), runs, openings));
        }
    }
    verdict
}

/// Checks that a stop token is appended only where the template writes none, and the ids of both.
fn appended(model: &Model, row: &Object, stop: Option<&Object>, tokenizer: &Arc<dyn Tokenizer>) -> Verdict {
    let masked = |policy: &str| Masked::of(model, row, policy, tokenizer);
    let ids = |masked: &Masked| -> Vec<i64> { masked.tokens.iter().map(|token| i64::from(token.id)).collect() };
    let number = |id: &Json| match id {
        Json::Number(number) => number.as_i64(),
        _ => None,
    };
    let added = stop.and_then(|stop| stop.get("appended")).and_then(Json::as_array).unwrap_or_default();
    match (masked("default"), masked(CLOSED)) {
        // The peer does not end a reply in which the model writes nothing.
        (Ok(open), Ok(_)) if stop.is_none() && open.loss.replies.last().is_some_and(|last| last.range.is_empty()) => {
            Verdict::Passed
        }
        (Ok(open), Ok(closed)) => {
            let mut wanted = ids(&open);
            wanted.extend(added.iter().filter_map(number));
            Verdict::compare(&format!("{wanted:?}"), &format!("{:?}", ids(&closed)))
        }
        (Err(error), _) | (_, Err(error)) => Verdict::Failed { expected: "ids".into(), found: error.to_string() },
    }
}

/// Compares the mask of the template's `{% generation %}` blocks with that of transformers.
fn tagged(model: &Model, row: &Object, runs: &Json, tokenizer: &Arc<dyn Tokenizer>) -> Verdict {
    match Masked::of(model, row, "default", tokenizer) {
        Ok(masked) => generation::compare(Some(runs), &masked.tokens, masked.prompt.prompt()),
        Err(error) => Verdict::Failed { expected: "a mask".into(), found: error.to_string() },
    }
}

/// Returns the model of a template with a row's special tokens.
pub(super) fn model(template: &str, row: &Object, context: &mut Context) -> Result<Model, String> {
    let tokens: Vec<(String, String)> = ["bos_token", "eos_token"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), row.get(name)?.as_str()?.to_owned())))
        .collect();
    let folder = context.folders.templates.clone().ok_or("no folder of templates (--templates)")?;
    let now = context.jinja.now();
    let open = || {
        let source = std::fs::read_to_string(folder.join(template)).map_err(|error| error.to_string())?;
        let mut templates = ModelTemplates::from_json(&Json::from(source)).map_err(|error| error.to_string())?;
        for (name, token) in &tokens {
            templates.set_token(name, token.clone());
        }
        let settings = Settings { now, ..Settings::default() };
        Model::builder().templates(templates).settings(settings).open().map_err(|error| error.to_string())
    };
    context.masked.models.entry((template.to_owned(), tokens.clone())).or_insert_with(open).clone()
}

/// A conversation with ids and their weights.
struct Masked {
    prompt: ModelPrompt,
    tokens: Vec<EncodedToken>,
    mask: Vec<bool>,
    loss: Loss,
}

impl Masked {
    fn of(model: &Model, row: &Object, policy: &str, tokenizer: &Arc<dyn Tokenizer>) -> Result<Masked, Error> {
        let conversation = Json::Object(chosen(request(row, false), policy));
        let request = Request::from_text(&json::write(&conversation, &json::Layout::default()))?;
        let mut prompt = model.prompt_for(request, Purpose::Training)?;
        if policy == CLOSED {
            prompt.append_final_stop()?;
        }
        let mut chosen = LossPolicy::assistant();
        chosen.allow_empty = true;
        let bodies: &[Role] = match policy {
            "assistant_and_tool_bodies" => &[Role::Tool],
            "all_bodies" => &[Role::System, Role::User, Role::Tool],
            _ => &[],
        };
        chosen.roles =
            bodies.iter().map(|role| RoleLoss { role: role.clone(), whole_turn: false, weight: 1.0 }).collect();
        let loss = prompt.loss(&chosen)?;
        let template = Arc::clone(prompt.template().ok_or(Error::NoFormat)?);
        let encoder = Encoder::new(&Protection::default().with_template("template", &template), Arc::clone(tokenizer))?;
        let encoded = encoder.encode_reference(prompt.prompt())?;
        let mask = weights(&encoded, &loss, Edges::Any).map(|weight| weight > 0.0).collect();
        Ok(Masked { prompt, tokens: encoded.tokens, mask, loss })
    }

    /// Compares the mask with the peer's. Every difference must fall under a rule of
    /// [`Masked::rule`].
    fn compare(&self, label: &str, runs: &Json, openings: &[Opening]) -> Verdict {
        let peer = parity::mask(Some(runs), self.tokens.len());
        let unexplained = |at: &usize| self.mask[*at] != peer[*at] && !self.is_explained(*at, &peer, openings);
        let different: Vec<usize> = (0..self.tokens.len()).filter(unexplained).collect();
        let shown = |mask: &[bool]| {
            let each = different.iter().map(|at| {
                let token = &self.tokens[*at];
                format!("{at} {:?} {}", &self.prompt.text()[token.start..token.end], mask[*at])
            });
            each.collect::<Vec<_>>().join("; ")
        };
        match different.is_empty() {
            true => Verdict::Passed,
            false => Verdict::Failed {
                expected: format!("{label}: {}", shown(&peer)),
                found: format!("{label}: {}", shown(&self.mask)),
            },
        }
    }

    /// Reports whether PEER_VECTORS.md or the definition of loss explains why the mask of an id
    /// differs from the peer's.
    fn is_explained(&self, at: usize, peer: &[bool], openings: &[Opening]) -> bool {
        let token = &self.tokens[at];
        // An id with one counted byte counts. The peer encodes header and body separately.
        let straddles = |border: usize| token.start < border && border < token.end;
        let is_edge = self.loss.spans.iter().any(|span| straddles(span.range.start) || straddles(span.range.end));
        if is_edge {
            return self.mask[at];
        }
        // The peer's body of another role includes what the template writes around its content.
        if peer[at] && self.is_around_content(token) {
            return true;
        }
        let of_reply = |opening: &Opening| match self.mask[at] {
            // Rules 2 and 3: the reply starts where the generation prompt ends, the peer's later.
            true => {
                let counted = self.tokens.iter().zip(peer).filter(|(_, counted)| **counted);
                let mut of_peer = counted.filter(|(token, _)| opening.reply.contains(&token.start));
                opening.reply.contains(&token.start)
                    && of_peer.next().is_some_and(|(first, _)| token.end <= first.start)
            }
            // Rule 1: the generation prompt wrote it.
            false => opening.written.contains(&token.start) && token.end <= opening.written.end,
        };
        openings.iter().any(of_reply)
    }
}

impl Masked {
    /// Reports whether the template itself wrote a token in the turn of a message that is not the
    /// assistant's.
    fn is_around_content(&self, token: &EncodedToken) -> bool {
        let is_own = self.prompt.prompt().segments_in(token.start..token.end).all(|segment| segment.origin.is_format());
        let is_of_reply = self.loss.replies.iter().any(|reply| reply.range.contains(&token.start));
        is_own && !is_of_reply
    }
}

/// Where a reply begins, according to the whole conversation before it.
struct Opening {
    reply: Range<usize>,
    /// The part of the generation prompt that the reply's turn begins with.
    written: Range<usize>,
}

/// Checks where each reply begins, by rendering everything before it with and without a generation
/// prompt.
fn openings(masked: &Masked, model: &Model, row: &Object) -> Result<Vec<Opening>, String> {
    let text = masked.prompt.text();
    let mut openings = Vec::new();
    for reply in &masked.loss.replies {
        let start = reply.range.start;
        let before = |generates: bool| {
            let mut request = request(row, generates);
            if let Some(Json::Array(messages)) = request.get_mut("messages") {
                messages.truncate(reply.message.unwrap_or_default());
            }
            let request = json::write(&Json::Object(request), &json::Layout::default());
            model.prompt(Request::from_text(&request).ok()?).ok()
        };
        // Some templates refuse the beginning of a conversation.
        let (Some(with), Some(without)) = (before(true), before(false)) else { continue };
        let same = with.text().bytes().zip(without.text().bytes()).take_while(|(one, other)| one == other).count();
        // The two may also share the beginning of a marker.
        let marker = with.text()[..same].rfind('<').filter(|at| !with.text()[*at..same].contains('>'));
        let added = with.text().get(marker.unwrap_or(same)..).unwrap_or_default();
        let mut kept = (0..=added.len()).rev().filter(|end| added.is_char_boundary(*end));
        let Some(kept) = kept.find(|end| text[..start].ends_with(&added[..*end])) else { continue };
        // Markers that differ may begin with the same characters.
        let next = added[kept..].chars().next();
        let marker = added[kept..].find('>').filter(|_| next == Some('<')).map_or(0, |end| end + 1);
        let goes_on = match marker {
            0 => next.is_some_and(|next| text[start..].starts_with(next)),
            end => text[start..].starts_with(&added[kept..kept + end]),
        };
        if goes_on {
            let found = &text[start.saturating_sub(kept)..];
            return Err(format!("the generation prompt {added:?} goes on at byte {start}: {found:?}"));
        }
        openings.push(Opening { reply: reply.range.clone(), written: start - kept..start });
    }
    Ok(openings)
}

/// Returns a request whose messages carry loss as the policy of the peer says.
fn chosen(mut request: Object, policy: &str) -> Object {
    let is_assistant = |message: &Object| text(message, "role") == "assistant";
    let Some(Json::Array(messages)) = request.get_mut("messages") else { return request };
    let replies = messages.iter().filter_map(Json::as_object).filter(|message| is_assistant(message)).count();
    let left_out: Range<usize> = match policy {
        "last_message_only" => 0..replies.saturating_sub(1),
        "without_first" => 0..1,
        _ => 0..0,
    };
    let mut number = 0;
    for message in messages.iter_mut() {
        let Json::Object(message) = message else { continue };
        if is_assistant(message) {
            if left_out.contains(&number) {
                message.insert("loss", Json::from(false));
            }
            number += 1;
        }
    }
    request
}
