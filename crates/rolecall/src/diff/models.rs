use rolecall_conversation::json::Object;
use rolecall_openai::Request;
use rolecall_render::{DateTime, Prompt};

use super::{Case, Comparison, DiffSide, Refusal, Telling, View};
use crate::model::{ModelPrompt, Settings};
use crate::{Error, Model};

/// Whether prompts of two models have the same ids. Only known if both have a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SameIds {
    /// The number of prompts with the same ids.
    pub same: usize,
    /// The number of prompts that were encoded.
    pub taken: usize,
    /// The first conversation whose prompts have different ids.
    pub first: Option<String>,
}

/// Compares the prompts of two models, each rendered with a format or a chat template. If both
/// models have a tokenizer, compares the ids too.
///
/// A chat template does not specify a training text, so the only view is [`View::Chat`].
///
/// ```
/// use rolecall::Model;
/// use rolecall::diff::{Telling, compare_models};
/// let (a, b) = (Model::open("chatml")?, Model::open("internlm2")?);
/// let comparison = compare_models([&a, &b], &Telling::of_templates())?;
/// assert!(!comparison.is_same());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare_models(models: [&Model; 2], tellings: &[Telling]) -> Result<Comparison, Error> {
    // Both models use the same time, for templates that ask for it.
    let now = models[0].settings().now.or(models[0].settings().time());
    let models = models.map(|model| at(model, now));
    let has_ids = models.iter().all(|model| model.has_tokenizer());
    let mut ids = SameIds::default();
    let mut cases = Vec::new();
    for telling in tellings {
        let [a, b] = [prompt(&models[0], telling)?, prompt(&models[1], telling)?];
        if let (true, Ok(a), Ok(b)) = (has_ids, &a, &b) {
            ids.taken += 1;
            match a.encode()?.ids() == b.encode()?.ids() {
                true => ids.same += 1,
                false => _ = ids.first.get_or_insert_with(|| telling.name.clone()),
            }
        }
        let opens = |model: &Model| model.bos().map(str::to_owned).into_iter().collect();
        let written = [(a, &models[0]), (b, &models[1])].map(|(prompt, model)| DiffSide {
            chat: prompt.map(|prompt| Prompt::clone(prompt.prompt())),
            lesson: None,
            question: None,
            stops: Vec::new(),
            opens: opens(model),
        });
        let findings = View::Chat.compare(&written[0], &written[1]).map(|outcome| (View::Chat, outcome));
        cases.push(Case { telling: telling.clone(), written, findings: findings.into_iter().collect() });
    }
    Ok(Comparison {
        formats: [models[0].name().to_owned(), models[1].name().to_owned()],
        stops: [stops(&models[0])?, stops(&models[1])?],
        cases,
        ids: has_ids.then_some(ids),
    })
}

fn at(model: &Model, now: Option<DateTime>) -> Model {
    model.with_settings(Settings { now, ..model.settings().clone() })
}

/// Renders the prompt, or returns why the conversation is rejected. Problems of the model itself
/// are errors.
fn prompt(model: &Model, telling: &Telling) -> Result<Result<ModelPrompt, Refusal>, Error> {
    let conversation = telling.conversation.clone();
    match model.prompt(Request { id: None, format: None, conversation, other: Object::new() }) {
        Ok(prompt) => Ok(Ok(prompt)),
        Err(Error::Render(refusal)) => Ok(Err(refusal)),
        Err(Error::Template { error, message, .. }) => Ok(Err(Refusal::Template { error, message })),
        Err(error) => Err(error),
    }
}

fn stops(model: &Model) -> Result<Vec<String>, Error> {
    let mut stops: Vec<String> =
        model.stops()?.into_iter().map(|stop| stop.text).filter(|text| !text.is_empty()).collect();
    stops.sort();
    stops.dedup();
    Ok(stops)
}
