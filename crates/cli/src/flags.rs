//! Help for library errors in terms of the command's flags, which the library does not know.

use rolecall::template::jinja::{ErrorKind, LimitKind};
use rolecall::template::{Limits, TemplateError};

/// Returns the library's help for an error code, with its last line replaced by the matching flag
/// if there is one.
pub fn in_flags(mut help: Vec<String>, code: &str) -> Vec<String> {
    if let Some(flag) = against(code) {
        help.pop();
        help.push(flag.into());
    }
    help
}

fn against(code: &str) -> Option<&'static str> {
    Some(match code {
        "no_bos" => {
            "use `--bos auto` to add it, or `--bos none` if the engine adds it; the reference, which encodes a template's \
             text verbatim, has none"
        }
        "unforeseen_control" => "use `--protect all-added` to keep all added tokens out of text",
        "foreign_template" => {
            "use the chat template and the tokenizer of one model, or allow the markers as text with `--plain-markers`"
        }
        "unknown_model" => "choose a format with `--format NAME`; `rolecall formats` lists them",
        "ambiguous_model" => {
            "choose one with `--format NAME`, or make the format files more specific (`models`, `[identity]`)"
        }
        "no_final_stop" => "use `--final-stop append` to append the model's stop token",
        "no_loss" => {
            "include an assistant message without `\"weight\": 0` or `\"loss\": false`, or accept it with `--allow no-loss`"
        }
        "masked_stop" => "give the stop token a weight, or accept it with `--allow masked-stop`",
        "null_word" => "write a content, or accept it with `--allow null-word`",
        "no_new_turn" => "omit `--new-turn`, or use `rolecall session`, which knows what the model wrote",
        "rewrites" => "add `\"on_rewrite\": \"keep\"` to keep what was sent, or `\"rewrite\"` to write it anew",
        "no_tags" => "use `--for-training` without `=tagged`, which derives the loss from who writes the text",
        _ => return None,
    })
}

/// Returns help for an error that a chat template raised, if a flag can fix it.
pub fn against_template(error: &TemplateError) -> Option<String> {
    for (token, flag) in [("bos_token", "--bos-token"), ("eos_token", "--eos-token")] {
        if error.message().starts_with(&format!("'{token}' is undefined")) {
            return Some(format!("no file next to the template defines it; pass it with `{flag} TOKEN`"));
        }
    }
    let ErrorKind::Limit(kind) = error.kind() else { return None };
    let usual = Limits::default().get(kind)?;
    Some(format!(
        "raise it with `--limit {}=N` (default: {usual}), but only for a template that you trust",
        kind.name()
    ))
}

/// Parses a template limit such as `instructions=10000000`.
pub fn read_limit(text: &str) -> Result<(LimitKind, u64), String> {
    let names = || LimitKind::RAISED.iter().map(|kind| format!("`{}`", kind.name())).collect::<Vec<_>>().join(", ");
    let (name, most) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    let kind = LimitKind::RAISED.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| format!("unknown limit `{name}`, expected one of {}", names()))?;
    Ok((kind, most.parse().map_err(|_| format!("expected a number, found `{most}`"))?))
}

/// Returns the default template limits, overridden by the given ones.
pub fn limits(given: &[(LimitKind, u64)]) -> Limits {
    let mut limits = Limits::default();
    for (kind, most) in given {
        limits.set(*kind, *most);
    }
    limits
}
