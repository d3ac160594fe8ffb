//! A model's own chat template, where the command line asks for one in place of a format.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall::json::Object;
use rolecall::{
    ChatTemplate, DateTime, Error, Json, Options, Prompt, RenderError, Request, TemplateOptions, json, render_template,
};

use crate::args::{Chat, OwnTemplate};
use crate::failure::Failure;
use crate::files;
use crate::job::{refused, wrong_type};
use crate::refusal::Refusal;
use crate::source::Source;

const TIME: &str = "a time like 2026-11-21 or 2026-11-21T12:34:56";

/// A template, with what it was read from.
#[derive(Clone, Debug)]
pub struct Template {
    template: ChatTemplate,
    now: Option<DateTime>,
    pub source: Source,
}

impl Template {
    pub fn load(path: &Path, own: &OwnTemplate, chat: &Chat) -> Result<Template, Failure> {
        let (source, bos, eos) = files::load_template(path)?;
        let bos = chat.bos_tokens.first().cloned().or(bos);
        let eos = chat.eos_token.clone().or(eos);
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens = tokens.into_iter().filter_map(|(name, token)| Some((name.to_owned(), token?))).collect();
        // No request is at fault: there is none yet.
        let none = Source { name: source.name.clone(), text: String::new() };
        let template = compile(&source, tokens).map_err(|refusal| refused(refusal, &none))?;
        Ok(Template { template, now: own.now.or_else(clock), source })
    }

    /// The template that a request carries as `chat_template`, with its `bos_token`, `eos_token` and `now`.
    pub fn of_request(request: &Request) -> Result<Option<Template>, Refusal> {
        let text = |key: &str| match request.other.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_type(key, "a string", other)),
        };
        let Some(source) = text("chat_template")? else { return Ok(None) };
        let mut tokens = Vec::new();
        for name in ["bos_token", "eos_token"] {
            tokens.extend(text(name)?.map(|token| (name.to_owned(), token)));
        }
        let now = match text("now")? {
            Some(now) => Some(read_time(&now).map_err(|_| wrong_type("now", TIME, &now.as_str().into()))?),
            None => clock(),
        };
        let source = Source { name: "chat_template".into(), text: source.replace("\r\n", "\n") };
        let template = compile(&source, tokens)?;
        Ok(Some(Template { template, now, source }))
    }

    pub fn render(&self, request: &Request, options: &Options) -> Result<Prompt, Refusal> {
        // `enable_thinking=false` is a switch, `date=today` a text.
        let value = |text: &str| json::parse(text).unwrap_or_else(|_| Json::from(text));
        let kwargs: Object = options.choices.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let options = TemplateOptions { now: self.now, kwargs, ..TemplateOptions::default() };
        render_template(&request.conversation, &self.template, &options).map_err(|error| match error {
            RenderError::Template(error) => Refusal::Template { source: self.source.clone(), error },
            error => Error::from(error).into(),
        })
    }
}

fn compile(source: &Source, tokens: Vec<(String, String)>) -> Result<ChatTemplate, Refusal> {
    ChatTemplate::compile(&source.text, tokens).map_err(|error| match error {
        RenderError::Template(error) => Refusal::Template { source: source.clone(), error },
        error => Error::from(error).into(),
    })
}

/// The machine's time, which is UTC: the standard library knows no zones.
fn clock() -> Option<DateTime> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    DateTime::from_unix(i64::try_from(since.as_secs()).ok()?)
}

/// Reads `2026-11-21` or `2026-11-21T12:34:56`.
pub fn read_time(text: &str) -> Result<DateTime, String> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
    let numbers: Option<Vec<u32>> =
        date.splitn(3, '-').chain(time.splitn(3, ':')).map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([year @ 1..=9999, month @ 1..=12, day @ 1..=31, hour @ 0..=23, minute @ 0..=59, second @ 0..=59]) => {
            Ok(DateTime {
                year: *year as i32,
                month: *month,
                day: *day,
                hour: *hour,
                minute: *minute,
                second: *second,
                microsecond: 0,
            })
        }
        _ => Err(format!("expected {TIME}")),
    }
}
