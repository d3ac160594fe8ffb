use std::collections::{HashMap, HashSet};

use rolecall_conversation::{Json, object};
use rolecall_jinja as jinja;

use super::super::ChatTemplate;
use super::probe::Probe;
use super::sample::USER;
use super::support::THOUGHT;

/// A variable that a caller may set, such as `enable_thinking`.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The variable's name.
    pub name: String,
    /// The position where the template first reads it.
    pub spot: jinja::Spot,
    /// The values that it is compared with.
    pub values: Vec<jinja::Constant>,
    /// The value that has the same effect as leaving the switch unset, if the opposite value has a
    /// different effect.
    pub default: Option<bool>,
}

/// The maximum number of switches to probe.
const MOST_TRIED: usize = 12;

pub(super) fn find(program: &jinja::Analysis, template: &ChatTemplate, probe: &Probe<'_>) -> Vec<Switch> {
    let mut assigned: HashMap<&str, u32> = HashMap::new();
    for (name, spot) in &program.assigned {
        let first = assigned.entry(name).or_insert(spot.offset);
        *first = spot.offset.min(*first);
    }
    let tokens: HashSet<&str> = template.tokens.iter().map(|(name, _)| name.as_str()).collect();
    let mut switches: Vec<Switch> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for read in &program.reads {
        let name = read.path.variable.as_str();
        let Some((_, spot)) = read.uses.iter().min_by_key(|(_, spot)| spot.offset) else { continue };
        // A name that the template assigns before it reads it is the template's own variable.
        let is_own = assigned.get(name).is_some_and(|first| *first < spot.offset);
        if is_own || name.ends_with("_token") || tokens.contains(name) || ChatTemplate::GIVEN.contains(&name) {
            continue;
        }
        match places.get(name) {
            Some(at) => switches[*at].spot = switches[*at].spot.min(*spot),
            None => {
                places.insert(name, switches.len());
                switches.push(Switch { name: name.to_owned(), spot: *spot, values: Vec::new(), default: None });
            }
        }
    }
    let mut known: HashSet<(usize, &jinja::Constant)> = HashSet::new();
    for asked in &program.comparisons {
        // A macro parameter may stand for several variables.
        let [path] = asked.paths.as_slice() else { continue };
        let Some(at) = places.get(path.variable.as_str()).filter(|_| path.steps.is_empty()) else { continue };
        let named = match &asked.test {
            jinja::Test::Is(name) if name == "false" => Some(&jinja::Constant::Bool(false)),
            jinja::Test::Is(name) if name == "true" => Some(&jinja::Constant::Bool(true)),
            jinja::Test::True => Some(&jinja::Constant::Bool(true)),
            _ => None,
        };
        let new = named.into_iter().chain(&asked.with).filter(|value| known.insert((*at, value)));
        switches[*at].values.extend(new.cloned());
    }
    for switch in switches.iter_mut().take(MOST_TRIED) {
        let is_flag =
            switch.values.iter().all(|value| matches!(value, jinja::Constant::Bool(_) | jinja::Constant::None));
        if is_flag && !switch.values.is_empty() {
            switch.default = default_of(&switch.name, probe);
        }
    }
    switches.sort_by_key(|switch| switch.spot.offset);
    switches
}

/// Returns the value of a switch that gives the same output as leaving it unset, if the opposite
/// value gives a different output.
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
