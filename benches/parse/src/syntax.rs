use serde_json::Value;

use crate::calls::Call;

/// A syntax for calls, and the parsers that support it.
pub struct Syntax {
    /// The name in the table.
    pub name: &'static str,
    /// The layout that parses it, as a format file.
    pub layout: &'static str,
    /// The family in dynamo-parsers-v2.
    pub dynamo: Option<Dynamo>,
    /// The name in tool-parser.
    pub tool_parser: Option<&'static str>,
    /// Texts that are single tokens in the models' tokenizers and come in one chunk.
    pub tokens: &'static [&'static str],
    /// Whether it supports several calls.
    pub parallel: bool,
    /// Writes calls.
    pub write: fn(&[Call]) -> String,
}

/// One of the two interfaces of dynamo-parsers-v2.
#[derive(Clone, Copy)]
pub enum Dynamo {
    /// Reasoning, text and calls, with `parse_into`.
    Unified(&'static str),
    /// Only text and calls, with `push`, for families without the other.
    Tools(&'static str),
}

/// Every syntax that at least one peer supports.
pub const SYNTAXES: [Syntax; 7] = [
    Syntax {
        name: "JSON in tags",
        layout: include_str!("../../../formats/calls/json-in-tags.toml"),
        dynamo: None,
        tool_parser: Some("qwen"),
        tokens: &["<tool_call>", "</tool_call>"],
        parallel: true,
        write: |calls| {
            joined(calls, "\n", |_, call| {
                format!(
                    "<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>",
                    call.name,
                    Value::from(call.arguments.clone())
                )
            })
        },
    },
    Syntax {
        name: "bare JSON",
        layout: include_str!("../../../formats/calls/json-object.toml"),
        dynamo: None,
        tool_parser: Some("llama"),
        tokens: &[],
        parallel: false,
        write: |calls| {
            joined(calls, "; ", |_, call| {
                format!("{{\"name\": \"{}\", \"parameters\": {}}}", call.name, Value::from(call.arguments.clone()))
            })
        },
    },
    Syntax {
        name: "JSON in a section",
        layout: include_str!("../../../formats/calls/id-and-json-between-marks.toml"),
        dynamo: Some(Dynamo::Unified("kimi_k2")),
        tool_parser: Some("kimik2"),
        tokens: &[
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ],
        parallel: true,
        write: |calls| {
            let calls = joined(calls, "", |at, call| {
                format!(
                    "<|tool_call_begin|>functions.{}:{at}<|tool_call_argument_begin|>{}<|tool_call_end|>",
                    call.name,
                    Value::from(call.arguments.clone())
                )
            });
            format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>")
        },
    },
    Syntax {
        name: "function tags",
        layout: include_str!("../../../formats/calls/function-and-parameter-tags.toml"),
        dynamo: Some(Dynamo::Unified("qwen3_coder")),
        tool_parser: Some("qwen_coder"),
        tokens: &["<tool_call>", "</tool_call>"],
        parallel: true,
        write: |calls| {
            joined(calls, "\n", |_, call| {
                let arguments =
                    each_argument(call, |key, value| format!("<parameter={key}>\n{}\n</parameter>\n", plain(value)));
                format!("<tool_call>\n<function={}>\n{arguments}</function>\n</tool_call>", call.name)
            })
        },
    },
    Syntax {
        name: "invoke tags",
        layout: include_str!("../../../formats/calls/invoke-and-parameter-tags.toml"),
        dynamo: Some(Dynamo::Tools("minimax_m2")),
        tool_parser: Some("minimax_m2"),
        tokens: &["<minimax:tool_call>", "</minimax:tool_call>"],
        parallel: true,
        write: |calls| {
            let calls = joined(calls, "", |_, call| {
                let arguments = each_argument(call, |key, value| {
                    format!("<parameter name=\"{key}\">{}</parameter>\n", plain(value))
                });
                format!("<invoke name=\"{}\">\n{arguments}</invoke>\n", call.name)
            });
            format!("<minimax:tool_call>\n{calls}</minimax:tool_call>")
        },
    },
    Syntax {
        name: "keys and values",
        layout: include_str!("../layouts/keys-and-values.toml"),
        dynamo: Some(Dynamo::Unified("glm47")),
        tool_parser: Some("glm47_moe"),
        tokens: &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
        parallel: true,
        write: |calls| {
            joined(calls, "", |_, call| {
                let arguments = each_argument(call, |key, value| {
                    format!("<arg_key>{key}</arg_key><arg_value>{}</arg_value>", plain(value))
                });
                format!("<tool_call>{}{arguments}</tool_call>", call.name)
            })
        },
    },
    Syntax {
        name: "marked strings",
        layout: include_str!("../../../formats/calls/marked-dict-between-marks.toml"),
        dynamo: Some(Dynamo::Unified("gemma4")),
        tool_parser: Some("gemma4"),
        tokens: &["<|tool_call>", "<tool_call|>", "<|\"|>"],
        parallel: true,
        write: |calls| {
            joined(calls, "", |_, call| {
                let mut arguments: Vec<_> = call.arguments.iter().collect();
                arguments.sort_by_key(|(key, _)| *key);
                let arguments: Vec<String> = arguments
                    .into_iter()
                    .map(|(key, value)| match value {
                        Value::String(text) => format!("{key}:<|\"|>{text}<|\"|>"),
                        other => format!("{key}:{other}"),
                    })
                    .collect();
                format!("<|tool_call>call:{}{{{}}}<tool_call|>", call.name, arguments.join(","))
            })
        },
    },
];

fn joined(calls: &[Call], separator: &str, write: impl Fn(usize, &Call) -> String) -> String {
    let calls: Vec<String> = calls.iter().enumerate().map(|(at, call)| write(at, call)).collect();
    calls.join(separator)
}

fn each_argument(call: &Call, write: impl Fn(&str, &Value) -> String) -> String {
    call.arguments.iter().map(|(key, value)| write(key, value)).collect()
}

/// Returns a string unquoted, and any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
