//! The one answer to which tokens end the replies of a model: [`Model::stops`], stop ids in every
//! result, sessions, loss masks and the gateway use it.

use std::sync::Arc;

use rolecall_encode::control_id;
use rolecall_format::{Control, Format};
use rolecall_tokenizer::Tokenizer;

use super::Model;
use super::ends::{StopToken, Stops};
use super::templates::ChosenTemplate;
use super::writer::ModelWriter;
use crate::Error;
use crate::loss::closers;

/// The source of a stop that only the layouts of a chat template name.
pub(super) const CLOSER: &str = "the end of a reply in its chat template";

impl Model {
    /// Returns the tokens that end a reply: the tokens that close a turn of the format or chat
    /// template, and the end tokens that the model's files name.
    ///
    /// The ids are those of the tokenizer, if the model has one.
    pub fn stops(&self) -> Result<Vec<StopToken>, Error> {
        match self.own_writer() {
            Some(writer) => Ok(self.stops_of(&writer)?.tokens.clone()),
            // If there is no default template, only the files name stop tokens.
            None => Ok(self.find_stops(self.format(), &[], true)?.tokens),
        }
    }

    /// Returns the ids that end a reply.
    pub fn stop_ids(&self) -> Result<Vec<u32>, Error> {
        Ok(self.stops()?.into_iter().filter_map(|stop| stop.id).collect())
    }

    /// Returns the tokens that end the replies to a writer's prompts.
    pub(super) fn stops_of(&self, writer: &ModelWriter) -> Result<Arc<Stops>, Error> {
        let Some(chosen) = &writer.chosen else {
            return Ok(Arc::new(self.find_stops(writer.format(), &[], true)?));
        };
        chosen.templates.stops(chosen.named, &self.settings, || {
            // A template that a request carries may belong to another model. The tokens of a model
            // with templates of its own end its replies all the same.
            let is_own = !chosen.templates.is_carried;
            let default = self.own_writer().and_then(|own| own.chosen);
            let default = default.filter(|default| is_own && default.named != chosen.named);
            let templates: Vec<&ChosenTemplate> = std::iter::once(chosen).chain(&default).collect();
            let format = self.format().filter(|_| is_own);
            self.find_stops(format, &templates, is_own || self.templates().is_some())
        })
    }

    fn find_stops(
        &self,
        format: Option<&Arc<Format>>,
        templates: &[&ChosenTemplate],
        by_files: bool,
    ) -> Result<Stops, Error> {
        let tokenizer = self.has_tokenizer().then(|| self.tokenizer()).transpose()?;
        let mut found = StopSet { tokenizer: tokenizer.map(|tokenizer| &**tokenizer), stops: Vec::new() };
        let mut texts: Vec<String> = Vec::new();
        // Tokens that stop the model and end no conversation come last: a call's, or one of the next turn.
        let mut others: Vec<String> = Vec::new();
        if let Some(format) = format {
            let source = format!("the format `{}`", format.name);
            for control in format.controls.iter().filter(|control| control.ends_turn) {
                found.add_control(control, &source);
                texts.extend(control.texts().map(str::to_owned));
            }
            for text in &format.generation.stop {
                found.add_text(text, &source);
            }
        }
        for chosen in templates {
            for word in chosen.template.code().into_iter().flat_map(|code| code.stop_words()) {
                found.add_text(word, "the stop words of its template");
            }
            // A template whose layouts cannot be inferred has at least the tokens that files name.
            let Ok(layouts) = self.shared.replies.layouts(&chosen.template, &self.shared.encoders) else { continue };
            for end in closers(&layouts) {
                match layouts.generation.stop.contains(&end) {
                    true => others.push(end),
                    false => found.add_closer(&end, CLOSER),
                }
            }
        }
        if by_files {
            for (text, file) in &self.shared.ends.texts {
                found.add_text(text, file);
            }
            for (id, file) in &self.shared.ends.ids {
                let text = tokenizer.and_then(|tokenizer| tokenizer.token_text(*id)).unwrap_or_default();
                found.add(&text, Some(*id), file);
            }
        }
        for (name, token) in templates.iter().flat_map(|chosen| chosen.template.tokens()) {
            if name == "eos_token" && !found.stops.iter().any(|stop| stop.text == *token) {
                found.add_text(token, "the `eos_token` of its chat template");
            }
        }
        others.iter().for_each(|end| found.add_closer(end, CLOSER));
        texts.extend(found.stops.iter().map(|stop| stop.text.clone()));
        texts.retain(|text| !text.is_empty());
        texts.sort_unstable();
        texts.dedup();
        Ok(Stops { tokens: found.stops, texts: texts.into() })
    }
}

struct StopSet<'a> {
    tokenizer: Option<&'a dyn Tokenizer>,
    stops: Vec<StopToken>,
}

impl StopSet<'_> {
    fn add(&mut self, text: &str, id: Option<u32>, source: &str) {
        if text.is_empty() && id.is_none() {
            return;
        }
        let known = self.stops.iter_mut().find(|stop| match (stop.id, id) {
            (Some(known), Some(id)) => known == id,
            _ => stop.text == text,
        });
        match known {
            Some(stop) if stop.sources.iter().any(|known| known == source) => {}
            Some(stop) => stop.sources.push(source.to_owned()),
            None => self.stops.push(StopToken { text: text.to_owned(), id, sources: vec![source.to_owned()] }),
        }
    }

    fn add_text(&mut self, text: &str, source: &str) {
        let id = self.tokenizer.and_then(|tokenizer| tokenizer.token_id(text));
        self.add(text, id, source);
    }

    fn add_control(&mut self, control: &Control, source: &str) {
        let id = match self.tokenizer {
            // An id of the format may be another token of this tokenizer.
            Some(tokenizer) => control_id(control, tokenizer).or_else(|| tokenizer.token_id(&control.text)),
            None => control.id,
        };
        self.add(&control.text, id, source);
    }

    /// Adds the text with which a reply ends, and the token that begins this text.
    fn add_closer(&mut self, end: &str, source: &str) {
        let added = self.tokenizer.map_or(&[][..], |tokenizer| tokenizer.added_tokens());
        let opens = added.iter().filter(|token| !token.text.trim().is_empty() && end.starts_with(&token.text));
        if let Some(token) = opens.max_by_key(|token| token.text.len()) {
            self.add(&token.text, Some(token.id), source);
        }
        self.add_text(end, source);
    }
}
