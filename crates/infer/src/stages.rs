//! The surroundings in which a template writes an answer or a call.

use rolecall_conversation::json::Object;
use rolecall_format::Field;

use crate::arguments::{self, Arguments};
use crate::located::{LocatedTurn, locate};
use crate::probe::{NoContent, Probe, ProbeTurn, Refusal, Stage, Tools};
use crate::said::{CONTENT, KEYS, NAMES, ProbeMessage, plain_calls, plain_value};

/// The surroundings in which the template writes each part of a turn.
pub(crate) struct Stages {
    pub answer: Stage,
    /// The switches that reasoning requires.
    pub switches: Object,
    /// The surroundings for calls, with the other content that a turn with calls requires.
    pub call: Option<(Stage, ProbeMessage)>,
}

impl Stages {
    /// Returns the same surroundings with the switches that reasoning requires.
    pub fn thinking(&self, stage: &Stage) -> Stage {
        Stage { switches: self.switches.clone(), ..stage.clone() }
    }
}

/// Finds surroundings for an answer alone, with tools offered if the template accepts them.
pub(crate) fn answer(probe: &Probe<'_>) -> Result<(Stage, LocatedTurn), Refusal> {
    let mut first = None;
    for (parts, documents) in [(false, false), (true, false), (false, true)] {
        for tools in [Tools::All, Tools::None] {
            let stage = Stage { tools, parts, documents, ..Stage::default() };
            let said = ProbeMessage::content(CONTENT);
            let turn = probe.turn(&said, &stage);
            let refusal = match turn {
                Ok(turn) => match locate(probe, &turn, &said, None).filter(|located| located.has(Field::Content)) {
                    Some(located) => return Ok((stage, located)),
                    None => Refusal::new("the prompt does not contain the answer"),
                },
                Err(refusal) => refusal,
            };
            first = first.or(Some(refusal));
        }
    }
    Err(first.unwrap_or_else(|| Refusal::new("nothing was tried")))
}

/// The surroundings for a call, the other content that its turn requires, and the form of its
/// arguments.
pub(crate) struct FirstCall {
    pub stage: Stage,
    pub base: ProbeMessage,
    pub arguments: Arguments,
}

/// The reason why no call is written.
pub(crate) enum NoCall {
    /// The template writes no calls.
    Silent,
    /// The template refuses all calls, or it could not be determined how it writes them.
    Refused(Refusal),
}

/// Finds surroundings in which the template writes a call.
pub(crate) fn call(probe: &Probe<'_>, plain: &Stage) -> Result<FirstCall, NoCall> {
    let (mut refused, mut unclear, mut is_silent) = (None, None, false);
    let contents = [(None, NoContent::Empty), (None, NoContent::Null), (Some(CONTENT), NoContent::Empty)];
    for results in [false, true] {
        for tools in [plain.tools, plain.tools.other()] {
            for (content, no_content) in contents {
                let stage = Stage { tools, no_content, results, ..plain.clone() };
                let base = ProbeMessage { content: content.map(str::to_owned), ..ProbeMessage::default() };
                let turn = match probe.turn(&base.clone().calling(plain_calls(1)), &stage) {
                    Ok(turn) => turn,
                    Err(refusal) => {
                        refused = refused.or(Some(refusal));
                        continue;
                    }
                };
                let id = probe.id(0, NAMES[0]);
                if turn.places(NAMES[0]).is_empty() && turn.places(&id).is_empty() {
                    match writes_any(&turn) {
                        true => unclear = Some(Refusal::new("the template writes a call without its name")),
                        false => is_silent = true,
                    }
                    continue;
                }
                match arguments::find(probe, &stage, content) {
                    Some(arguments) => return Ok(FirstCall { stage, base, arguments }),
                    None => {
                        let words = "could not determine how the arguments of a call are written";
                        unclear = Some(Refusal { line: line_behind(probe, &turn), ..Refusal::new(words) });
                    }
                }
            }
        }
    }
    match unclear.or(refused.filter(|_| !is_silent)) {
        Some(refusal) => Err(NoCall::Refused(refusal)),
        None => Err(NoCall::Silent),
    }
}

/// Reports whether a turn contains anything of the call, perhaps in another spelling.
fn writes_any(turn: &ProbeTurn) -> bool {
    let text = turn.text.to_lowercase();
    let value = plain_value(0);
    let own = [NAMES[0], KEYS[0], value.as_str().unwrap_or_default()];
    own.iter().any(|word| text.contains(&word.to_lowercase()))
}

/// Returns the template's line that writes the text after a call's name.
fn line_behind(probe: &Probe<'_>, turn: &ProbeTurn) -> Option<u32> {
    let name = turn.places(NAMES[0]).into_iter().next()?;
    probe.line_of(turn.text.get(name.end..)?)
}
