//! Keys and switches of a request that nothing reads, and those that are almost ones that are read.

use rolecall_conversation::Place;
use rolecall_conversation::spelling::nearest_within;
use rolecall_openai::Request;
use rolecall_render::Dropped;

use super::Model;
use super::prompt::Speaker;
use crate::Error;

impl Model {
    /// What nothing reads of a request.
    pub(super) fn unread(&self, request: &Request, speaker: &Speaker) -> Result<Vec<Dropped>, Error> {
        let mut unread: Vec<Dropped> = request
            .unread()
            .map(|key| Dropped { place: Place::field(key), why: "nothing reads this key", by_design: false })
            .collect();
        let given = &request.conversation.template_kwargs;
        if given.is_empty() {
            return Ok(unread);
        }
        let known = match speaker {
            Speaker::Template(chosen) => self.shared.replies.switches(&chosen.template)?,
            Speaker::Format { .. } => {
                let choices = self.format_of(speaker).map(|format| &format.choices);
                choices.into_iter().flatten().map(|choice| choice.name.clone()).collect::<Vec<_>>().into()
            }
        };
        for (name, _) in given.iter().filter(|(name, _)| !known.iter().any(|known| known == name)) {
            let missing = known.iter().map(String::as_str).filter(|known| given.get(known).is_none());
            let most = if name.chars().count() < 7 { 1 } else { 2 };
            if let Some(near) = nearest_within(name, missing, most) {
                return Err(Error::MisspeltSwitch { name: name.to_owned(), near: near.to_owned() });
            }
            // A format notes this itself.
            if matches!(speaker, Speaker::Template(_)) {
                let place = Place::field(format!("chat_template_kwargs.{name}"));
                unread.push(Dropped { place, why: "the template does not read this switch", by_design: false });
            }
        }
        Ok(unread)
    }
}
