//! Which text of a model's prompt carries loss.

use rolecall_render::{Loss, LossPolicy, loss_by_format, loss_by_template};

use super::prompt::{ModelPrompt, Speaker};
use super::templates::Chosen;
use crate::Error;
use crate::loss::closers;

impl ModelPrompt {
    /// Determines which text carries loss.
    ///
    /// ```
    /// use rolecall::loss::LossPolicy;
    /// use rolecall::model::Purpose;
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::{Model, Request};
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}\
    ///               {% if add_generation_prompt %}<|assistant|>{% endif %}";
    /// let model = Model::builder().templates(ModelTemplates::from_json(&source.into())?).open()?;
    /// let messages = r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}"#;
    /// let prompt = model.prompt_for(Request::from_text(messages)?, Purpose::Training)?;
    /// let loss = prompt.loss(&LossPolicy::assistant())?;
    /// assert_eq!(&prompt.text()[loss.spans[0].range.clone()], "4<|end|>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn loss(&self, policy: &LossPolicy) -> Result<Loss, Error> {
        let conversation = &self.request.conversation;
        let loss = match &self.speaker {
            Speaker::Format { .. } => {
                let format = self.format().ok_or(Error::NoFormat)?;
                loss_by_format(&self.prompt, conversation, format, policy)
            }
            Speaker::Template(chosen) => {
                let options = Chosen::options(&self.model.settings.of(&self.request)?);
                let stops = self.reply_stops(chosen)?;
                loss_by_template(&self.prompt, conversation, &chosen.template, &options, &stops, policy)
            }
        };
        Ok(loss?)
    }

    /// Returns the texts of the tokens that may stop the model: those with which its template ends
    /// turns, and those that the model's files name.
    fn reply_stops(&self, chosen: &Chosen) -> Result<Vec<String>, Error> {
        let tokens = chosen.template.tokens().iter().filter(|(name, _)| name == "eos_token");
        let mut stops: Vec<String> = tokens.map(|(_, token)| token.clone()).collect();
        // A template whose layouts cannot be inferred has at least the tokens that files name.
        if let Ok(layouts) = self.model.shared.replies.layouts(&chosen.template) {
            stops.extend(closers(&layouts));
        }
        if !chosen.templates.is_carried {
            stops.extend(self.model.stops()?.into_iter().map(|stop| stop.text));
        }
        stops.retain(|stop| !stop.is_empty());
        stops.sort_unstable();
        stops.dedup();
        Ok(stops)
    }
}
