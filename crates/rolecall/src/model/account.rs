//! Rendering of a request, with the account of it.

use std::sync::Arc;

use rolecall_conversation::Conversation;
use rolecall_openai::Request;
use rolecall_render::{Account, Dropped, Forms, Prompt, RunRecord, TemplateOptions, Writer, without_media};

use super::unread::{unread, unread_keys};
use super::writer::ModelWriter;
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
        writer: &ModelWriter,
        purpose: Purpose,
        time: AccountTime,
    ) -> Result<Prompt, Error> {
        let conversation = &request.conversation;
        let Some(chosen) = &writer.chosen else {
            let mut prompt = writer.writer.render(conversation)?;
            let switches = self.unread_switches(request, settings, writer)?;
            let request = Arc::clone(request);
            // The origins of a whole prompt tell it as well later.
            if purpose == Purpose::NewTurn || request.unread_of_messages().next().is_some() {
                let mut account = Account::by_origins(&request.conversation, &prompt);
                let unread = unread(&request, switches, false, &mut account);
                let dropped = [prompt.dropped(), &unread].concat();
                prompt.set_account(move || (account, dropped));
            } else {
                prompt.add_dropped(unread_keys(&request).chain(switches));
                prompt.set_account_by_origins(move |prompt| Account::by_origins(&request.conversation, prompt));
            }
            return Ok(prompt);
        };
        let (mut prompt, account) = TemplateAccount::render(writer, chosen.templates.is_carried, request, time)?;
        let switches = self.unread_switches(request, settings, writer)?;
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
    request: Arc<Request>,
    run: RunAccount,
    /// The same template with other forms, if they may help.
    other: Option<Writer>,
    is_carried: bool,
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
        writer: &ModelWriter,
        is_carried: bool,
        request: &Arc<Request>,
        time: AccountTime,
    ) -> Result<(Prompt, TemplateAccount), Error> {
        let conversation = &request.conversation;
        let other = with_other_forms(&writer.writer).filter(|_| !is_carried);
        let rendered = match time {
            AccountTime::AtOnce => {
                writer.writer.account(conversation).map(|(prompt, account)| (prompt, RunAccount::Determined(account)))
            }
            AccountTime::OnceAsked => writer.writer.record(conversation).map(|(prompt, record)| {
                let run = record.map(|record| RunAccount::Recorded(Box::new(record)));
                (prompt, run.unwrap_or(RunAccount::Determined(Account::EMPTY)))
            }),
        };
        let (prompt, run) = match rendered.map_err(|error| writer.refused(error)) {
            Err(Error::Template { template, error, message, .. }) => {
                let as_wanted = other.is_some_and(|other| is_better(&other, conversation));
                return Err(Error::Template { template, error, message, as_wanted });
            }
            other => other?,
        };
        let is_same = |rest: &_| writer.writer.render(rest).is_ok_and(|without| without.text() == prompt.text());
        let media = without_media(conversation).filter(|(rest, _)| is_same(rest));
        let media = media.map(|(_, media)| media).unwrap_or_default();
        Ok((prompt, TemplateAccount { request: Arc::clone(request), run, other, is_carried, media }))
    }

    /// Returns the account of the request and the parts of it that are left out. `switches` are those that no run
    /// reads, as far as is known.
    fn determine(self, switches: Vec<Dropped>) -> (Account, Vec<Dropped>) {
        let TemplateAccount { request, run, other, is_carried, media } = self;
        let conversation = &request.conversation;
        let mut account = match run {
            RunAccount::Determined(account) => account,
            RunAccount::Recorded(record) => record.account(conversation),
        };
        if account.is_harmed_by_forms() && other.is_some_and(|other| is_better(&other, conversation)) {
            account.offer_forms();
        }
        account.leave_out_all(media);
        let mut dropped = account.dropped();
        dropped.extend(unread(&request, switches, !is_carried, &mut account));
        (account, dropped)
    }
}

/// Returns the same writer with the forms that the template writes, if it passes them as given.
fn with_other_forms(writer: &Writer) -> Option<Writer> {
    match writer {
        Writer::Template(template, options) if options.forms == Forms::AsGiven => {
            Some(Writer::template(Arc::clone(template), TemplateOptions { forms: Forms::AsWanted, ..options.clone() }))
        }
        Writer::Template(..) | Writer::Format(..) => None,
    }
}

/// Reports whether a writer writes all contents and calls.
fn is_better(writer: &Writer, conversation: &Conversation) -> bool {
    writer.account(conversation).is_ok_and(|(_, account)| !account.is_harmed_by_forms())
}
