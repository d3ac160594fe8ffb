//! Conversations for training, the same in every run.

use std::ops::Range;

use fastrand::Rng;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};

/// Common words and a few that are not ASCII, with the most frequent ones first.
const WORDS: &str = "the of and to in a is that for it as was with be by on not this are or from at which but have had they \
    you one all we can there been if more when will would who so no out up into them then what some time about could only \
    other new first any now such like over even most made after also many before must through where much way well should \
    because each just those people how too little state good very make still own see work long get here between both under \
    never same another know while last might great since against right used take three function returns value error file \
    request server schema column deployment latency container probability gradient integer database configuration \
    2026 3.14 0x1f café naïve Straße 你好 天气 東京 Москва";

/// Returns `count` conversations as requests in JSON, in groups by their number of messages. In
/// each group, every second conversation offers tools and has calls and results.
pub fn groups<const N: usize>(messages: [usize; N], count: usize) -> Vec<Vec<String>> {
    let mut random = Rng::with_seed(17);
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut groups = vec![Vec::new(); N];
    for at in 0..count {
        let group = at % N;
        let conversation = conversation(&mut random, &words, messages[group], (at / N) % 2 == 1);
        groups[group].push(json::write(&Json::Object(conversation), &Layout::compact()));
    }
    groups
}

/// Makes exchanges of a question, calls with their results if there are tools, and a reply. An odd
/// number of messages begins with a system message.
fn conversation(random: &mut Rng, words: &[&str], count: usize, has_tools: bool) -> Object {
    let mut messages = Vec::with_capacity(count);
    if count % 2 == 1 {
        messages.push(said("system", text(random, words, 20..40)));
    }
    while messages.len() < count {
        messages.push(said("user", text(random, words, 15..60)));
        while has_tools && messages.len() + 3 <= count && random.u32(..3) > 0 {
            messages.push(calling(random, words));
            messages.push(said("tool", result(random, words)));
        }
        let reasoning = text(random, words, 20..80);
        let content = text(random, words, 40..160);
        messages.push(Json::Object(object! {
            "role" => "assistant", "reasoning_content" => reasoning, "content" => content
        }));
    }
    let tools = if has_tools { Json::Array(tools()) } else { Json::Null };
    object! { "messages" => Json::Array(messages), "tools" => tools }
}

fn said(role: &str, content: String) -> Json {
    Json::Object(object! { "role" => role, "content" => content })
}

fn calling(random: &mut Rng, words: &[&str]) -> Json {
    let arguments = Json::Object(object! {
        "query" => text(random, words, 3..12), "limit" => i64::from(random.u32(1..50)), "exact" => random.bool()
    });
    let function = Json::Object(object! { "name" => NAMES[random.usize(..NAMES.len())], "arguments" => arguments });
    let call = Json::Object(object! { "type" => "function", "function" => function });
    let content = if random.bool() { text(random, words, 5..15) } else { String::new() };
    let reasoning = text(random, words, 10..40);
    Json::Object(object! {
        "role" => "assistant", "reasoning_content" => reasoning, "content" => content,
        "tool_calls" => Json::Array(vec![call])
    })
}

/// Makes a result in JSON.
fn result(random: &mut Rng, words: &[&str]) -> String {
    let mut rows = Vec::new();
    for id in 0..random.i64(1..6) {
        rows.push(Json::Object(object! { "id" => id, "title" => text(random, words, 5..12) }));
    }
    json::write(&Json::Array(rows), &Layout::compact())
}

const NAMES: [&str; 3] = ["search_documents", "list_tickets", "query_metrics"];

fn tools() -> Vec<Json> {
    let property =
        |kind: &str, description: &str| Json::Object(object! { "type" => kind, "description" => description });
    let tool = |name: &str| {
        let properties = Json::Object(object! {
            "query" => property("string", "The text to look for"),
            "limit" => property("integer", "The largest number of results"),
            "exact" => property("boolean", "Whether only exact matches count")
        });
        let parameters = Json::Object(object! {
            "type" => "object", "properties" => properties, "required" => Json::Array(vec!["query".into()])
        });
        let function = Json::Object(object! {
            "name" => name, "description" => "Finds what matches a query.", "parameters" => parameters
        });
        Json::Object(object! { "type" => "function", "function" => function })
    };
    NAMES.map(tool).into()
}

fn text(random: &mut Rng, words: &[&str], length: Range<usize>) -> String {
    let count = random.usize(length);
    let mut text = String::new();
    for at in 0..count {
        let most = random.usize(1..words.len());
        text.push_str(words[random.usize(..=most)]);
        text.push_str(match random.u32(..30) {
            _ if at + 1 == count => ".",
            0 | 1 => ", ",
            2 => ".\n\n",
            3 => ":\n    ",
            4 => " (`",
            5 => "`) ",
            _ => " ",
        });
    }
    text
}
