//! Templates that are code: a function from a conversation to a text.
//!
//! Code tells where it writes the content of each message ([`CodePiece`]). A conversation is rendered by a template
//! that writes just these pieces, so its prompt has the origins, the account and the limits of any other. What must be
//! known before there is a conversation follows from a sketch: a template that writes what the code writes for a few
//! short conversations.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Content, Conversation, Json, Message};
use rolecall_jinja as jinja;

use super::{ChatTemplate, TemplateOptions, in_template};
use crate::Error;

/// Code that writes the prompts of conversations.
pub trait TemplateCode: fmt::Debug + Send + Sync {
    /// The name of the template, for errors.
    fn name(&self) -> &str;

    /// The texts that stop the model.
    fn stop_words(&self) -> &[String];

    /// Writes a conversation. The switches are numbers, booleans or null.
    ///
    /// The pieces must be those of the text that the code writes: what is not the content of a message is the
    /// template's own, and may become control tokens.
    fn write(&self, messages: &[CodeMessage<'_>], switches: &Object) -> Result<Vec<CodePiece>, CodeError>;
}

/// What code gets of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMessage<'a> {
    /// One of [`CodeMessage::ROLES`].
    pub role: &'a str,
    /// The text of its content.
    pub content: Cow<'a, str>,
}

/// A piece of what code writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodePiece {
    /// Text of the template's own.
    Text(String),
    /// The content of the message with this index, from 0.
    Content(usize),
}

/// An error of code, or a conversation that cannot be given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeError {
    /// The kind of error.
    pub kind: CodeErrorKind,
    /// The index of the message, from 0, if it is about one.
    pub message: Option<usize>,
    /// The field of the message, or else of the request. Empty if it is about the whole.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// How to fix it.
    pub help: String,
}

/// The kind of a [`CodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeErrorKind {
    /// The code fails, or refuses the conversation.
    Failed,
    /// The code changes a text or decides by it, so the place of the text in the prompt is not known.
    TextNotFound,
    /// The conversation has something that code does not take.
    NotTaken,
    /// The code cannot be run now.
    Unavailable,
}

impl CodeErrorKind {
    /// The kinds by their stable names.
    pub const ALL: [(&'static str, CodeErrorKind); 4] = [
        ("code_failed", CodeErrorKind::Failed),
        ("text_not_found", CodeErrorKind::TextNotFound),
        ("code_takes_less", CodeErrorKind::NotTaken),
        ("code_unavailable", CodeErrorKind::Unavailable),
    ];

    /// Returns the stable name.
    pub fn code(self) -> &'static str {
        CodeErrorKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("code_failed", |(name, _)| name)
    }
}

impl CodeError {
    fn not_taken(message: Option<usize>, field: impl Into<String>, what: String, help: &str) -> CodeError {
        CodeError { kind: CodeErrorKind::NotTaken, message, field: field.into(), what, help: help.to_owned() }
    }
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message {
            Some(message) => write!(f, "message {message}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl<'a> CodeMessage<'a> {
    /// The roles that code may write into a prompt as its own text. Another word could spell a control token.
    pub const ROLES: [&'static str; 7] =
        ["system", "developer", "user", "assistant", "tool", "function", "environment"];

    /// Reads the message with an index. Anything but its role and its text is refused, since code would ignore it.
    fn read(index: usize, message: &'a Message) -> Result<CodeMessage<'a>, CodeError> {
        let not_taken = |field: &str, what: String, help: &str| CodeError::not_taken(Some(index), field, what, help);
        let object = message.as_object();
        let says_nothing = |value: &Json| value.is_null() || value.as_array().is_some_and(|items| items.is_empty());
        let mut others =
            object.iter().filter(|(key, value)| !(*key == "role" || *key == "content" || says_nothing(value)));
        if let Some((key, _)) = others.next() {
            let what = format!("a template that is code does not take `{key}`");
            return Err(not_taken(key, what, "send only the role and the content"));
        }
        let role = message.role_as_spelled();
        if !CodeMessage::ROLES.contains(&role) {
            let help = format!("use one of {}", CodeMessage::ROLES.map(|role| format!("`{role}`")).join(", "));
            return Err(not_taken("role", format!("`{role}` is not a role that code may write"), &help));
        }
        let content = match message.plain_text() {
            Some(text) => Some(Cow::Borrowed(text)),
            // An answer may be empty.
            None if message.content() == Content::None && role != "assistant" => None,
            None => message.joined_text().map(Cow::Owned),
        };
        let content = content.ok_or_else(|| {
            let what = "a template that is code takes only text".to_owned();
            not_taken("content", what, "send the content as text, or as parts that are text")
        })?;
        Ok(CodeMessage { role, content })
    }
}

/// A template that writes one conversation as code does.
pub(super) struct WrittenTemplate {
    pub program: Arc<jinja::Template>,
    /// The text that it must write.
    text: Option<String>,
}

impl WrittenTemplate {
    /// Checks that a run wrote what the code did: a message may have been given to the template in another form.
    pub fn check(&self, output: &jinja::Output) -> Result<(), Error> {
        match &self.text {
            Some(text) if text != output.text() => Err(Error::Code(CodeError {
                kind: CodeErrorKind::TextNotFound,
                message: None,
                field: "messages".to_owned(),
                what: "the text of a message is not written as the template's code gets it".to_owned(),
                help: "send each content as one text".to_owned(),
            })),
            _ => Ok(()),
        }
    }
}

impl ChatTemplate {
    /// Returns a template that writes what code does. This one is the sketch ([`ChatTemplate::sketch`]).
    #[must_use]
    pub fn with_code(self, code: Arc<dyn TemplateCode>) -> ChatTemplate {
        ChatTemplate { code: Some(code), ..self }
    }

    /// Returns the code, if the template is code.
    pub fn code(&self) -> Option<&Arc<dyn TemplateCode>> {
        self.code.as_ref()
    }

    /// Returns the source of a template that writes what code writes for short conversations. Other conversations may
    /// be written in another way.
    pub fn sketch(code: &dyn TemplateCode) -> Result<String, Error> {
        let around = |roles: &[&'static str]| {
            let messages: Vec<CodeMessage<'_>> =
                roles.iter().map(|role| CodeMessage { role, content: Cow::Borrowed("text") }).collect();
            code.write(&messages, &Object::new()).map(|pieces| texts_between(&pieces))
        };
        let user = around(&["user"]).map_err(Error::Code)?;
        // Code may refuse these.
        let known = |roles: &[&'static str]| match around(roles) {
            Err(error) if error.kind == CodeErrorKind::Unavailable => Err(Error::Code(error)),
            texts => Ok(texts.ok()),
        };
        let mut roles = vec![("user", user)];
        roles.extend(known(&["system", "user"])?.map(|texts| ("system", texts)));
        // What stands before an answer is the user's.
        let after = |texts: Vec<String>| [String::new()].into_iter().chain(texts.into_iter().skip(2)).collect();
        roles.extend(known(&["user", "assistant"])?.map(|texts| ("assistant", after(texts))));
        let mut source = "{% for message in messages %}".to_owned();
        for (role, texts) in &roles {
            let [before, after] = [0, 1].map(|at| literal(texts.get(at).map_or("", String::as_str)));
            source +=
                &format!("{{% if message.role == '{role}' %}}{before}{{{{ message.content }}}}{after}{{% endif %}}");
        }
        Ok(source + "{% endfor %}")
    }

    /// Returns the template that writes a conversation, if this one is code.
    pub(super) fn written(
        &self,
        conversation: &Conversation,
        options: &TemplateOptions,
    ) -> Result<Option<WrittenTemplate>, Error> {
        let Some(code) = &self.code else { return Ok(None) };
        let others = [
            ("tools", conversation.tools.as_ref().is_some_and(|tools| !tools.is_empty())),
            ("documents", conversation.documents.as_ref().is_some_and(|documents| !documents.is_empty())),
        ];
        if let Some((field, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            let what = format!("a template that is code does not take `{field}`");
            return Err(Error::Code(CodeError::not_taken(None, field, what, "leave them out")));
        }
        let messages =
            conversation.messages.iter().enumerate().map(|(index, message)| CodeMessage::read(index, message));
        let messages = messages.collect::<Result<Vec<_>, _>>().map_err(Error::Code)?;
        let switches = switches(conversation, options).map_err(Error::Code)?;
        let pieces = code.write(&messages, &switches).map_err(Error::Code)?;
        // The code reads every role and switch, so the account does not miss them.
        let mut source = "{% for message in messages if message.role %}{% endfor %}".to_owned();
        for (name, _) in switches.iter().filter(|(name, _)| is_name(name)) {
            source += &format!("{{% if {name} %}}{{% endif %}}");
        }
        for piece in &pieces {
            match piece {
                CodePiece::Text(text) => source += &literal(text),
                CodePiece::Content(index) => source += &format!("{{{{ messages[{index}].content }}}}"),
            }
        }
        // A long conversation has many pieces, and nobody wrote this source.
        let mut limits = options.limits.clone();
        limits.source_bytes = usize::MAX;
        let program = jinja::Template::compile(&source, &limits).map_err(in_template)?;
        // A mark stands in the message that the model is to continue.
        let text = (!conversation.continue_final_message).then(|| joined(&pieces, &messages));
        Ok(Some(WrittenTemplate { program: Arc::new(program), text }))
    }
}

/// Returns the switches of a conversation, and those of the options that it does not set.
fn switches(conversation: &Conversation, options: &TemplateOptions) -> Result<Object, CodeError> {
    let mut switches = Object::new();
    for (name, value) in options.kwargs.iter().chain(conversation.template_kwargs.iter()) {
        if matches!(value, Json::String(_) | Json::Array(_) | Json::Object(_)) {
            let what =
                format!("`{name}`: a template that is code takes numbers, booleans and null, found {}", value.kind());
            let field = format!("chat_template_kwargs.{name}");
            return Err(CodeError::not_taken(None, field, what, "pass a number, a boolean or null"));
        }
        switches.insert(name, value.clone());
    }
    Ok(switches)
}

/// Returns the text of pieces.
fn joined(pieces: &[CodePiece], messages: &[CodeMessage<'_>]) -> String {
    let text = |piece: &CodePiece| match piece {
        CodePiece::Text(text) => text.clone(),
        CodePiece::Content(index) => {
            messages.get(*index).map(|message| message.content.to_string()).unwrap_or_default()
        }
    };
    pieces.iter().map(text).collect()
}

/// Returns the texts before, between and after the contents.
fn texts_between(pieces: &[CodePiece]) -> Vec<String> {
    let mut texts = vec![String::new()];
    for piece in pieces {
        match (piece, texts.last_mut()) {
            (CodePiece::Text(text), Some(last)) => last.push_str(text),
            _ => texts.push(String::new()),
        }
    }
    texts
}

/// Returns a text as an expression of a template.
fn literal(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("{{{{ {} }}}}", json::write(&Json::from(text), &Layout::compact())),
    }
}

/// Reports whether a template can read a variable of this name.
fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    const WORDS: [&str; 13] =
        ["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"];
    let begins = name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit());
    begins && name.chars().all(is_word) && !WORDS.contains(&name)
}
