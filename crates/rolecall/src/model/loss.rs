//! Which text of a model's prompt carries loss.

use rolecall_conversation::json::{self, Layout};
use rolecall_conversation::{Conversation, Json, Message, Role};
use rolecall_encode::{Encoded, EncodedToken};
use rolecall_render::{Change, FinalStop, LeafKind, Loss, LossPolicy, ModelText, Writer};

use super::Model;
use super::prompt::ModelPrompt;
use super::stops::CLOSER;
use super::writer::ModelWriter;
use crate::Error;
use crate::loss::{GREATEST_WEIGHT, mask, overlapping};
use crate::session;

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
        check_weights(policy, &conversation.messages)?;
        let loss = self.loss_unchecked(conversation, policy)?;
        match self.null_word(&loss) {
            Some(message) if !policy.allow_null_word => Err(rolecall_render::Error::NullWord { message }.into()),
            _ => Ok(loss),
        }
    }

    /// Returns the first message whose null content is the word `None` in the prompt, and carries loss.
    fn null_word(&self, loss: &Loss) -> Option<usize> {
        // Only a template writes it.
        self.template()?;
        let words = self.account().of_kind(LeafKind::Changed).filter(|leaf| leaf.change == Some(Change::NullWord));
        let mut messages = words.filter(|leaf| leaf.place.field == "content").filter_map(|leaf| leaf.place.message);
        messages.find(|message| {
            let turns = self.prompt.turns().iter().enumerate().filter(|(_, turn)| turn.message == Some(*message));
            let made = turns.flat_map(|(at, _)| self.prompt.segments_in(self.prompt.turn_span(at)));
            made.filter(|segment| segment.is_made && segment.text.contains("None")).any(|segment| {
                let end = segment.start + segment.text.len();
                loss.spans.iter().any(|span| span.range.start < end && segment.start < span.range.end)
            })
        })
    }

    fn loss_unchecked(&self, conversation: &Conversation, policy: &LossPolicy) -> Result<Loss, Error> {
        // The layouts of a format know what ends a reply.
        let stops = self.template().map(|_| self.model.stops_of(&self.writer)).transpose()?;
        let stops = stops.as_ref().map_or(&[][..], |stops| &stops.texts);
        Ok(self.writer.writer.loss(&self.prompt, conversation, stops, policy)?)
    }

    /// Appends the model's stop token if the conversation ends with a reply after which the format
    /// or template writes none. Returns the token.
    ///
    /// The token is the template's `eos_token`, or else the first of the model's stop tokens. It
    /// counts as text of the template and belongs to the reply, so it carries loss.
    ///
    /// ```
    /// use rolecall::loss::LossPolicy;
    /// use rolecall::model::Purpose;
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::{Model, Request};
    /// let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
    ///               {% if add_generation_prompt %}assistant: {% endif %}";
    /// let mut templates = ModelTemplates::from_json(&source.into())?;
    /// templates.set_token("eos_token", "</s>".into());
    /// let model = Model::builder().templates(templates).open()?;
    /// let messages = r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}"#;
    /// let mut prompt = model.prompt_for(Request::from_text(messages)?, Purpose::Training)?;
    /// assert_eq!(prompt.append_final_stop()?.as_deref(), Some("</s>"));
    /// let loss = prompt.loss(&LossPolicy::assistant())?;
    /// assert_eq!(&prompt.text()[loss.spans[0].range.clone()], "4\n</s>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_final_stop(&mut self) -> Result<Option<String>, Error> {
        let messages = &self.request.conversation.messages;
        let last = messages.len().checked_sub(1).filter(|last| *messages[*last].role() == Role::Assistant);
        if last.is_none() || self.prompt.open {
            return Ok(None);
        }
        let replies = self.replies()?;
        let Some(reply) = replies.iter().rfind(|reply| reply.message == last) else { return Ok(None) };
        // The token must follow the reply directly.
        let after = self.prompt.segments_in(reply.range.end..self.prompt.text().len());
        if reply.stop.is_some() || !after.into_iter().all(|segment| segment.origin.is_format()) {
            return Ok(None);
        }
        let stop = self.model.final_stop(&self.writer)?;
        if let Some(stop) = &stop {
            self.append_stop(stop);
        }
        Ok(stop)
    }

    /// Appends a stop token as text of the template.
    pub(crate) fn append_stop(&mut self, stop: &str) {
        self.prompt.append_stop(stop);
        self.appended = Some(stop.to_owned());
    }

    /// Returns who wrote the tokens of the prompt, in order, with the message and its part. Replies
    /// have the author of the conversation, too.
    pub fn segments_of_tokens(&self, tokens: &[EncodedToken]) -> Vec<session::Segment> {
        session::segments_of(&self.prompt, tokens)
    }

    /// Returns, for each token, whether the assistant wrote it, as transformers'
    /// `return_assistant_tokens_mask` does.
    ///
    /// If the chat template marks generated text with `{% generation %}`, these are the tokens that
    /// overlap a marked block. Otherwise they are those of [`LossPolicy::assistant`], where
    /// transformers has none.
    pub fn assistant_mask(&self, encoded: &Encoded) -> Result<Vec<bool>, Error> {
        if !self.template().is_some_and(|template| template.has_generation_blocks()) {
            let mut policy = LossPolicy::assistant();
            (policy.final_stop, policy.allow_masked_stop, policy.allow_empty) = (FinalStop::Ignore, true, true);
            policy.allow_null_word = true;
            let loss = self.loss(&policy)?;
            return Ok(mask(encoded, &loss).collect());
        }
        Ok(overlapping(&encoded.tokens, &self.prompt.generated))
    }

    /// Returns the text that the model itself would write, in order.
    pub fn replies(&self) -> Result<Vec<ModelText>, Error> {
        Ok(self.loss_of_replies()?.replies)
    }

    /// Determines which text the model itself would write, whatever the messages say about loss.
    pub fn loss_of_replies(&self) -> Result<Loss, Error> {
        let mut policy = LossPolicy::assistant();
        (policy.final_stop, policy.allow_masked_stop, policy.allow_empty) = (FinalStop::Ignore, true, true);
        let own = ["weight", "loss", "train"];
        let is_weighed = |message: &Message| own.iter().any(|key| message.as_object().get(key).is_some());
        let conversation = &self.request.conversation;
        if !conversation.messages.iter().any(is_weighed) {
            return self.loss_unchecked(conversation, &policy);
        }
        let mut conversation = conversation.clone();
        for message in &mut conversation.messages {
            let mut object = message.as_object().clone();
            own.iter().for_each(|key| drop(object.remove(key)));
            *message = Message::from_object(object).map_err(|error| Error::Request(error.into()))?;
        }
        self.loss_unchecked(&conversation, &policy)
    }
}

impl Model {
    /// Returns the token that stops the model at the end of a conversation.
    pub(super) fn final_stop(&self, writer: &ModelWriter) -> Result<Option<String>, Error> {
        let template = match &writer.writer {
            Writer::Template(template, _) => template,
            Writer::Format(format, _) => {
                let mut ends = format.controls.iter().filter(|control| control.ends_turn);
                return Ok(ends.next().map(|control| control.text.clone()));
            }
        };
        let tokens = template.tokens().iter();
        let eos = tokens.filter(|(name, token)| name == "eos_token" && !token.is_empty()).map(|(_, token)| token);
        match eos.into_iter().next() {
            Some(eos) => Ok(Some(eos.clone())),
            None if writer.is_carried() => Ok(None),
            None => {
                // A token of the next turn stops the model, and ends no conversation.
                let layouts = self.shared.replies.layouts(template, &self.shared.encoders).ok();
                let is_next = |text: &String| layouts.as_ref().is_some_and(|own| own.generation.stop.contains(text));
                let mut stops = self.stops()?.into_iter().filter(|stop| !stop.text.is_empty());
                let own = stops.find(|stop| !is_next(&stop.text) || stop.sources.iter().any(|source| source != CLOSER));
                Ok(own.map(|stop| stop.text))
            }
        }
    }
}

/// Refuses weights that are no numbers in the allowed range, and settings of messages that would
/// otherwise be ignored.
pub(crate) fn check_weights<'a>(
    policy: &LossPolicy,
    messages: impl IntoIterator<Item = &'a Message>,
) -> Result<(), Error> {
    let is_allowed = |weight: f64| (0.0..=f64::from(GREATEST_WEIGHT)).contains(&weight);
    let parts = &policy.weights;
    let parts =
        [("reasoning", parts.reasoning), ("content", parts.content), ("calls", parts.calls), ("closer", parts.closer)];
    let roles = policy.roles.iter().map(|role| (role.role.name(), role.weight));
    for (field, weight) in parts.into_iter().chain(roles) {
        if !is_allowed(weight.into()) {
            return Err(Error::BadWeight { message: None, field: field.into(), found: weight.to_string() });
        }
    }
    for (index, message) in messages.into_iter().enumerate() {
        for field in ["weight", "loss", "train"] {
            let is_good = match (field, message.as_object().get(field)) {
                (_, None | Some(Json::Null)) => true,
                ("weight", Some(Json::Number(number))) => number.as_f64().is_some_and(is_allowed),
                ("weight", Some(_)) => false,
                (_, Some(value)) => matches!(value, Json::Bool(_) | Json::String(_)),
            };
            if !is_good && let Some(found) = message.as_object().get(field) {
                let found = json::write(found, &Layout::compact());
                return Err(Error::BadWeight { message: Some(index), field: field.into(), found });
            }
        }
    }
    Ok(())
}
