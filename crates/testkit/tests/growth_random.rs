//! Random templates: growing their prompts gives the whole one's end, or nothing.
//!
//! `ROLECALL_TEMPLATES` sets the number of templates, `ROLECALL_SEED` the first seed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use fastrand::Rng;
use rolecall::conversation::{Conversation, json};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall_testkit::growth::{Tally, check_growth};

/// A template under construction.
struct TemplateText {
    rng: Rng,
    text: String,
    /// The variables of the loops that are open.
    items: Vec<&'static str>,
    depth: usize,
    has_macro: bool,
    /// Whether the only loops so far are in macros.
    is_macro: bool,
}

impl TemplateText {
    fn random(seed: u64) -> String {
        let mut writer = TemplateText {
            rng: Rng::with_seed(seed),
            text: String::from("{% set ns = namespace(a=0, b='x', c=none, on=true) %}{% set x = 1 %}"),
            items: Vec::new(),
            depth: 0,
            has_macro: false,
            is_macro: false,
        };
        if writer.rng.u8(..4) == 0 {
            writer.is_macro = true;
            writer.text.push_str("{% macro f(v) %}");
            writer.body(2);
            writer.text.push_str("{% endmacro %}");
            writer.is_macro = false;
            writer.has_macro = true;
        }
        if writer.rng.bool() {
            // What many templates begin with.
            writer.scan();
        }
        writer.body(4);
        writer.text.push_str("{% if add_generation_prompt %}<a>{% endif %}");
        writer.text
    }

    fn one(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.rng.usize(..choices.len())]
    }

    fn body(&mut self, most: usize) {
        self.depth += 1;
        for _ in 0..self.rng.usize(1..=most) {
            self.statement();
        }
        self.depth -= 1;
    }

    fn scan(&mut self) {
        let list = self.one(&["messages", "messages[1:]", "messages[::-1]"]);
        let role = self.one(&["user", "system", "tool", "assistant"]);
        let test = self.one(&["", "ns.on and ", "not loop.first and "]);
        let set = self.one(&[
            "{% set ns.a = loop.index0 %}",
            "{% set ns.on = false %}",
            "{% set ns.on = false %}{% set ns.a = messages|length - 1 - loop.index0 %}",
            "{% set ns.b = m.content %}",
            "{% set ns.c = m %}",
            "{% set ns.a = ns.a + 1 %}",
            "{% set ns.b = ns.b ~ m.role %}",
        ]);
        self.text.push_str(&format!(
            "{{% for m in {list} %}}{{% if {test}m.role == '{role}' %}}{set}{{% endif %}}{{% endfor %}}"
        ));
    }

    fn statement(&mut self) {
        match self.rng.u8(..20) {
            0..=2 => {
                let text = self.one(&["A", "<b>", "\n", "END "]);
                self.text.push_str(text);
            }
            3..=7 => {
                let value = self.value(2);
                self.text.push_str(&format!("{{{{ {value} }}}}"));
            }
            8 => {
                let (name, value) = (self.one(&["x", "y"]), self.value(2));
                self.text.push_str(&format!("{{% set {name} = {value} %}}"));
            }
            9 | 10 => {
                let (name, value) = match self.rng.u8(..4) {
                    0 => ("a", self.number()),
                    1 => ("b", self.value(1)),
                    2 => ("c", self.value(1)),
                    _ => ("on", self.test(1)),
                };
                self.text.push_str(&format!("{{% set ns.{name} = {value} %}}"));
            }
            11..=13 if self.depth < 5 => {
                let test = self.test(2);
                self.text.push_str(&format!("{{% if {test} %}}"));
                self.body(2);
                if self.rng.bool() {
                    self.text.push_str("{% else %}");
                    self.body(2);
                }
                self.text.push_str("{% endif %}");
            }
            14 if !self.items.is_empty() => {
                let (test, leave) = (self.test(1), self.one(&["break", "continue"]));
                self.text.push_str(&format!("{{% if {test} %}}{{% {leave} %}}{{% endif %}}"));
            }
            15 if self.has_macro && !self.is_macro => {
                let value = self.value(1);
                self.text.push_str(&format!("{{{{ f({value}) }}}}"));
            }
            _ if self.items.len() < 2 && self.depth < 4 => self.for_loop(),
            _ => {
                let value = self.value(1);
                self.text.push_str(&format!("{{{{ {value} }}}}"));
            }
        }
    }

    fn for_loop(&mut self) {
        let list = match self.rng.u8(..12) {
            0 => "messages[1:]",
            1 => "messages[::-1]",
            2 => "messages[:-1]",
            3 => "messages[2:]",
            4 if self.items.len() == 1 => "m.tool_calls or []",
            5 => "range(3)",
            6 => "messages|selectattr('role', 'equalto', 'user')",
            _ => "messages",
        };
        let name = if self.items.is_empty() { "m" } else { "n" };
        let test = if self.rng.u8(..6) == 0 { format!(" if {name}.role != 'system'") } else { String::new() };
        self.text.push_str(&format!("{{% for {name} in {list}{test} %}}"));
        self.items.push(name);
        self.body(4);
        self.items.pop();
        if self.rng.u8(..8) == 0 {
            self.text.push_str("{% else %}NONE");
        }
        self.text.push_str("{% endfor %}");
    }

    fn number(&mut self) -> String {
        let in_loop = !self.items.is_empty();
        match self.rng.u8(..12) {
            0..=2 if in_loop => self.one(&["loop.index0", "loop.index"]).to_owned(),
            3 if in_loop && self.rng.u8(..3) == 0 => self.one(&["loop.length", "loop.revindex"]).to_owned(),
            4 => format!("{} + {}", self.one(&["ns.a", "1"]), self.one(&["ns.a", "2"])),
            5 => "messages|length".to_owned(),
            6 => "(messages|length - 1)".to_owned(),
            7 => format!("{} % 3", self.one(&["ns.a", "(messages|length)", "5"])),
            8 | 9 => "ns.a".to_owned(),
            _ => self.one(&["0", "1", "3", "7"]).to_owned(),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        let in_loop = !self.items.is_empty();
        match self.rng.u8(..16) {
            0..=5 if in_loop => {
                let item = self.items[self.rng.usize(..self.items.len())];
                format!(
                    "{item}.{}",
                    self.one(&["role", "content", "content|upper", "content|trim", "tool_calls|length"])
                )
            }
            6 if in_loop => self
                .one(&["loop.first", "loop.last", "loop.previtem.role", "loop.nextitem.role", "loop.cycle(1, 2)"])
                .to_owned(),
            7 => self
                .one(&["messages[0].content", "messages[-1].role", "messages[1].role", "messages[4].role"])
                .to_owned(),
            8 => self.one(&["ns.b", "ns.c", "ns.on", "x", "y"]).to_owned(),
            9 if depth > 0 => format!("({} ~ {})", self.value(depth - 1), self.value(depth - 1)),
            10 if depth > 0 => format!("[{}, {}]", self.value(depth - 1), self.number()),
            11 => self.test(1),
            12 => format!("'{}'", self.one(&["p", "q", ""])),
            _ => self.number(),
        }
    }

    fn test(&mut self, depth: usize) -> String {
        let in_loop = !self.items.is_empty();
        let comparison = self.one(&["==", "!=", "<", ">", "<=", ">="]);
        match self.rng.u8(..16) {
            0..=3 if in_loop => {
                let item = self.items[self.rng.usize(..self.items.len())];
                format!("{item}.role == '{}'", self.one(&["user", "assistant", "system", "tool"]))
            }
            4..=6 => format!("{} {comparison} {}", self.number(), self.number()),
            7 | 8 if in_loop => format!("loop.index0 {comparison} ns.a"),
            9 if in_loop => self.one(&["loop.first", "loop.last", "loop.nextitem is defined"]).to_owned(),
            10 => self.one(&["messages[-1].role == 'user'", "messages", "messages[3] is defined"]).to_owned(),
            11 if depth > 0 => format!("not ({})", self.test(depth - 1)),
            12 if depth > 0 => format!("({} and {})", self.test(depth - 1), self.test(depth - 1)),
            13 if depth > 0 => format!("({} or {})", self.test(depth - 1), self.test(depth - 1)),
            14 => self.one(&["y is defined", "ns.c is none", "add_generation_prompt", "x"]).to_owned(),
            _ => "ns.on".to_owned(),
        }
    }
}

fn conversations() -> Vec<Conversation> {
    let texts = [
        r#"{"messages": [{"role": "system", "content": " S "}, {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "assistant", "content": "d"},
            {"role": "user", "content": "e"}, {"role": "user", "content": "f"}, {"role": "system", "content": "g"}]}"#,
    ];
    texts.iter().map(|text| Conversation::from_json(json::parse(text).unwrap()).unwrap()).collect()
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_random_template_is_grown_correctly_or_not_at_all() {
    let (count, first) = (setting("ROLECALL_TEMPLATES", 400), setting("ROLECALL_SEED", 1));
    let (options, conversations) = (TemplateOptions::default(), conversations());
    let (mut tally, mut compiled) = (Tally::default(), 0);
    for seed in first..first + count {
        let source = TemplateText::random(seed);
        let Ok(template) = ChatTemplate::compile(&source, Vec::new()) else { continue };
        compiled += 1;
        for (at, conversation) in conversations.iter().enumerate() {
            let what = format!("seed {seed}, conversation {at}: {source}\n");
            check_growth(&what, &Writer::template(template.clone(), options.clone()), conversation, &mut tally);
        }
    }
    println!("{compiled} templates, {tally:?}");
    assert!(compiled > count * 9 / 10 && tally.shorter as u64 > count * 5, "{compiled} templates, {tally:?}");
}
