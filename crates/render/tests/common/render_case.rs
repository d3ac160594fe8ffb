//! A case of `fixtures/render/<format>/`: a request, and the exact prompt with its segments, or the refusal.
//!
//! In the folder `calls`, the request names a shared call layout. In a framework's folder, the request names a format of
//! the framework, or the section `template` is a user's own file for it. Optional sections: `loss` (which parts of the
//! prompt carry loss), `inputs` (the prompt of each question), `new-turns` (only the new part of each), `stop`.

use std::fmt::{self, Write};
use std::sync::Arc;

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Conversation, Json, Place, Role};
use rolecall_fixture::Fixture;
use rolecall_format::{Format, Registry};
use rolecall_openai::Request;
use rolecall_render::growth::{ReplyRule, reply_end_of};
use rolecall_render::{Bos, LossPolicy, Options, Origin, Prompt, RuleMode, Writer};

/// Reads a user's own file for a framework.
pub type Import = fn(&str) -> Format;

/// Why a case has no prompt.
enum Refusal {
    Request(rolecall_openai::Error),
    Render(rolecall_render::Error),
}

impl Refusal {
    fn code(&self) -> &'static str {
        match self {
            Refusal::Request(error) => error.code(),
            Refusal::Render(error) => error.code(),
        }
    }

    fn place(&self) -> Option<Place> {
        match self {
            Refusal::Request(error) => error.place(),
            Refusal::Render(error) => error.place(),
        }
    }

    fn help(&self) -> String {
        match self {
            Refusal::Request(error) => error.help(),
            Refusal::Render(error) => error.help(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Request(error) => error.fmt(f),
            Refusal::Render(error) => error.fmt(f),
        }
    }
}

/// Checks a case.
pub fn check(case: &mut Fixture, registry: &Registry, import: Import) {
    let asked = case.section("options").map(asked).unwrap_or_default();
    let request = Request::from_text(case.needed("request")).map_err(Refusal::Request);
    let format = format_of(case, &request, registry, import);
    let format = if asked.training { format.for_training() } else { &format };
    let rendered = request.and_then(|request| {
        let writer = Writer::format(Arc::clone(format), asked.options.clone());
        let prompt = writer.render(&request.conversation).map_err(Refusal::Render)?;
        Ok((request.conversation, prompt))
    });
    let (other, found) = match &rendered {
        Ok(_) => ("error", "a prompt"),
        Err(_) => ("prompt", "a refusal"),
    };
    assert!(case.section(other).is_none(), "{}: expected `{other}`, found {found}", case.path.display());
    match rendered {
        Ok((conversation, prompt)) => {
            case.expect("prompt", prompt.text());
            case.expect("segments", &segments(&prompt));
            let dropped = dropped(&prompt);
            if !dropped.is_empty() || case.section("dropped").is_some() {
                case.expect("dropped", &dropped);
            }
            let more = ["loss", "inputs", "new-turns", "stop"].into_iter().filter(|name| case.section(name).is_some());
            for name in more.collect::<Vec<_>>() {
                let found = match name {
                    "loss" => learned(&prompt, &conversation, format, &asked.policy),
                    "stop" => prompt.stops().into_iter().map(quoted).collect(),
                    name => inputs(&conversation, format, &asked.options, name == "new-turns"),
                };
                case.expect(name, &found.join("\n"));
            }
        }
        Err(error) => case.expect("error", &refusal(&error)),
    }
}

/// Returns the format of the user's own template, of the request, or of the folder.
fn format_of(case: &Fixture, request: &Result<Request, Refusal>, registry: &Registry, import: Import) -> Arc<Format> {
    if let Some(text) = case.section("template") {
        return import(text).into();
    }
    let folder = folder(case);
    let named = request.as_ref().ok().and_then(|request| request.format.as_deref());
    let name = named.unwrap_or(&folder);
    assert!(
        name.split(':').next() == Some(&folder),
        "{}: cases of `{name}` belong in another folder",
        case.path.display()
    );
    if let Some(calls) = name.strip_prefix("calls:") {
        let shared = shared(calls);
        return shared.unwrap_or_else(|| panic!("{}: no shared calls {calls}", case.path.display())).into();
    }
    registry.get(name).unwrap_or_else(|| panic!("{}: no format {name}", case.path.display())).clone()
}

fn shared(name: &str) -> Option<Format> {
    let (_, source) = rolecall_format::shared_calls().find(|(known, _)| *known == name)?;
    Some(rolecall_format::load(source).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Writes one line for each run of the prompt that carries loss or does not.
fn learned(prompt: &Prompt, conversation: &Conversation, format: &Arc<Format>, policy: &LossPolicy) -> Vec<String> {
    let spans = Writer::format(Arc::clone(format), Options::default())
        .loss(prompt, conversation, &[], policy)
        .map(|loss| loss.ranges())
        .unwrap_or_default();
    let mut lines = Vec::new();
    let (mut at, end) = (0, prompt.text().len());
    for span in spans.into_iter().chain(std::iter::once(end..end)) {
        for (kind, range) in [("given", at..span.start), ("learned", span.clone())] {
            lines.extend((!range.is_empty()).then(|| format!("{kind}\t{}", quoted(&prompt.text()[range]))));
        }
        at = span.end;
    }
    lines
}

/// Writes one line for each question: the prompt up to it, or only its new part.
fn inputs(conversation: &Conversation, format: &Arc<Format>, options: &Options, new_alone: bool) -> Vec<String> {
    let messages = &conversation.messages;
    let users = (0..messages.len()).filter(|at| *messages[*at].role() == Role::User);
    let each = users.map(|at| {
        let so_far = Conversation { messages: messages[..=at].to_vec(), ..conversation.clone() };
        let prompt = Writer::format(Arc::clone(format), options.clone()).render(&so_far);
        let prompt = prompt.unwrap_or_else(|error| panic!("{error}"));
        let reply = messages[..at].iter().rposition(|message| *message.role() == Role::Assistant).filter(|_| new_alone);
        let end = reply.and_then(|reply| reply_end_of(&prompt, reply, ReplyRule { format: Some(format), stops: &[] }));
        quoted(&prompt.text()[end.map_or(0, |end| end.end)..])
    });
    each.collect()
}

fn quoted(text: &str) -> String {
    json::write(&Json::from(text), &Layout::default())
}

/// Returns the name of the folder that a case is in.
pub fn folder(case: &Fixture) -> String {
    let folder = case.path.parent().and_then(|folder| folder.file_name());
    folder.expect("a case is in a folder").to_string_lossy().into_owned()
}

/// The options of a case.
#[derive(Default)]
struct Asked {
    options: Options,
    /// Whether the format's training variant renders the conversation.
    training: bool,
    policy: LossPolicy,
}

/// Parses
/// `{"bos"?: "leave", "rules"?: "reference", "training"?: true, "learned"?, "options"?: {..}}`,
/// where `learned` is `"last"` or `"all"`.
fn asked(text: &str) -> Asked {
    let Ok(Json::Object(object)) = json::parse(text) else { panic!("not an object: {text}") };
    let mut asked = Asked::default();
    for (key, value) in object.iter() {
        match (key, value) {
            ("bos", Json::String(who)) if who == "leave" => asked.options.bos = Bos::LeaveToTokenizer,
            ("rules", Json::String(mode)) if mode == "reference" => asked.options.rules = RuleMode::Reference,
            ("training", Json::Bool(true)) => asked.training = true,
            ("learned", Json::String(policy)) if policy == "last" => asked.policy = LossPolicy::last(),
            ("learned", Json::String(policy)) if policy == "all" => asked.policy = LossPolicy::all(),
            ("options", Json::Object(choices)) => {
                let each =
                    choices.iter().map(|(name, value)| (name.to_owned(), value.as_str().expect("a text").to_owned()));
                asked.options.choices = each.collect();
            }
            (key, value) => panic!("unknown: {key} = {value:?}"),
        }
    }
    asked
}

/// Writes one line for each segment: its origin, and the text as JSON. Neighbours with the same
/// origin are joined, except control tokens.
fn segments(prompt: &Prompt) -> String {
    let mut merged: Vec<(Origin, String)> = Vec::new();
    for segment in prompt.segments() {
        match merged.last_mut() {
            Some((origin, text)) if *origin == segment.origin && !matches!(origin, Origin::Control(_)) => {
                text.push_str(segment.text)
            }
            _ => merged.push((segment.origin, segment.text.to_owned())),
        }
    }
    let lines = merged.into_iter().map(|(origin, text)| {
        let origin = match origin {
            Origin::Control(_) => "control".to_owned(),
            Origin::Format => "format".to_owned(),
            Origin::Message { message, field } => format!("message {message} {field}"),
            Origin::Tool { tool } => format!("tool {tool}"),
            Origin::Document { document } => format!("document {document}"),
            Origin::Option { name } => format!("option {name}"),
        };
        format!("{origin}\t{}", quoted(&text))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn dropped(prompt: &Prompt) -> String {
    let lines = prompt.dropped().iter().map(|dropped| format!("{}\t{}", dropped.place, dropped.why));
    lines.collect::<Vec<_>>().join("\n")
}

fn refusal(error: &Refusal) -> String {
    let mut text = format!("code: {}\nmessage: {error}", error.code());
    if let Some(place) = error.place() {
        let _ = write!(text, "\nplace: {place}");
    }
    let _ = write!(text, "\nhelp: {}", error.help());
    text
}
