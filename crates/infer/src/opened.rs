//! Reasoning that a template never writes: its generation prompt opens it, or it drops the
//! reasoning from an answer, or it always writes an empty block.

use rolecall_conversation::Json;
use rolecall_conversation::json::{self, Object};
use rolecall_format::Field;
use rolecall_render::jinja::{self, Constant};

use crate::found::FormatParts;
use crate::marker;
use crate::pattern::Pattern;
use crate::probe::{Probe, Stage};
use crate::reasoning::Settings;
use crate::report::{Report, TurnPart};
use crate::said::{CONTENT, ProbeMessage, REASONING};
use crate::sequence::{Cuts, Item, common_start, hole_at, items, literal};

/// The maximum number of closing markers to try.
const MOST_MARKS: usize = 6;

/// How models write the reasoning that the template never writes.
struct Block {
    /// The turn's text before the reasoning's marker.
    header: String,
    /// The marker that opens it, with the white space after it.
    open: String,
    close: String,
    /// The evidence for this.
    words: String,
}

/// A generation prompt, with the switches that produce it.
struct GenerationPrompt {
    switches: Object,
    text: String,
    /// The number of leading bytes that the turns of answers share.
    common: usize,
}

impl GenerationPrompt {
    fn added(&self) -> &str {
        self.text.get(self.common..).unwrap_or_default()
    }

    fn with(&self) -> String {
        match self.switches.is_empty() {
            true => String::new(),
            false => {
                format!(" if {} is set", json::write(&Json::Object(self.switches.clone()), &json::Layout::default()))
            }
        }
    }
}

/// Adds reasoning that the template never writes. `settings` are the values of switches to try.
/// Two switches together are tried only if no switch alone opens reasoning.
pub(crate) fn find(
    probe: &Probe<'_>,
    stage: &Stage,
    program: Option<&jinja::Analysis>,
    settings: &Settings,
    found: &mut FormatParts,
    report: &mut Report,
) {
    let has = |pattern: &Pattern| hole_at(pattern.items(), Field::Reasoning).is_some();
    if has(&found.assistant.pattern) || found.with_calls.as_ref().is_some_and(|shape| has(&shape.pattern)) {
        return;
    }
    let header = header_of(&found.assistant.pattern);
    let mut prompts = vec![prompted(&header, Object::new(), found.opening.clone())];
    add_prompts(probe, stage, &header, &settings.alone, &mut prompts);
    let (mut block, mut cut) = opened(probe, stage, program, &prompts);
    let alone = prompts.len();
    if block.is_none() {
        add_prompts(probe, stage, &header, &settings.pairs, &mut prompts);
    }
    if prompts.len() > alone {
        (block, cut) = opened(probe, stage, program, &prompts);
    }
    let block = block.or_else(|| dropped(probe, cut.as_deref(), &found.opening));
    let Some(block) = block else {
        if !settings.pairs.is_empty() && !settings.has_all_pairs {
            let words = "not every combination of two switches was tried";
            report.note(TurnPart::Reasoning, words, None);
        }
        if let Some(close) = cut {
            let words =
                format!("the template drops the text before {close} in an answer; the marker that opens it is unknown");
            report.note(TurnPart::Reasoning, words, None);
        }
        return empty(found);
    };
    let words = block.words.clone();
    insert(&block, found);
    match has(&found.assistant.pattern) {
        true => found.lent = Some(words),
        false => report.note(TurnPart::Reasoning, words, None),
    }
}

/// Adds the generation prompts with these settings of switches, each different prompt once.
fn add_prompts(
    probe: &Probe<'_>,
    stage: &Stage,
    header: &str,
    settings: &[Object],
    prompts: &mut Vec<GenerationPrompt>,
) {
    for switches in settings {
        let other = Stage { switches: switches.clone(), ..stage.clone() };
        let Some(opening) = probe.opening(&other) else { continue };
        if prompts.iter().all(|known| known.text != opening) {
            prompts.push(prompted(header, switches.clone(), opening));
        }
    }
}

/// Returns the reasoning that one of the prompts opens, and the marker up to which the template
/// drops the text of an answer.
fn opened(
    probe: &Probe<'_>,
    stage: &Stage,
    program: Option<&jinja::Analysis>,
    prompts: &[GenerationPrompt],
) -> (Option<Block>, Option<String>) {
    let cut = closing_marks(probe, program, prompts).into_iter().find(|mark| is_cut(probe, stage, mark));
    // A marker whose usual closing one is known is preferred.
    let of =
        |is_usual: bool| prompts.iter().find_map(|prompt| opened_by(probe, prompt, prompts, cut.as_deref(), is_usual));
    (of(true).or_else(|| of(false)), cut)
}

/// Returns the literal text that an answer begins with.
fn header_of(pattern: &Pattern) -> String {
    let header: Vec<Item> = pattern.items().iter().take_while(|item| !matches!(item, Item::Hole(_))).copied().collect();
    literal(&header)
}

fn prompted(header: &str, switches: Object, text: String) -> GenerationPrompt {
    let (all, header) = (items(&text), items(header));
    let common = Cuts::of(&all).at_most(common_start(&all, &header));
    let common = text.chars().take(common).map(char::len_utf8).sum();
    GenerationPrompt { switches, text, common }
}

/// Returns the reasoning that a generation prompt opens.
fn opened_by(
    probe: &Probe<'_>,
    prompt: &GenerationPrompt,
    all: &[GenerationPrompt],
    cut: Option<&str>,
    is_usual: bool,
) -> Option<Block> {
    let added = prompt.added();
    let (open, close) = match opened_mark(added) {
        Some((mark, None)) => (mark, closed_by(probe, prompt, mark, all, cut)?),
        // The prompt closes it at once. If the template also drops it from answers, or if another
        // prompt does not contain it, the model may open it itself.
        Some((mark, Some(close))) => {
            let is_optional = all.iter().any(|other| !other.text.contains(mark));
            (cut == Some(close.as_str()) || is_optional).then_some((mark, close))?
        }
        None => return None,
    };
    if is_usual && marker::closing(open).as_deref() != Some(close.as_str()) {
        return None;
    }
    let at = added.find(open)?;
    let behind = added.get(at..)?.strip_prefix(open)?;
    let space: Vec<char> = behind.chars().take_while(|c| c.is_whitespace()).collect();
    // White space in an empty block is on both sides of the reasoning.
    let is_closed = behind.trim_start().starts_with(close.as_str());
    let kept = if is_closed { space.len().div_ceil(2) } else { space.len() };
    let space: String = space.into_iter().take(kept).collect();
    let header = prompt.text.get(..prompt.common + at)?.to_owned();
    let dropped = match cut == Some(close.as_str()) {
        true => format!(", and the template drops the text before {close}"),
        false => "; the template never writes it".to_owned(),
    };
    let words = format!("the generation prompt opens it with {open}{}{dropped}", prompt.with());
    Some(Block { header, open: format!("{open}{space}"), close, words })
}

/// Returns the marker that a generation prompt ends with, and the closing marker after it if the
/// prompt has it.
fn opened_mark(added: &str) -> Option<(&str, Option<String>)> {
    let mark = marker::last(added)?;
    let before = added.trim_end().strip_suffix(mark)?.trim_end();
    match marker::last(before).filter(|open| marker::closing(open).as_deref() == Some(mark)) {
        Some(open) => Some((open, Some(mark.to_owned()))),
        None => Some((mark, None)),
    }
}

/// Returns the marker that closes what a generation prompt opens with a marker.
fn closed_by(
    probe: &Probe<'_>,
    prompt: &GenerationPrompt,
    mark: &str,
    all: &[GenerationPrompt],
    cut: Option<&str>,
) -> Option<String> {
    let usual = marker::closing(mark)?;
    if let Some(cut) = cut {
        return Some(cut.to_owned());
    }
    // With another value of a switch, the prompt closes it.
    let opened = prompt.text.trim_end();
    let closed = all.iter().any(|other| other.text.strip_prefix(opened).is_some_and(|rest| rest.trim() == usual));
    let instead = all.iter().any(|other| other.common == prompt.common && other.added().trim() == usual);
    let is_written = probe.template().source().contains(&usual);
    let is_assumed = prompt.switches.is_empty() && marker::is_paired(mark);
    (closed || instead || is_written || is_assumed).then_some(usual)
}

/// Returns the reasoning that the template drops from answers, without opening it.
fn dropped(probe: &Probe<'_>, cut: Option<&str>, opening: &str) -> Option<Block> {
    let close = cut?;
    let open = marker::opening(close)?;
    let is_known = marker::is_paired(&open) || probe.template().source().contains(&open);
    let words = format!("the template drops the text before {close} in an answer");
    is_known.then(|| Block { header: opening.to_owned(), open: format!("{open}\n"), close: close.to_owned(), words })
}

/// Adds the reasoning to the turns that begin with the header.
fn insert(block: &Block, found: &mut FormatParts) {
    let Block { header, open, close, .. } = block;
    let space = &open[open.trim_end().len()..];
    let opened = [items(open), vec![Item::Hole(Field::Reasoning)]].concat();
    let closed = items(&format!("{space}{close}{space}{space}"));
    let header = items(header);
    for shape in std::iter::once(&mut found.assistant).chain(found.with_calls.as_mut()) {
        // Turns may write the closing marker even without reasoning.
        let own = header_of(&shape.pattern);
        let shown = literal(&header);
        let common = prompted(&own, Object::new(), shown).common;
        let rest = own.get(common..).unwrap_or_default();
        let group = match rest.trim_start().starts_with(close.as_str()) {
            true => opened.clone(),
            false => [opened.as_slice(), &closed].concat(),
        };
        let closes_itself = rest.trim_start().starts_with(close.as_str());
        let at = if closes_itself { own[..common].chars().count() } else { header.len() };
        if !closes_itself && !shape.pattern.items().starts_with(&header) {
            continue;
        }
        shape.pattern = shape.pattern.with_inserted(at, &group, true);
    }
}

/// Puts reasoning into an empty block that the template writes in every turn, because the model may
/// fill it.
fn empty(found: &mut FormatParts) {
    let header = header_of(&found.assistant.pattern);
    let Some((open, close)) = empty_block(&header, &found.opening) else { return };
    for shape in std::iter::once(&mut found.assistant).chain(found.with_calls.as_mut()) {
        let own = header_of(&shape.pattern);
        let Some((start, end)) = empty_block(&own, &found.opening) else { continue };
        if own[..start] != header[..open] || own[end..] != header[close..] && end != close {
            continue;
        }
        let middle = own[..start].chars().count() + own[start..end].chars().count().div_ceil(2);
        shape.pattern = shape.pattern.with_inserted(middle, &[Item::Hole(Field::Reasoning)], false);
        found.lent = Some("the template always writes an empty block".to_owned());
    }
}

/// Returns where an empty block's content begins and ends in a turn's header, if the generation
/// prompt does not contain the block.
fn empty_block(header: &str, opening: &str) -> Option<(usize, usize)> {
    let closing = marker::last(header)?;
    let end = header.trim_end().len() - closing.len();
    let start = header[..end].trim_end().len();
    let open = marker::last(&header[..start])?;
    let is_block = marker::closing(open).as_deref() == Some(closing) && marker::is_paired(open);
    (is_block && opening.len() < start && header.starts_with(opening.trim_end())).then_some((start, end))
}

/// Returns texts that may close reasoning: those that the template searches for in contents, and
/// those that close what a generation prompt opens.
fn closing_marks(probe: &Probe<'_>, program: Option<&jinja::Analysis>, prompts: &[GenerationPrompt]) -> Vec<String> {
    let prompted = prompts.iter().filter_map(|prompt| {
        let (mark, close) = opened_mark(prompt.added())?;
        close.or_else(|| marker::closing(mark))
    });
    let compared = program.into_iter().flat_map(|program| &program.comparisons).flat_map(|asked| &asked.with);
    let compared = compared.filter_map(|with| match with {
        Constant::Text(text) => Some(text.trim().to_owned()),
        _ => None,
    });
    let split = split_at(probe.template().source());
    let is_closing =
        |text: &String| marker::opening(text).is_some() || (text.len() > 4 && marker::last(text).is_some());
    let mut marks: Vec<String> = Vec::new();
    for mark in prompted.chain(split).chain(compared).filter(is_closing) {
        if !marks.contains(&mark) {
            marks.push(mark);
        }
        if marks.len() == MOST_MARKS {
            break;
        }
    }
    marks
}

/// Returns the literal texts at which a template splits strings.
fn split_at(source: &str) -> impl Iterator<Item = String> + '_ {
    ["split(", "partition("].into_iter().flat_map(move |call| {
        source.match_indices(call).filter_map(move |(at, _)| {
            let rest = source[at + call.len()..].trim_start();
            let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
            let text = rest[1..].split(quote).next()?;
            (text.len() <= 80).then(|| text.trim().to_owned())
        })
    })
}

/// Reports whether the template drops the text in an answer before a marker, in the last turn or in
/// an earlier one.
fn is_cut(probe: &Probe<'_>, stage: &Stage, close: &str) -> bool {
    let said = ProbeMessage::content(&format!("{REASONING}{close}{CONTENT}"));
    let is_dropped = |text: &str| !text.contains(REASONING) && text.contains(CONTENT);
    probe.turn(&said, stage).is_ok_and(|turn| is_dropped(&turn.text))
        || probe.earlier(&said, stage).is_some_and(|text| is_dropped(&text))
}
