use std::future::Future;
use std::task::{Context, Poll, Waker};

use dynamo_parsers_v2::{
    Tool, ToolParser, UnifiedParser, UnifiedParserEvent, UnifiedParserExt, create_tool_parser_for_family,
    create_unified_parser_for_family,
};
use serde_json::Value;

use crate::seen::Seen;
use crate::syntax::Dynamo;

/// A parser of dynamo-parsers-v2, ready for one reply.
pub enum DynamoParser {
    /// A parser of the unified interface.
    Unified(Box<dyn UnifiedParser>),
    /// A parser of the tools-only interface.
    Tools(Box<dyn ToolParser>),
}

impl DynamoParser {
    /// Creates a parser for a family.
    pub fn new(family: Dynamo, tools: &[Value]) -> DynamoParser {
        let tools: Vec<Tool> = tools.iter().map(|tool| dynamo_tool(&tool["function"])).collect();
        match family {
            Dynamo::Unified(family) => {
                let mut parser = create_unified_parser_for_family(family, &tools).expect("a family of the crate");
                parser.initialize_request(Default::default()).expect("a default request");
                DynamoParser::Unified(parser)
            }
            Dynamo::Tools(family) => {
                DynamoParser::Tools(create_tool_parser_for_family(family, &tools).expect("a family of the crate"))
            }
        }
    }

    /// Pushes the next chunk.
    pub fn push(&mut self, chunk: &str, see: &mut dyn FnMut(Seen<'_>)) {
        match self {
            DynamoParser::Unified(parser) => {
                for event in parser.push(chunk).expect("it parses its model's output") {
                    see_event(&event, see);
                }
            }
            DynamoParser::Tools(parser) => {
                see_result(&parser.push(chunk).expect("it parses its model's output"), see);
            }
        }
    }

    /// Ends the reply.
    pub fn finish(&mut self, see: &mut dyn FnMut(Seen<'_>)) {
        match self {
            DynamoParser::Unified(parser) => {
                for event in parser.finish().expect("a whole reply").events {
                    see_event(&event, see);
                }
            }
            DynamoParser::Tools(parser) => see_result(&parser.finish().expect("a whole reply"), see),
        }
    }
}

fn dynamo_tool(function: &Value) -> Tool {
    Tool {
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        description: None,
        parameters: function["parameters"].clone(),
        strict: None,
    }
}

fn see_event(event: &UnifiedParserEvent, see: &mut dyn FnMut(Seen<'_>)) {
    match event {
        UnifiedParserEvent::Text(text) => see(Seen::Content(text)),
        UnifiedParserEvent::ToolCall(call) => {
            if let Some(name) = &call.name {
                see(Seen::Name(name));
            }
            see(Seen::Arguments(call.tool_index, &call.arguments));
        }
        _ => {}
    }
}

fn see_result(result: &dynamo_parsers_v2::ToolParseResult, see: &mut dyn FnMut(Seen<'_>)) {
    see(Seen::Content(&result.normal_text));
    for call in &result.calls {
        if let Some(name) = &call.name {
            see(Seen::Name(name));
        }
        see(Seen::Arguments(call.tool_index, &call.arguments));
    }
}

/// A parser of tool-parser, ready for one reply.
pub struct GatewayParser {
    parser: Box<dyn tool_parser::ToolParser>,
    tools: Vec<openai_protocol::common::Tool>,
}

impl GatewayParser {
    /// Creates a parser by name.
    pub fn new(name: &str, tools: &[Value]) -> GatewayParser {
        let factory = tool_parser::ParserFactory::new();
        GatewayParser {
            parser: factory.registry().create_parser(name).expect("a parser of the crate"),
            tools: tools
                .iter()
                .map(|tool| serde_json::from_value(tool.clone()).expect("a tool in OpenAI's shape"))
                .collect(),
        }
    }

    /// Pushes the next chunk.
    pub fn push(&mut self, chunk: &str, see: &mut dyn FnMut(Seen<'_>)) {
        let result = at_once(self.parser.parse_incremental(chunk, &self.tools)).expect("it parses its model's output");
        if !result.normal_text.is_empty() {
            see(Seen::Content(&result.normal_text));
        }
        see_items(&result.calls, see);
    }

    /// Ends the reply.
    pub fn finish(&mut self, see: &mut dyn FnMut(Seen<'_>)) {
        see_items(&self.parser.get_unstreamed_tool_args().unwrap_or_default(), see);
        see(Seen::Content(&self.parser.take_unstreamed_normal_text()));
    }
}

fn see_items(items: &[tool_parser::types::ToolCallItem], see: &mut dyn FnMut(Seen<'_>)) {
    for item in items {
        if let Some(name) = &item.name {
            see(Seen::Name(name));
        }
        see(Seen::Arguments(item.tool_index, &item.parameters));
    }
}

/// Returns the value of a future that is immediately ready.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the peer's future is immediately ready"),
    }
}
