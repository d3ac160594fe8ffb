//! Templates in common syntaxes, each with its layouts. Only the template's output determines them.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use rolecall_format::{Op, Slot};
use rolecall_infer::{InferredFormat, Outcome, TurnPart, infer};
use rolecall_render::ChatTemplate;

/// Returns a template with this assistant's turn.
fn template(turn: &str) -> String {
    format!(
        "{{% for m in messages %}}{{% if m.role == 'assistant' %}}{turn}{{% else %}}<|{{{{ m.role }}}}|>{{{{ m.content }}}}<|end|>\
         {{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}<|assistant|>{{% endif %}}"
    )
}

fn inferred(turn: &str) -> InferredFormat {
    match ChatTemplate::compile(&template(turn), Vec::new()) {
        Ok(template) => infer(&template),
        Err(error) => panic!("{error}"),
    }
}

fn written(ops: &[Op]) -> String {
    let each = ops.iter().map(|op| match op {
        Op::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
        Op::Hole { field, codec, .. } => match codec.spelling() {
            codec if codec.is_empty() => format!("{{{}}}", field.name()),
            codec => format!("{{{}:{codec}}}", field.name()),
        },
        Op::Group(inner) => format!("[[{}]]", written(inner)),
        other => format!("{other:?}"),
    });
    each.collect()
}

/// Returns all layouts of a template, as in a format file.
fn layouts(inferred: &InferredFormat) -> Vec<String> {
    let slots = Slot::ALL.into_iter().filter_map(|slot| Some((slot, inferred.format.layout(slot)?)));
    slots.map(|(slot, layout)| format!("{} = {}", slot.key(), written(layout.ops()))).collect()
}

fn check(turn: &str, expected: &[&str]) -> InferredFormat {
    let inferred = inferred(turn);
    assert_eq!(layouts(&inferred), expected, "{turn}");
    inferred
}

fn is_verified(inferred: &InferredFormat, parts: &[TurnPart]) {
    for part in parts {
        let outcome = inferred.report.outcome(*part);
        assert!(matches!(outcome, Some(Outcome::Verified { .. })), "{}: {outcome:?}", part.name());
    }
}

const CALLS: [TurnPart; 4] = [TurnPart::Content, TurnPart::Calls, TurnPart::ParallelCalls, TurnPart::Arguments];

#[test]
fn objects_in_tags() {
    let inferred = check(
        "<|assistant|>{{ m.content }}{% for c in m.tool_calls or [] %}{{ '\\n' if m.content or not loop.first }}<call>\n\
         {\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</call>{% endfor %}<|end|>",
        &[
            "assistant = <|assistant|>{content}<|end|>",
            "assistant-with-calls = <|assistant|>[[{content}\n]]{calls}<|end|>",
            "call = <call>\n{call:json(name, arguments)}\n</call>",
            "call-separator = \n",
            "generate = <|assistant|>",
        ],
    );
    is_verified(&inferred, &CALLS);
}

#[test]
fn a_list_of_objects_with_ids_and_no_content_beside_it() {
    let inferred = check(
        "<|assistant|>{% if m.tool_calls %}[CALLS] [{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": \
         {{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{% if not loop.last %}, {% endif %}{% endfor %}]{% else %}\
         {{ m.content | trim }}{% endif %}</s>",
        &[
            "assistant = <|assistant|>{content:trim}</s>",
            "assistant-with-calls = <|assistant|>{calls}</s>",
            "calls = [CALLS] [{calls}]",
            "call = {{\"name\": \"{name}\", \"arguments\": {arguments:json}, \"id\": \"{id}\"}}",
            "call-separator = , ",
            "generate = <|assistant|>",
        ],
    );
    is_verified(&inferred, &CALLS);
    is_verified(&inferred, &[TurnPart::Ids]);
}

#[test]
fn values_by_their_kind_in_tags() {
    let inferred = check(
        "<|assistant|>{{ m.content }}{% for c in m.tool_calls or [] %}<f={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}\
         <p={{ k }}>{{ v if v is string else v | tojson }}</p>\n{% endfor %}</f>{% endfor %}<|end|>",
        &[
            "assistant = <|assistant|>{content}{calls}<|end|>",
            "call = <f={name}>\n{arguments}</f>",
            "argument = <p={key}>{value:json}</p>\n",
            "argument-string = <p={key}>{value}</p>\n",
            "generate = <|assistant|>",
        ],
    );
    is_verified(&inferred, &CALLS);
}

#[test]
fn python_calls_in_a_list() {
    let inferred = check(
        "<|assistant|>{{ m.content }}{% if m.tool_calls %}<calls>[{% for c in m.tool_calls %}{{ c.function.name }}(\
         {% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}{% endfor %})\
         {% if not loop.last %}, {% endif %}{% endfor %}]</calls>{% endif %}<|end|>",
        &[
            "assistant = <|assistant|>{content}{calls}<|end|>",
            "calls = <calls>[{calls}]</calls>",
            "call = {name}({arguments})",
            "call-separator = , ",
            "argument = {key}={value:json}",
            "argument-separator = , ",
            "generate = <|assistant|>",
        ],
    );
    is_verified(&inferred, &CALLS);
}

#[test]
fn reasoning_as_a_group_always_there_or_cut_to_half() {
    let thought = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}";
    let inferred = check(
        &format!("<|assistant|>{thought}{{{{ m.content }}}}<|end|>"),
        &[
            "assistant = <|assistant|>[[<think>\n{reasoning}\n</think>\n\n]]{content}<|end|>",
            "generate = <|assistant|>",
        ],
    );
    is_verified(&inferred, &[TurnPart::Content, TurnPart::Reasoning]);
    let inferred = check(
        "<|assistant|><think>{{ m.reasoning_content }}</think>{{ m.content }}<|end|>",
        &["assistant = <|assistant|><think>{reasoning}</think>{content}<|end|>", "generate = <|assistant|>"],
    );
    is_verified(&inferred, &[TurnPart::Content, TurnPart::Reasoning]);
    let inferred = check(
        "<|assistant|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}{% endif %}</think>{{ m.content }}<|end|>",
        &["assistant = <|assistant|>[[<think>{reasoning}]]</think>{content}<|end|>", "generate = <|assistant|>"],
    );
    is_verified(&inferred, &[TurnPart::Content, TurnPart::Reasoning]);
}

#[test]
fn reasoning_that_is_only_dropped_is_read() {
    let inferred = check(
        "<|assistant|>{{ m.content.split('</think>')[-1] if '</think>' in m.content else m.content }}<|end|>",
        &[
            "assistant = <|assistant|>[[<think>\n{reasoning}\n</think>\n\n]]{content}<|end|>",
            "generate = <|assistant|>",
        ],
    );
    assert!(matches!(inferred.report.outcome(TurnPart::Reasoning), Some(Outcome::ReadOnly(_))));
}

#[test]
fn a_switch_that_shows_reasoning_is_found() {
    let inferred = check(
        "<|assistant|>{% if deep and m.reasoning_content %}<deep>{{ m.reasoning_content }}</deep>{% endif %}{{ m.content }}<|end|>",
        &["assistant = <|assistant|>[[<deep>{reasoning}</deep>]]{content}<|end|>", "generate = <|assistant|>"],
    );
    is_verified(&inferred, &[TurnPart::Content, TurnPart::Reasoning]);
    assert!(inferred.report.notes.iter().any(|note| note.words.contains("\"deep\": true")));
}

#[test]
fn a_call_that_is_numbered_and_laid_out_over_lines() {
    let inferred = check(
        "<|assistant|>{{ m.content }}{% if m.tool_calls %}<calls>{% for c in m.tool_calls %}{{ loop.index0 }}: {{ c.function.name }} \
         {{ c.function.arguments | tojson(indent=2) }}{% if not loop.last %};\n{% endif %}{% endfor %}</calls>{% endif %}<|end|>",
        &[
            "assistant = <|assistant|>{content}{calls}<|end|>",
            "calls = <calls>{calls}</calls>",
            "call = {index}: {name} {arguments:json(indent=2)}",
            "call-separator = ;\n",
            "generate = <|assistant|>",
        ],
    );
    assert_eq!(inferred.report.outcome(TurnPart::Ids), Some(&Outcome::Absent));
}

#[test]
fn a_template_that_writes_one_call_says_so() {
    let inferred = inferred(
        "<|assistant|>{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('One call, please.') }}{% endif %}\
         <call>{{ m.tool_calls[0].function | tojson }}</call>{% else %}{{ m.content }}{% endif %}<|end|>",
    );
    assert_eq!(inferred.report.outcome(TurnPart::ParallelCalls), Some(&Outcome::Missing("One call, please.".into())));
    assert!(inferred.report.notes.iter().any(|note| note.part == TurnPart::ParallelCalls && note.line == Some(1)));
    assert_eq!(inferred.format.rules.max_calls, Some(1));
    is_verified(&inferred, &[TurnPart::Calls, TurnPart::Arguments]);
}

#[test]
fn a_turn_without_an_end_stops_where_the_next_one_begins() {
    let inferred = inferred("<|assistant|>{{ m.content }}");
    assert_eq!(inferred.format.generation.stop, ["<|user|>"]);
}

#[test]
fn what_nothing_opened_ends_the_turn() {
    let call = "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}";
    let turn = format!(
        "<|assistant|>{{{{ m.content }}}}{call}{{% if m.tool_calls %}}<|observation|>{{% else %}}<|user|>{{% endif %}}"
    );
    let found = inferred(&turn);
    let layout = |slot| found.format.layout(slot).map(|layout| written(layout.ops()));
    assert_eq!(layout(Slot::Calls), None, "{:?}", layouts(&found));
    let with_calls = layout(Slot::AssistantWithCalls).unwrap_or_default();
    assert!(with_calls.ends_with("<|observation|>"), "{with_calls}");
    assert!(found.format.generation.stop.is_empty(), "{:?}", found.format.generation.stop);
}

#[test]
fn calls_that_are_a_message_of_their_own_are_found_behind_its_opening() {
    let call =
        "{% for c in m.tool_calls %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}";
    let turn = format!(
        "{{% if m.tool_calls %}}<|assistant|><|calls|>{call}<|over|>{{% else %}}<|assistant|><|says|>{{{{ m.content }}}}<|end|>{{% endif %}}"
    );
    let source = template(&turn).replace("<|assistant|>", "<|begin|>assistant");
    let found = infer(&ChatTemplate::compile(&source, Vec::new()).unwrap_or_else(|error| panic!("{error}")));
    is_verified(&found, &CALLS);
}
