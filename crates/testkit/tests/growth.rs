//! Taking up a template's rendering where it stopped: the result is that of rendering the whole
//! conversation, or there is none.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;

use rolecall::Request;
use rolecall::conversation::{Conversation, Message};
use rolecall::render::Writer;
use rolecall::stability::Case;
use rolecall::template::{ChatTemplate, DateTime, Forms, TemplateOptions};
use rolecall_testkit::FolderTemplates;
use rolecall_testkit::growth::{Tally, Window, check_growth, first, grow};

const NOON: DateTime = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };

fn options() -> TemplateOptions {
    TemplateOptions { now: Some(NOON), forms: Forms::AsWanted, ..TemplateOptions::default() }
}

#[test]
fn a_grown_prompt_is_the_end_of_the_whole_one() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the reference templates are not grown");
        return;
    };
    let (options, mut tally) = (options(), Tally::default());
    // All conversations take a minute, so each template gets a third of them, and neighbors, which
    // are often alike, get different ones.
    let all = std::env::var_os("ALL").is_some();
    for (number, (name, template)) in
        FolderTemplates::read(&shared.join("templates")).unwrap().compiled.into_iter().enumerate()
    {
        for (_, case) in Case::all().into_iter().enumerate().filter(|(at, _)| all || (at + number) % 3 == 0) {
            let what = format!("{name}, {}", case.name);
            check_growth(&what, &Writer::template(template.clone(), options.clone()), &case.conversation, &mut tally);
        }
    }
    println!("{tally:#?}");
    assert!(tally.shorter > 50_000, "{tally:?}");
}

/// A plain conversation: a system message, and users and replies in turn.
fn plain(count: usize) -> Conversation {
    let message = |at: usize| match at {
        0 => Message::system("You are kind."),
        at if at % 2 == 1 => Message::user(format!("Question {at}")),
        at => Message::assistant(format!("Answer {at}")),
    };
    Conversation::new((0..count).map(message).collect())
}

#[test]
fn most_templates_grow_flat() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("the reference templates are not grown");
        return;
    };
    let options = options();
    let (mut flat, mut rest) = (0, BTreeMap::<String, Vec<String>>::new());
    for (name, template) in FolderTemplates::read(&shared.join("templates")).unwrap().compiled {
        let writer = Writer::template(template.clone(), options.clone());
        match flat_turns(&writer, 0).or_else(|_| flat_turns(&writer, 1)) {
            Ok(()) => flat += 1,
            Err(reason) => rest.entry(reason).or_default().push(name),
        }
    }
    println!("{flat} templates grow flat");
    for (reason, names) in &rest {
        println!("{} {reason}: {}", names.len(), names.join(" "));
    }
    assert!(flat >= 146, "{flat}");
}

/// Grows a plain conversation by several turns, with few messages at hand. Without its first
/// message, it has no system message.
fn flat_turns(writer: &Writer, without: usize) -> Result<(), String> {
    let conversation = |count: usize| {
        let mut conversation = plain(count + without);
        conversation.messages.drain(..without);
        first(&conversation, count, true)
    };
    let start = 22 - without;
    let rendered = writer.render_growing(&conversation(start));
    let (_, growth) = rendered.map_err(|error| format!("refused: {}", error.code()))?;
    let mut growth = growth.ok_or("no state")?;
    for turn in 1..5 {
        let longer = conversation(start + turn * 2);
        let grown = grow(writer, &growth, &longer, Window { head: 4, tail: 6 });
        growth = grown.map_err(|reason| reason.to_string())?.growth.ok_or("no next state")?;
    }
    Ok(())
}

/// The parts of templates that loop over tools and search the messages.
const SEARCH: &str = "{% set ns = namespace(last=messages|length - 1, more=true) %}\
    {% for m in messages[::-1] %}{% if ns.more and m.role == 'user' %}{% set ns.more = false %}\
    {% set ns.last = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}";
const MAIN: &str = "{% for m in messages %}[{{ m.role }}{% if loop.index0 > ns.last %} new{% endif %}]\
    {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant new]{% endif %}";
const TOOLS: &str = "{% for t in tools %}{{ t | tojson }}\n{% endfor %}";

fn with_tools(count: usize, tools: usize) -> Conversation {
    let tool =
        |at: usize| format!(r#"{{"type": "function", "function": {{"name": "t{at}", "parameters": {{"x": {at}}}}}}}"#);
    let tools = (0..tools).map(tool).collect::<Vec<String>>().join(", ");
    let one = r#"[{"role": "user", "content": "x"}]"#;
    let frame =
        format!(r#"{{"messages": {one}, "tools": [{tools}], "documents": [{{"text": "a"}}, {{"text": "b"}}]}}"#);
    Conversation { messages: plain(count).messages, ..Request::from_text(&frame).unwrap().conversation }
}

#[test]
fn loops_over_tools_before_and_between_searches_grow() {
    let sources = [
        format!("{{% if tools %}}Tools:\n{TOOLS}{{% endif %}}{SEARCH}{MAIN}"),
        // What is set before and in the loop lives on.
        format!(
            "{{% set n = namespace(all=[], count=3) %}}{{% set a = 'b' ~ tools[0].type %}}{{% for t in tools %}}\
            {{% set n.count = n.count + loop.index %}}{{% set n.all = n.all + [t.function.name] %}}{{% else %}}none\
            {{% endfor %}}{SEARCH}{{{{ n.all | join(a) }}}}{{{{ n.count }}}}{MAIN}"
        ),
        format!(
            "{{% macro say(t) %}}<{{{{ t.type }}}}>{{% endmacro %}}{{% set made = [] %}}{{% for t in tools %}}\
            {{{{ say(t) }}}}{{% set _ = made.append(say(t)) %}}{{% endfor %}}{SEARCH}{{{{ made }}}}{MAIN}"
        ),
        // The loop comes after the messages, or the switch, were read.
        format!("{{{{ messages|length }}}}{TOOLS}{SEARCH}{MAIN}"),
        format!("{{% if add_generation_prompt %}}!{{% endif %}}{TOOLS}{SEARCH}{MAIN}"),
        format!("{{{{ messages[0].content }}}}{{{{ messages[-1].content }}}}{TOOLS}{SEARCH}{MAIN}"),
        // More than one loop.
        format!("{TOOLS}{SEARCH}{TOOLS}{MAIN}"),
        format!("{TOOLS}{{% for d in documents %}}{{{{ d }}}}{{% endfor %}}{SEARCH}{MAIN}{TOOLS}"),
        format!(
            "{{% for i in range(3) %}}{{{{ i }}}}{{% endfor %}}{{% for c in 'ab' %}}{{{{ c }}}}{{% endfor %}}{SEARCH}{MAIN}"
        ),
        format!("{{% for m in messages[:1] %}}{{{{ m.role }}}}{{% endfor %}}{TOOLS}{SEARCH}{MAIN}"),
        format!("{{% for m in messages %}}{{{{ m.role }}}}{{% endfor %}}{TOOLS}{SEARCH}{MAIN}"),
        format!("{SEARCH}{TOOLS}{MAIN}{SEARCH}{TOOLS}{MAIN}"),
        // The loop is not the outermost.
        format!("{{% for m in messages[:2] %}}{TOOLS}{{% endfor %}}{SEARCH}{MAIN}"),
        format!("{{% set text %}}{TOOLS}{{% endset %}}{SEARCH}{MAIN}{{{{ text }}}}"),
    ];
    let options = options();
    let mut tally = Tally::default();
    for source in &sources {
        let template = ChatTemplate::compile(source, Vec::new()).unwrap();
        for tools in [0, 2] {
            check_growth(
                source,
                &Writer::template(template.clone(), options.clone()),
                &with_tools(7, tools),
                &mut tally,
            );
        }
    }
    println!("{tally:#?}");
    assert!(tally.shorter > 3_000, "{tally:?}");
}

#[test]
fn tools_before_a_search_are_not_rendered_again() {
    let template = ChatTemplate::compile(&format!("{TOOLS}{SEARCH}{MAIN}"), Vec::new()).unwrap();
    let whole = options();
    let (_, growth) = Writer::template(template.clone(), whole.clone()).render_growing(&with_tools(6, 1_000)).unwrap();
    // This is too little for a thousand tools.
    let mut little = options();
    little.limits.instructions = 2_000;
    let writer = Writer::template(template.clone(), little.clone());
    assert!(writer.render(&with_tools(8, 1_000)).is_err());
    let grown = grow(&writer, &growth.unwrap(), &with_tools(8, 1_000), Window { head: 0, tail: 8 }).unwrap();
    assert!(
        grown.prompt.text().ends_with("[assistant]Answer 6\n[user]Question 7\n[assistant new]"),
        "{}",
        grown.prompt.text()
    );
}
