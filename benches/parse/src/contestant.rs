use std::sync::Arc;
use std::time::{Duration, Instant};

use rolecall_conversation::Tool;
use rolecall_parse::{Event, OutputParser, ParseOptions, Reply as Reader, Stop};
use serde_json::Value;

use crate::peers::{DynamoParser, GatewayParser};
use crate::seen::Seen;
use crate::syntax::{Dynamo, Syntax};

/// A parser of a syntax, set up before a reply arrives.
pub enum Contestant {
    /// rolecall, with a layout.
    Ours(Arc<Reader>, ParseOptions),
    /// dynamo-parsers-v2.
    Dynamo(Dynamo, Vec<Value>),
    /// tool-parser.
    Gateway(&'static str, Vec<Value>),
}

impl Contestant {
    /// Returns all parsers of a syntax, rolecall first.
    pub fn of(syntax: &Syntax, tools: &[Value]) -> Vec<Contestant> {
        let format = rolecall_format::load(syntax.layout).unwrap_or_else(|error| panic!("{}: {error:?}", syntax.name));
        let options = ParseOptions { tools: tools.iter().map(our_tool).collect(), ..ParseOptions::default() };
        let mut all = vec![Contestant::Ours(Arc::new(Reader::new(&format)), options)];
        all.extend(syntax.dynamo.map(|family| Contestant::Dynamo(family, tools.to_vec())));
        all.extend(syntax.tool_parser.map(|name| Contestant::Gateway(name, tools.to_vec())));
        all
    }

    /// Returns the name in the table.
    pub fn name(&self) -> &'static str {
        match self {
            Contestant::Ours(..) => "rolecall",
            Contestant::Dynamo(..) => "dynamo-parsers-v2",
            Contestant::Gateway(..) => "tool-parser",
        }
    }

    /// Parses a reply chunk by chunk. Returns the time taken, without the parser's setup, or `None`
    /// if it exceeds the limit.
    pub fn read(&self, chunks: &[&str], limit: Duration, see: &mut dyn FnMut(Seen<'_>)) -> Option<Duration> {
        match self {
            Contestant::Ours(reader, options) => {
                let mut parser = OutputParser::new(reader, options.clone());
                let start = Instant::now();
                let mut event = |event: Event<'_>| see_event(&event, see);
                feed(chunks, start, limit, |chunk| parser.push_text(chunk, &mut event))?;
                parser.finish(Stop::End, &mut event);
                Some(start.elapsed())
            }
            Contestant::Dynamo(family, tools) => {
                let mut parser = DynamoParser::new(*family, tools);
                let start = Instant::now();
                feed(chunks, start, limit, |chunk| parser.push(chunk, see))?;
                parser.finish(see);
                Some(start.elapsed())
            }
            Contestant::Gateway(name, tools) => {
                let mut parser = GatewayParser::new(name, tools);
                let start = Instant::now();
                feed(chunks, start, limit, |chunk| parser.push(chunk, see))?;
                parser.finish(see);
                Some(start.elapsed())
            }
        }
    }
}

/// Pushes chunk after chunk, and checks the clock now and then.
fn feed(chunks: &[&str], start: Instant, limit: Duration, mut push: impl FnMut(&str)) -> Option<()> {
    for some in chunks.chunks(512) {
        if start.elapsed() > limit {
            return None;
        }
        for chunk in some {
            push(chunk);
        }
    }
    Some(())
}

fn see_event(event: &Event<'_>, see: &mut dyn FnMut(Seen<'_>)) {
    match event {
        Event::Content(text) => see(Seen::Content(text)),
        Event::CallStarted { name, .. } => see(Seen::Name(name)),
        Event::Arguments { index, text } => see(Seen::Arguments(*index, text)),
        _ => {}
    }
}

fn our_tool(tool: &Value) -> Tool {
    let json = rolecall_conversation::json::parse(&tool.to_string()).expect("serde_json writes JSON");
    Tool::from_json(json).expect("a tool in OpenAI's shape")
}
