use rolecall::conversation::{Json, object};
use rolecall::{Event, Stop};

use super::likely::Likely;
use crate::clock::{now, random};
use crate::reply::token_odds::TokenOdds;
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter};

/// Writes completions.
pub struct CompletionWriter {
    id: String,
    model: String,
    created: i64,
    /// What comes before the replies to each prompt.
    echoes: Vec<String>,
    /// The number of replies to each prompt.
    choices: usize,
    has_usage: bool,
    /// By choice, how likely the tokens were, if somebody asked.
    likely: Option<Vec<Likely>>,
}

impl CompletionWriter {
    pub fn new(
        model: &str,
        echoes: Vec<String>,
        choices: usize,
        has_usage: bool,
        likely: Option<Vec<Likely>>,
    ) -> CompletionWriter {
        let id = format!("cmpl-{:016x}", random());
        CompletionWriter { id, model: model.to_owned(), created: now(), echoes, choices, has_usage, likely }
    }

    fn likely(&mut self, choice: usize) -> Option<&mut Likely> {
        self.likely.as_mut()?.get_mut(choice)
    }

    fn around(&self, choices: Vec<Json>) -> rolecall::conversation::json::Object {
        object! {
            "id" => self.id.as_str(), "object" => "text_completion", "created" => self.created,
            "model" => self.model.as_str(), "choices" => choices,
        }
    }

    fn chunk(&self, choice: usize, text: &str, logprobs: Json, stop: Option<Stop>) -> Json {
        self.around(vec![choice_of(choice, text, logprobs, stop)]).into()
    }
}

impl ReplyWriter for CompletionWriter {
    fn begin(&mut self, _: &Opening<'_>, out: &mut Frames) {
        for (prompt, echo) in self.echoes.iter().enumerate().filter(|(_, echo)| !echo.is_empty()) {
            for choice in prompt * self.choices..(prompt + 1) * self.choices {
                out.data(&self.chunk(choice, echo, Json::Null, None));
            }
        }
    }

    fn event(&mut self, choice: usize, event: &Event<'_>, out: &mut Frames) {
        match event {
            Event::Content(text) => {
                let logprobs = self.likely(choice).map_or(Json::Null, |likely| likely.say(text));
                out.data(&self.chunk(choice, text, logprobs, None));
            }
            Event::Stop(stop) => out.data(&self.chunk(choice, "", Json::Null, Some(*stop))),
            _ => {}
        }
    }

    fn text_odds(&mut self, choice: usize, odds: Vec<(usize, TokenOdds)>) {
        if let Some(likely) = self.likely(choice) {
            likely.push(odds);
        }
    }

    fn end(&mut self, done: &Done<'_>, out: &mut Frames) {
        if self.has_usage {
            let mut chunk = self.around(Vec::new());
            chunk.insert("usage", done.usage.to_json());
            out.data(&chunk.into());
        }
        out.done();
    }

    fn whole(&mut self, done: &Done<'_>) -> Json {
        let each = done.said.iter().enumerate().map(|(choice, said)| {
            let echo = self.echoes.get(choice / self.choices.max(1)).map_or("", String::as_str);
            let likely = self.likely.as_ref().and_then(|likely| likely.get(choice));
            let logprobs = likely.map_or(Json::Null, Likely::all);
            choice_of(choice, &format!("{echo}{}", said.reading.content), logprobs, said.reading.stop)
        });
        let mut whole = self.around(each.collect());
        whole.insert("usage", done.usage.to_json());
        whole.into()
    }
}

fn choice_of(index: usize, text: &str, logprobs: Json, stop: Option<Stop>) -> Json {
    let reason = stop.map_or(Json::Null, |stop| if stop == Stop::Length { "length" } else { "stop" }.into());
    object! { "text" => text, "index" => index as i64, "logprobs" => logprobs, "finish_reason" => reason }.into()
}
