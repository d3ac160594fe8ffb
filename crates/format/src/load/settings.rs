//! Reads `[options]`, `[rules]`, `[defaults]`, `[generation]` and `[code-result]`.

use super::table::Table;
use super::{reserved, unknown};
use crate::{
    AnswersRule, AssistantRule, BlankSystem, CallIds, Choice, CodeResult, Defaults, Diagnostic, EndingRule, Field,
    Generation, HeaderRule, LossRule, RolesRule, Rules, SystemRule, SystemWhen, SystemWithTools, ToolRule, ToolTexts,
    ToolsPlace, TurnsRule, UsersRule,
};
use rolecall_conversation::spelling::nearest;

pub(super) fn read_choices(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Vec<Choice> {
    let mut choices = Vec::new();
    for name in table.keys() {
        let span = table.span_of(&name);
        let Some(entry) = table.table(&name, mistakes) else { continue };
        let choice = Choice {
            default: entry.text("default", mistakes).unwrap_or_default(),
            values: entry.texts("values", mistakes),
            usual: entry.texts("usual", mistakes),
            help: entry.text("help", mistakes).unwrap_or_default(),
            name,
        };
        entry.finish(&["default", "values", "usual", "help"], mistakes);
        if !choice.values.is_empty() && !choice.values.contains(&choice.default) {
            mistakes.push(Diagnostic {
                code: "bad_default",
                message: format!("the default `{}` is not one of the values", choice.default),
                span: span.clone(),
                help: nearest(&choice.default, choice.values.iter().map(String::as_str))
                    .map(|near| format!("did you mean `{near}`?")),
            });
        }
        if Field::from_name(&choice.name).is_some() || choice.name == "spelling" {
            mistakes.push(reserved(&choice.name, span));
        }
        choices.push(choice);
    }
    choices
}

/// Reads the rule `loss` of a table.
pub(super) fn read_loss(table: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> LossRule {
    choose(table, "loss", LossRule::KEYS, LossRule::from_key, mistakes)
}

pub(super) fn read_rules(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Rules {
    let rules = Rules {
        system: choose(&table, "system", SystemRule::KEYS, SystemRule::from_key, mistakes),
        turns: choose(&table, "turns", TurnsRule::KEYS, TurnsRule::from_key, mistakes),
        users: choose(&table, "users", UsersRule::KEYS, UsersRule::from_key, mistakes),
        assistant: choose(&table, "assistant", AssistantRule::KEYS, AssistantRule::from_key, mistakes),
        tool: choose(&table, "tool", ToolRule::KEYS, ToolRule::from_key, mistakes),
        answers: choose(&table, "answers", AnswersRule::KEYS, AnswersRule::from_key, mistakes),
        max_calls: table.integer("max-calls", mistakes).and_then(|count| usize::try_from(count).ok()),
        system_with_tools: choose(
            &table,
            "system-with-tools",
            SystemWithTools::KEYS,
            SystemWithTools::from_key,
            mistakes,
        ),
        tools: choose(&table, "tools", ToolsPlace::KEYS, ToolsPlace::from_key, mistakes),
        tool_texts: choose(&table, "tool-texts", ToolTexts::KEYS, ToolTexts::from_key, mistakes),
        blank_system: choose(&table, "blank-system", BlankSystem::KEYS, BlankSystem::from_key, mistakes),
        roles: choose(&table, "roles", RolesRule::KEYS, RolesRule::from_key, mistakes),
        ending: choose(&table, "ending", EndingRule::KEYS, EndingRule::from_key, mistakes),
        loss: read_loss(&table, mistakes),
        learned: false,
        header: choose(&table, "header", HeaderRule::KEYS, HeaderRule::from_key, mistakes),
        interpreter_field: table.text("interpreter-field", mistakes),
        call_ids: read_call_ids(&table, mistakes),
    };
    table.finish(
        &[
            "system",
            "turns",
            "users",
            "assistant",
            "tool",
            "answers",
            "max-calls",
            "system-with-tools",
            "tools",
            "tool-texts",
            "blank-system",
            "roles",
            "ending",
            "loss",
            "header",
            "interpreter-field",
            "call-ids",
        ],
        mistakes,
    );
    rules
}

fn read_call_ids(table: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> CallIds {
    let Some(text) = table.text("call-ids", mistakes) else { return CallIds::Any };
    CallIds::from_text(&text).unwrap_or_else(|| {
        mistakes.push(Diagnostic {
            code: "bad_call_ids",
            message: format!(
                "expected `any`, `nine-characters`, or a text with `{{name}}` or `{{index}}`, found `{text}`"
            ),
            span: table.span_of("call-ids"),
            help: Some(
                "write for example `functions.{name}:{index}`, with each hole at most once and text between the two"
                    .into(),
            ),
        });
        CallIds::Any
    })
}

pub(super) fn choose<T: Default>(
    table: &Table<'_>,
    key: &str,
    known: &'static [&'static str],
    from_key: impl Fn(&str) -> Option<T>,
    mistakes: &mut Vec<Diagnostic>,
) -> T {
    let span = table.span_of(key);
    let Some(text) = table.text(key, mistakes) else { return T::default() };
    from_key(&text).unwrap_or_else(|| {
        mistakes.push(unknown(&format!("value of `{key}`"), &text, known.iter().copied(), span));
        T::default()
    })
}

pub(super) fn read_defaults(table: Table<'_>, choices: &[Choice], mistakes: &mut Vec<Diagnostic>) -> Defaults {
    let span = table.span_of("system-when");
    let option = |key: &str, mistakes: &mut Vec<Diagnostic>| {
        let name = table.text(key, mistakes)?;
        let found = choices.iter().position(|choice| choice.name == name);
        if found.is_none() {
            let names = choices.iter().map(|choice| choice.name.as_str());
            mistakes.push(unknown("option of this file", &name, names, table.span_of(key)));
        }
        found
    };
    let system_option = option("system-option", mistakes);
    let interpreter_option = option("interpreter-option", mistakes);
    let defaults = Defaults {
        system: table.text("system", mistakes).or_else(|| Some(choices.get(system_option?)?.default.clone())),
        system_option,
        system_when: table.text("system-when", mistakes).map_or_else(SystemWhen::default, |key| {
            SystemWhen::from_key(&key).unwrap_or_else(|| {
                let known = SystemWhen::ALL.map(|(key, _)| key);
                mistakes.push(unknown("value of `system-when`", &key, known, span));
                SystemWhen::default()
            })
        }),
        system_with_tools: table.text("system-with-tools", mistakes),
        interpreter: table
            .text("interpreter", mistakes)
            .or_else(|| Some(choices.get(interpreter_option?)?.default.clone())),
        interpreter_option,
        system_templates: Vec::new(),
        gap: table.text("gap", mistakes),
    };
    table.finish(
        &["system", "system-option", "system-when", "system-with-tools", "interpreter", "interpreter-option", "gap"],
        mistakes,
    );
    defaults
}

pub(super) fn read_code_result(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> CodeResult {
    let usual = CodeResult::default();
    let result = table.text("result", mistakes).unwrap_or(usual.result);
    if !result.contains("{text}") {
        mistakes.push(Diagnostic {
            code: "bad_code_result",
            message: format!("expected a text with `{{text}}`, found `{result}`"),
            span: table.span_of("result"),
            help: Some("`{text}` stands for what the code printed and returned".into()),
        });
    }
    let code_result = CodeResult { result, picture: table.text("picture", mistakes).unwrap_or(usual.picture) };
    table.finish(&["result", "picture"], mistakes);
    code_result
}

pub(super) fn read_generation(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Generation {
    let whole = |key: &str, table: &Table<'_>, mistakes: &mut Vec<Diagnostic>| {
        table.integer(key, mistakes).and_then(|value| u64::try_from(value).ok())
    };
    let generation = Generation {
        stop_ids: Vec::new(),
        min_p: None,
        session_len: whole("session_len", &table, mistakes),
        max_new_tokens: whole("max_new_tokens", &table, mistakes),
        top_k: whole("top_k", &table, mistakes),
        stop: table.texts("stop", mistakes),
        infill_stop: table.texts("infill_stop", mistakes),
        temperature: table.number("temperature", mistakes),
        top_p: table.number("top_p", mistakes),
        repetition_penalty: table.number("repetition_penalty", mistakes),
    };
    table.finish(
        &[
            "stop",
            "infill_stop",
            "session_len",
            "max_new_tokens",
            "temperature",
            "top_p",
            "top_k",
            "repetition_penalty",
        ],
        mistakes,
    );
    generation
}
