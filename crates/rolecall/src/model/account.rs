//! Rendering of a request, with the account of it.

use std::sync::Arc;

use rolecall_openai::Request;
use rolecall_render::{Account, Dropped, Prompt, RunRecord, TemplateOptions, account_by_format, render, without_media};

use super::prompt::Speaker;
use super::templates::ChosenTemplate;
use super::unread::{unread, unread_keys};
use super::{Model, Purpose, Settings};
use crate::Error;

/// When an account is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountTime {
    /// With the prompt, because it is known that somebody asks for it.
    AtOnce,
    /// When somebody asks for it. Until then it costs less, and then a little more.
    OnceAsked,
}

impl Model {
    /// Renders a request, with the account of it.
    pub(super) fn accounted(
        &self,
        request: &Arc<Request>,
        settings: &Settings,
        speaker: &Speaker,
        purpose: Purpose,
        time: AccountTime,
    ) -> Result<Prompt, Error> {
        let Speaker::Template(chosen) = speaker else {
            let format = self.format_of(speaker).ok_or(Error::NoFormat)?;
            let mut prompt = render(&request.conversation, format, &settings.of_format())?;
            let switches = self.unread_switches(request, settings, speaker)?;
            let request = Arc::clone(request);
            // The origins of a whole prompt tell it as well later.
            if purpose == Purpose::NewTurn || request.unread_of_messages().next().is_some() {
                let mut account = account_by_format(&request.conversation, &prompt);
                let unread = unread(&request, switches, false, &mut account);
                let dropped = [prompt.dropped(), &unread].concat();
                prompt.set_account(move || (account, dropped));
            } else {
                prompt.add_dropped(unread_keys(&request).chain(switches));
                prompt.set_account_by_origins(move |prompt| account_by_format(&request.conversation, prompt));
            }
            return Ok(prompt);
        };
        let options = ChosenTemplate::options(settings);
        let (mut prompt, account) = TemplateAccount::render(chosen, Arc::clone(request), options, time)?;
        let switches = self.unread_switches(request, settings, speaker)?;
        match time {
            AccountTime::AtOnce => {
                let account = account.determine(switches);
                prompt.set_account(move || account);
            }
            AccountTime::OnceAsked => prompt.set_account(move || account.determine(switches)),
        }
        Ok(prompt)
    }
}

/// What the account of a template's prompt follows from.
struct TemplateAccount {
    chosen: ChosenTemplate,
    request: Arc<Request>,
    options: TemplateOptions,
    run: RunAccount,
    /// Media of which the template writes nothing.
    media: Vec<Dropped>,
}

/// The account of a run.
enum RunAccount {
    Determined(Account),
    Recorded(Box<RunRecord>),
}

impl TemplateAccount {
    /// Renders a request, with the account of it.
    fn render(
        chosen: &ChosenTemplate,
        request: Arc<Request>,
        options: TemplateOptions,
        time: AccountTime,
    ) -> Result<(Prompt, TemplateAccount), Error> {
        let conversation = &request.conversation;
        let rendered = match time {
            AccountTime::AtOnce => chosen
                .account(conversation, &options)
                .map(|(prompt, account)| (prompt, RunAccount::Determined(account))),
            AccountTime::OnceAsked => chosen
                .record(conversation, &options)
                .map(|(prompt, record)| (prompt, RunAccount::Recorded(Box::new(record)))),
        };
        let (prompt, run) = match rendered {
            Err(Error::Template { template, error, message, .. }) => {
                let as_wanted = chosen.wants_other_forms(conversation, &options);
                return Err(Error::Template { template, error, message, as_wanted });
            }
            other => other?,
        };
        let is_same = |rest: &_| chosen.run(rest, &options).is_ok_and(|without| without.text() == prompt.text());
        let media = without_media(conversation).filter(|(rest, _)| is_same(rest));
        let media = media.map(|(_, media)| media).unwrap_or_default();
        Ok((prompt, TemplateAccount { chosen: chosen.clone(), request, options, run, media }))
    }

    /// Returns the account of the request and the parts of it that are left out. `switches` are those that no run
    /// reads, as far as is known.
    fn determine(self, switches: Vec<Dropped>) -> (Account, Vec<Dropped>) {
        let TemplateAccount { chosen, request, options, run, media } = self;
        let conversation = &request.conversation;
        let mut account = match run {
            RunAccount::Determined(account) => account,
            RunAccount::Recorded(record) => record.account(conversation, &chosen.template, &options),
        };
        if account.is_harmed_by_forms() && chosen.wants_other_forms(conversation, &options) {
            account.offer_forms();
        }
        account.leave_out_all(media);
        let mut dropped = account.dropped();
        dropped.extend(unread(&request, switches, !chosen.templates.is_carried, &mut account));
        (account, dropped)
    }
}
