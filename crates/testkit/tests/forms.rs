//! A template writes a conversation in whatever form it comes, if it is given the form that the template writes.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::Origin;
use rolecall::conversation::{Conversation, json};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, Forms, TemplateOptions};
use rolecall_testkit::FolderTemplates;
use rolecall_testkit::growth::{Tally, check_growth};

/// A conversation in forms of the same meaning.
struct SameMeaning {
    what: &'static str,
    /// Requests, each in another form.
    requests: Vec<String>,
    /// What a prompt says of it, if not all forms must give the same prompt.
    words: &'static [&'static str],
}

const TOOLS: &str = r#""tools": [{"type": "function", "function": {"name": "look_up", "description": "Looks up a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "Its name."}}, "required": ["place"]}}}]"#;

fn part(text: &str) -> String {
    format!(r#"[{{"type": "text", "text": "{text}"}}]"#)
}

/// A conversation of texts or parts.
fn spoken(role: &str, form: [fn(&str) -> String; 3]) -> String {
    let [system, user, reply] = form;
    let (system, user, reply) = (system("Be brief."), user("Which way?"), reply("Left."));
    format!(
        r#"{{"messages": [{{"role": "{role}", "content": {system}}}, {{"role": "user", "content": {user}}},
            {{"role": "assistant", "content": {reply}}}, {{"role": "user", "content": "And back?"}}]}}"#
    )
}

/// A conversation with a call and its result.
fn called(content: &str, arguments: &str, result: &str) -> String {
    format!(
        r#"{{"messages": [{{"role": "user", "content": "Which way?"}}, {{"role": "assistant"{content}, "tool_calls": [
            {{"id": "lookup001", "type": "function", "function": {{"name": "look_up", "arguments": {arguments}}}}}]}},
            {{"role": "tool", "tool_call_id": "lookup001", "name": "look_up", "content": {result}}}], {TOOLS}}}"#
    )
}

fn groups() -> [SameMeaning; 3] {
    let text: fn(&str) -> String = |text| format!("\"{text}\"");
    let (object, string, north) = (r#"{"place": "Oslo"}"#, r#""{\"place\": \"Oslo\"}""#, text("north"));
    let requests = vec![spoken("system", [text; 3]), spoken("system", [part; 3]), spoken("system", [text, part, text])];
    let contents = SameMeaning { what: "contents as texts and in parts", requests, words: &[] };
    let calls = SameMeaning {
        what: "calls without a text, with arguments as an object and as text",
        requests: vec![
            called(r#", "content": null"#, string, &north),
            called(r#", "content": """#, string, &north),
            called("", string, &north),
            called(r#", "content": null"#, object, &north),
            called(r#", "content": """#, object, &part("north")),
            called(r#", "content": []"#, object, &north),
        ],
        words: &["look_up", "Oslo", "north", "None"],
    };
    let developer = SameMeaning {
        what: "instructions of the system and of the developer",
        requests: vec![spoken("system", [text; 3]), spoken("developer", [text; 3])],
        words: &["Be brief."],
    };
    [contents, calls, developer]
}

/// Returns the prompt, or how often each of the words is in it.
fn said(template: &ChatTemplate, request: &str, forms: Forms, words: &[&str]) -> Option<String> {
    let conversation = Conversation::from_json(json::parse(request).unwrap()).unwrap();
    let options = TemplateOptions { now: Some("2026-11-29".parse().unwrap()), forms, ..TemplateOptions::default() };
    let prompt = Writer::template(template.clone(), options.clone()).render(&conversation).ok()?;
    let text = prompt.text();
    let counts = words.iter().map(|word| format!("{word}: {}, ", text.matches(word).count()));
    Some(if words.is_empty() { text.to_owned() } else { counts.collect() })
}

#[test]
fn a_real_template_writes_the_same_of_every_form() {
    let Some(shared) = rolecall_testkit::shared() else {
        return rolecall_testkit::say_skipped("the forms that real templates write are not checked");
    };
    let templates = FolderTemplates::read(&shared.join("templates")).unwrap().compiled;
    let mut wrong = Vec::new();
    for SameMeaning { what, requests, words } in groups() {
        let (mut given, mut wanted, mut refused) = (0, 0, 0);
        for (name, template) in &templates {
            let of = |forms: Forms| -> Vec<Option<String>> {
                requests.iter().map(|request| said(template, request, forms, words)).collect()
            };
            let is_one = |all: &[Option<String>]| all.iter().all(|one| *one == all[0]);
            let as_given = of(Forms::AsGiven);
            let as_wanted = of(Forms::AsWanted);
            given += usize::from(is_one(&as_given) && as_given[0].is_some());
            match is_one(&as_wanted) {
                true if as_wanted[0].is_some() => wanted += 1,
                true => refused += 1,
                // One writes only the developer's.
                false if as_wanted[0].as_ref().is_some_and(|first| first.starts_with("Be brief.: 0")) => {}
                false => wrong.push(format!("{what}, {name}: {as_wanted:#?}")),
            }
        }
        println!(
            "{what}: of {} templates, {given} write them alike as given, {wanted} as wanted, and {refused} refuse all",
            templates.len()
        );
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A template that writes the names of results, and fails without one.
const NAMING: &str = "{%- for m in messages %}{% if m.role == 'tool' and not m.name %}{{ raise_exception('no name') }}\
    {% endif %}<|im_start|>{{ m.role }}{% if m.role == 'tool' %} {{ m.name }}{% endif %};{{ m.content }}\
    {% for c in m.tool_calls or [] %}({{ c.id }} {{ c.function.name }}){% endfor %}<|im_end|>;{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant;{% endif %}";

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::compile(source, Vec::new()).unwrap()
}

fn wanted() -> TemplateOptions {
    TemplateOptions { forms: Forms::AsWanted, ..TemplateOptions::default() }
}

/// Renders messages as the template wants them. Returns the prompt, and what is left out of it.
fn rendered(source: &str, messages: &str) -> (String, Vec<String>) {
    let conversation =
        Conversation::from_json(json::parse(&format!(r#"{{"messages": [{messages}]}}"#)).unwrap()).unwrap();
    let (prompt, account) =
        Writer::template(template(source).clone(), wanted().clone()).account(&conversation).unwrap();
    let lost = account.leaves().iter().filter(|leaf| leaf.kind.is_loss());
    (prompt.text().to_owned(), lost.map(|leaf| leaf.place.to_string()).collect())
}

const CALL: &str =
    r#""tool_calls": [{"id": "lookup001", "type": "function", "function": {"name": "look_up", "arguments": {}}}]"#;

#[test]
fn a_result_has_the_name_of_the_call_before_it_also_in_a_grown_prompt() {
    let call = |id: &str, name: &str| {
        format!(
            r#"{{"role": "assistant", "content": "", "tool_calls": [{{"id": "{id}", "type": "function", "function": {{"name": "{name}", "arguments": {{}}}}}}]}}"#
        )
    };
    let result = |id: &str| format!(r#"{{"role": "tool", "tool_call_id": "{id}", "content": "north"}}"#);
    let user = r#"{"role": "user", "content": "Which way?"}"#.to_owned();
    let reply = r#"{"role": "assistant", "content": "Left."}"#.to_owned();
    // The id comes again, where the first messages and the last ones are at hand.
    let mut messages = vec![user.clone(), call("one", "old"), result("one"), reply.clone(), user.clone()];
    messages.extend([call("one", "new"), reply.clone(), user.clone(), reply.clone(), user, reply, result("one")]);
    let conversation =
        Conversation::from_json(json::parse(&format!(r#"{{"messages": [{}]}}"#, messages.join(","))).unwrap()).unwrap();
    let (template, options, mut tally) = (template(NAMING), wanted(), Tally::default());
    check_growth("names", &Writer::template(template.clone(), options.clone()), &conversation, &mut tally);
    let prompt = Writer::template(template.clone(), options.clone()).render(&conversation).unwrap();
    assert!(
        prompt.text().contains("tool old;")
            && prompt.text().ends_with("tool new;north<|im_end|>;<|im_start|>assistant;")
    );
}

#[test]
fn an_empty_content_beside_a_call_has_the_form_with_which_the_call_is_written() {
    let source = "{% for m in messages %}{{ m.role }}:{% if m.content is defined and m.content is not none %}{{ m.content }}\
        {% else %}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{% endif %};{% endfor %}";
    for content in [
        "",
        r#""content": null, "#,
        r#""content": "", "#,
        r#""content": [], "#,
        r#""content": [{"type": "text", "text": ""}], "#,
    ] {
        let messages = format!(r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", {content}{CALL}}}"#);
        assert_eq!(rendered(source, &messages), ("user:a;assistant:look_up;".to_owned(), Vec::new()), "{content}");
    }
}

#[test]
fn keys_that_say_nothing_are_not_passed() {
    let source = "{% for m in messages %}{{ m.role }}:{% if 'tool_calls' in m %}{% if m.content is not none %}\
        {{ raise_exception('content must be null') }}{% endif %}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}\
        {% else %}{{ m.content }}{% endif %};{% endfor %}";
    for idle in ["null", "[]"] {
        let messages = format!(
            r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "b", "tool_calls": {idle}}},
               {{"role": "user", "content": "c"}}, {{"role": "assistant", "content": "", {CALL}}}"#
        );
        let text = "user:a;assistant:b;user:c;assistant:look_up;";
        assert_eq!(rendered(source, &messages), (text.to_owned(), Vec::new()), "{idle}");
    }
}

#[test]
fn what_is_lost_has_the_place_that_it_has_in_the_request() {
    // A text that became a part, beside a call.
    let first = "{% for m in messages %}{{ m.role }}:{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}\
        {% else %}{{ m.content[0].text }}{% endif %};{% endfor %}";
    let messages =
        format!(r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "I look.", {CALL}}}"#);
    assert_eq!(
        rendered(first, &messages),
        ("user:a;assistant:look_up;".to_owned(), vec!["message 1, content".to_owned()])
    );
    // What a part has beside its text, if the parts become one text.
    let texts = "{% for m in messages %}{{ m.role + ':' + m.content + ';' }}{% endfor %}";
    let parts = r#"{"role": "user", "content": [{"type": "text", "text": "a", "mood": "sad", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]}"#;
    for source in [texts, first] {
        let expected = vec!["message 0, content[0].mood".to_owned()];
        assert_eq!(rendered(source, parts), ("user:a\nb;".to_owned(), expected), "{source}");
    }
}

#[test]
fn what_parts_became_keeps_their_origins() {
    let request = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": " a"}, {"type": "text", "text": ""}, {"type": "text", "text": "bc "}]}]}"#;
    let conversation = Conversation::from_json(json::parse(request).unwrap()).unwrap();
    let of = |inner: &str| {
        let source = format!("{{% for m in messages %}}{{{{ {inner} }}}};{{% endfor %}}");
        let prompt = Writer::template(template(&source).clone(), wanted().clone()).render(&conversation).unwrap();
        let pieces = prompt.segments().map(|segment| {
            let field = match &segment.origin {
                Origin::Message { field, .. } => field.as_ref().to_owned(),
                _ => {
                    if segment.is_made {
                        "made".to_owned()
                    } else {
                        "format".to_owned()
                    }
                }
            };
            (segment.text.to_owned(), field)
        });
        pieces.collect::<Vec<(String, String)>>()
    };
    let piece = |text: &str, field: &str| (text.to_owned(), field.to_owned());
    let (first, last, made) = ("content[0].text", "content[2].text", "made");
    let end = piece(";", "format");
    assert_eq!(of("m.content"), [piece(" a", first), piece("\n\n", made), piece("bc ", last), end.clone()]);
    assert_eq!(of("m.content | trim"), [piece("a", first), piece("\n\n", made), piece("bc", last), end.clone()]);
    assert_eq!(of("m.content[4:5]"), [piece("b", last), end.clone()]);
    assert_eq!(of("m.content | upper"), [piece(" A\n\nBC ", "content"), end]);
}

#[test]
fn the_roles_of_one_conversation_do_not_change_the_forms_of_the_next() {
    let parts =
        template("{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}");
    let text = |messages: &str| {
        let conversation =
            Conversation::from_json(json::parse(&format!(r#"{{"messages": [{messages}]}}"#)).unwrap()).unwrap();
        Writer::template(parts.clone(), wanted().clone()).render(&conversation).unwrap().text().to_owned()
    };
    let roles: Vec<String> = (0..200).map(|at| format!(r#"{{"role": "r{at}", "content": "a"}}"#)).collect();
    assert!(text(&roles.join(",")).starts_with("r0:a;r1:a;"));
    assert_eq!(text(r#"{"role": "user", "content": "Hi"}"#), "user:Hi;");
}

#[test]
fn what_is_not_known_stays_as_it_is_given() {
    let source = "{% if mode is not defined %}{{ raise_exception('no mode') }}{% endif %}{% for p in messages[0].content %}\
        {% if p.type == 'text' %}{{ p.text }}{% else %}<image>{% endif %}{% endfor %}";
    let request = r#"{"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}],
        "chat_template_kwargs": {"mode": "x"}}"#;
    let conversation = Conversation::from_json(json::parse(request).unwrap()).unwrap();
    let prompt = Writer::template(template(source).clone(), wanted().clone()).render(&conversation).unwrap();
    assert_eq!(prompt.text(), "<image>a");
}

#[test]
fn a_picture_stays_where_parts_are_written_in_another_way() {
    let source = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}\
        {% if p.type == 'text' %}{{ p.text + ' ' }}{% else %}<image>{% endif %}{% endfor %}{% endif %};{% endfor %}";
    let part = r#"{"type": "text", "text": "a"}"#;
    let picture = r#"{"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}"#;
    let user = |parts: &str| format!(r#"{{"role": "user", "content": [{parts}]}}"#);
    assert_eq!(rendered(source, &user(part)).0, "a;");
    assert_eq!(rendered(source, &user(&format!("{picture}, {part}"))).0, "<image>a ;");
}

#[test]
fn a_call_without_a_text_ends_its_turn() {
    // Without a content, the turn stays open. A content follows the calls.
    let source = "{% for m in messages %}<s>{{ m.role }}:{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}\
        {% if m.content is defined and m.content is not none %}{{ m.content }}</s>{% endif %}{% endfor %}";
    for content in ["", r#""content": null, "#, r#""content": "", "#, r#""content": [], "#] {
        let messages = format!(
            r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", {content}{CALL}}},
               {{"role": "tool", "tool_call_id": "lookup001", "content": "b"}}"#
        );
        let text = "<s>user:a</s><s>assistant:look_up</s><s>tool:b</s>";
        assert_eq!(rendered(source, &messages).0, text, "{content}");
    }
}

#[test]
fn a_developer_does_not_take_the_place_of_the_system() {
    // The last message of the system is written.
    let source = "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}\
        {% endif %}{% endfor %}{{ ns.system }};{% for m in messages %}{% if m.role in ['user', 'assistant'] %}{{ m.content }};{% endif %}{% endfor %}";
    let message = |role: &str, text: &str| format!(r#"{{"role": "{role}", "content": "{text}"}}"#);
    let [system, developer, user] = [message("system", "S"), message("developer", "D"), message("user", "a")];
    assert_eq!(rendered(source, &format!("{developer}, {user}")), ("D;a;".to_owned(), Vec::new()));
    let (text, lost) = rendered(source, &format!("{system}, {developer}, {user}"));
    assert_eq!((&*text, lost.as_slice()), ("S;a;", &["message 1".to_owned()][..]));
}

#[test]
fn a_reply_that_says_nothing_is_an_empty_text() {
    let source = "{% for m in messages %}{{ m.role + ':' }}{% if m.tool_calls is defined %}{{ m.tool_calls | length }}\
        {% else %}{{ m.content + '' }}{% endif %};{% endfor %}";
    for content in ["", r#""content": null, "#] {
        let messages =
            format!(r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", {content}"tool_calls": []}}"#);
        assert_eq!(rendered(source, &messages), ("user:a;assistant:;".to_owned(), Vec::new()), "{content}");
    }
}

#[test]
fn a_picture_beside_a_text_is_left_out_alone() {
    let picture = r#"{"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}"#;
    let messages = format!(
        r#"{{"role": "user", "content": [{{"type": "text", "text": "a"}}, {picture}, {{"type": "text", "text": "b"}}]}}"#
    );
    let texts =
        "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% endif %};{% endfor %}";
    let expected = vec!["message 0, content[1]".to_owned()];
    assert_eq!(rendered(texts, &messages), ("user:a\nb;".to_owned(), expected));
}

#[test]
fn a_developer_keeps_the_role_if_the_template_writes_it_in_parts() {
    let parts = "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}";
    let messages = r#"{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "a"}"#;
    assert_eq!(rendered(parts, messages).0, "developer:Be brief.;user:a;");
}

#[test]
fn a_message_without_a_text_is_not_continued() {
    let text = "{% for m in messages %}{{ m.role + ':' + m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %};{% endfor %}";
    let request = format!(
        r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": null, {CALL}}}],
            "continue_final_message": true}}"#
    );
    let conversation = Conversation::from_json(json::parse(&request).unwrap()).unwrap();
    let error = Writer::template(template(text).clone(), wanted().clone()).render(&conversation).unwrap_err();
    assert_eq!(error.code(), "nothing_to_continue");
}
