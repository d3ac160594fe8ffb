//! A cache of how replies are parsed, by format and by template. Shared by threads.

use std::sync::Arc;

use rolecall_encode::Decoder;
use rolecall_format::Format;
use rolecall_infer::LayoutWarning;
use rolecall_parse::Reply;
use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, template_switches};

use super::encoders::Encoders;
use super::templates::TemplateText;
use crate::Error;
use crate::kept::SmallCache;
use crate::layouts::infer_layouts;

#[derive(Default)]
pub(super) struct Replies {
    layouts: SmallCache<TemplateText, Arc<Layouts>>,
    switches: SmallCache<TemplateText, Arc<Vec<String>>>,
    /// By the name of the format, the spelling of its control tokens, and whether ids are parsed.
    by_format: SmallCache<(String, Option<String>, bool), Arc<Reply>>,
    by_template: SmallCache<TemplateReplyKey, Arc<Reply>>,
}

/// A template, the texts that end its model's replies, and whether ids are parsed.
type TemplateReplyKey = (TemplateText, Arc<[String]>, bool);

/// The layouts of a template's replies.
struct Layouts {
    format: Arc<Format>,
    /// The parts that they do not cover.
    warnings: Arc<[LayoutWarning]>,
}

impl Replies {
    /// Returns how a format's replies are parsed: as text, or as ids of a tokenizer. `spelling` is
    /// that of the control tokens.
    pub fn of_format(
        &self,
        format: &Format,
        spelling: Option<&str>,
        ids: Option<&Decoder>,
    ) -> Result<Arc<Reply>, Error> {
        let is_it = |(name, known, has_ids): &(String, Option<String>, bool)| {
            *name == format.name && known.as_deref() == spelling && *has_ids == ids.is_some()
        };
        self.by_format.find_or_make(is_it, || {
            let markers = markers_of(ids);
            let reply = match spelling {
                Some(spelling) => Reply::with_tokens(&format.spelled(spelling), &markers),
                None => Reply::with_tokens(format, &markers),
            };
            Ok(((format.name.clone(), spelling.map(str::to_owned), ids.is_some()), Arc::new(reply)))
        })
    }

    /// Returns how replies of a template's model are parsed. `stops` end them: those of the template,
    /// which its layouts know, and those that only the model's files name.
    pub fn of_template(
        &self,
        template: &ChatTemplate,
        stops: &Arc<[String]>,
        encoders: &Encoders,
        ids: Option<&Decoder>,
    ) -> Result<Arc<Reply>, Error> {
        let is_it = |(content, known, has_ids): &TemplateReplyKey| {
            content.is_of(template) && known == stops && *has_ids == ids.is_some()
        };
        self.by_template.find_or_make(is_it, || {
            let mut format = Format::clone(&*self.layouts(template, encoders)?);
            let generation = Arc::make_mut(&mut format.generation);
            let is_new = |stop: &&String| !generation.stop.contains(stop);
            let new: Vec<String> = stops.iter().filter(is_new).cloned().collect();
            generation.stop.extend(new);
            let reply = Arc::new(Reply::with_tokens(&format, &markers_of(ids)));
            Ok(((TemplateText::of(template), Arc::clone(stops), ids.is_some()), reply))
        })
    }

    /// Returns the names of the switches that a template reads.
    pub fn switches(&self, template: &ChatTemplate) -> Result<Arc<Vec<String>>, Error> {
        self.switches.find_or_make(
            |content| content.is_of(template),
            || {
                let (_, found) = template_switches(template, &TemplateOptions::default(), &ProbeBudget::default())?;
                let names = found.into_iter().map(|switch| switch.name).collect();
                Ok((TemplateText::of(template), Arc::new(names)))
            },
        )
    }

    /// Returns the layouts inferred from a template, with the known corrections for models of its
    /// family.
    pub fn layouts(&self, template: &ChatTemplate, encoders: &Encoders) -> Result<Arc<Format>, Error> {
        Ok(Arc::clone(&self.known(template, encoders)?.format))
    }

    /// Returns the parts of replies that these layouts do not cover.
    pub fn warnings(&self, template: &ChatTemplate, encoders: &Encoders) -> Result<Arc<[LayoutWarning]>, Error> {
        Ok(Arc::clone(&self.known(template, encoders)?.warnings))
    }

    fn known(&self, template: &ChatTemplate, encoders: &Encoders) -> Result<Arc<Layouts>, Error> {
        self.layouts.find_or_make(
            |content| content.is_of(template),
            || {
                // Without a tokenizer, only the template tells how the model writes calls.
                let tokens = || markers_of(encoders.loaded().ok().map(|loaded| &*loaded.decoder));
                let layouts = infer_layouts(template, tokens)?;
                let layouts = Layouts { format: Arc::new(layouts.format), warnings: layouts.warnings.into() };
                Ok((TemplateText::of(template), Arc::new(layouts)))
            },
        )
    }
}

/// Returns the texts of control tokens. In ids they are markers; the same characters in text are
/// not.
fn markers_of(ids: Option<&Decoder>) -> Vec<String> {
    ids.map(Decoder::markers).unwrap_or_default()
}
