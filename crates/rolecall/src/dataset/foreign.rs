//! Shapes of other tools that are not read: each is refused by its name, with what to do.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, Place};
use rolecall_openai::Error;

/// A shape that is known by its keys.
struct Foreign {
    name: &'static str,
    /// The keys that a row of the shape has. The first one is the place of the error.
    keys: &'static [&'static str],
    help: &'static str,
}

/// The shapes, the most specific first.
const SHAPES: &[Foreign] = &[
    Foreign {
        name: "xLAM's rows: `query` and `answers`",
        keys: &["answers", "query"],
        help: "write `query` as a user message, and `answers` as `tool_calls` of an assistant message",
    },
    Foreign {
        name: "ms-swift's rows: `query` and `response`",
        keys: &["response", "query"],
        help: "write `system`, the pairs of `history`, `query` and `response` as `messages`; \
               without them, rename `query` to `prompt` and `response` to `completion`",
    },
    Foreign {
        name: "Dolly's rows: `instruction` and `response`",
        keys: &["response", "instruction"],
        help: "rename `response` to `output`, and `context` to `input`",
    },
    Foreign {
        name: "rows of `prompt` and `response`",
        keys: &["response", "prompt"],
        help: "rename `response` to `completion`; write the pairs of a `history` as `messages`",
    },
    Foreign {
        name: "OpenOrca's rows: `question` and `response`",
        keys: &["response", "question"],
        help: "write `system_prompt`, `question` and `response` as `messages`",
    },
    Foreign {
        name: "rows of `question` and `answer`",
        keys: &["answer", "question"],
        help: "rename `question` to `prompt` and `answer` to `completion`",
    },
    Foreign {
        name: "ms-swift's rows: a `response` without a query",
        keys: &["response"],
        help: "write it as an assistant message of `messages`",
    },
    Foreign {
        name: "requests of OpenAI's batch API: `custom_id` and `body`",
        keys: &["body", "custom_id"],
        help: "pass the `body` of each line",
    },
    Foreign {
        name: "Gemini's rows: `contents` of `parts`",
        keys: &["contents"],
        help: "write `contents` as `messages`, and the texts of `parts` as `content`",
    },
    Foreign {
        name: "OpenAssistant's rows: one message of a tree",
        keys: &["parent_id", "message_id", "text"],
        help: "write each path from the root of a tree as `messages`",
    },
    Foreign {
        name: "Glaive's rows: a text with the speakers in it",
        keys: &["chat"],
        help: "split the text of `chat` into `messages`",
    },
    Foreign {
        name: "UltraChat's rows: a list of texts",
        keys: &["data"],
        help: "write the texts as `messages`, by the user and the assistant in turn",
    },
    Foreign { name: "rows of `dialogue`", keys: &["dialogue"], help: "write the turns as `messages`" },
    Foreign { name: "rows of `dialog`", keys: &["dialog"], help: "write the turns as `messages`" },
    Foreign {
        name: "prompts without an answer",
        keys: &["prompt"],
        help: "rename `prompt` to `messages` if it is a list of messages, or add a `completion`",
    },
    Foreign {
        name: "plain text for pre-training",
        keys: &["text"],
        help: "text without turns has no chat format: encode it with the tokenizer alone",
    },
];

/// The role that only ms-swift's messages have. Some templates read its other one, `tool_response`.
const SWIFT_ROLE: &str = "tool_call";
/// The keys of ms-swift beside `messages`.
const SWIFT_KEYS: [&str; 3] = ["rejected_response", "rejected_messages", "positive_messages"];

/// Refuses an object in a shape of another tool.
pub(super) fn check(object: &Object) -> Result<(), Error> {
    match object.get("messages") {
        None | Some(Json::Null) => check_keys(object),
        Some(messages) => {
            check_swift(object)?;
            check_messages(messages.as_array().unwrap_or_default())
        }
    }
}

fn check_keys(object: &Object) -> Result<(), Error> {
    let is_there = |key: &&str| object.get(key).is_some_and(|value| !value.is_null());
    if let Some(Json::Array(rounds)) = object.get("conversation")
        && rounds.iter().any(|round| round.as_object().is_some_and(|round| round.get("human").is_some()))
    {
        return Err(Error::OtherShape {
            name: "ms-swift's and Firefly's rows: `conversation` of `human` and `assistant`",
            place: Place::field("conversation"),
            help: "write each pair as two turns of `messages`: one by the user and one by the assistant",
        });
    }
    match SHAPES.iter().find(|shape| shape.keys.iter().all(&is_there)) {
        Some(Foreign { name, keys, help }) => {
            Err(Error::OtherShape { name, place: Place::field(keys.first().copied().unwrap_or_default()), help })
        }
        None => Ok(()),
    }
}

fn check_swift(object: &Object) -> Result<(), Error> {
    match SWIFT_KEYS.into_iter().find(|key| object.get(key).is_some_and(|value| !value.is_null())) {
        Some(key) => Err(Error::OtherShape {
            name: "ms-swift's preference rows: `messages` with another answer",
            place: Place::field(key),
            help: "write the messages before the answers as `prompt`, and the answers as `chosen` and `rejected`",
        }),
        None => Ok(()),
    }
}

/// Refuses messages in a shape of another tool.
pub(super) fn check_messages(messages: &[Json]) -> Result<(), Error> {
    let is_swift = |message: &Json| {
        let role = message.as_object().and_then(|message| message.get("role")?.as_str());
        role == Some(SWIFT_ROLE)
    };
    match messages.iter().position(is_swift) {
        Some(at) => Err(Error::OtherShape {
            name: "ms-swift's messages: a call or a result as a role",
            place: Place::message(at, "role"),
            help: "write calls as `tool_calls` of an assistant message, and results as messages with the role `tool`",
        }),
        None => Ok(()),
    }
}
