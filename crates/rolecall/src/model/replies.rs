//! A cache of how replies are parsed, by format and by template. Shared by threads.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use rolecall_encode::Decoder;
use rolecall_format::Format;
use rolecall_infer::LayoutWarning;
use rolecall_parse::Reply;
use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, template_switches};

use super::encoders::Encoders;
use crate::Error;
use crate::layouts::infer_layouts;

/// The maximum number of cached values of each kind, so that requests that each carry a different
/// template do not fill the memory.
const KEPT: usize = 64;

#[derive(Default)]
pub(super) struct Replies {
    layouts: Kept<Content, Layouts>,
    switches: Kept<Content, Vec<String>>,
    /// By the name of the format, and whether ids are parsed.
    by_format: Kept<(String, bool), Reply>,
    /// By the template, the texts that end its model's replies, and whether ids are parsed.
    by_template: Kept<(Content, Arc<[String]>, bool), Reply>,
}

/// The layouts of a template's replies.
struct Layouts {
    format: Arc<Format>,
    /// The parts that they do not cover.
    warnings: Arc<[LayoutWarning]>,
}

/// A template's text and its special tokens.
type Content = (String, Vec<(String, String)>);

impl Replies {
    /// Returns how a format's replies are parsed: as text, or as ids of a tokenizer. `spelling` is
    /// that of the control tokens.
    pub fn of_format(
        &self,
        format: &Format,
        spelling: Option<&str>,
        ids: Option<&Decoder>,
    ) -> Result<Arc<Reply>, Error> {
        let key = (format!("{} {}", format.name, spelling.unwrap_or_default()), ids.is_some());
        self.by_format.find_or_make(key, || {
            let markers = markers_of(ids);
            Ok(match spelling {
                Some(spelling) => Reply::with_tokens(&format.spelled(spelling), &markers),
                None => Reply::with_tokens(format, &markers),
            })
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
        let key = (content(template), Arc::clone(stops), ids.is_some());
        self.by_template.find_or_make(key, || {
            let mut format = Format::clone(&*self.layouts(template, encoders)?);
            let generation = Arc::make_mut(&mut format.generation);
            let is_new = |stop: &&String| !generation.stop.contains(stop);
            let new: Vec<String> = stops.iter().filter(is_new).cloned().collect();
            generation.stop.extend(new);
            Ok(Reply::with_tokens(&format, &markers_of(ids)))
        })
    }

    /// Returns the names of the switches that a template reads.
    pub fn switches(&self, template: &ChatTemplate) -> Result<Arc<Vec<String>>, Error> {
        self.switches.find_or_make(content(template), || {
            let (_, found) = template_switches(template, &TemplateOptions::default(), &ProbeBudget::default())?;
            Ok(found.into_iter().map(|switch| switch.name).collect())
        })
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
        self.layouts.find_or_make(content(template), || {
            // Without a tokenizer, only the template tells how the model writes calls.
            let tokens = || markers_of(encoders.loaded().ok().map(|loaded| &*loaded.decoder));
            let layouts = infer_layouts(template, tokens)?;
            Ok(Layouts { format: Arc::new(layouts.format), warnings: layouts.warnings.into() })
        })
    }
}

/// Returns the texts of control tokens. In ids they are markers; the same characters in text are
/// not.
fn markers_of(ids: Option<&Decoder>) -> Vec<String> {
    ids.map(Decoder::markers).unwrap_or_default()
}

fn content(template: &ChatTemplate) -> Content {
    (template.source().to_owned(), template.tokens().to_vec())
}

/// A small cache. Each value is made once.
struct Kept<K, V>(RwLock<HashMap<K, Arc<V>>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Kept(RwLock::default())
    }
}

impl<K: Hash + Eq, V> Kept<K, V> {
    fn find_or_make(&self, key: K, make: impl FnOnce() -> Result<V, Error>) -> Result<Arc<V>, Error> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(make()?);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&made));
        Ok(made)
    }
}
