//! The runs of a prompt in the vectors' own notation: `{"special": .., "id": ..}` and
//! `{"text": ..}`.

use rolecall::Prompt;
use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::{Json, object};
use rolecall::encode::{Split, SplitRun, split_text};
use rolecall::format::Control;
use rolecall::render::Run;

/// Returns the runs of a prompt as the library passes them to the tokenizer.
pub(super) fn of_prompt(prompt: &Prompt) -> Json {
    let runs = prompt.runs().map(|run| match run {
        Run::Control { text, id, .. } => special(text, &prompt.controls()[id.0]),
        Run::Text { text, .. } => plain(text),
    });
    Json::Array(runs.collect())
}

/// Returns the runs of a text as the tokenizer of the unsafe reference sees them.
pub(super) fn of_reference(text: &str, controls: &[Control], spelling: Option<&str>, split: Split) -> Json {
    let runs = split_text(text, controls, spelling, split).into_iter().map(|run| match run {
        SplitRun::Control { id, span } => special(&text[span], &controls[id.0]),
        SplitRun::Text { span } => plain(&text[span]),
    });
    Json::Array(runs.collect())
}

/// Writes runs as text, for comparing and showing.
pub(super) fn written(runs: &Json) -> String {
    json::write(runs, &Layout::compact())
}

fn special(text: &str, control: &Control) -> Json {
    let id = control.id.map_or(Json::Null, |id| Json::from(i64::from(id)));
    Json::Object(object! { "special" => text, "id" => id })
}

fn plain(text: &str) -> Json {
    Json::Object(object! { "text" => text })
}
