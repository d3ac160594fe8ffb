//! Replies that reference templates write, with their ends damaged as models and engines damage
//! them: the calls stay the same, or the reply is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Tool, json};
use rolecall::format::{Format, Op, Slot, tags};
use rolecall::infer::infer;
use rolecall::parse::{ParseOptions, ParsedCall, Reply, read};
use rolecall::roundtrip::same_json;
use rolecall::template::ChatTemplate;
use rolecall::{Reading, Stop};

/// A way to damage a reply.
type Damage = (&'static str, fn(&str, &Closers) -> Option<String>);

const DAMAGES: [Damage; 7] = [
    ("without its stop token", |text, closers| Some(closers.unstopped(text).to_owned())),
    ("with white space before each closing marker", |text, closers| closers.spaced(text, |mark| format!("\n{mark}"))),
    ("with white space after each closing marker", |text, closers| closers.spaced(text, |mark| format!("{mark} "))),
    ("without its last closing marker", Closers::unclosed),
    ("without its last closing marker, before its stop token", Closers::unclosed_before_stop),
    ("without all closing markers at its end", Closers::open),
    ("with half of its last closing marker", Closers::half_closed),
];

#[test]
fn a_damaged_end_changes_no_call_without_a_report() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no reply is damaged");
        return;
    };
    let rows = fs::read_to_string(shared.join("golden/outputs.jsonl")).unwrap();
    let mut replies: BTreeMap<[String; 3], Vec<Object>> = BTreeMap::new();
    for line in rows.lines() {
        let Ok(Json::Object(row)) = json::parse(line) else { continue };
        let key = ["template", "bos_token", "eos_token"].map(|key| text(&row, key));
        replies.entry(key).or_default().push(row);
    }
    let (mut tried, mut wrong) = (BTreeMap::new(), Vec::new());
    for ([file, bos, eos], rows) in replies {
        let source = fs::read_to_string(shared.join("templates").join(&file)).unwrap();
        let tokens = [("bos_token", bos), ("eos_token", eos)].map(|(name, text)| (name.to_owned(), text));
        let tokens = tokens.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let Ok(template) = ChatTemplate::compile(&source, tokens) else { continue };
        let (format, _) = infer(&template).format.corrected(&source);
        if format.layout(Slot::Call).is_none() {
            continue;
        }
        let (closers, reply) = (Closers::of(&format), Arc::new(Reply::new(&format)));
        for row in &rows {
            let options = row.get("options").and_then(Json::as_object).unwrap();
            let (prompt, output) = (text(options, "prompt"), text(options, "output"));
            let tools = row.get("tools").and_then(Json::as_array).unwrap_or_default();
            let tools: Vec<Tool> = tools.iter().filter_map(|tool| Tool::from_json(tool.clone()).ok()).collect();
            let read = |output: &str| {
                let options = ParseOptions { prompt_tail: prompt.clone(), tools: tools.clone(), ..Default::default() };
                read(&reply, options, output, Stop::End)
            };
            let whole = read(&output);
            let holds =
                |mark: &String| whole.content.contains(mark) || whole.calls.iter().any(|call| writes(call, mark));
            if closers.marks.iter().any(holds) {
                continue;
            }
            for (how, damage) in DAMAGES {
                let Some(damaged) = damage(&output, &closers) else { continue };
                *tried.entry(how).or_insert(0) += 1;
                let reading = read(&damaged);
                if !same_calls(&whole, &reading) && reading.malformed.is_empty() {
                    let id = text(row, "id");
                    wrong.push(format!("{id} {how}:\n  {damaged:?}\n  {:?}\n  {:?}", whole.calls, reading.calls));
                }
            }
        }
    }
    assert!(tried.values().all(|count| *count > 100), "too few replies: {tried:?}");
    assert!(wrong.is_empty(), "{} of {tried:?} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

fn text(object: &Object, key: &str) -> String {
    object.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn writes(call: &ParsedCall, mark: &str) -> bool {
    matches!(call, ParsedCall::Function { arguments, .. } if arguments.contains(mark))
}

/// Reports whether two readings have the same calls, by names and by the values of arguments.
fn same_calls(one: &Reading, other: &Reading) -> bool {
    let same = |(one, other): (&ParsedCall, &ParsedCall)| match (one, other) {
        (
            ParsedCall::Function { name, arguments, .. },
            ParsedCall::Function { name: other_name, arguments: other_arguments, .. },
        ) => {
            let values = (json::parse(arguments), json::parse(other_arguments));
            name == other_name && matches!(values, (Ok(one), Ok(other)) if same_json(&one, &other))
        }
        _ => one == other,
    };
    one.calls.len() == other.calls.len() && one.calls.iter().zip(&other.calls).all(same)
}

/// The texts that close calls and turns.
struct Closers {
    /// The markers that close a call or all calls.
    marks: Vec<String>,
    /// The same, and the other text that closes them.
    ends: Vec<String>,
    stops: Vec<String>,
}

impl Closers {
    fn of(format: &Format) -> Closers {
        let last = |slot: Slot| match format.layout(slot)?.ops().last()? {
            Op::Literal(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        };
        let ends: Vec<&str> = [Slot::Calls, Slot::Call].into_iter().filter_map(last).collect();
        let marks = ends.iter().flat_map(|text| tags(text).map(|span| text[span].to_owned()));
        let marks: BTreeSet<String> = marks.collect();
        let turns = [Slot::Assistant, Slot::AssistantWithCalls].into_iter().filter_map(last);
        Closers {
            ends: marks.iter().cloned().chain(ends.iter().map(|end| (*end).to_owned())).collect(),
            marks: marks.into_iter().collect(),
            stops: turns.chain(format.stops()).map(str::to_owned).collect(),
        }
    }

    /// Returns a reply without its stop token.
    fn unstopped<'t>(&self, text: &'t str) -> &'t str {
        let text = text.trim_end();
        let stop = self.stops.iter().find(|stop| text.ends_with(stop.as_str()));
        stop.map_or(text, |stop| &text[..text.len() - stop.len()])
    }

    fn spaced(&self, text: &str, space: impl Fn(&str) -> String) -> Option<String> {
        let spaced = self.marks.iter().fold(text.to_owned(), |text, mark| text.replace(mark.as_str(), &space(mark)));
        (spaced != text).then_some(spaced)
    }

    /// Returns a reply up to its last closing marker, and the marker.
    fn last<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let text = self.unstopped(text).trim_end();
        let mark = self.ends.iter().find(|mark| text.ends_with(mark.as_str()))?;
        Some(text.split_at(text.len() - mark.len()))
    }

    fn unclosed(text: &str, closers: &Closers) -> Option<String> {
        closers.last(text).map(|(before, _)| before.to_owned())
    }

    fn unclosed_before_stop(text: &str, closers: &Closers) -> Option<String> {
        let behind = &text[closers.unstopped(text).len()..];
        closers.last(text).map(|(before, _)| format!("{before}{behind}"))
    }

    fn open(text: &str, closers: &Closers) -> Option<String> {
        let (mut before, _) = closers.last(text)?;
        while let Some((more, _)) = closers.last(before) {
            before = more;
        }
        Some(before.to_owned())
    }

    fn half_closed(text: &str, closers: &Closers) -> Option<String> {
        let (before, mark) = closers.last(text)?;
        let half = mark.char_indices().nth(mark.chars().count() / 2).map_or(0, |(at, _)| at);
        Some(format!("{before}{}", &mark[..half]))
    }
}
