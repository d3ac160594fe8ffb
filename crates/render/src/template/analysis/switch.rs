use rolecall_conversation::{Json, object};
use rolecall_jinja as jinja;

use super::super::ChatTemplate;
use super::probe::Probe;
use super::support::{THOUGHT, USER};

/// A variable that a caller may set: `enable_thinking`.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Where it is read first.
    pub spot: jinja::Spot,
    /// What it is compared with.
    pub values: Vec<jinja::Constant>,
    /// What a template does where it is not given, if that is the same as with this value and not as with the other.
    pub default: Option<bool>,
}

/// Switches that are tried out.
const MOST_TRIED: usize = 12;

pub(super) fn find(program: &jinja::Analysis, template: &ChatTemplate, probe: &Probe<'_>) -> Vec<Switch> {
    let mut switches: Vec<Switch> = Vec::new();
    for read in &program.reads {
        let name = &read.path.variable;
        let Some((_, spot)) = read.uses.iter().min_by_key(|(_, spot)| spot.offset) else { continue };
        // A name that the template sets before it reads it is its own.
        let assigned = program.assigned.iter().find(|(assigned, _)| assigned == name);
        let is_own = assigned.is_some_and(|(_, first)| first.offset < spot.offset);
        let is_token = name.ends_with("_token") || template.tokens.iter().any(|(token, _)| token == name);
        if is_own || is_token || ChatTemplate::GIVEN.contains(&name.as_str()) {
            continue;
        }
        match switches.iter_mut().find(|switch| switch.name == *name) {
            Some(switch) => switch.spot = switch.spot.min(*spot),
            None => switches.push(Switch { name: name.clone(), spot: *spot, values: Vec::new(), default: None }),
        }
    }
    for (number, switch) in switches.iter_mut().enumerate() {
        // A parameter of a macro may be many things.
        let about = program.comparisons.iter().filter(
            |asked| matches!(asked.paths.as_slice(), [path] if path.variable == switch.name && path.steps.is_empty()),
        );
        for asked in about {
            let named = match &asked.test {
                jinja::Test::Is(name) if name == "true" || name == "false" => {
                    Some(jinja::Constant::Bool(name == "true"))
                }
                jinja::Test::True => Some(jinja::Constant::Bool(true)),
                _ => None,
            };
            for value in named.into_iter().chain(asked.with.iter().cloned()) {
                if !switch.values.contains(&value) {
                    switch.values.push(value);
                }
            }
        }
        let is_flag =
            switch.values.iter().all(|value| matches!(value, jinja::Constant::Bool(_) | jinja::Constant::None));
        if is_flag && !switch.values.is_empty() && number < MOST_TRIED {
            switch.default = default_of(&switch.name, probe);
        }
    }
    switches.sort_by_key(|switch| switch.spot.offset);
    switches
}

/// Which value of a switch writes what its absence writes, where the other writes something else.
fn default_of(name: &str, probe: &Probe<'_>) -> Option<bool> {
    let conversations: [&[&str]; 3] = [&[USER], &[USER, THOUGHT], &[USER, THOUGHT, USER]];
    for messages in conversations {
        let with = |value: bool| probe.run_with(messages, "", &object! { name => Json::Bool(value) });
        let (Ok(unset), Ok(on), Ok(off)) = (probe.run(messages, ""), with(true), with(false)) else { continue };
        match (unset.text == on.text, unset.text == off.text) {
            (true, false) => return Some(true),
            (false, true) => return Some(false),
            _ => {}
        }
    }
    None
}
