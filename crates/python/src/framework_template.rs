use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use pyo3::prelude::*;
use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Conversation, Json, object};
use rolecall::format::{Format, LoadError, Registry};
use rolecall::interop::{self, ModelRow, framework_files, lmdeploy, lmflow, xtuner};
use rolecall::model::{BosBy, Purpose, Settings};
use rolecall::render::{Bos, Options, RuleMode, Writer};
use rolecall::template::{Forms, ModelTemplates};
use rolecall::{Error, Model, Prompt, Request};

use crate::framework_prompt::FrameworkPrompt;
use crate::input::{self, Path};
use crate::{error, output};

static REGISTRY: LazyLock<Registry> = LazyLock::new(rolecall::format::registry);

/// A template of another framework, rendered as that framework renders it.
///
/// >>> from rolecall._rolecall import FrameworkTemplate
/// >>> FrameworkTemplate.named("lmdeploy:vicuna").render([{"role": "user", "content": "Hi"}]).text[-20:]
/// 'USER: Hi ASSISTANT: '
#[pyclass(frozen, module = "rolecall._rolecall")]
pub struct FrameworkTemplate {
    model: Model,
}

#[pymethods]
impl FrameworkTemplate {
    /// A template that comes with the library, such as `xtuner:vicuna`. `bos` and `eos` replace the
    /// texts of the tokenizer's own tokens.
    #[staticmethod]
    #[pyo3(signature = (name, *, bos=None, eos=None))]
    fn named(py: Python<'_>, name: &str, bos: Option<Vec<String>>, eos: Option<&str>) -> PyResult<FrameworkTemplate> {
        let opened = py.detach(|| {
            let near = || REGISTRY.suggest(name).map(str::to_owned);
            let format =
                REGISTRY.get(name).ok_or_else(|| Error::UnknownFormat { name: name.to_owned(), near: near() })?;
            Ok(open(format.with_tokens_of(bos.as_deref(), eos)))
        });
        take(py, opened.map_err(|error: Error| error::of(py, &error))?)
    }

    /// A dict of XTuner's fields.
    #[staticmethod]
    #[pyo3(signature = (fields, *, bos=vec!["<s>".to_owned()], eos=Some("</s>")))]
    fn xtuner(fields: &Bound<'_, PyAny>, bos: Vec<String>, eos: Option<&str>) -> PyResult<FrameworkTemplate> {
        let text = input::dict(fields, "template")?;
        imported(fields.py(), || xtuner::import(&text, "template", &bos, eos))
    }

    /// A dict of LMFlow's formatters.
    #[staticmethod]
    #[pyo3(signature = (fields, *, bos=vec!["<s>".to_owned()], eos=Some("</s>")))]
    fn lmflow(fields: &Bound<'_, PyAny>, bos: Vec<String>, eos: Option<&str>) -> PyResult<FrameworkTemplate> {
        let text = input::dict(fields, "template")?;
        imported(fields.py(), || lmflow::import(&text, "template", &bos, eos))
    }

    /// A dict of all fields of LMDeploy's template. What these fields cannot express is taken from the
    /// registered template `like`.
    #[staticmethod]
    #[pyo3(signature = (fields, *, like=None))]
    fn lmdeploy(fields: &Bound<'_, PyAny>, like: Option<&str>) -> PyResult<FrameworkTemplate> {
        let text = input::dict(fields, "template")?;
        imported(fields.py(), || {
            let builtin = like.and_then(lmdeploy::builtin).unwrap_or_default().builtin;
            let bare = lmdeploy::Template { builtin, ..lmdeploy::Template::default() };
            Ok(lmdeploy::read(&text, |_| Some(bare.clone()))?.into_format("template"))
        })
    }

    /// A chat template in Jinja. `tokens` are the texts of the special tokens by name.
    #[staticmethod]
    #[pyo3(signature = (source, *, tokens))]
    fn jinja(source: &Bound<'_, PyAny>, tokens: Vec<(String, String)>) -> PyResult<FrameworkTemplate> {
        let py = source.py();
        let source = input::json(source, &mut Path::of("template"))?;
        let opened = py.detach(|| {
            let mut templates = ModelTemplates::from_json(&source).map_err(|damage| damage.to_string())?;
            tokens.into_iter().for_each(|(name, text)| templates.set_token(&name, text));
            Ok(Model::builder().templates(templates).open())
        });
        match opened {
            Ok(opened) => take(py, opened),
            Err(message) => {
                let help = Some("pass the text of a chat template".to_owned());
                Err(error::Fault { class: "TemplateError", code: "bad_template", message, place: None, help }.raise(py))
            }
        }
    }

    /// The texts that stop the model.
    #[getter]
    fn stop(&self) -> Vec<String> {
        self.model.format().map(|format| format.generation.stop.clone()).unwrap_or_default()
    }

    /// Renders messages. `purpose` is "answer", "new-turn" or "training", and `bos` says whether the
    /// opening token is written.
    #[pyo3(signature = (messages, *, tools=None, purpose="answer", add_generation_prompt=None, bos=true, options=Vec::new()))]
    fn render(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        purpose: &str,
        add_generation_prompt: Option<bool>,
        bos: bool,
        options: Vec<(String, String)>,
    ) -> PyResult<FrameworkPrompt> {
        let py = messages.py();
        let mut conversation = conversation(messages, tools)?;
        conversation.add_generation_prompt = add_generation_prompt.or(conversation.add_generation_prompt);
        let request = Request { id: None, format: None, conversation, other: Object::new() };
        let purpose = match purpose {
            "new-turn" => Purpose::NewTurn,
            "training" => Purpose::Training,
            _ => Purpose::Answer,
        };
        let bos = if bos { BosBy::Template } else { BosBy::Tokenizer };
        let prompt = py.detach(|| {
            // As transformers passes them.
            let settings = Settings { bos, options, forms: Forms::AsGiven, ..self.model.settings().clone() };
            self.model.with_settings(settings).prompt_for(request, purpose)
        });
        prompt.map(FrameworkPrompt::of_request).map_err(|error| error::of(py, &error))
    }

    /// Renders what XTuner's chat sends for each user message. After each answer, `remembers` gets the
    /// prompt with the answer, and if it returns False, the history is dropped.
    #[pyo3(signature = (messages, *, options=Vec::new(), remembers=None))]
    fn chat_inputs(
        &self,
        messages: &Bound<'_, PyAny>,
        options: Vec<(String, String)>,
        remembers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<FrameworkPrompt>> {
        let py = messages.py();
        let conversation = conversation(messages, None)?;
        let options = Options { bos: Bos::Write, rules: RuleMode::Reference, choices: options };
        let format = self.model.format().ok_or(Error::NoFormat).map_err(|error| error::of(py, &error))?;
        let writer = Writer::Format(Arc::clone(format), options);
        let inputs = match remembers {
            None => py.detach(|| xtuner::chat_inputs(&conversation, &writer, |_| true)),
            Some(remembers) => {
                let raised = RefCell::new(None);
                let ask = |prompt: &Prompt| {
                    let asked = Bound::new(py, FrameworkPrompt::of_chat(prompt.clone()))
                        .and_then(|prompt| remembers.call1((prompt,))?.is_truthy());
                    asked.unwrap_or_else(|error| {
                        raised.borrow_mut().get_or_insert(error);
                        true
                    })
                };
                let inputs = xtuner::chat_inputs(&conversation, &writer, ask);
                if let Some(error) = raised.into_inner() {
                    return Err(error);
                }
                inputs
            }
        };
        let inputs = inputs.map_err(|error| error::of(py, &error.into()))?;
        Ok(inputs.into_iter().map(FrameworkPrompt::of_chat).collect())
    }
}

/// Adds what the modules of `rolecall.interop` use.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FrameworkTemplate>()?;
    module.add_class::<FrameworkPrompt>()?;
    module.add_function(wrap_pyfunction!(framework_data, module)?)?;
    module.add_function(wrap_pyfunction!(xtuner_models, module)?)?;
    module.add_function(wrap_pyfunction!(xtuner_model, module)?)?;
    module.add_function(wrap_pyfunction!(lmdeploy_config, module)?)?;
    module.add_function(wrap_pyfunction!(lmdeploy_match, module)?)
}

/// The data files of a framework by their names: its templates, and facts about them.
///
/// >>> from rolecall._rolecall import framework_data
/// >>> [name for name, _ in framework_data("xtuner")][0]
/// 'about.json'
#[pyfunction]
fn framework_data(framework: &str) -> Vec<(&'static str, &'static str)> {
    framework_files(framework).collect()
}

/// A model of XTuner's table, its template, and the footnote if the table refers to it.
type XtunerRow = (&'static str, &'static str, Option<&'static str>);

fn row_of(row: &'static ModelRow) -> XtunerRow {
    (&row.model, &row.template, row.starred.then_some(&*interop::xtuner_models().footnote))
}

/// The rows of XTuner's table of models.
///
/// >>> from rolecall._rolecall import xtuner_models
/// >>> len(xtuner_models())
/// 59
#[pyfunction]
fn xtuner_models() -> Vec<XtunerRow> {
    interop::xtuner_models().rows.iter().map(row_of).collect()
}

/// The row of a model in XTuner's table, by its name or by the last part of its path.
///
/// >>> from rolecall._rolecall import xtuner_model
/// >>> xtuner_model("models/internlm2-chat-7b")[1]
/// 'internlm2_chat'
#[pyfunction]
fn xtuner_model(model: &str) -> Option<XtunerRow> {
    interop::xtuner_models().find(model).map(row_of)
}

/// Reads LMDeploy's JSON file of a chat template and returns its fields.
///
/// >>> from rolecall._rolecall import lmdeploy_config
/// >>> lmdeploy_config('{"model_name": "mine", "user": "U:"}')["user"]
/// 'U:'
#[pyfunction]
fn lmdeploy_config(text: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = text.py();
    let Json::String(text) = input::json(text, &mut Path::of("config"))? else {
        let message = "expected JSON text".to_owned();
        let help = Some("pass the text of a file, or its path".to_owned());
        let code = "wrong_type";
        return Err(error::Fault { class: "RequestError", code, message, place: None, help }.raise(py));
    };
    let written = py.detach(|| {
        let config = lmdeploy::Config::parse(&text)?;
        Ok(json::parse(&config.to_json()).unwrap_or(Json::Null))
    });
    match written {
        Ok(fields) => output::object(py, &fields),
        Err(error) => Err(error::of(py, &Error::Format(error))),
    }
}

/// Returns the name of the template that LMDeploy selects for a model's path.
///
/// >>> from rolecall._rolecall import lmdeploy_match
/// >>> lmdeploy_match("vicuna-7b-v1.5")
/// 'vicuna'
#[pyfunction]
fn lmdeploy_match(path: &str) -> Option<&'static str> {
    lmdeploy::match_path(path)
}

type OpenResult = Result<Model, rolecall::model::OpenError>;

fn open(format: Format) -> OpenResult {
    let name = format.name.clone();
    let mut registry = Registry::new();
    registry.replace(format);
    Model::builder().registry(registry).format(name).rules(RuleMode::Reference).open()
}

fn take(py: Python<'_>, opened: OpenResult) -> PyResult<FrameworkTemplate> {
    opened.map(|model| FrameworkTemplate { model }).map_err(|error| error::of_open(py, &error))
}

fn imported(py: Python<'_>, import: impl Send + FnOnce() -> Result<Format, LoadError>) -> PyResult<FrameworkTemplate> {
    let opened = py.detach(|| import().map(open));
    take(py, opened.map_err(|error| error::of(py, &Error::Format(error)))?)
}

/// Reads messages and tools. Unlike a request, a conversation may have no messages.
fn conversation(messages: &Bound<'_, PyAny>, tools: Option<&Bound<'_, PyAny>>) -> PyResult<Conversation> {
    let py = messages.py();
    let mut messages = input::json(messages, &mut Path::of("messages"))?;
    let is_empty = messages.as_array().is_some_and(<[Json]>::is_empty);
    if is_empty {
        messages = Json::Array(vec![Json::Object(object! { "role" => "user", "content" => "" })]);
    }
    let mut request = object! { "messages" => messages };
    if let Some(tools) = tools {
        request.insert("tools", input::json(tools, &mut Path::of("tools"))?);
    }
    let mut conversation = Conversation::from_json(request.into()).map_err(|error| error::of(py, &error.into()))?;
    if is_empty {
        conversation.messages.clear();
    }
    Ok(conversation)
}
