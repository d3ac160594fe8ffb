use std::sync::Arc;
use std::time::{Duration, Instant};

use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Conversation, Json, Tool, object};
use rolecall::grammar::{Options, grammar};
use rolecall::guard::guard;
use rolecall::infer::{InferredFormat, Limits, Outcome, TurnPart, infer};
use rolecall::parse::{ParseOptions, ParsedCall, Reply, read};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, Forms, TemplateOptions, analyze_template};
use rolecall::{Reading, Stop};

use crate::outputs::{Effort, Promise, Subject};

/// A law that a template breaks.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The law, in a few words.
    pub law: &'static str,
    /// What happened.
    pub what: String,
}

/// What a template that breaks no law shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LawOutcome {
    /// It does not compile.
    Refused,
    /// No part of its replies is called verified, or none could be compared.
    Unverified,
    /// This many verified parts parse what it writes.
    Verified(usize),
}

/// The law that a template can break by what it makes of particular messages, which no probe saw.
pub(super) const READS: &str = "a verified layout parses what the template writes";

/// The effort for the replies of each template.
const EFFORT: Effort = Effort { all_pairs: 0, some_pairs: 2 };

/// The longest that a template may take, in a release build on a slow machine. Most take a hundredth of a second.
const LONGEST: Duration = Duration::from_secs(10);

/// Infers a template's layouts, uses them, and checks every law. `seed` chooses a reply to parse.
pub fn check(source: &str, tokens: &[(String, String)], seed: u64) -> Result<LawOutcome, Violation> {
    let began = Instant::now();
    let checked = guard(|| checked(source, tokens, seed));
    let took = began.elapsed();
    match checked {
        Ok(Ok(_)) if took > LONGEST => {
            Err(Violation { law: "inference is quick", what: format!("it took {took:.1?}") })
        }
        Ok(checked) => checked,
        Err(bug) => Err(Violation { law: "nothing panics", what: bug.to_string() }),
    }
}

fn checked(source: &str, tokens: &[(String, String)], seed: u64) -> Result<LawOutcome, Violation> {
    let Ok(template) = ChatTemplate::compile(source, tokens.to_vec()) else { return Ok(LawOutcome::Refused) };
    let _ = analyze_template(&template, &TemplateOptions::default());
    let inferred = infer(&template);
    let most = Limits::default().steps;
    if inferred.report.steps > most {
        let what = format!("{} steps, expected at most {most}", inferred.report.steps);
        return Err(Violation { law: "inference keeps its budget", what });
    }
    let (format, _) = inferred.format.clone().corrected(source);
    // Some formats have no grammar, and say why.
    let _ = grammar(&format, &Options { tools: tool().into_iter().collect(), ..Options::default() });
    if let Some(subject) = Subject::new("changed".to_owned(), format) {
        let nothing =
            Promise { white_space: false, reasoning: false, calls: false, parallel_calls: false, backslashes: false };
        // Only that nothing panics: `conform --outputs` holds the other laws of replies, for layouts that a
        // maker wrote.
        let _ = crate::outputs::check(&Subject { promise: nothing, ..subject }, seed, EFFORT);
    }
    let mut verified = 0;
    for part in [TurnPart::Content, TurnPart::Reasoning, TurnPart::Calls] {
        verified += usize::from(is_parsed(&template, &inferred, part)?);
    }
    Ok(if verified == 0 { LawOutcome::Unverified } else { LawOutcome::Verified(verified) })
}

/// The texts of the messages, none of which the probes have.
const ASKED: &str = "Please tell.";
const DESCRIPTION: &str = "Weighs.";
const CONTENT: &str = "Marbled oak, nine 4.";
const REASONING: &str = "Weigh it twice.";
const NAME: &str = "weigh_fruit";
const ARGUMENTS: [(&str, &str); 2] = [("sort", "Bramley"), ("hue", "light green")];

/// Checks that a part which is called verified parses what the template writes. Returns whether it could be
/// compared: a template may refuse the message, drop it, or write it elsewhere than after its prompt.
fn is_parsed(template: &ChatTemplate, inferred: &InferredFormat, part: TurnPart) -> Result<bool, Violation> {
    let is_sure = |part| matches!(inferred.report.outcome(part), Some(Outcome::Verified { .. }));
    if !is_sure(part) || part == TurnPart::Calls && !is_sure(TurnPart::Arguments) {
        return Ok(false);
    }
    let content = if part == TurnPart::Calls { "" } else { CONTENT };
    let mut message = object! { "role" => "assistant", "content" => content };
    match part {
        TurnPart::Reasoning => {
            message.insert("reasoning_content", Json::from(REASONING));
        }
        TurnPart::Calls => {
            let arguments = ARGUMENTS.into_iter().map(|(key, text)| (key.to_owned(), Json::from(text))).collect();
            let function = object! { "name" => NAME, "arguments" => Json::Object(arguments) };
            let call = object! { "id" => "abcd12345", "type" => "function", "function" => Json::Object(function) };
            message.insert("tool_calls", Json::Array(vec![Json::Object(call)]));
        }
        _ => {}
    }
    let user = object! { "role" => "user", "content" => ASKED };
    let prompt = rendered(template, &[&user], part, true);
    let whole = rendered(template, &[&user, &message], part, false);
    let Some((prompt, whole)) = prompt.zip(whole) else { return Ok(false) };
    let Some(output) = whole.strip_prefix(prompt.as_str()) else { return Ok(false) };
    // A loop within a loop writes the user's words or the tools in the reply, too, and another one the characters
    // of the content.
    if output.contains(ASKED) || output.contains(DESCRIPTION) || !output.contains(content) {
        return Ok(false);
    }
    // It may drop the call, or the arguments where there is no content.
    let says_call = || output.contains(NAME) && ARGUMENTS.iter().any(|(_, text)| output.contains(text));
    if part == TurnPart::Calls && !says_call() {
        return Ok(false);
    }
    let reply = Arc::new(Reply::new(&inferred.format));
    let options =
        ParseOptions { tools: tool().into_iter().collect(), prompt_tail: prompt.clone(), ..ParseOptions::default() };
    let reading = read(&reply, options, output, Stop::End);
    match misread(&reading, part, output, is_sure(TurnPart::Content)) {
        None => Ok(true),
        Some(what) => Err(Violation {
            law: READS,
            what: format!("{}: {what} in {output:?} after {:?}", part.name(), tail(&prompt)),
        }),
    }
}

fn tail(prompt: &str) -> String {
    let count = prompt.chars().count();
    prompt.chars().skip(count.saturating_sub(60)).collect()
}

/// Returns what was read wrongly: of a part, and of the content beside it, if that is verified, too.
fn misread(reading: &Reading, part: TurnPart, output: &str, is_content_sure: bool) -> Option<String> {
    let is = |read: &str, said: &str| read.trim() == said || (read.trim().is_empty() && !output.contains(said));
    if part == TurnPart::Calls {
        let [ParsedCall::Function { name, arguments, .. }] = reading.calls.as_slice() else {
            return Some(format!("{} calls", reading.calls.len()));
        };
        if name != NAME {
            return Some(format!("the call `{name}`"));
        }
        let arguments = json::parse(arguments).ok();
        let value = |key: &str| Some(arguments.as_ref()?.as_object()?.get(key)?.as_str()?.to_owned());
        let is_written = |key: &str, text: &str| output.contains(key) && output.contains(text);
        let wrong =
            ARGUMENTS.into_iter().find(|(key, text)| is_written(key, text) && value(key).as_deref() != Some(text));
        return wrong.map(|(key, _)| format!("the argument `{key}` is {:?}", value(key)));
    }
    if part == TurnPart::Reasoning && !is(reading.reasoning.as_deref().unwrap_or_default(), REASONING) {
        return Some(format!("the reasoning {:?}", reading.reasoning));
    }
    (is_content_sure && !is(&reading.content, CONTENT)).then(|| format!("the content {:?}", reading.content))
}

fn tool() -> Option<Tool> {
    let text = r#"{"type": "function", "function": {"name": "weigh_fruit", "description": "Weighs.", "parameters":
        {"type": "object", "properties": {"sort": {"type": "string"}, "hue": {"type": "string"}}, "required": []}}}"#;
    Tool::from_json(json::parse(text).ok()?).ok()
}

fn rendered(template: &ChatTemplate, messages: &[&Object], part: TurnPart, opened: bool) -> Option<String> {
    let messages: Vec<Json> = messages.iter().map(|message| Json::Object((*message).clone())).collect();
    let mut request = object! { "messages" => Json::Array(messages) };
    request.insert("add_generation_prompt", Json::Bool(opened));
    let mut conversation = Conversation::from_json(Json::Object(request)).ok()?;
    conversation.add_generation_prompt = Some(opened);
    if part == TurnPart::Calls {
        conversation.tools = Some(tool().into_iter().collect());
    }
    // As inference and `render` pass the calls.
    let options = TemplateOptions { forms: Forms::AsWanted, ..TemplateOptions::default() };
    Writer::template(template.clone(), options.clone()).render(&conversation).ok().map(|prompt| prompt.into_text())
}
