//! What the command's flags can do about an error of the library, which knows no flags.

use rolecall::template::jinja::{ErrorKind, LimitKind};
use rolecall::template::{Limits, TemplateError};

/// The library's help for an error of this code, with the flag that does it in its last line.
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
            "`--bos auto` adds it, `--bos none` says that an engine will; the reference, which encodes a template's text as it \
             is, has none"
        }
        "unforeseen_control" => "keep all added tokens out of text: `--protect all-added`",
        "unknown_model" => "choose a format by its name with `--format`; `rolecall formats` lists them",
        "ambiguous_model" => {
            "choose one by its name with `--format`, or say more in the format files (`models`, `[identity]`)"
        }
        _ => return None,
    })
}

/// What to do where a template does not get through.
pub fn against_template(error: &TemplateError) -> Option<String> {
    for (token, flag) in [("bos_token", "--bos-token"), ("eos_token", "--eos-token")] {
        if error.message().starts_with(&format!("'{token}' is undefined")) {
            return Some(format!("no file beside the template names it: give it with `{flag} TOKEN`"));
        }
    }
    let ErrorKind::Limit(kind) = error.kind() else { return None };
    let usual = Limits::default().get(kind)?;
    Some(format!(
        "`--limit {}=N` sets it, to {usual} by default: raise it only for a template that you trust",
        kind.name()
    ))
}

/// Reads a limit of templates, such as `instructions=10000000`.
pub fn read_limit(text: &str) -> Result<(LimitKind, u64), String> {
    let names = || LimitKind::RAISED.iter().map(|kind| format!("`{}`", kind.name())).collect::<Vec<_>>().join(", ");
    let (name, most) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    let kind = LimitKind::RAISED.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| format!("there is no limit `{name}`: {}", names()))?;
    Ok((kind, most.parse().map_err(|_| format!("`{most}` is no number"))?))
}

/// The limits of templates, with those that are given.
pub fn limits(given: &[(LimitKind, u64)]) -> Limits {
    let mut limits = Limits::default();
    for (kind, most) in given {
        limits.set(*kind, *most);
    }
    limits
}
