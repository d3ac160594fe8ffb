//! The requests.

use crate::client::Client;
use crate::{Outcome, load};

/// A request, with places that are filled each time.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pub path: &'static str,
    pub parts: Vec<Part>,
}

/// A part of a request's body.
#[derive(Clone, Debug)]
pub enum Part {
    Text(String),
    /// A number that no other request has.
    Fresh,
    /// A number that the requests of one conversation share.
    Round,
    /// The name of the answer that began the conversation.
    Id,
    /// What that answer says, as the inside of a JSON string.
    Said,
}

/// What the places are filled with.
#[derive(Clone, Debug, Default)]
pub struct Filling {
    pub fresh: u32,
    pub round: u32,
    pub id: String,
    pub said: String,
}

impl Template {
    /// Parses a body in which `{fresh}`, `{round}`, `{id}` and `{said}` are places.
    pub fn new(path: &'static str, body: &str) -> Template {
        let (mut parts, mut rest) = (Vec::new(), body);
        let places = [("{fresh}", Part::Fresh), ("{round}", Part::Round), ("{id}", Part::Id), ("{said}", Part::Said)];
        while let Some((at, name, part)) =
            places.iter().filter_map(|(name, part)| Some((rest.find(name)?, name, part))).min_by_key(|(at, ..)| *at)
        {
            parts.push(Part::Text(rest[..at].to_owned()));
            parts.push(part.clone());
            rest = &rest[at + name.len()..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Template { path, parts }
    }

    /// Writes the request, head and body.
    pub fn fill(&self, filling: &Filling, request: &mut Vec<u8>) {
        let mut body = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => body += text,
                Part::Fresh => body += &format!("{:08}", filling.fresh),
                Part::Round => body += &format!("{:08}", filling.round),
                Part::Id => body += &filling.id,
                Part::Said => body += &filling.said,
            }
        }
        request.clear();
        request.extend_from_slice(head(self.path, body.len()).as_bytes());
        request.extend_from_slice(body.as_bytes());
    }
}

/// Returns the head of a request.
pub fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
}

/// What a chat request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Chat {
    /// The number of messages; the last is the user's.
    pub messages: usize,
    /// The words of a message.
    pub words: usize,
    /// The ids of the reply.
    pub ids: u32,
    pub is_streamed: bool,
}

impl Chat {
    /// Returns a request that no other request begins like.
    pub fn unseen(&self) -> Template {
        Template::new(CHAT, &self.body(&self.messages("{fresh} ", self.messages, None), ""))
    }

    /// Returns the request that begins a conversation, and the one that sends all of it again, with the
    /// reply and a new question. Both have the field `session_id` if they go on by it.
    pub fn again(&self) -> (Template, Template) {
        let first = self.messages("{round} ", self.messages - 2, None);
        let more = self.messages("{round} ", self.messages, Some("{said}"));
        (Template::new(CHAT, &self.whole().body(&first, "")), Template::new(CHAT, &self.body(&more, "")))
    }

    /// Returns the request that begins a session, and the one that goes on by its name.
    pub fn by_session(&self) -> (Template, Template) {
        let session = "\"session_id\":\"bench-{round}\",";
        let first = self.messages("{round} ", self.messages - 2, None);
        let question = message("user", &format!("{{fresh}} {}", text(7, self.words)));
        let first = self.whole().body(&first, session);
        (Template::new(CHAT, &first), Template::new(CHAT, &self.body(&question, session)))
    }

    /// Returns the request that begins a conversation, and the one that goes on after the answer.
    pub fn by_response(&self) -> (Template, Template) {
        let ids = self.ids;
        let first = self.messages("{round} ", self.messages - 2, None);
        let question = message("user", &format!("{{fresh}} {}", text(7, self.words)));
        let body = |more: &str, items: &str| {
            format!("{{\"model\":\"model\",{more}\"max_output_tokens\":{ids},\"input\":[{items}]}}")
        };
        let more = format!("\"stream\":{},\"previous_response_id\":\"{{id}}\",", self.is_streamed);
        let next = body(&more, &question);
        (Template::new(RESPONSES, &body("", &first)), Template::new(RESPONSES, &next))
    }

    /// Returns the same without a stream.
    fn whole(&self) -> Chat {
        Chat { is_streamed: false, ..*self }
    }

    fn body(&self, messages: &str, more: &str) -> String {
        let Chat { ids, is_streamed, .. } = self;
        format!(
            "{{\"model\":\"model\",{more}\"max_tokens\":{ids},\"temperature\":0,\"stream\":{is_streamed},\
             \"messages\":[{messages}]}}"
        )
    }

    /// Writes messages: one of the system if there are several, then the user and the assistant in turn.
    fn messages(&self, start: &str, count: usize, said: Option<&str>) -> String {
        let mut all = Vec::with_capacity(count);
        for at in 0..count {
            let start = if at == 0 { start } else { "" };
            let content = match said {
                Some(said) if at + 2 == count => said.to_owned(),
                // A new question for each request of a conversation.
                Some(_) if at + 1 == count => format!("{{fresh}} {}", text(at, self.words)),
                _ => format!("{start}{}", text(at, self.words)),
            };
            let role = match (count, at) {
                (2.., 0) => "system",
                _ if (count - at) % 2 == 1 => "user",
                _ => "assistant",
            };
            all.push(message(role, &content));
        }
        all.join(",")
    }
}

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn message(role: &str, content: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":\"{content}\"}}")
}

/// Returns some words, the same for the same message.
pub fn text(message: usize, words: usize) -> String {
    let mut state = (message as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = String::new();
    for at in 0..words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = WORDS[(state >> 33) as usize % WORDS.len()];
        text += word;
        text += if at + 1 == words {
            ""
        } else if at % 11 == 10 {
            ". "
        } else {
            " "
        };
    }
    text
}

const WORDS: [&str; 48] = [
    "the",
    "river",
    "engine",
    "answers",
    "with",
    "a",
    "list",
    "of",
    "stations",
    "and",
    "their",
    "distances",
    "café",
    "between",
    "window",
    "Größe",
    "table",
    "every",
    "morning",
    "train",
    "which",
    "leaves",
    "before",
    "seven",
    "is",
    "usually",
    "full",
    "so",
    "we",
    "take",
    "later",
    "one",
    "please",
    "compare",
    "both",
    "prices",
    "東京",
    "naïve",
    "measure",
    "again",
    "under",
    "load",
    "report",
    "42",
    "1,024",
    "percent",
    "if",
    "possible",
];

/// Sends one request, and returns the answer's body.
pub async fn once(address: &str, template: &Template, filling: &Filling) -> Outcome<Vec<u8>> {
    let mut client = Client::open(address).await?;
    let mut request = Vec::new();
    template.fill(filling, &mut request);
    let answer = client.send(&request).await?;
    load::check(&answer, &client)?;
    Ok(client.body)
}
