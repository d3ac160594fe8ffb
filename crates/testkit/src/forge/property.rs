//! The properties of a hostile conversation and its honest twin.

use rolecall::encode::EncodedToken;
use rolecall::render::Run;
use rolecall::tokenizer::TextPlace;
use rolecall::{Encoded, Origin, Prompt};

use super::draft::{Draft, Side};
use super::{Subject, Voice};

/// The standard roles. A template may make a control token of one of them, and of no other word in
/// a message.
pub(super) const ROLES: [&str; 9] =
    ["system", "developer", "user", "assistant", "tool", "environment", "observation", "function", "ipython"];

/// The result of a conversation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Refused in both forms, with the code of the refusal.
    Refused(String),
    /// Refused in only one form, because its words decide. There are no two encodings to compare.
    OneRefused(String),
    /// All properties hold.
    Compared(Compared),
    /// A property does not hold, with the reason.
    Failed(String),
}

/// The counts for a conversation whose properties all hold.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Control tokens of the hostile form, each checked, and equal to those of the twin unless the
    /// conversation is steered.
    pub controls: usize,
    /// Ids of the twin, if they equal the reference's.
    pub honest: usize,
    /// Whether the reference encoded each run between control tokens instead of the whole text.
    pub by_runs: bool,
    /// Why the ids of the twin may differ from the reference's, where they do.
    pub excused: Option<&'static str>,
    /// Whether a message decided what else the template writes.
    pub steered: bool,
}

/// Checks whether a conversation forges anything, and whether its twin gets the reference's ids.
pub fn check(subject: &Subject, draft: &Draft) -> Outcome {
    let run = |side: Side| -> Result<(Prompt, Encoded), String> {
        let prompt = subject.render(draft, side)?;
        let encoded = subject.encode(&prompt)?;
        Ok((prompt, encoded))
    };
    let (hostile, twin) = match (run(Side::Hostile), run(Side::Twin)) {
        (Ok(hostile), Ok(twin)) => (hostile, twin),
        (Err(why), Err(_)) => return Outcome::Refused(why),
        (Ok((prompt, encoded)), Err(why)) | (Err(why), Ok((prompt, encoded))) => {
            return match forged(subject, &prompt, &encoded) {
                Some(forged) => Outcome::Failed(forged),
                None => Outcome::OneRefused(why),
            };
        }
    };
    let sides = [&hostile, &twin];
    let Ok(bound) = subject.bound() else { return Outcome::Failed("no encoder".to_owned()) };
    if let Some(forged) = sides.into_iter().find_map(|(prompt, encoded)| forged(subject, prompt, encoded)) {
        return Outcome::Failed(forged);
    }
    let [found, wanted] = sides.map(|(_, encoded)| encoded.control_ids());
    let mut compared = Compared { controls: found.len(), ..Compared::default() };
    if found != wanted {
        let [wrote, would_write] = sides.map(|(prompt, _)| own_text(prompt));
        let gated = matches!(subject.voice, Voice::Template { gated: true, .. });
        let difference = format!(
            "control ids differ\n  hostile: {found:?}\n  twin:    {wanted:?}\n  hostile prompt: {:?}\n  twin's prompt:  {:?}",
            hostile.0.text(),
            twin.0.text()
        );
        if wrote == would_write {
            return Outcome::Failed(format!("forged: {difference}"));
        }
        // A switch is the caller's choice of what the template writes.
        let switched = match &subject.voice {
            Voice::Template { habits, .. } => habits.is_switched_by(&draft.request),
            _ => false,
        };
        if !gated && !switched {
            return Outcome::Failed(format!(
                "forged: the template's analysis found no branch on message text, but {difference}"
            ));
        }
        compared.steered = true;
    }
    let (prompt, encoded) = &twin;
    let found = encoded.ids();
    compared.by_runs = encoded.tokens.iter().any(|token| token.control && !bound.spelled.contains(&token.id));
    let reference = match compared.by_runs {
        true => by_runs(subject, prompt, encoded),
        false => whole(subject, prompt),
    };
    match reference {
        Ok(ids) => match (found == ids, excuse(subject, prompt)) {
            (true, _) => compared.honest = ids.len(),
            (false, Some(why)) => compared.excused = Some(why),
            (false, None) => return Outcome::Failed(told_difference(prompt, &found, &ids)),
        },
        Err(why) => return Outcome::Failed(format!("honest: the reference fails: {why}")),
    }
    Outcome::Compared(compared)
}

/// Describes the first control token that is not the format's or template's own.
fn forged(subject: &Subject, prompt: &Prompt, encoded: &Encoded) -> Option<String> {
    let protected = &subject.bound().ok()?.protected;
    let text = prompt.text();
    let at = |token: &EncodedToken| text.get(token.start..token.end).unwrap_or("(no span)");
    for token in &encoded.tokens {
        let spellings = protected.get(&token.id);
        let why = match (token.control, spellings) {
            (false, None) => continue,
            // The token of a byte, or the unknown token: never a text that spells the token's own
            // name.
            (false, Some(spellings))
                if stands_in(subject, token.id) && !spellings.iter().any(|s| at(token).contains(s.as_str())) =>
            {
                continue;
            }
            (false, Some(_)) => "a protected id is not flagged as a control token",
            (true, _) if !is_own(prompt, token) => "a control token comes from text that is not the template's own",
            (true, Some(spellings)) if !spellings.iter().any(|spelling| spelling == at(token)) => {
                "a control token covers other text"
            }
            (true, _) => continue,
        };
        return Some(format!(
            "forged: {why}: id {} at bytes {}..{}, {:?}\n  prompt: {text:?}",
            token.id,
            token.start,
            token.end,
            at(token)
        ));
    }
    None
}

/// Reports whether an id replaces text that has no id: the unknown token, or the token of a byte.
fn stands_in(subject: &Subject, id: u32) -> bool {
    let name = subject.tokenizer.token_text(id).unwrap_or_default();
    let byte = name.strip_prefix("<0x").and_then(|name| name.strip_suffix('>'));
    byte.is_some_and(|byte| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok())
        || ["<unk>", "[UNK]", "?"].contains(&name.as_str())
}

/// Reports whether a token covers the template's own text or the name of a role.
fn is_own(prompt: &Prompt, token: &EncodedToken) -> bool {
    let mut segments = prompt.segments_in(token.start..token.end).peekable();
    segments.peek().is_some()
        && segments.all(|segment| match &segment.origin {
            Origin::Control(_) => true,
            Origin::Format => !segment.is_made,
            Origin::Message { field, .. } => field == "role" && ROLES.contains(&whole_role(prompt, segment.start)),
            _ => false,
        })
}

/// Returns the text of the segment that contains a byte, for the whole name of a role.
fn whole_role(prompt: &Prompt, at: usize) -> &str {
    prompt
        .segments()
        .find(|segment| (segment.start..segment.start + segment.text.len()).contains(&at))
        .map_or("", |segment| segment.text)
}

/// Returns the text that the format or template itself wrote.
fn own_text(prompt: &Prompt) -> String {
    prompt
        .segments()
        .filter(|segment| segment.origin.is_format() && !segment.is_made)
        .map(|segment| segment.text)
        .collect()
}

/// Returns why a prompt may have other ids than the reference's.
fn excuse(subject: &Subject, prompt: &Prompt) -> Option<&'static str> {
    let tokenizer = &subject.tokenizer;
    let is_foreign = |run: Run<'_>| matches!(run, Run::Control { text, .. } if tokenizer.token_id(text).is_none());
    match subject.is_real {
        false => Some("no maker's tokenizer has a format's literal texts as tokens"),
        true => {
            prompt.runs().any(is_foreign).then_some("the tokenizer spells a control token differently from the format")
        }
    }
}

/// Returns the reference's ids for an honest prompt as one text, cut where the maker's own code
/// calls its tokenizer again.
fn whole(subject: &Subject, prompt: &Prompt) -> Result<Vec<u32>, String> {
    let runs: Vec<Run<'_>> = prompt.runs().collect();
    let is_text = |run: &Run<'_>| matches!(run, Run::Text { .. });
    let has_seams = runs.windows(2).any(|pair| pair.iter().all(is_text));
    if !has_seams {
        return subject
            .bound()?
            .encoder
            .encode_reference(prompt)
            .map(|encoded| encoded.ids())
            .map_err(|error| error.to_string());
    }
    let mut ids = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        match run {
            Run::Control { .. } => {
                let encoded = subject.bound()?.encoder.encode_runs([run.clone()]).map_err(|error| error.to_string())?;
                ids.extend(encoded.ids());
            }
            Run::Text { text, .. } => read(subject, text, at == 0, &mut ids)?,
        }
    }
    Ok(ids)
}

/// Returns the reference's ids for each text between control tokens, for control tokens that no
/// text can spell.
fn by_runs(subject: &Subject, prompt: &Prompt, encoded: &Encoded) -> Result<Vec<u32>, String> {
    let mut ids = Vec::new();
    let mut from = 0;
    for control in encoded.tokens.iter().filter(|token| token.control) {
        read(subject, &prompt.text()[from..control.start], from == 0, &mut ids)?;
        ids.push(control.id);
        from = control.end;
    }
    read(subject, &prompt.text()[from..], from == 0, &mut ids)?;
    Ok(ids)
}

fn read(subject: &Subject, text: &str, is_first: bool, ids: &mut Vec<u32>) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let place = if is_first { TextPlace::Start } else { TextPlace::Inside };
    let mut tokens = Vec::new();
    let read = subject.tokenizer.encode_reference(text, place, &mut tokens);
    read.map_err(|error| error.to_string())?;
    ids.extend(tokens.iter().map(|token| token.id));
    Ok(())
}

fn told_difference(prompt: &Prompt, found: &[u32], wanted: &[u32]) -> String {
    let same = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let some = |ids: &[u32]| ids[same.min(ids.len())..ids.len().min(same + 12)].to_vec();
    format!(
        "honest: ids differ from the reference's from index {same} on\n  found:     {:?}\n  reference: {:?}\n  prompt: {:?}",
        some(found),
        some(wanted),
        prompt.text()
    )
}
