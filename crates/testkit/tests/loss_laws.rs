//! Which text of a chat template's prompt carries loss: laws over every real template, and over
//! templates of our own.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rolecall::conversation::{Conversation, Role, json};
use rolecall::encode::{Encoder, Protection};
use rolecall::infer::infer;
use rolecall::loss::{Edges, Loss, LossNote, LossPolicy, closers, weights};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};
use rolecall::tokenizer::{self, Tokenizer};
use rolecall::{Origin, Prompt};
use rolecall_testkit::FolderTemplates;

/// Templates in which the end of a turn, the generation prompt and tool results are written in
/// different ways. None has tags.
const OWN: [(&str, &str); 6] = [
    (
        "plain",
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>\n{% endfor %}\
         {% if add_generation_prompt %}<|assistant|>{% endif %}",
    ),
    (
        "empty reasoning only in the last turn",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and (m.reasoning_content or loop.last) %}\
         <think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
    ),
    (
        "the next role stops the model",
        "<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}\
         {% if add_generation_prompt %}<|assistant|>{% endif %}",
    ),
    (
        "the header belongs to the user's turn",
        "{% for m in messages %}{% if m.role == 'user' %}[Q]{{ m.content }}[/Q]{% elif m.role == 'assistant' %} {{ m.content }} </s>\
         {% else %}{{ m.content }}\n{% endif %}{% endfor %}",
    ),
    (
        "results inside the assistant's turn",
        "{% for m in messages %}{% if m.role != 'tool' %}<|turn>{{ m.role }}\n{% for c in m.tool_calls or [] %}\
         <call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>{% endfor %}\
         {% if m.tool_calls %}<stop>{% for n in messages if n.role == 'tool' %}<r>{{ m.tool_calls[0].function.name }}:{{ n.content }}</r>\
         {% endfor %}{% endif %}{{ m.content or '' }}{% if not m.tool_calls %}<turn|>{% endif %}\n{% endif %}{% endfor %}\
         {% if add_generation_prompt and messages[-1].role != 'tool' %}<|turn>assistant\n{% endif %}",
    ),
    (
        "text of a turn that is printed at the end",
        "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out + '<' + m.role + '>' + (m.content or '') + '</s>' %}\
         {% endfor %}{{ ns.out }}{% if add_generation_prompt %}<assistant>{% endif %}",
    ),
];

const CONVERSATIONS: [(&str, &str); 6] = [
    (
        "plain",
        r#"[{"role": "system", "content": "Sys0"}, {"role": "user", "content": "User1"}, {"role": "assistant", "content": "Answer2 yes"},
        {"role": "user", "content": "User3"}, {"role": "assistant", "content": "Answer4 no"}]"#,
    ),
    (
        "reasoning",
        r#"[{"role": "user", "content": "User1"}, {"role": "assistant", "reasoning_content": "Thought1", "content": "Answer2 yes"},
        {"role": "user", "content": "User3"}, {"role": "assistant", "reasoning_content": "Thought4", "content": "Answer4 no"}]"#,
    ),
    (
        "calls",
        r#"[{"role": "user", "content": "User0"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
            "function": {"name": "Name1", "arguments": {"Key1": "Value1"}}}]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "Name1", "content": "Result2"},
        {"role": "assistant", "content": "Answer3 done"}, {"role": "user", "content": "User4"}, {"role": "assistant", "content": "Answer5 again"}]"#,
    ),
    (
        "parallel calls",
        r#"[{"role": "user", "content": "User0"}, {"role": "assistant", "content": "Text1", "reasoning_content": "Thought1", "tool_calls": [
            {"id": "abcdefghi", "type": "function", "function": {"name": "Name1", "arguments": {"Key1": "Value1"}}},
            {"id": "abcdefghj", "type": "function", "function": {"name": "Name2", "arguments": {"Key2": 7}}}]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "Name1", "content": "Result2"},
        {"role": "tool", "tool_call_id": "abcdefghj", "name": "Name2", "content": "Result3"},
        {"role": "assistant", "content": "Answer4 done"}]"#,
    ),
    (
        "a reply first",
        r#"[{"role": "assistant", "content": "Answer0"}, {"role": "user", "content": "User1"}, {"role": "assistant", "content": "Answer2"}]"#,
    ),
    (
        "nothing said",
        r#"[{"role": "user", "content": "User0"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "User2"}, {"role": "assistant", "content": "<|im_end|></s>"}]"#,
    ),
];

struct Subject {
    name: String,
    template: ChatTemplate,
    stops: Vec<String>,
    options: TemplateOptions,
}

fn subject(name: &str, template: ChatTemplate) -> Subject {
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let eos = template.tokens().iter().filter(|(name, _)| name == "eos_token");
    let mut stops: Vec<String> = eos.map(|(_, token)| token.clone()).collect();
    stops.extend(closers(&infer(&template).format));
    let options = TemplateOptions { now: Some(now), ..TemplateOptions::default() };
    Subject { name: name.to_owned(), template, stops, options }
}

/// Returns our own templates, and the real ones if they are there.
fn subjects() -> Vec<Subject> {
    let mut subjects: Vec<Subject> = OWN
        .iter()
        .map(|(name, source)| {
            let tokens = vec![("eos_token".to_owned(), "</s>".to_owned())];
            subject(name, ChatTemplate::compile(source, tokens).unwrap())
        })
        .collect();
    match rolecall_testkit::shared() {
        Some(shared) => {
            let real = FolderTemplates::read(&shared.join("templates")).unwrap().compiled;
            subjects.extend(real.into_iter().map(|(name, template)| subject(&name, template)));
        }
        None => rolecall_testkit::say_skipped("only our own templates are checked"),
    }
    subjects
}

fn conversation(messages: &str) -> Conversation {
    let tools = r#"[{"type": "function", "function": {"name": "Name1", "description": "Tool0", "parameters":
        {"type": "object", "properties": {"Tool1": {"type": "string", "description": "Tool2"}}}}}]"#;
    let text = format!(r#"{{"messages": {messages}, "tools": {tools}, "add_generation_prompt": false}}"#);
    Conversation::from_json(json::parse(&text).unwrap()).unwrap()
}

/// Runs a check for each template and conversation that can be rendered and has a reply.
fn for_each(mut check: impl FnMut(&Subject, &Conversation, &Prompt, &Loss, &str)) {
    let mut count = 0;
    for subject in subjects() {
        for (case, messages) in CONVERSATIONS {
            let conversation = conversation(messages);
            let Subject { template, options, stops, .. } = &subject;
            // Many templates refuse tools, a system message or an order of roles.
            let Ok(prompt) = Writer::template(template.clone(), options.clone()).render(&conversation) else {
                continue;
            };
            let mut policy = LossPolicy::assistant();
            policy.allow_empty = true;
            let loss = Writer::template(template.clone(), options.clone())
                .loss(&prompt, &conversation, stops, &policy)
                .unwrap();
            count += 1;
            let label = format!("{}, {case}: {:?} {:?}", subject.name, prompt.text(), loss);
            check(&subject, &conversation, &prompt, &loss, &label);
        }
    }
    println!("{count} prompts");
    assert!(count >= 30, "only {count} prompts");
}

fn is_undetermined(loss: &Loss, range: &Range<usize>) -> bool {
    loss.notes.iter().any(|note| match note {
        LossNote::Undetermined { range: other, .. } => other.start <= range.start && range.end <= other.end,
        _ => false,
    })
}

/// The text of the assistant's messages carries loss, and no other text of the conversation does.
#[test]
fn what_the_assistant_says_carries_loss_and_nothing_else() {
    for_each(|_, conversation, prompt, loss, label| {
        let ranges = loss.ranges();
        let mut said: Vec<Origin> = Vec::new();
        for segment in prompt.segments() {
            let range = segment.start..segment.start + segment.text.len();
            let counted = |at: usize| ranges.iter().any(|range| range.contains(&at));
            let Origin::Message { message, field } = &segment.origin else {
                let is_said =
                    matches!(segment.origin, Origin::Tool { .. } | Origin::Document { .. } | Origin::Option { .. });
                assert!(!is_said || !counted(range.start), "{label}: {segment:?}");
                continue;
            };
            let is_reply = *conversation.messages[*message].role() == Role::Assistant;
            match is_reply && field != "role" {
                true if said.contains(&segment.origin) || is_undetermined(loss, &range) => {}
                // The generation prompt may have written the first bytes.
                true => assert!(range.clone().skip(1).all(counted) || range.len() == 1, "{label}: {segment:?}"),
                // The next role may stop the model.
                false if field == "role" => {}
                false => assert!(!range.clone().any(counted), "{label}: {segment:?}"),
            }
            said.push(segment.origin.clone());
        }
    });
}

/// A reply starts where the longest common prefix with the generation prompt ends, according to a
/// rendering of everything before the reply.
#[test]
fn no_reply_starts_inside_its_generation_prompt() {
    let mut checked = 0;
    for_each(|subject, conversation, prompt, loss, label| {
        for reply in &loss.replies {
            let message = reply.message.unwrap();
            let before = |generates: bool| {
                let mut before = conversation.clone();
                before.messages.truncate(message);
                before.add_generation_prompt = Some(generates);
                Writer::template(subject.template.clone(), subject.options.clone()).render(&before).ok()
            };
            let (Some(with), Some(without)) = (before(true), before(false)) else { continue };
            let same = with.text().bytes().zip(without.text().bytes()).take_while(|(one, other)| one == other).count();
            let marker = with.text()[..same].rfind('<').filter(|at| !with.text()[*at..same].contains('>'));
            let Some(added) = with.text().get(marker.unwrap_or(same)..).filter(|added| !added.is_empty()) else {
                continue;
            };
            let text = prompt.text();
            let start = reply.range.start;
            let mut kept = (0..=added.len()).rev().filter(|end| added.is_char_boundary(*end));
            let kept = kept.find(|end| text[..start].ends_with(&added[..*end])).unwrap_or(0);
            let next = added[kept..].chars().next();
            // Markers that differ may begin with the same characters.
            let marker = added[kept..].find('>').filter(|_| next == Some('<')).map_or(0, |end| end + 1);
            let goes_on = match marker {
                0 => next.is_some_and(|next| !next.is_whitespace() && text[start..].starts_with(next)),
                end => text[start..].starts_with(&added[kept..kept + end]),
            };
            assert!(!goes_on, "{label}: {added:?} goes on at {start}");
            checked += usize::from(kept > 0);
        }
    });
    assert!(checked > 15, "only {checked} replies");
}

/// A reply ends with a stop token that the template itself wrote, or its end is reported.
#[test]
fn a_reply_ends_with_its_stop_token_or_this_is_reported() {
    for_each(|subject, _, prompt, loss, label| {
        let last = loss.replies.iter().filter_map(|reply| reply.message).max();
        for reply in &loss.replies {
            match &reply.stop {
                Some(stop) => {
                    assert_eq!(stop.end, reply.range.end, "{label}");
                    assert!(subject.stops.iter().any(|text| *text == prompt.text()[stop.clone()]), "{label}");
                    let said = prompt.segments_in(stop.clone()).filter(|segment| match &segment.origin {
                        Origin::Message { field, .. } => field != "role",
                        origin => !origin.is_format(),
                    });
                    assert_eq!(said.count(), 0, "{label}");
                }
                None if reply.message == last => {
                    let is_reported = loss.notes.iter().any(|note| matches!(note, LossNote::NoStop { .. }));
                    assert!(
                        is_reported || loss.replies.iter().any(|other| other.message == last && other.stop.is_some()),
                        "{label}"
                    );
                }
                None => {}
            }
        }
    });
}

/// The mask has an entry for each id, the counted ids cover exactly the replies, and neither the
/// encoder's cache nor threads change it.
#[test]
fn counted_ids_are_those_of_the_replies() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real tokenizer is checked");
        return;
    };
    let tokenizer: Arc<dyn Tokenizer> = Arc::from(tokenizer::load(&shared.join("tokenizers/qwen3")).unwrap());
    let mut warm: Option<(String, Arc<Encoder>)> = None;
    for_each(|subject, _, prompt, loss, label| {
        let new = || {
            Arc::new(
                Encoder::new(
                    &Protection::default().with_template("template", &subject.template),
                    Arc::clone(&tokenizer),
                )
                .unwrap(),
            )
        };
        if warm.as_ref().is_none_or(|(name, _)| *name != subject.name) {
            warm = Some((subject.name.clone(), new()));
        }
        let encoder = Arc::clone(&warm.as_ref().unwrap().1);
        // The tokenizer lacks some templates' tokens, so text built from several pieces may spell
        // other ones.
        let Ok(encoded) = encoder.encode(prompt) else { return };
        let mask: Vec<f32> = weights(&encoded, loss, Edges::Any).collect();
        assert_eq!(mask.len(), encoded.tokens.len(), "{label}");
        let ranges = loss.ranges();
        for (token, weight) in encoded.tokens.iter().zip(&mask) {
            let touches = ranges.iter().any(|range| range.start < token.end && token.start < range.end);
            assert_eq!(*weight > 0.0, touches, "{label}: {token:?}");
        }
        let counted = encoded.tokens.iter().zip(&mask).filter(|(_, weight)| **weight > 0.0);
        let mut covered = vec![false; prompt.text().len()];
        counted.for_each(|(token, _)| covered[token.start..token.end].fill(true));
        assert!(ranges.iter().all(|range| covered[range.clone()].iter().all(|covered| *covered)), "{label}");
        for (strict, (any, token)) in weights(&encoded, loss, Edges::Strict).zip(mask.iter().zip(&encoded.tokens)) {
            let inside = ranges.iter().any(|range| range.start <= token.start && token.end <= range.end);
            assert_eq!(strict > 0.0, inside, "{label}: {token:?}");
            assert!(strict <= *any, "{label}");
        }
        let cold = new();
        let again: Vec<Vec<f32>> = thread::scope(|scope| {
            let each = [&encoder, &cold].map(|encoder| {
                scope.spawn(|| weights(&encoder.encode(prompt).unwrap(), loss, Edges::Any).collect::<Vec<f32>>())
            });
            each.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(again.iter().all(|other| *other == mask), "{label}");
    });
}

/// The cost is linear where one turn holds thousands of calls and results, each with a stop token,
/// and where a template writes every message twice.
#[test]
fn thousands_of_places_cost_no_more_than_each_one() {
    let calls: Vec<String> = (0..8_000)
        .map(|at| {
            format!(r#"{{"id": "c{at}", "type": "function", "function": {{"name": "f{at}", "arguments": {{}}}}}}"#)
        })
        .collect();
    let results: Vec<String> =
        (0..8_000).map(|at| format!(r#"{{"role": "tool", "tool_call_id": "c{at}", "content": "r{at}"}}"#)).collect();
    let calls = format!(
        r#"[{{"role": "user", "content": "Q"}}, {{"role": "assistant", "content": "", "tool_calls": [{}]}}, {}]"#,
        calls.join(", "),
        results.join(", ")
    );
    let pairs = [r#"{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}"#; 8_000];
    let pairs = format!("[{}]", pairs.join(", "));
    let sources = [
        (
            "{% for m in messages if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
             <c>{{ c.function.name }}</c></s><r>{{ messages[loop.index + 1].content }}</r>{% endfor %}</s>{% endfor %}\
             {% if add_generation_prompt %}<|assistant|>{% endif %}",
            &calls,
        ),
        (
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}<c>{{ c.function.name }}</c></s>\
             {% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
            &calls,
        ),
        (
            "{% for m in messages %}{{ m.content }};{% endfor %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}\
             {% if add_generation_prompt %}<|assistant|>{% endif %}",
            &pairs,
        ),
    ];
    for (source, messages) in sources {
        let template = ChatTemplate::compile(source, Vec::new()).unwrap();
        let (conversation, options) = (conversation(messages), TemplateOptions::default());
        let prompt = Writer::template(template.clone(), options.clone()).render(&conversation).unwrap();
        let stops = ["</s>".to_owned()];
        let start = Instant::now();
        Writer::template(template.clone(), options.clone())
            .loss(&prompt, &conversation, &stops, &LossPolicy::assistant())
            .unwrap();
        // A cost that is not linear takes at least five times as long.
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}: {source}");
    }
}
