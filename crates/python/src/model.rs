use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use rolecall::conversation::Json;
use rolecall::identify::ModelWarning;
use rolecall::loss::note_text;
use rolecall::model::{Choice, ModelBuilder, Purpose};
use rolecall::parse::ParseOptions;
use rolecall::template::ModelTemplates;
use rolecall::{answer, stability};

use crate::attributed::AttributedIds;
use crate::code::PythonCode;
use crate::encoded::{Encoded, Weighed};
use crate::grammar::{self, Grammar};
use crate::input::{self, Path};
use crate::loss::LossArguments;
use crate::opening::Opening;
use crate::parser::{self, OutputParser, Piece};
use crate::reasoning::ReasoningSplit;
use crate::request::{ReplyArguments, request};
use crate::{error, loss, output, policies, switches};

/// A model: its chat templates or format, its tokenizer, and its settings.
///
/// `rolecall.load` opens one. A model does not change, so threads may share it. It can be pickled: the pickle
/// holds the content of its files, and a process opens each content once.
///
/// >>> model = rolecall.load("path/to/model")
/// >>> messages = [{"role": "user", "content": "Hi"}]
/// >>> model.encode(messages).ids.tolist()
/// [705, 258, 198, 307, 706, 198, 705, 270, 198]
/// >>> model.parse("Hello<|im_end|>", messages)["message"]["content"]
/// 'Hello'
#[pyclass(frozen, module = "rolecall")]
pub struct Model {
    inner: rolecall::Model,
    /// The code of its template, in Python.
    code: Option<Py<PyAny>>,
    /// What is pickled, once that was asked for.
    sent: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl Model {
    /// Opens a model: its folder, a GGUF file, a chat template, a format file, the name of a format
    /// or model, a tokenizer of transformers, or a `tokenizers.Tokenizer`. The keyword arguments
    /// replace parts of it and set how it renders.
    #[new]
    #[pyo3(
        signature = (model=None, **parts),
        text_signature = "(model=None, *, format=None, template=None, chat_template=None, tokenizer=None, \
                          tokenizer_config=None, bos_token=None, eos_token=None, template_name=None, options=None, \
                          bos=None, rules=None, forms=None, protect=None, plain_markers=None, now=None, limits=None)"
    )]
    fn new(py: Python<'_>, model: Option<&Bound<'_, PyAny>>, parts: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
        let opening = Opening::read(model, parts)?;
        let opened = py.detach(|| opening.builder().open());
        opened.map(Model::of).map_err(|error| error::of_open(py, &error))
    }

    /// The name: that of the format, or the path or name that was opened.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Why each part was chosen, as dicts: `part` and `why`.
    #[getter]
    fn evidence<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |choice: &Choice| {
            let dict = PyDict::new(py);
            dict.set_item("part", choice.part)?;
            dict.set_item("why", &choice.why)?;
            Ok(dict)
        };
        self.inner.evidence().iter().map(dict).collect()
    }

    /// Warnings about the model, as dicts: `code` and `message`.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |warning: &ModelWarning| {
            let dict = PyDict::new(py);
            dict.set_item("code", warning.code())?;
            dict.set_item("message", warning.to_string())?;
            Ok(dict)
        };
        self.inner.warnings().iter().map(dict).collect()
    }

    /// The sampling defaults of the model's maker, by name. Unknown ones are missing.
    #[getter]
    fn sampling(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        output::object(py, &answer::of_generation(&self.inner.sampling()))
    }

    /// The token that opens a text, or None.
    #[getter]
    fn bos_token(&self) -> Option<&str> {
        self.inner.bos()
    }

    /// The token that closes a text, or None.
    #[getter]
    fn eos_token(&self) -> Option<&str> {
        self.inner.eos()
    }

    /// Returns the ids of the tokens with which the model may stop: a list of int.
    ///
    /// >>> rolecall.load("path/to/model").stop_ids()
    /// [706]
    fn stop_ids(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        py.detach(|| self.inner.stop_ids()).map_err(|error| error::of(py, &error))
    }

    /// Renders a conversation and encodes it: `model.prompt(..).encode()`.
    ///
    /// Text of a message that spells a control token is encoded as text. Raises what `prompt` raises, and
    /// `TokenizerError` if the model has no tokenizer.
    ///
    /// With `for_training`, the conversation is rendered as a text to train on, and the result has loss
    /// weights: "assistant" for all replies, "last" for the last one, "chosen" for the messages that say
    /// so, "tagged" for `{% generation %}` blocks, "all" for everything. `loss_weight` has the weights of
    /// parts of replies, `{"reasoning": 0}`; `loss_role` the other roles whose text carries loss, "tool" or
    /// `{"tool": 0.5}`; `edges` says whether a token carries loss if "any" or all ("strict") of its bytes
    /// do; `final_stop` what to do if no stop token follows the last reply: "append", "warn" or "refuse";
    /// and `allow` what is otherwise an error: "masked-stop", "no-loss", "null-word".
    ///
    /// >>> model = rolecall.load("path/to/model")
    /// >>> model.encode([{"role": "user", "content": "Hi"}]).ids.tolist()
    /// [705, 258, 198, 307, 706, 198, 705, 270, 198]
    /// >>> messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    /// >>> encoded = model.encode(messages, for_training="assistant")
    /// >>> encoded.ids[encoded.mask == 1].tolist()
    /// [19, 706]
    #[pyo3(signature = (messages, *, tools=None, documents=None, add_generation_prompt=None, continue_final_message=None, for_training=None, loss_weight=None, loss_role=None, edges=None, final_stop=None, allow=None, **switches))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn encode(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: Option<bool>,
        continue_final_message: Option<bool>,
        for_training: Option<&Bound<'_, PyAny>>,
        loss_weight: Option<&Bound<'_, PyAny>>,
        loss_role: Option<&Bound<'_, PyAny>>,
        edges: Option<&Bound<'_, PyAny>>,
        final_stop: Option<&Bound<'_, PyAny>>,
        allow: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Encoded> {
        let py = messages.py();
        let asked = LossArguments { for_training, loss_weight, loss_role, edges, final_stop, allow };
        let recipe = match asked.is_empty() {
            true => None,
            false => Some(asked.recipe(py)?),
        };
        let Some(recipe) = recipe.filter(|recipe| recipe.policy.is_some()) else {
            let prompt = Model::prompt(
                slf,
                messages,
                tools,
                documents,
                add_generation_prompt,
                continue_final_message,
                switches,
            )?;
            return prompt.encode(py);
        };
        let opens =
            [("add_generation_prompt", add_generation_prompt), ("continue_final_message", continue_final_message)];
        if let Some((name, _)) = opens.into_iter().find(|(_, is_set)| *is_set == Some(true)) {
            let what = format!("a text to train on ends after its last message: pass `{name}` without `for_training`");
            return Err(input::refuse(py, name, what));
        }
        let model = &slf.get().inner;
        let request = request(model, messages, tools, documents, [], switches)?;
        let ready = py.detach(|| {
            let prompt = recipe.prompt(model, request)?;
            let ready = recipe.prepare_prompt(model, prompt)?;
            let weighed = Weighed {
                weights: ready.weights(recipe.edges),
                notes: ready.loss.iter().flat_map(|loss| &loss.notes).map(note_text).collect(),
            };
            Ok((ready.encoded.unwrap_or_default(), Arc::new(ready.prompt), weighed))
        });
        let (encoded, prompt, weighed) = ready.map_err(|error| loss::refused(py, &error))?;
        Ok(Encoded::new(encoded, prompt, Some(weighed)))
    }

    /// Renders and encodes a conversation, and says for each id which message it belongs to, whether
    /// the model itself writes it, and whether it is content. Without `add_generation_prompt`, the text
    /// ends after the last message, as for training.
    ///
    /// >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    /// >>> rolecall.load("path/to/model").attribute(messages).sampled.nonzero()[0].tolist()
    /// [9, 10]
    #[pyo3(signature = (messages, *, tools=None, documents=None, add_generation_prompt=false, **switches))]
    fn attribute(
        &self,
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        add_generation_prompt: bool,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<AttributedIds> {
        let py = messages.py();
        let flags = [("add_generation_prompt", Some(add_generation_prompt))];
        let request = request(&self.inner, messages, tools, documents, flags, switches)?;
        let purpose = if add_generation_prompt { Purpose::Answer } else { Purpose::Training };
        let attributed = py.detach(|| {
            let prompt = self.inner.prompt_for(request, purpose)?;
            AttributedIds::new(&prompt, &prompt.encode()?)
        });
        attributed.map_err(|error| error::of(py, &error))
    }

    /// Reports whether a conversation that goes on after a reply keeps the ids rendered so far. It is
    /// found out by rendering conversations that were chosen to expose changes.
    ///
    /// >>> rolecall.load("path/to/model").is_prefix_stable()
    /// True
    #[pyo3(signature = (**switches))]
    fn is_prefix_stable(&self, py: Python<'_>, switches: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
        let switches = match switches {
            Some(switches) => {
                switches::check(&self.inner, switches)?;
                input::json(switches, &mut Path::of("chat_template_kwargs"))?
            }
            None => Json::Null,
        };
        let switches = switches.as_object().cloned().unwrap_or_default();
        let found = py.detach(|| stability::is_prefix_stable(&self.inner, &switches));
        found.map_err(|error| error::of(py, &error))
    }

    /// Parses a whole reply, as text or as token ids, to a dict: `message` in the shape of OpenAI's API,
    /// `finish_reason`, and `malformed`, a list of dicts with what does not match the layout.
    ///
    /// `messages`, `tools` and `documents` are what the model answered. Without messages, the reply is
    /// assumed to answer one user message, "Hi". `finish_reason` says why the engine stopped: "stop",
    /// or "length" or "abort" for a reply that was cut off. `policies` is a dict: `calls_in_reasoning`,
    /// `unclosed_reasoning`, `unknown_names`, `text_after_calls`, `strict_json`, `check_schema`, `max_calls`, `cap` (in bytes),
    /// `id_seed` and `id_form`.
    ///
    /// Model output is never an error. Raises `EncodeError` for ids that the tokenizer does not have, and
    /// what `prompt` raises for the messages.
    ///
    /// >>> parsed = rolecall.load("path/to/model").parse("<think>\nHm.\n</think>\n\nHello<|im_end|>")
    /// >>> parsed["message"]["reasoning_content"], parsed["message"]["content"], parsed["finish_reason"]
    /// ('Hm.', 'Hello', 'stop')
    #[pyo3(signature = (reply, messages=None, *, tools=None, documents=None, finish_reason=None, continue_final_message=None, policies=None, **switches))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn parse(
        &self,
        reply: &Bound<'_, PyAny>,
        messages: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        finish_reason: Option<&Bound<'_, PyAny>>,
        continue_final_message: Option<bool>,
        policies: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let py = reply.py();
        let stop = parser::stop_of(py, finish_reason)?;
        let asked = ReplyArguments { messages, tools, documents, continue_final_message, switches };
        let request = asked.request(py, &self.inner)?;
        let policies = policies::policies(policies)?;
        let piece = Piece::whole(reply)?;
        let reading = py.detach(|| OutputParser::read(&request.context(&self.inner, policies)?, &piece, stop));
        let reading = reading.map_err(|error| error::of(py, &error))?;
        output::object(py, &answer::of_reading(None, &reading))
    }

    /// Returns a parser for a reply that arrives in pieces. The arguments are those of `parse`.
    ///
    /// With `completion`, a dict with `id`, `model` and `created`, the parser returns the dicts of
    /// `chat.completion.chunk` instead of events. `prompt_tail` is the end of the prompt, if it is not
    /// that of the messages. With `after_reasoning`, the parser takes the text after the reasoning, which
    /// `reasoning_split` returns.
    ///
    /// >>> parser = rolecall.load("path/to/model").parser()
    /// >>> parser.push("Hello"), parser.finish()
    /// ([Content(text='Hello')], [Stop(reason='stop')])
    #[pyo3(signature = (messages=None, *, tools=None, documents=None, continue_final_message=None, policies=None, completion=None, prompt_tail=None, after_reasoning=false, **switches))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn parser(
        &self,
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        continue_final_message: Option<bool>,
        policies: Option<&Bound<'_, PyAny>>,
        completion: Option<&Bound<'_, PyAny>>,
        prompt_tail: Option<&Bound<'_, PyAny>>,
        after_reasoning: bool,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<OutputParser> {
        let asked = ReplyArguments { messages, tools, documents, continue_final_message, switches };
        let request = asked.request(py, &self.inner)?;
        let policies = policies::policies(policies)?;
        let completion = completion.map(parser::completion).transpose()?;
        let context = py.detach(|| request.context(&self.inner, policies)).map_err(|error| error::of(py, &error))?;
        let context = match prompt_tail {
            Some(tail) => context.after_prompt(input::argument(tail, "prompt_tail")?),
            None => context,
        };
        Ok(match after_reasoning {
            true => OutputParser::after_reasoning(context, completion),
            false => OutputParser::new(context, completion),
        })
    }

    /// Returns a splitter of a reply's text into its reasoning and the text after it. The arguments are
    /// those of `parser`.
    ///
    /// >>> rolecall.load("path/to/model").reasoning_split().push("Hello")
    /// ('', 'Hello', '')
    #[pyo3(signature = (messages=None, *, tools=None, documents=None, continue_final_message=None, prompt_tail=None, **switches))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn reasoning_split(
        &self,
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        continue_final_message: Option<bool>,
        prompt_tail: Option<&Bound<'_, PyAny>>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ReasoningSplit> {
        let asked = ReplyArguments { messages, tools, documents, continue_final_message, switches };
        let request = asked.request(py, &self.inner)?;
        let context = py.detach(|| request.context(&self.inner, ParseOptions::default()));
        let context = context.map_err(|error| error::of(py, &error))?;
        let context = match prompt_tail {
            Some(tail) => context.after_prompt(input::argument(tail, "prompt_tail")?),
            None => context,
        };
        Ok(ReasoningSplit::new(context.reasoning_split(), context.around_reasoning()))
    }

    /// Parses a reply that arrives in chunks: an iterator of events, or an asynchronous one if the
    /// chunks are. `rolecall.streams.parse_stream` documents the arguments.
    ///
    /// >>> list(rolecall.load("path/to/model").parse_stream(["Hel", "lo<|im_", "end|>"]))
    /// [Content(text='Hel'), Content(text='lo'), Stop(reason='stop')]
    #[pyo3(
        signature = (*args, **arguments),
        text_signature = "($self, chunks, messages=None, *, tools=None, documents=None, finish_reason='stop', \
                          continue_final_message=None, policies=None, as_openai=False, id=None, model=None, \
                          created=None, **switches)"
    )]
    fn parse_stream<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        arguments: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let all: Vec<_> = std::iter::once(slf.as_any().clone()).chain(args.iter()).collect();
        let all = PyTuple::new(slf.py(), all)?;
        slf.py().import("rolecall.streams")?.getattr("parse_stream")?.call(all, arguments)
    }

    /// Returns a grammar of what an engine may sample as the reply.
    ///
    /// `tool_choice` is OpenAI's: "none", "auto", "required", or the name of a tool, as a str or as
    /// `{"type": "function", "function": {"name": ...}}`. `reasoning` is "off", "optional",
    /// "required" or "over" (the model has already reasoned). `answer_schema` is a JSON Schema that
    /// the answer fits, as a dict. The rest is as in `parse`.
    ///
    /// Raises `GrammarError` if a call is required and there is none to make, or if no answer fits the
    /// schema.
    ///
    /// >>> tools = [{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}]
    /// >>> grammar = rolecall.load("path/to/model").grammar(tools=tools, tool_choice="required")
    /// >>> "get_time" in grammar.structural_tag()
    /// True
    #[pyo3(signature = (messages=None, *, tools=None, documents=None, tool_choice=None, parallel_tool_calls=true, reasoning=None, answer_schema=None, continue_final_message=None, **switches))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn grammar(
        &self,
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        tool_choice: Option<&Bound<'_, PyAny>>,
        parallel_tool_calls: bool,
        reasoning: Option<&Bound<'_, PyAny>>,
        answer_schema: Option<&Bound<'_, PyAny>>,
        continue_final_message: Option<bool>,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Grammar> {
        let asked = ReplyArguments { messages, tools, documents, continue_final_message, switches };
        let request = asked.request(py, &self.inner)?;
        let options = grammar::options(py, tool_choice, parallel_tool_calls, reasoning, answer_schema)?;
        let made = py.detach(|| request.context(&self.inner, ParseOptions::default())?.grammar(options));
        made.map(Grammar::new).map_err(|error| error::of(py, &error))
    }

    /// Everything that the model was opened from, with the content of its files.
    fn _to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = py.detach(|| self.inner.to_bytes()).map_err(|error| error::of_open(py, &error))?;
        Ok(PyBytes::new(py, &content))
    }

    /// Opens the model of which `_to_bytes` returned these bytes, with the code of its template.
    #[staticmethod]
    #[pyo3(signature = (content, code=None))]
    fn _from_bytes(py: Python<'_>, content: &[u8], code: Option<&Bound<'_, PyAny>>) -> PyResult<Model> {
        if let Some(code) = code {
            let builder = py.detach(|| ModelBuilder::from_bytes(content));
            return Model::with_code(builder.map_err(|error| error::of_open(py, &error))?, code);
        }
        let opened = py.detach(|| rolecall::Model::from_bytes(content));
        opened.map(Model::of).map_err(|error| error::of_open(py, &error))
    }

    /// Opens a model whose template is code, a `CodeTemplate` of `rolecall.interop`. The other parts are those
    /// of any model.
    #[staticmethod]
    #[pyo3(signature = (code, **parts))]
    fn _of_code(code: &Bound<'_, PyAny>, parts: Option<&Bound<'_, PyDict>>) -> PyResult<Model> {
        Model::with_code(Opening::read(None, parts)?.builder(), code)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: u8) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let module = py.import("rolecall._content")?;
        let model = slf.get();
        let sent = model.sent.get_or_try_init(py, || {
            let compressed = module.call_method1("compress", (model._to_bytes(py)?,))?;
            PyResult::Ok(compressed.unbind())
        })?;
        module.call_method1("reduce", (slf, sent, protocol, &model.code))
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("Model({:?})", self.inner.name())
    }
}

impl Model {
    /// Returns the model of the library.
    pub fn inner(&self) -> &rolecall::Model {
        &self.inner
    }

    fn of(inner: rolecall::Model) -> Model {
        Model { inner, code: None, sent: PyOnceLock::new() }
    }

    fn with_code(builder: ModelBuilder, code: &Bound<'_, PyAny>) -> PyResult<Model> {
        let py = code.py();
        let own = Arc::new(PythonCode::read(code)?);
        let templates = py.detach(|| ModelTemplates::of_code(own)).map_err(|error| error::of(py, &error))?;
        let opened = py.detach(|| builder.templates(templates).open());
        let inner = opened.map_err(|error| error::of_open(py, &error))?;
        Ok(Model { code: Some(code.clone().unbind()), ..Model::of(inner) })
    }
}
