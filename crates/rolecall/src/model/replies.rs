//! What can be read, by format and by template; shared by threads.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use rolecall_encode::Decoder;
use rolecall_format::Format;
use rolecall_infer::infer;
use rolecall_parse::Reply;
use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, template_switches};

use crate::Error;

/// How many layouts are kept: requests that all carry another template do not fill the memory.
const KEPT: usize = 64;

#[derive(Default)]
pub(super) struct Replies {
    layouts: Kept<Content, Format>,
    switches: Kept<Content, Vec<String>>,
    /// By the layouts' name and whether ids are read.
    by_format: Kept<(String, bool), Reply>,
    by_template: Kept<(Content, bool), Reply>,
}

/// A template's text and its special tokens.
type Content = (String, Vec<(String, String)>);

impl Replies {
    /// How a format's replies are read: as text, or as the ids of a tokenizer. A spelling is that of its control tokens.
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

    /// How the replies of a template's model are read.
    pub fn of_template(&self, template: &ChatTemplate, ids: Option<&Decoder>) -> Result<Arc<Reply>, Error> {
        let key = (content(template), ids.is_some());
        self.by_template.find_or_make(key, || Ok(Reply::with_tokens(&*self.layouts(template)?, &markers_of(ids))))
    }

    /// The names of the switches that a template reads.
    pub fn switches(&self, template: &ChatTemplate) -> Result<Arc<Vec<String>>, Error> {
        self.switches.find_or_make(content(template), || {
            let (_, found) = template_switches(template, &TemplateOptions::default(), &ProbeBudget::default())?;
            Ok(found.into_iter().map(|switch| switch.name).collect())
        })
    }

    /// The template's own layouts, and what its family's models are known to write otherwise.
    pub fn layouts(&self, template: &ChatTemplate) -> Result<Arc<Format>, Error> {
        self.layouts
            .find_or_make(content(template), || Ok(infer(template).complete()?.format.corrected(template.source()).0))
    }
}

/// The texts of control tokens, which ids alone tell apart.
fn markers_of(ids: Option<&Decoder>) -> Vec<String> {
    ids.map(Decoder::markers).unwrap_or_default()
}

fn content(template: &ChatTemplate) -> Content {
    (template.source().to_owned(), template.tokens().to_vec())
}

/// A few values, each made once.
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
