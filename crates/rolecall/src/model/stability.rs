//! How much of a prompt stays valid when the conversation grows.

use rolecall_encode::Growing;
use rolecall_openai::Request;
use rolecall_render::stability::{KeptIds, KeptLength, Pace, Stability, compare, stability_with};
use rolecall_render::{ProbeBudget, Prompt, Writer, template_switches};

use super::writer::Resolved;
use super::{Model, ModelPrompt, Purpose};
use crate::Error;

impl Model {
    /// Compares the prompts of a request's conversation as it grows, message by message: whether
    /// each prompt begins with the previous one, and where not, the first byte that differs, what
    /// wrote it, and how many ids an engine must process again.
    ///
    /// The ids are compared if the model has a tokenizer. How the request itself ends its prompt
    /// does not matter, except that a conversation may continue its last message.
    ///
    /// ```
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::{Model, Request};
    ///
    /// // The template writes the reasoning of the last message only.
    /// let source = "{% for m in messages %}<{% if loop.last and m.reasoning_content %}({{ m.reasoning_content }}){% endif %}\
    ///     {{ m.content }}>{% endfor %}";
    /// let model = Model::builder().templates(ModelTemplates::from_json(&source.into())?).open()?;
    /// let request = Request::from_text(r#"{"messages": [
    ///     {"role": "user", "content": "2+2?"},
    ///     {"role": "assistant", "content": "4", "reasoning_content": "A sum."},
    ///     {"role": "user", "content": "3+3?"}]}"#)?;
    /// let stability = model.stability(&request)?;
    /// let found = stability.changes().next().expect("the reasoning is dropped");
    /// assert_eq!((found.step.added.to_string(), found.change.byte), ("user".to_owned(), 7));
    /// assert_eq!(found.kept.lost_bytes(), "(A sum.)4>".len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stability(&self, request: &Request) -> Result<Stability, Error> {
        self.stability_at(request, Pace::default())
    }

    /// Like [`stability`](Model::stability), with time that passes between the turns.
    pub fn stability_at(&self, request: &Request, pace: Pace) -> Result<Stability, Error> {
        let Resolved { settings, writer } = self.resolve(request, Purpose::Answer)?;
        self.unread_switches(request, &settings, &writer)?;
        let mut growing = None;
        if self.has_tokenizer() {
            let encoder = self.shared.encoders.encoder(&writer, settings.of_encoder())?;
            growing = Some(Growing::new(encoder));
        }
        let mut failed = None;
        let mut ids = |prompt: &Prompt| match growing.as_mut()?.encode(prompt.clone()) {
            Ok(encoded) => Some(encoded.ids()),
            Err(error) => {
                failed.get_or_insert(error);
                None
            }
        };
        let found = stability_with(&request.conversation, &writer.writer, pace, &mut ids);
        failed.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Returns the flags of the default chat template whose two values differ in effect, each with
    /// the value that leaving it unset stands for. Flags that the settings set are not included.
    pub(crate) fn template_flags(&self) -> Vec<(String, bool)> {
        let Some(Writer::Template(template, mut options)) = self.own_writer().map(|own| own.writer) else {
            return Vec::new();
        };
        options.kwargs = Default::default();
        let Ok((_, switches)) = template_switches(&template, &options, &ProbeBudget::default()) else {
            return Vec::new();
        };
        let is_set = |name: &str| self.settings.options.iter().any(|(set, _)| set == name);
        let flags = switches.into_iter().filter_map(|switch| Some((switch.name, switch.default?)));
        flags.filter(|(name, _)| !is_set(name)).collect()
    }
}

impl ModelPrompt {
    /// Compares this prompt with a later one of the same conversation, which should begin with it:
    /// the first byte that differs, what wrote it, and the ids that are no longer valid. The ids
    /// are compared if the model has a tokenizer.
    ///
    /// ```
    /// use rolecall::{Model, Request};
    /// let model = Model::open("chatml")?;
    /// let asked = Request::from_text(r#"{"messages": [{"role": "user", "content": "2+2?"}]}"#)?;
    /// let more = Request::from_text(r#"{"messages": [
    ///     {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"},
    ///     {"role": "user", "content": "3+3?"}]}"#)?;
    /// assert!(model.prompt(asked)?.kept_in(&model.prompt(more)?)?.is_stable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kept_in(&self, later: &ModelPrompt) -> Result<KeptLength, Error> {
        let mut kept = compare(&self.prompt, &later.prompt);
        if self.model.has_tokenizer() {
            kept.ids = Some(KeptIds::compare(&self.encode()?.ids(), &later.encode()?.ids()));
        }
        if let Some(change) = &mut kept.change {
            change.earlier.spot = self.spot_at(change.byte)?;
            if let Some(written) = &mut change.later {
                written.spot = later.spot_at(change.byte)?;
            }
        }
        Ok(kept)
    }

    /// Returns the place in the chat template that wrote a byte of the prompt. A format has none.
    fn spot_at(&self, byte: usize) -> Result<Option<rolecall_render::jinja::Spot>, Error> {
        Ok(self.writer.writer.spot_at(&self.request.conversation, byte)?)
    }
}
