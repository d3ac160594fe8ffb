use rolecall::Event;
use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};

use crate::reply::writer::Frames;
use crate::turn::sessions::chain::{digest, hex};

/// The content of an answer: blocks, in the order in which the model wrote them. Each event of the reply
/// adds to the last block or begins one, so that a stream and a whole answer have the same blocks.
pub struct Blocks {
    pub mode: Mode,
    /// Whether the text of thinking is part of the answer.
    pub shows_thinking: bool,
    /// The name of the tool that runs code.
    name_of_code: &'static str,
    /// The finished blocks of a whole answer.
    pub finished: Vec<Json>,
    /// The number of finished blocks.
    count: i64,
    open: Option<Open>,
}

/// Where the blocks go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Whole,
    Streamed,
    /// Into a stream, with calls held back until they end.
    HoldingCalls,
}

/// The last block.
struct Open {
    kind: BlockKind,
    text: String,
}

#[derive(PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Call(BlockCall),
}

#[derive(PartialEq, Eq)]
struct BlockCall {
    id: String,
    name: String,
    /// Whether its text is code, which becomes a JSON string.
    is_code: bool,
}

impl Blocks {
    pub fn new(shows_thinking: bool, name_of_code: &'static str) -> Blocks {
        Blocks { mode: Mode::Whole, shows_thinking, name_of_code, finished: Vec::new(), count: 0, open: None }
    }

    pub fn take(&mut self, event: &Event<'_>, out: &mut Frames) {
        match *event {
            Event::Content(text) => self.add_to(BlockKind::Text, text, out),
            Event::Reasoning(text) => self.add_to(BlockKind::Thinking, text, out),
            Event::CallStarted { id, name, .. } => {
                let call = BlockCall { id: id.to_owned(), name: name.to_owned(), is_code: false };
                self.begin(BlockKind::Call(call), out);
            }
            Event::CodeStarted { id, .. } => {
                let name = self.name_of_code.to_owned();
                self.begin(BlockKind::Call(BlockCall { id: id.to_owned(), name, is_code: true }), out);
                self.add("{\"code\":\"", out);
            }
            Event::Arguments { text, .. } => self.add(text, out),
            Event::Code { text, .. } => {
                let mut escaped = String::new();
                json::escape_into(&mut escaped, text, false);
                self.add(&escaped, out);
            }
            Event::CallFinished { id: own, whole, .. } => {
                let mut ends_code = false;
                if let Some(Open { kind: BlockKind::Call(BlockCall { id, is_code, .. }), .. }) = &mut self.open {
                    ends_code = whole && *is_code;
                    if let Some(own) = own {
                        own.clone_into(id);
                    }
                }
                if ends_code {
                    self.add("\"}", out);
                }
                self.close(out);
            }
            // The text of what is malformed is content, too.
            _ => {}
        }
    }

    /// Ends the last block.
    pub fn close(&mut self, out: &mut Frames) {
        let Some(Open { kind, text }) = self.open.take() else { return };
        if self.holds(&kind) {
            self.start(&kind, out);
            self.send_text(&kind, &text, out);
        }
        match self.mode {
            Mode::Whole => self.finished.push(self.whole(kind, text).into()),
            Mode::Streamed | Mode::HoldingCalls => {
                if kind == BlockKind::Thinking {
                    self.send_delta(object! { "type" => "signature_delta", "signature" => signature(&text) }, out);
                }
                self.send("content_block_stop", Object::new(), out);
            }
        }
        self.count += 1;
    }

    fn add_to(&mut self, kind: BlockKind, text: &str, out: &mut Frames) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.begin(kind, out);
        }
        self.add(text, out);
    }

    fn begin(&mut self, kind: BlockKind, out: &mut Frames) {
        self.close(out);
        if !self.holds(&kind) {
            self.start(&kind, out);
        }
        self.open = Some(Open { kind, text: String::new() });
    }

    fn add(&mut self, text: &str, out: &mut Frames) {
        let Some(mut open) = self.open.take() else { return };
        if !self.holds(&open.kind) {
            self.send_text(&open.kind, text, out);
        }
        open.text.push_str(text);
        self.open = Some(open);
    }

    fn holds(&self, kind: &BlockKind) -> bool {
        self.mode == Mode::HoldingCalls && matches!(kind, BlockKind::Call(_))
    }

    fn start(&self, kind: &BlockKind, out: &mut Frames) {
        let block = match kind {
            BlockKind::Text => object! { "type" => "text", "text" => "" },
            BlockKind::Thinking => object! { "type" => "thinking", "thinking" => "", "signature" => "" },
            BlockKind::Call(call) => call_of(call, Object::new()),
        };
        self.send("content_block_start", object! { "content_block" => block }, out);
    }

    fn send_text(&self, kind: &BlockKind, text: &str, out: &mut Frames) {
        let delta = match kind {
            BlockKind::Text => object! { "type" => "text_delta", "text" => text },
            BlockKind::Thinking if !self.shows_thinking => return,
            BlockKind::Thinking => object! { "type" => "thinking_delta", "thinking" => text },
            BlockKind::Call(_) => object! { "type" => "input_json_delta", "partial_json" => text },
        };
        self.send_delta(delta, out);
    }

    fn send_delta(&self, delta: Object, out: &mut Frames) {
        self.send("content_block_delta", object! { "delta" => delta }, out);
    }

    fn send(&self, name: &str, more: Object, out: &mut Frames) {
        if self.mode == Mode::Whole {
            return;
        }
        let mut event = object! { "type" => name, "index" => self.count };
        more.iter().for_each(|(key, value)| event.insert(key, value.clone()));
        out.named(name, &event.into());
    }

    fn whole(&self, kind: BlockKind, text: String) -> Object {
        match kind {
            BlockKind::Text => object! { "type" => "text", "text" => text },
            BlockKind::Thinking => {
                let signature = signature(&text);
                let shown = if self.shows_thinking { text } else { String::new() };
                object! { "type" => "thinking", "thinking" => shown, "signature" => signature }
            }
            BlockKind::Call(call) if text.is_empty() => call_of(&call, Object::new()),
            BlockKind::Call(call) => match json::parse(&text) {
                Ok(Json::Object(input)) => call_of(&call, input),
                // It was cut off. A client that knows this key still gets all of it.
                _ => {
                    let mut block = call_of(&call, Object::new());
                    block.insert("partial_json", text.into());
                    block
                }
            },
        }
    }
}

fn call_of(call: &BlockCall, input: Object) -> Object {
    object! { "type" => "tool_use", "id" => call.id.as_str(), "name" => call.name.as_str(), "input" => input }
}

/// Returns the signature of thinking. Clients expect one; it proves nothing.
fn signature(thinking: &str) -> String {
    hex(&digest(&[thinking.as_bytes()])[..16])
}
