//! Templates that are code.

use std::sync::{Arc, OnceLock};

use rolecall_conversation::json::Object;

use super::{
    ChatTemplate, CodeError, CodeErrorKind, CodeMessage, CodePiece, DEFAULT, ModelTemplates, NamedTemplate,
    TemplateCode,
};
use crate::Error;

/// Code that writes the prompts of a template. It is equal to itself only.
#[derive(Clone, Debug)]
pub struct SharedCode(pub Arc<dyn TemplateCode>);

impl PartialEq for SharedCode {
    fn eq(&self, other: &SharedCode) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedCode {}

impl ModelTemplates {
    /// Returns code as the templates of a model, for [`ModelBuilder::templates`](crate::model::ModelBuilder::templates).
    ///
    /// The code is asked for a few short conversations. An error says that it refuses one that has only a user's
    /// message, or cannot be run now.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rolecall::conversation::json::Object;
    /// use rolecall::template::{CodeError, CodeMessage, CodePiece, ModelTemplates, TemplateCode};
    /// use rolecall::{Model, Request};
    ///
    /// /// Numbers the rounds.
    /// #[derive(Debug)]
    /// struct Rounds;
    ///
    /// impl TemplateCode for Rounds {
    ///     fn name(&self) -> &str {
    ///         "rounds"
    ///     }
    ///     fn stop_words(&self) -> &[String] {
    ///         &[]
    ///     }
    ///     fn write(&self, messages: &[CodeMessage<'_>], _: &Object) -> Result<Vec<CodePiece>, CodeError> {
    ///         let mut pieces = Vec::new();
    ///         for (at, message) in messages.iter().enumerate() {
    ///             if message.role == "user" {
    ///                 pieces.push(CodePiece::Text(format!("[Round {}] ", at / 2 + 1)));
    ///             }
    ///             pieces.extend([CodePiece::Content(at), CodePiece::Text("\n".into())]);
    ///         }
    ///         Ok(pieces)
    ///     }
    /// }
    ///
    /// let model = Model::builder().templates(ModelTemplates::of_code(Arc::new(Rounds))?).open()?;
    /// let request = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    ///     {"role": "user", "content": "c"}]}"#;
    /// assert_eq!(model.prompt(Request::from_text(request)?)?.text(), "[Round 1] a\nb\n[Round 2] c\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_code(code: Arc<dyn TemplateCode>) -> Result<ModelTemplates, Error> {
        let source = ChatTemplate::sketch(&*code)?;
        let template = NamedTemplate { code: Some(SharedCode(code)), ..NamedTemplate::of_file(DEFAULT, source, "") };
        Ok(ModelTemplates { templates: vec![template], ..ModelTemplates::default() })
    }

    /// Reports whether all of the templates are code.
    pub fn are_code(&self) -> bool {
        !self.templates.is_empty() && self.templates.iter().all(|named| named.code.is_some())
    }
}

/// Code that remembers the first time that it could not be run.
#[derive(Debug)]
pub(crate) struct WatchedCode {
    code: Arc<dyn TemplateCode>,
    unavailable: OnceLock<CodeError>,
}

impl WatchedCode {
    pub fn of(code: &Arc<dyn TemplateCode>) -> Arc<WatchedCode> {
        Arc::new(WatchedCode { code: Arc::clone(code), unavailable: OnceLock::new() })
    }

    /// Returns why it could not be run, if that was so.
    pub fn unavailable(&self) -> Option<CodeError> {
        self.unavailable.get().cloned()
    }
}

impl TemplateCode for WatchedCode {
    fn name(&self) -> &str {
        self.code.name()
    }

    fn stop_words(&self) -> &[String] {
        self.code.stop_words()
    }

    fn write(&self, messages: &[CodeMessage<'_>], switches: &Object) -> Result<Vec<CodePiece>, CodeError> {
        let written = self.code.write(messages, switches);
        if let Err(error) = &written
            && error.kind == CodeErrorKind::Unavailable
        {
            let _ = self.unavailable.set(error.clone());
        }
        written
    }
}
