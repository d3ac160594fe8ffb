//! A model's own chat template, where the command line asks for one in place of a format.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rolecall::json::Object;
use rolecall::{
    ChatTemplate, DateTime, Error, Format, Json, Options, Prompt, RenderError, TemplateOptions, json, render_template,
};

use crate::args::{Chat, OwnTemplate};
use crate::failure::Failure;
use crate::files;
use crate::refusal::Refusal;
use crate::source::Source;

/// A template, with what it was read from.
#[derive(Debug)]
pub struct Template {
    template: ChatTemplate,
    now: Option<DateTime>,
    pub source: Source,
    /// A template is no format; this one only has the name that views show.
    pub format: Format,
}

impl Template {
    pub fn load(path: &Path, own: &OwnTemplate, chat: &Chat) -> Result<Template, Failure> {
        let (source, bos, eos) = files::load_template(path)?;
        let bos = chat.bos_tokens.first().cloned().or(bos);
        let eos = chat.eos_token.clone().or(eos);
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens = tokens.into_iter().filter_map(|(name, token)| Some((name.to_owned(), token?))).collect();
        let template = match ChatTemplate::compile(&source.text, tokens) {
            Ok(template) => template,
            Err(RenderError::Template(error)) => return Err(Failure::Template { source, error }),
            Err(error) => return Err(Failure::Refused { refusal: Error::from(error).into(), source }),
        };
        let format = Format::new(source.name.clone());
        Ok(Template { template, now: own.now.or_else(clock), source, format })
    }

    pub fn render(&self, request: &rolecall::Request, options: &Options) -> Result<Prompt, Refusal> {
        // `enable_thinking=false` is a switch, `date=today` a text.
        let value = |text: &str| json::parse(text).unwrap_or_else(|_| Json::from(text));
        let kwargs: Object = options.choices.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let options = TemplateOptions { now: self.now, kwargs, ..TemplateOptions::default() };
        Ok(render_template(&request.conversation, &self.template, &options)?)
    }
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
        _ => Err("expected a time like 2026-11-21 or 2026-11-21T12:34:56".into()),
    }
}
