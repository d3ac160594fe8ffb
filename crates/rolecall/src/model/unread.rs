//! Unknown keys and switches of a request, and those that look like a misspelling of a known one.

use rolecall_conversation::Place;
use rolecall_conversation::spelling::near_miss;
use rolecall_openai::Request;
use rolecall_render::Dropped;

use super::prompt::Speaker;
use super::{Model, Settings};
use crate::Error;

impl Model {
    /// Returns the keys and switches of a request that nothing reads.
    pub(super) fn unread(
        &self,
        request: &Request,
        settings: &Settings,
        speaker: &Speaker,
    ) -> Result<Vec<Dropped>, Error> {
        let mut unread: Vec<Dropped> = request
            .unread()
            .map(|key| Dropped { place: Place::field(key), why: "nothing reads this key", by_design: false })
            .collect();
        // A template can read any key that its source mentions.
        let named = |key: &str| match speaker {
            Speaker::Template(chosen) => chosen.named().source.contains(key),
            Speaker::Format { .. } => false,
        };
        unread.extend(request.unread_of_messages().filter(|(_, key)| !named(key)).map(|(message, key)| Dropped {
            place: Place::message(message, key),
            why: "nothing reads this key of a message",
            by_design: false,
        }));
        let is_template = matches!(speaker, Speaker::Template(_));
        // A format checks its own options and rejects unknown ones.
        let options = settings.options.iter().filter(|_| is_template).map(|(name, _)| ("options", name.as_str()));
        let switches = request.conversation.template_kwargs.iter().map(|(name, _)| ("chat_template_kwargs", name));
        let given: Vec<(&str, &str)> = options.chain(switches).collect();
        if given.is_empty() {
            return Ok(unread);
        }
        let known = match speaker {
            // A template that a request carries is not probed for its switches. If probing takes
            // too much, nothing is reported.
            Speaker::Template(chosen) if chosen.templates.is_carried => return Ok(unread),
            Speaker::Template(chosen) => match self.shared.replies.switches(&chosen.template) {
                Ok(known) => known,
                Err(_) => return Ok(unread),
            },
            Speaker::Format { .. } => {
                let choices = self.format_of(speaker).map(|format| &format.choices);
                choices.into_iter().flatten().map(|choice| choice.name.clone()).collect::<Vec<_>>().into()
            }
        };
        let missing: Vec<&str> =
            known.iter().map(String::as_str).filter(|known| given.iter().all(|(_, name)| name != known)).collect();
        for (of, name) in given.into_iter().filter(|(_, name)| !known.iter().any(|known| known == name)) {
            if let Some(near) = near_miss(name, missing.iter().copied()) {
                return Err(Error::MisspeltSwitch { name: name.to_owned(), near: near.to_owned() });
            }
            // A format reports this itself.
            if is_template {
                let place = Place::field(format!("{of}.{name}"));
                unread.push(Dropped { place, why: "the template does not read this switch", by_design: false });
            }
        }
        Ok(unread)
    }
}
