//! The ids that a session adds after a reply, compared with those of the peer that has sessions.
//!
//! PEER_VECTORS.md says which rows are hard: where the peer's ids are those of the model's own
//! template.

use std::collections::HashMap;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Message, json};
use rolecall::session::{Finish, OnRewrite};
use rolecall::{Error, Model, Request};

use super::parity::request;
use super::train_masks::model;
use super::{Context, text};
use crate::Verdict;

/// Canonical rows, by setup, reply and new messages.
#[derive(Default)]
pub(super) struct Known {
    canonical: HashMap<(String, String, String), Object>,
    models: HashMap<(String, String), Model>,
}

/// The completion that is written as the template writes it.
const CANONICAL: &str = "canonical";

/// The tail of a peer's prompt that no template writes.
const CHANNEL: &str = "<|channel|>analysis<|message|>";

/// Runs a row. Returns the group that it is counted in: rows with the template's own ids, or others.
pub(super) fn run(row: &Object, context: &mut Context) -> (&'static str, Verdict) {
    let mut is_hard = false;
    let verdict = compare(row, context, &mut is_hard);
    (if is_hard { "bridge, the template's ids" } else { "bridge, others" }, verdict)
}

fn compare(row: &Object, context: &mut Context, is_hard: &mut bool) -> Verdict {
    let Some(expected) = row.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the row has no `expected`");
    };
    let Some(setup) = context.setups.get(text(row, "setup")) else {
        return Verdict::cannot_run("the row continues an unknown setup");
    };
    let new = row.get("new_messages").cloned().unwrap_or(Json::Null);
    let key = (text(row, "setup").into(), text(row, "reply").into(), json::write(&new, &json::Layout::compact()));
    if text(row, "completion") == CANONICAL {
        context.bridges.canonical.insert(key.clone(), row.clone());
    }
    let Some(canonical) = context.bridges.canonical.get(&key).cloned() else {
        return Verdict::cannot_run("the row has no canonical row before it");
    };
    let Some(of_canonical) = canonical.get("expected").and_then(Json::as_object) else {
        return Verdict::cannot_run("the canonical row has no `expected`");
    };
    let hard = equal_templates(of_canonical);
    let appended = ids(of_canonical.get("appended"));
    // What the row must give with the templates whose ids the peer gives.
    let wanted = match text(row, "completion") {
        _ if hard.is_empty() => None,
        _ if expected.get("appended") == of_canonical.get("appended") => Some(appended),
        // The peer may refuse what follows an unfinished reply.
        "no_stop" | "cut" => Some(match expected.get("appended") {
            None | Some(Json::Null) => {
                let closer = ids(canonical.get("completion_ids")).last().copied();
                closer.into_iter().chain(appended).collect()
            }
            appended => ids(appended),
        }),
        _ => None,
    };
    *is_hard = wanted.is_some();
    let all = setup.get("templates").and_then(Json::as_array).unwrap_or_default();
    let all = all.iter().filter_map(Json::as_str).map(str::to_owned);
    let mut excuse = None;
    for template in all {
        let turn = match Turn::play(&template, row, &setup, context) {
            Ok(turn) => turn,
            Err(found) => return Verdict::Failed { expected: format!("{template}: a next turn"), found },
        };
        let verdict = match &wanted {
            Some(wanted) if hard.contains(&template) => turn.compare(&template, wanted),
            _ => opinion(&template, &turn, row, &canonical, &setup, context),
        };
        match verdict {
            Verdict::Passed => {}
            // A hard row claims nothing about the other templates.
            Verdict::Excused(why) if !*is_hard => excuse = excuse.or(Some(why)),
            Verdict::Excused(_) => {}
            other => return other,
        }
    }
    excuse.map_or(Verdict::Passed, Verdict::Excused)
}

/// Checks a row that shows only what the peer does: the session must follow its own laws, and
/// differ from the peer for a known reason.
fn opinion(
    template: &str,
    turn: &Turn,
    row: &Object,
    canonical: &Object,
    setup: &Object,
    context: &mut Context,
) -> Verdict {
    let peer = row.get("expected").and_then(Json::as_object);
    let Some(found) = &turn.found else {
        // The template itself refuses the messages.
        return Verdict::Excused("the template refuses these messages");
    };
    let is_canonical = text(row, "completion") == CANONICAL;
    if is_canonical {
        if let Some(verdict) = turn.against_template(template, row, setup, context) {
            return verdict;
        }
    } else {
        let whole = match Turn::play(template, canonical, setup, context) {
            Ok(whole) => whole,
            Err(why) => return Verdict::cannot_run(why),
        };
        // What the model had not written yet may change how the template goes on.
        let is_other = matches!(text(row, "completion"), "cut" | "inside_reasoning" | "stop_inside_reasoning");
        let same = is_other
            || whole.found.is_none()
            || whole.found.as_ref().is_some_and(|whole| found.ends_with(whole) || whole.ends_with(found));
        if !same && !turn.is_rewritten && !whole.is_rewritten {
            return Verdict::Failed {
                expected: format!("{template}: the end of {:?}", whole.found),
                found: format!("{template}: {found:?}"),
            };
        }
    }
    let wanted = peer.and_then(|peer| peer.get("appended")).filter(|appended| !appended.is_null());
    let Some(wanted) = wanted.map(|wanted| ids(Some(wanted))) else {
        return Verdict::Excused("the peer returns nothing; the session follows the template");
    };
    if wanted == *found {
        return Verdict::Passed;
    }
    let drops = peer.and_then(|peer| peer.get("keeps_all")) == Some(&Json::Bool(false));
    Verdict::Excused(match () {
        _ if drops => "the peer drops sampled ids; the session keeps them",
        _ if turn.is_rewritten && wanted.ends_with(&turn.new) => {
            "the template rewrites history; peer and session agree from the new message on"
        }
        _ if turn.is_rewritten => "the template rewrites history; the session writes what the template writes then",
        _ => "the peer's new turn is not the template's; the session's is",
    })
}

fn equal_templates(canonical: &Object) -> Vec<String> {
    let mut templates: Vec<String> = Vec::new();
    for key in ["equals_template", "equals_template_text"] {
        for template in canonical.get(key).and_then(Json::as_array).unwrap_or_default() {
            if let Some(template) = template.as_str()
                && !templates.iter().any(|known| known == template)
            {
                templates.push(template.to_owned());
            }
        }
    }
    templates
}

fn ids(value: Option<&Json>) -> Vec<u32> {
    let id = |id: &Json| match id {
        Json::Number(number) => u32::try_from(number.as_i64()?).ok(),
        _ => None,
    };
    value.and_then(Json::as_array).unwrap_or_default().iter().filter_map(id).collect()
}

/// What a session adds after a reply.
#[derive(Default)]
struct Turn {
    /// The ids, or `None` if the template refuses the messages.
    found: Option<Vec<u32>>,
    /// The ids from the new messages' own text on.
    new: Vec<u32>,
    /// Whether the template rewrites what was sent.
    is_rewritten: bool,
    /// The texts of all ids, and of those after the sampled ones.
    text: String,
    added: String,
    /// Whether the model stopped with another token than the template's.
    has_other_stop: bool,
}

impl Turn {
    fn compare(&self, template: &str, wanted: &[u32]) -> Verdict {
        Verdict::compare(&format!("{template} {:?}", Some(wanted)), &format!("{template} {:?}", self.found.as_deref()))
    }

    /// Plays a row: the prompt of its setup, the completion, and the new messages.
    fn play(template: &str, row: &Object, setup: &Object, context: &mut Context) -> Result<Turn, String> {
        let model = of_template(template, setup, context)?;
        let request = json::write(&Json::Object(request(setup, true)), &json::Layout::default());
        let session = Request::from_text(&request).map_err(Error::from).and_then(|request| model.session(request));
        let mut session = session.map_err(|error| error.to_string())?;
        let prompt = ids(setup.get("prompt_ids"));
        let opened = session.open().map_err(|error| error.to_string())?;
        let tail = prompt.get(opened.ids.len()..).unwrap_or_default();
        if opened.ids != prompt[..prompt.len() - tail.len()] {
            return Err(format!("the prompt {:?}", opened.ids));
        }
        let tokenizer = model.tokenizer().map_err(|error| error.to_string())?;
        let said: String = tail.iter().filter_map(|id| tokenizer.token_text(*id)).collect();
        if !tail.is_empty() && said != CHANNEL {
            return Err(format!("a prompt that ends with {said}"));
        }
        let sampled = [tail, &ids(row.get("completion_ids"))].concat();
        let finish = match text(row, "completion") {
            "no_stop" | "cut" | "inside_reasoning" => Finish::Length,
            _ => Finish::Stop,
        };
        session.accept(&sampled, finish).map_err(|error| error.to_string())?;
        let mut new = Vec::new();
        for message in row.get("new_messages").and_then(Json::as_array).unwrap_or_default() {
            let message = message.as_object().cloned().ok_or("a message that is no object")?;
            new.push(Message::from_object(message).map_err(|error| error.to_string())?);
        }
        let first = session.messages().len();
        let kept = [&opened.ids[..], &sampled].concat();
        let mut turn = Turn { is_rewritten: false, ..Turn::default() };
        let plan = match session.plan(&new) {
            Ok(plan) => plan,
            Err(Error::Template { .. }) => return Ok(turn),
            Err(error) => return Err(error.to_string()),
        };
        turn.is_rewritten = !plan.is_stable();
        let opened = session.append(plan, OnRewrite::Keep).and_then(|_| session.open());
        let opened = opened.map_err(|error| error.to_string())?;
        let all = session.ids();
        if all.get(..kept.len()) != Some(&kept) {
            return Err("other ids in place of those that were sampled".into());
        }
        let is_new = |message: Option<usize>| message.is_some_and(|message| message >= first);
        let segments = opened.segments.iter().find(|segment| is_new(segment.message));
        turn.new = segments.map_or(Vec::new(), |segment| all[segment.ids.start..].to_vec());
        turn.found = Some(all[kept.len()..].to_vec());
        let decoder = model.decoder().map_err(|error| error.to_string())?;
        let text = |ids: &[u32]| {
            let mut bytes = Vec::new();
            ids.iter().try_for_each(|id| decoder.append(*id, &mut bytes)).map_err(|error| error.to_string())?;
            Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
        };
        turn.added = text(&all[kept.len()..])?;
        turn.has_other_stop =
            opened.notes.iter().any(|note| matches!(note.code(), "other_stop" | "contradicted" | "after_stop"));
        turn.text = String::from_utf8_lossy(&session.bytes()).into_owned();
        Ok(turn)
    }

    /// Reports whether what the session added follows a reply that ends with the same characters as
    /// the sampled one, unless the model's last token is not the template's.
    fn follows(&self, before: &str) -> bool {
        let end = self.text.len() - self.added.len();
        let last = self.text[..end].trim_end().chars().next_back();
        self.added.is_empty() || self.has_other_stop || last == before.trim_end().chars().next_back()
    }

    /// Compares the whole text of a canonical row with what its template writes for the whole
    /// conversation, unless the template rewrites earlier text.
    fn against_template(&self, template: &str, row: &Object, setup: &Object, context: &mut Context) -> Option<Verdict> {
        let mut conversation = request(setup, true);
        if let Some(Json::Array(messages)) = conversation.get_mut("messages") {
            messages.extend(row.get("message").cloned());
            messages.extend(row.get("new_messages").and_then(Json::as_array).unwrap_or_default().iter().cloned());
        }
        let request = json::write(&Json::Object(conversation), &json::Layout::default());
        let model = of_template(template, setup, context).ok()?;
        let prompt =
            Request::from_text(&request).map_err(Error::from).and_then(|request| model.prompt(request)).ok()?;
        // Where the reply is spelled or opened in another way, or ends with a token that the next
        // message contradicts, only what follows it is the template's.
        let is_prefix = prompt.text().starts_with(&self.text[..self.text.len() - self.added.len()]);
        let is_same = match is_prefix {
            true => prompt.text() == self.text,
            false => prompt.text().strip_suffix(&self.added).is_some_and(|before| self.follows(before)),
        };
        (!is_same && !self.is_rewritten).then(|| Verdict::Failed {
            expected: format!("{template}: {}", prompt.text()),
            found: format!("{template}: {}", self.text),
        })
    }
}

/// Returns the model of a template with the setup's tokenizer.
fn of_template(template: &str, setup: &Object, context: &mut Context) -> Result<Model, String> {
    let key = (template.to_owned(), text(setup, "tokenizer").to_owned());
    if let Some(model) = context.bridges.models.get(&key) {
        return Ok(model.clone());
    }
    let tokenizer = context.recipes.tokenizer(&key.1, context.folders.tokenizers.as_deref())?;
    let plain = model(template, setup, context)?;
    let templates = plain.templates().cloned().ok_or("the model has no template")?;
    let model = Model::builder().templates(templates).settings(plain.settings().clone()).loaded_tokenizer(tokenizer);
    let model = model.open().map_err(|error| error.to_string())?;
    context.bridges.models.insert(key, model.clone());
    Ok(model)
}
