use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rolecall_render::ChatTemplate;

use crate::{InferredFormat, Limits, infer_within};

/// A cache of inference results for recently used templates.
///
/// A template is identified by its whole source and its special tokens, so it is never confused
/// with another one.
///
/// ```
/// use std::sync::Arc;
/// use rolecall_infer::Cache;
/// use rolecall_render::ChatTemplate;
/// let cache = Cache::new(8);
/// let template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}</s>{% endfor %}", Vec::new())?;
/// assert!(Arc::ptr_eq(&cache.infer(&template), &cache.infer(&template)));
/// # Ok::<(), rolecall_render::Error>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    most: usize,
    limits: Limits,
    /// The entries, with the most recently used one first.
    known: Mutex<VecDeque<CacheEntry>>,
}

#[derive(Clone, Debug)]
struct CacheEntry {
    source: Arc<str>,
    tokens: Vec<(String, String)>,
    inferred: Arc<InferredFormat>,
}

impl Cache {
    /// Creates a cache for up to `most` templates.
    pub fn new(most: usize) -> Cache {
        Cache::within(most, Limits::default())
    }

    /// Creates a cache for up to `most` templates, with the given limits.
    pub fn within(most: usize, limits: Limits) -> Cache {
        Cache { most, limits, known: Mutex::default() }
    }

    /// Returns the inference result for a template, computing it if it is not cached.
    pub fn infer(&self, template: &ChatTemplate) -> Arc<InferredFormat> {
        let is_it = |entry: &CacheEntry| *entry.source == *template.source() && entry.tokens == template.tokens();
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let found = known.iter().position(is_it).and_then(|at| known.remove(at));
            if let Some(entry) = found {
                let inferred = Arc::clone(&entry.inferred);
                known.push_front(entry);
                return inferred;
            }
        }
        // The lock is not held here, so other threads need not wait. Two threads with the same
        // template both infer it.
        let inferred = Arc::new(infer_within(template, self.limits));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = template.tokens().to_vec();
        known.push_front(CacheEntry { source: template.source().into(), tokens, inferred: Arc::clone(&inferred) });
        known.truncate(self.most);
        inferred
    }

    /// Returns the number of cached templates.
    pub fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Reports whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(end: &str) -> ChatTemplate {
        let source = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
        ChatTemplate::compile(source, vec![("eos_token".into(), end.into())]).expect("a template")
    }

    #[test]
    fn it_keeps_the_templates_that_were_asked_for_last() {
        let cache = Cache::new(2);
        let first = cache.infer(&template("a"));
        let _ = cache.infer(&template("b"));
        assert!(Arc::ptr_eq(&first, &cache.infer(&template("a"))));
        let _ = cache.infer(&template("c"));
        assert_eq!(cache.len(), 2);
        assert!(Arc::ptr_eq(&first, &cache.infer(&template("a"))));
    }

    #[test]
    fn the_same_text_with_other_tokens_is_another_template() {
        let cache = Cache::new(4);
        assert_ne!(cache.infer(&template("</s>")).format, cache.infer(&template("<|end|>")).format);
    }
}
