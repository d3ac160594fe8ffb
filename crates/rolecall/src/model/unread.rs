//! Unknown keys and switches of a request, and those that look like a misspelling of a known one.

use std::collections::HashSet;

use rolecall_conversation::Place;
use rolecall_conversation::spelling::near_miss;
use rolecall_format::Format;
use rolecall_openai::Request;
use rolecall_render::{Account, DesignRule, Dropped, LeafKind};

use super::prompt::Speaker;
use super::{Model, Settings, Voice};
use crate::Error;

impl Model {
    /// Reports whether the model's format has an option of this name, or one of its chat templates reads
    /// a variable of this name.
    pub fn reads_switch(&self, name: &str) -> bool {
        let is_option = |format: &Format| format.option_names().iter().any(|option| option == name);
        let Voice::Templates { templates, .. } = &self.shared.voice else {
            return self.format().is_some_and(is_option);
        };
        templates.model.templates.iter().any(|named| {
            let settings = Settings { template_name: Some(named.name.clone()), ..self.settings().clone() };
            let switches = templates
                .choose(&settings, false, &self.shared.compiled)
                .and_then(|chosen| self.shared.replies.switches(&chosen.template));
            match switches {
                Ok(switches) => switches.iter().any(|switch| switch == name),
                // A template that takes too much to probe may read every word in it.
                Err(_) => named.source.contains(name),
            }
        })
    }

    /// Returns the keys and switches of a request that nothing reads, and completes the account with them. A
    /// misspelt switch is an error. Without an account, no message may have a key that is not a chat format's, and a
    /// format must have written the prompt.
    pub(super) fn unread(
        &self,
        request: &Request,
        settings: &Settings,
        speaker: &Speaker,
        account: Option<&mut Account>,
    ) -> Result<Vec<Dropped>, Error> {
        let mut unread: Vec<Dropped> = request
            .unread()
            .map(|key| Dropped { place: Place::field(key.to_owned()), why: "nothing reads this key", by_design: false })
            .collect();
        let Some(account) = account else {
            self.check_switches(request, settings, speaker, &mut unread)?;
            return Ok(unread);
        };
        account.leave_out_all(unread.clone());
        let lacking = account.lacking();
        let lost = request.unread_of_messages().filter(|(message, key)| lacking.contains(&(*message, *key)));
        unread.extend(lost.map(|(message, key)| Dropped {
            place: Place::message(message, key.to_owned()),
            why: "nothing reads this key of a message",
            by_design: false,
        }));
        let keys = unread.len();
        self.check_switches(request, settings, speaker, &mut unread)?;
        // The run may have read a switch that no probe did.
        let switches = unread.split_off(keys);
        let lost: HashSet<&str> = account
            .of_kind(LeafKind::LeftOut)
            .filter(|leaf| leaf.place.message.is_none())
            .map(|leaf| &*leaf.place.field)
            .collect();
        unread.extend(switches.into_iter().filter(|switch| lost.contains(&*switch.place.field)));
        // No run reads these.
        account.leave_out_all(unread[keys..].to_vec());
        // A switch that the template reads for other conversations.
        if matches!(speaker, Speaker::Template(chosen) if !chosen.templates.is_carried) {
            let never: HashSet<&str> = unread[keys..].iter().map(|switch| &*switch.place.field).collect();
            account.excuse(DesignRule::UnusedSwitch, |place| {
                place.message.is_none()
                    && SWITCHES.iter().any(|of| place.field.strip_prefix(of).is_some_and(|rest| rest.starts_with('.')))
                    && !never.contains(&*place.field)
            });
        }
        Ok(unread)
    }

    /// Refuses misspelt switches, and adds those that the template never reads.
    pub(super) fn check_switches(
        &self,
        request: &Request,
        settings: &Settings,
        speaker: &Speaker,
        unread: &mut Vec<Dropped>,
    ) -> Result<(), Error> {
        let is_template = matches!(speaker, Speaker::Template(_));
        // A format checks its own options and rejects unknown ones.
        let [own, of_options] = SWITCHES;
        let options = settings.options.iter().filter(|_| is_template).map(|(name, _)| (of_options, name.as_str()));
        let switches = request.conversation.template_kwargs.iter().map(|(name, _)| (own, name));
        let given: Vec<(&str, &str)> = options.chain(switches).collect();
        if given.is_empty() {
            return Ok(());
        }
        let known = match speaker {
            // A template that a request carries is not probed for its switches. If probing takes
            // too much, nothing is reported.
            Speaker::Template(chosen) if chosen.templates.is_carried => return Ok(()),
            Speaker::Template(chosen) => match self.shared.replies.switches(&chosen.template) {
                Ok(known) => known,
                Err(_) => return Ok(()),
            },
            Speaker::Format { .. } => self.format_of(speaker).map(Format::option_names).unwrap_or_default().into(),
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
        Ok(())
    }
}

/// The keys of a request that have switches.
const SWITCHES: [&str; 2] = ["chat_template_kwargs", "options"];
