//! How outputs of one run are read: by which layouts, behind which prompts, with which tools.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rolecall::{ChatTemplate, Ids, Json, Message, ParseOptions, Reply, Request, infer, object};

use crate::args::{Chat, Layouts, OwnTemplate};
use crate::failure::Failure;
use crate::job::{Asked, Job};
use crate::refusal::Refusal;

/// How many templates' layouts are kept: requests that all carry another one do not fill the memory.
const KEPT: usize = 64;

/// A run that reads outputs.
pub struct Reader {
    pub job: Job,
    replies: Replies,
}

/// What is needed to read one output.
pub struct Ready {
    pub reply: Arc<Reply>,
    pub options: ParseOptions,
}

impl Reader {
    /// `tokens` are those of the tokenizer whose ids are read; none where text is.
    pub fn new(layouts: &Layouts, tokens: Vec<String>) -> Result<Reader, Failure> {
        let chat = Chat {
            format: layouts.format.clone(),
            more: layouts.more.clone(),
            options: layouts.options.clone(),
            bos_tokens: layouts.bos_tokens.clone(),
            eos_token: layouts.eos_token.clone(),
            ..Chat::default()
        };
        let own = OwnTemplate {
            template: layouts.template.clone(),
            template_name: layouts.template_name.clone(),
            tool_calls: None,
            now: layouts.now,
        };
        Ok(Reader { job: Job::with_template(&chat, &own, None)?, replies: Replies { tokens, ..Replies::default() } })
    }

    /// How the output behind a request is read. The prompt's end is that of the request, unless it is given.
    pub fn ready(&self, request: Request, tail: Option<&str>, policies: &ParseOptions) -> Result<Ready, Refusal> {
        let asked = self.job.ask(speaking(request))?;
        let prompt_tail = match tail {
            Some(tail) => tail.to_owned(),
            None => asked.render()?.text().to_owned(),
        };
        self.ready_behind(&asked, prompt_tail, policies)
    }

    /// The same where the prompt is rendered.
    pub fn ready_behind(
        &self,
        asked: &Asked<'_>,
        prompt_tail: String,
        policies: &ParseOptions,
    ) -> Result<Ready, Refusal> {
        let tools = asked.request.conversation.tools.clone().unwrap_or_default();
        // Some formats' tools stand in a message.
        let own = asked.request.conversation.messages.iter().filter_map(Message::tools).flatten().cloned();
        let tools = tools.into_iter().chain(own).collect();
        Ok(Ready { reply: self.replies.of(asked)?, options: ParseOptions { tools, prompt_tail, ..policies.clone() } })
    }
}

/// A request of one word, for outputs of which nothing is known but the tools that were offered.
pub fn request_of_one_word(tools: Option<Json>) -> Result<Request, Refusal> {
    let mut request = object! { "messages" => vec![Json::Object(object! { "role" => "user", "content" => "Hi" })] };
    if let Some(tools) = tools {
        request.insert("tools", tools);
    }
    Ok(Request::from_json(Json::Object(request))?)
}

/// The same policies with ids of another line's own.
pub fn with_ids_of(policies: &ParseOptions, line: u64) -> ParseOptions {
    let ids = match policies.ids {
        Ids::Seeded(seed) => Ids::Seeded(seed.wrapping_add(line)),
        Ids::Nine(seed) => Ids::Nine(seed.wrapping_add(line)),
    };
    ParseOptions { ids, ..policies.clone() }
}

/// The model speaks next, or goes on in the last message.
fn speaking(mut request: Request) -> Request {
    if !request.conversation.continue_final_message {
        request.conversation.add_generation_prompt = Some(true);
    }
    request
}

/// What can be read, by format and by template; shared by threads.
#[derive(Default)]
struct Replies {
    tokens: Vec<String>,
    by_format: RwLock<HashMap<String, Arc<Reply>>>,
    by_template: RwLock<HashMap<Content, Arc<Reply>>>,
}

/// A template's text and its special tokens.
type Content = (String, Vec<(String, String)>);

impl Replies {
    fn of(&self, asked: &Asked<'_>) -> Result<Arc<Reply>, Refusal> {
        Ok(match asked.template()? {
            Some(template) => {
                let content = (template.source().to_owned(), template.tokens().to_vec());
                find_or_make(&self.by_template, content, || of_template(&template, &self.tokens))?
            }
            None => {
                let spelling = asked.options.choices.iter().rev().find(|(name, _)| name == "spelling");
                let spelling = spelling.map(|(_, spelling)| spelling.as_str());
                let format = spelling.map_or_else(|| asked.format.clone(), |spelling| asked.format.spelled(spelling));
                let key = format!("{} {}", format.name, spelling.unwrap_or_default());
                find_or_make(&self.by_format, key, || Ok(Reply::with_tokens(&format, &self.tokens)))?
            }
        })
    }
}

/// The template's own layouts, and what its family's models are known to write otherwise.
fn of_template(template: &ChatTemplate, tokens: &[String]) -> Result<Reply, Refusal> {
    let inferred = infer(template).complete()?;
    Ok(Reply::with_tokens(&inferred.format.corrected(template.source()).0, tokens))
}

fn find_or_make<K: std::hash::Hash + Eq>(
    known: &RwLock<HashMap<K, Arc<Reply>>>,
    key: K,
    make: impl FnOnce() -> Result<Reply, Refusal>,
) -> Result<Arc<Reply>, Refusal> {
    if let Some(reply) = known.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Arc::clone(reply));
    }
    let reply = Arc::new(make()?);
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, Arc::clone(&reply));
    Ok(reply)
}
