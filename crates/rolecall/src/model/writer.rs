//! What writes the prompts of a request, resolved in one place.

use std::sync::Arc;

use rolecall_conversation::{Conversation, Role};
use rolecall_format::Format;
use rolecall_openai::Request;
use rolecall_render::{ChatTemplate, CodeError, CodeErrorKind, DateTime, Writer};

use super::templates::{ChosenTemplate, Templates, refused};
use super::{Model, Purpose, Settings, Voice};
use crate::Error;

/// The settings of a request, and what writes its prompts.
pub(super) struct Resolved {
    pub settings: Settings,
    pub writer: ModelWriter,
}

/// What writes prompts: a format of the model's registry, or one of its or the request's chat templates.
#[derive(Clone, Debug)]
pub(super) struct ModelWriter {
    pub writer: Writer,
    /// The template with those beside it, if a template writes.
    pub chosen: Option<ChosenTemplate>,
}

impl ModelWriter {
    pub fn format(&self) -> Option<&Arc<Format>> {
        self.writer.as_format()
    }

    pub fn template(&self) -> Option<&Arc<ChatTemplate>> {
        self.writer.as_template()
    }

    /// Returns the templates among which one was chosen, if a template writes.
    pub fn templates(&self) -> Option<&Templates> {
        self.chosen.as_ref().map(|chosen| &*chosen.templates)
    }

    /// Reports whether a template writes that the request carries, which may belong to another model.
    pub fn is_carried(&self) -> bool {
        self.templates().is_some_and(|templates| templates.is_carried)
    }

    /// Returns the time that a template sees. A format sees none.
    pub fn clock(&self) -> Option<DateTime> {
        match &self.writer {
            Writer::Format(..) => None,
            Writer::Template(_, options) => options.now,
        }
    }

    /// Refuses a conversation that shall not end with the opening of an answer, if that is for code to decide.
    pub fn check_end(&self, conversation: &Conversation) -> Result<(), Error> {
        let is_code = self.template().is_some_and(|template| template.code().is_some());
        let is_answered = conversation.messages.last().is_some_and(|last| *last.role() == Role::Assistant);
        if conversation.add_generation_prompt != Some(false) || !is_code || is_answered {
            return Ok(());
        }
        let error = CodeError {
            kind: CodeErrorKind::NotTaken,
            message: None,
            field: "add_generation_prompt".to_owned(),
            what: "a template that is code decides itself how a prompt ends".to_owned(),
            help: "leave it out".to_owned(),
        };
        Err(rolecall_render::Error::Code(error).into())
    }

    /// Adds to an error the template that raised it.
    pub fn refused(&self, error: rolecall_render::Error) -> Error {
        match &self.chosen {
            Some(chosen) => refused(chosen.named(), error),
            None => error.into(),
        }
    }
}

impl Model {
    /// Determines the settings of a request and what writes its prompts: the format or template that the request names,
    /// else that of the model.
    pub(super) fn resolve(&self, request: &Request, purpose: Purpose) -> Result<Resolved, Error> {
        self.resolve_with(self.settings.of(request)?, request, purpose)
    }

    /// Determines what writes a request's prompts with these settings.
    pub(super) fn resolve_with(
        &self,
        mut settings: Settings,
        request: &Request,
        purpose: Purpose,
    ) -> Result<Resolved, Error> {
        let shared = &*self.shared;
        // One clock for everything that is done with the request.
        settings.now = settings.time();
        let carried = Templates::of_request(request)?.map(Arc::new);
        let templates = match (carried, &request.format, &shared.voice) {
            (Some(carried), ..) => Some(carried),
            (None, None, Voice::Templates { templates, .. }) => Some(Arc::clone(templates)),
            _ => None,
        };
        if let Some(templates) = templates {
            let has_tools = request.conversation.tools.is_some();
            let chosen = templates.choose(&settings, has_tools, &shared.compiled)?;
            let writer = ModelWriter { writer: chosen.writer(&settings), chosen: Some(chosen) };
            return Ok(Resolved { settings, writer });
        }
        // A request can only name a format of the registry. It must not choose which files are
        // read.
        let name = match (&request.format, &shared.voice) {
            (Some(name), _) | (None, Voice::Format(name)) => name,
            (None, Voice::Templates { .. } | Voice::Nothing) => return Err(Error::NoFormat),
        };
        let format = shared.registry.find(name).ok_or_else(|| Error::UnknownFormat {
            name: name.clone(),
            near: shared.registry.suggest(name).map(str::to_owned),
        })?;
        let format = if purpose == Purpose::Training { format.for_training() } else { format };
        let writer = Writer::Format(Arc::clone(format), settings.of_format());
        Ok(Resolved { settings, writer: ModelWriter { writer, chosen: None } })
    }

    /// Returns what writes the prompts of requests that name nothing, or `None` if the model has no default template or
    /// nothing at all.
    pub(super) fn own_writer(&self) -> Option<ModelWriter> {
        match &self.shared.voice {
            Voice::Format(name) => {
                let writer = Writer::Format(Arc::clone(self.shared.registry.find(name)?), self.settings.of_format());
                Some(ModelWriter { writer, chosen: None })
            }
            Voice::Templates { templates, .. } => {
                let chosen = templates.choose(&self.settings, false, &self.shared.compiled).ok()?;
                Some(ModelWriter { writer: chosen.writer(&self.settings), chosen: Some(chosen) })
            }
            Voice::Nothing => None,
        }
    }
}
