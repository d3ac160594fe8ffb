//! Unknown keys and switches of a request, and those that look like a misspelling of a known one.

use std::collections::HashSet;
use std::sync::Arc;

use rolecall_conversation::Place;
use rolecall_conversation::spelling::near_miss;
use rolecall_format::Format;
use rolecall_openai::Request;
use rolecall_render::{Account, DesignRule, Dropped, LeafKind, Writer};

use super::writer::ModelWriter;
use super::{Model, Settings, Voice};
use crate::Error;

impl Model {
    /// Reports whether the model's format has an option of this name, or one of its chat templates reads
    /// a variable of this name.
    pub fn reads_switch(&self, name: &str) -> bool {
        let is_option = |format: &Arc<Format>| format.option_names().iter().any(|option| option == name);
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

    /// Returns the switches that the template never reads. A misspelt one is an error.
    pub(super) fn unread_switches(
        &self,
        request: &Request,
        settings: &Settings,
        writer: &ModelWriter,
    ) -> Result<Vec<Dropped>, Error> {
        let mut unread = Vec::new();
        let is_template = writer.template().is_some();
        // A format checks its own options and rejects unknown ones.
        let [own, of_options] = SWITCHES;
        let options = settings.options.iter().filter(|_| is_template).map(|(name, _)| (of_options, name.as_str()));
        let switches = request.conversation.template_kwargs.iter().map(|(name, _)| (own, name));
        let given: Vec<(&str, &str)> = options.chain(switches).collect();
        if given.is_empty() {
            return Ok(unread);
        }
        let known = match &writer.writer {
            // A template that a request carries is not probed for its switches. If probing takes
            // too much, nothing is reported.
            Writer::Template(..) if writer.is_carried() => return Ok(unread),
            Writer::Template(template, _) => match self.shared.replies.switches(template) {
                Ok(known) => known,
                Err(_) => return Ok(unread),
            },
            Writer::Format(format, _) => format.option_names().into(),
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

/// Returns the keys of a request that nothing reads.
pub(super) fn unread_keys(request: &Request) -> impl Iterator<Item = Dropped> {
    request.unread().map(|key| Dropped {
        place: Place::field(key.to_owned()),
        why: "nothing reads this key",
        by_design: false,
    })
}

/// Returns the keys and switches of a request that nothing reads, and completes the account with them.
///
/// `switches` are those that no run reads as far as is known, and `is_probed` tells whether a template of the model was
/// asked for them.
pub(super) fn unread(
    request: &Request,
    switches: Vec<Dropped>,
    is_probed: bool,
    account: &mut Account,
) -> Vec<Dropped> {
    let mut unread: Vec<Dropped> = unread_keys(request).collect();
    account.leave_out_all(unread.clone());
    let lacking = account.lacking();
    let lost = request.unread_of_messages().filter(|(message, key)| lacking.contains(&(*message, *key)));
    unread.extend(lost.map(|(message, key)| Dropped {
        place: Place::message(message, key.to_owned()),
        why: "nothing reads this key of a message",
        by_design: false,
    }));
    let keys = unread.len();
    // The run may have read a switch that no probe did.
    let lost: HashSet<&str> = account
        .of_kind(LeafKind::LeftOut)
        .filter(|leaf| leaf.place.message.is_none())
        .map(|leaf| &*leaf.place.field)
        .collect();
    unread.extend(switches.into_iter().filter(|switch| lost.contains(&*switch.place.field)));
    // No run reads these.
    account.leave_out_all(unread[keys..].to_vec());
    // A switch that the template reads for other conversations.
    if is_probed {
        let never: HashSet<&str> = unread[keys..].iter().map(|switch| &*switch.place.field).collect();
        account.excuse(DesignRule::UnusedSwitch, |place| {
            place.message.is_none()
                && SWITCHES.iter().any(|of| place.field.strip_prefix(of).is_some_and(|rest| rest.starts_with('.')))
                && !never.contains(&*place.field)
        });
    }
    unread
}

/// The keys of a request that have switches.
const SWITCHES: [&str; 2] = ["chat_template_kwargs", "options"];
