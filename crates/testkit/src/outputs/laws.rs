use fastrand::Rng;
use rolecall::conversation::json;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Arguments, Call, Json, Message};
use rolecall::parse::{Malformed, OutputParser, ParseOptions, ParsedCall, Why};
use rolecall::{Event, Reading, Stop};

use super::limits::{limits, tokens_of};
use super::log::{Log, Seen};
use super::message::{Said, Taste, said};
use super::mutation::mutate;
use super::splits::{byte_pieces, characters, pieces};
use super::subject::{Subject, Written};

/// A law that an output breaks.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The law, in a few words.
    pub law: &'static str,
    /// The output.
    pub output: String,
    /// The events that were found, and the expected ones.
    pub what: String,
}

/// The amount of work for each output.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Try every split in two if the output has no more characters than this.
    pub all_pairs: usize,
    /// The number of splits in two otherwise.
    pub some_pairs: usize,
}

/// The effort for each of a million outputs.
pub const USUAL: Effort = Effort { all_pairs: 60, some_pairs: 6 };

/// Makes the output of a seed (a message as written, one with hostile texts, or a damaged one) and
/// checks every law on it. Returns an error for an output that breaks a law.
pub fn check(subject: &Subject, seed: u64, effort: Effort) -> Result<Checked, Broken> {
    // Scramble the seed, so that neighbouring seeds give unlike outputs.
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let kind = rng.u8(..5);
    if kind == 4 {
        return check_limits(subject, &mut rng, effort);
    }
    let taste = if kind == 1 { Taste::Hostile } else { Taste::Honest };
    let said = said(&subject.places, &subject.marks, taste, &mut rng);
    let written = match subject.write(&said) {
        Ok(written) => written,
        Err(why) => return Ok(Checked::NotWritten(why)),
    };
    let options = subject.options(&said, &written.prompt_tail);
    let reader = Reader { subject, options, stop: Stop::Length, effort };
    match kind {
        2 | 3 => {
            let mutated = mutate(&written.text(), &subject.marks, &mut rng);
            let log = reader.splits(&mutated.text, &mut rng)?;
            reader.accounts(&mutated.text, &log)?;
            reader.keeps_inserted(&mutated.text, &mutated.words, &log)?;
            reader.cut(&mutated.text, &mut rng)?;
            Ok(Checked::Damaged)
        }
        _ => {
            let text = written.text();
            let log = reader.splits(&text, &mut rng)?;
            reader.accounts(&text, &log)?;
            let ids = reader.ids(&written.tokens(), &mut rng)?;
            reader.cut(&text, &mut rng)?;
            if taste == Taste::Hostile {
                return Ok(Checked::Hostile);
            }
            if !subject.promise.has(&said) {
                return Ok(Checked::NotPromised);
            }
            for (how, log) in [("text", &log), ("ids", &ids)] {
                if let Some(what) = difference(&said, &log.reading(), subject) {
                    return Err(Broken {
                        law: "a written message is parsed back",
                        output: text,
                        what: format!("as {how}: {what}\n  {}", shown(&said)),
                    });
                }
            }
            reader.reports_stripped(&written, &said)?;
            Ok(Checked::ReadBack)
        }
    }
}

/// Checks an output at the parser's limits. Nothing promises that its calls are parsed, but every
/// other law holds.
fn check_limits(subject: &Subject, rng: &mut Rng, effort: Effort) -> Result<Checked, Broken> {
    let limits = match limits(subject, rng) {
        Ok(limits) => limits,
        Err(why) => return Ok(Checked::NotWritten(why)),
    };
    let how = format!("{:?}, {:?}", limits.options, limits.stop);
    let reader = Reader { subject, options: limits.options, stop: limits.stop, effort };
    let all = |rng: &mut Rng| {
        let log = reader.splits(&limits.text, rng)?;
        reader.accounts(&limits.text, &log)?;
        reader.keeps_inserted(&limits.text, &limits.words, &log)?;
        reader.ids(&tokens_of(&limits.text, &subject.format), rng)?;
        reader.cut(&limits.text, rng)
    };
    match all(rng) {
        Ok(()) => Ok(Checked::Limited),
        Err(broken) => Err(Broken { what: format!("{}\n  read with {how}", broken.what), ..broken }),
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Checked {
    /// The output was parsed as the message that it was written from.
    ReadBack,
    /// The output has hostile texts and obeys all other laws.
    Hostile,
    /// The output was damaged and obeys all other laws.
    Damaged,
    /// The format does not promise to parse such a message; the output obeys all other laws.
    NotPromised,
    /// The output was parsed with small caps and other policies and obeys all other laws.
    Limited,
    /// The format does not write such a message, with its reason.
    NotWritten(String),
}

/// Parses outputs of one format with one set of options.
pub struct Reader<'a> {
    /// The format.
    pub subject: &'a Subject,
    /// The options of the parser.
    pub options: ParseOptions,
    /// The reason why the output ends.
    pub stop: Stop,
    /// The amount of work.
    pub effort: Effort,
}

impl Reader<'_> {
    /// Checks that calls whose control tokens an engine removed are read all the same, or reported.
    fn reports_stripped(&self, written: &Written, said: &Said) -> Result<(), Broken> {
        let text: String =
            written.tokens().into_iter().filter(|(_, is_control)| !is_control).map(|(text, _)| text).collect();
        let calls = said.message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
        // Code goes on to the end, with whatever follows it.
        let is_code = |call: &Json| call.as_object().is_some_and(|call| call.get("code_interpreter").is_some());
        if text.len() == written.text().len() || calls.iter().any(is_code) {
            return Ok(());
        }
        let log = self.read([text.as_str()], Stop::End);
        let unread = calls.get(log.reading().calls.len()..).unwrap_or_default();
        let is_reported = log.seen.iter().any(|seen| matches!(seen, Seen::Malformed(_)));
        if is_reported || !unread.iter().any(|call| is_distinct_call(call, &text)) {
            return Ok(());
        }
        let what = format!("{:?}", log.seen);
        Err(Broken { law: "a call without its control tokens is read or reported", output: text, what })
    }

    /// Returns the events of a text in pieces.
    pub fn read<'t>(&self, pieces: impl IntoIterator<Item = &'t str>, stop: Stop) -> Log {
        let mut log = Log::default();
        let mut parser = OutputParser::new(&self.subject.reply, self.options.clone());
        let mut add = |event: Event<'_>| log.add(&event);
        for piece in pieces {
            parser.push_text(piece, &mut add);
        }
        parser.finish(stop, &mut add);
        log
    }

    /// Returns the events of bytes in pieces, each flagged if it is a control token.
    pub fn read_bytes<'t>(&self, pieces: impl IntoIterator<Item = (&'t [u8], bool)>, stop: Stop) -> Log {
        let mut log = Log::default();
        let mut parser = OutputParser::new(&self.subject.reply, self.options.clone());
        let mut add = |event: Event<'_>| log.add(&event);
        for (piece, is_control) in pieces {
            parser.push_bytes(piece, is_control, &mut add);
        }
        parser.finish(stop, &mut add);
        log
    }

    /// Returns the events of tokens whose calls are parsed ahead as far as they go, and the rest in
    /// small pieces.
    fn read_ahead(&self, written: &[(&str, bool)], rng: &mut Rng) -> Log {
        let mut log = Log::default();
        let mut parser = OutputParser::new(&self.subject.reply, self.options.clone());
        let mut add = |event: Event<'_>| log.add(&event);
        for (text, is_control) in written {
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                if !is_control {
                    rest = &rest[parser.push_in_call(rest, &mut add)..];
                }
                let length = if *is_control { rest.len() } else { rng.usize(1..=4).min(rest.len()) };
                let (piece, others) = rest.split_at(length);
                parser.push_bytes(piece, *is_control, &mut add);
                rest = others;
            }
        }
        parser.finish(self.stop, &mut add);
        log
    }

    /// Checks that a text has the same events however it is split, and that they are in order.
    pub fn splits(&self, text: &str, rng: &mut Rng) -> Result<Log, Broken> {
        let whole = self.read([text], self.stop);
        let broken = |how: String, log: &Log| Broken {
            law: "any split gives the same events",
            output: text.to_owned(),
            what: format!("{how}\n  whole: {:?}\n  split: {:?}", whole.seen, log.seen),
        };
        self.in_order(text, &whole)?;
        let log = self.read(characters(text), self.stop);
        if log != whole {
            return Err(broken("character by character".to_owned(), &log));
        }
        for most in [3, 12] {
            let pieces = pieces(text, most, rng);
            let log = self.read(pieces.iter().copied(), self.stop);
            if log != whole {
                return Err(broken(format!("in pieces {pieces:?}"), &log));
            }
        }
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
        let all = borders.len() <= self.effort.all_pairs;
        let count = if all { borders.len() } else { self.effort.some_pairs };
        for at in 0..count {
            let at = if all { borders[at] } else { borders[rng.usize(..borders.len())] };
            let (one, other) = text.split_at(at);
            let log = self.read([one, other], self.stop);
            if log != whole {
                return Err(broken(format!("cut between {one:?} and {other:?}"), &log));
            }
        }
        Ok(whole)
    }

    /// Checks that the events are the same however the bytes between two control tokens are split.
    pub fn ids(&self, written: &[(&str, bool)], rng: &mut Rng) -> Result<Log, Broken> {
        let whole = self.read_bytes(written.iter().map(|(text, is_control)| (text.as_bytes(), *is_control)), self.stop);
        let text: String = written.iter().map(|(text, _)| *text).collect();
        self.in_order(&text, &whole)?;
        for most in [1, 4, 9] {
            let mut cut: Vec<(&[u8], bool)> = Vec::new();
            for (text, is_control) in written {
                match is_control {
                    true => cut.push((text.as_bytes(), true)),
                    false => {
                        cut.extend(byte_pieces(text.as_bytes(), most, rng).into_iter().map(|piece| (piece, false)))
                    }
                }
            }
            let log = self.read_bytes(cut.iter().copied(), self.stop);
            if log != whole {
                return Err(Broken {
                    law: "any split of ids gives the same events",
                    output: text,
                    what: format!("{cut:?}\n  whole: {:?}\n  split: {:?}", whole.seen, log.seen),
                });
            }
        }
        let ahead = self.read_ahead(written, rng);
        if ahead != whole {
            return Err(Broken {
                law: "calls that are parsed ahead give the same events",
                output: text,
                what: format!("  whole: {:?}\n  ahead: {:?}", whole.seen, ahead.seen),
            });
        }
        Ok(whole)
    }

    /// Checks a text that is cut off at a random place: its events are in order and account for all
    /// of it.
    pub fn cut(&self, text: &str, rng: &mut Rng) -> Result<(), Broken> {
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        if borders.is_empty() {
            return Ok(());
        }
        let cut = &text[..borders[rng.usize(..borders.len())]];
        let log = self.read([cut], self.stop);
        self.in_order(cut, &log)?;
        self.accounts(cut, &log)
    }

    /// Checks that calls are numbered from 0, start before they continue and end once; that
    /// complete arguments are JSON; and that there is one stop, with the text after it reported
    /// first.
    fn in_order(&self, text: &str, log: &Log) -> Result<(), Broken> {
        let broken = |what: String| {
            Err(Broken {
                law: "events are in order",
                output: text.to_owned(),
                what: format!("{what}\n  {:?}", log.seen),
            })
        };
        // The open call, and whether it is code.
        let mut open: Option<(usize, bool)> = None;
        // A reply of several messages may go on after a marker that ends the turn.
        let mut is_late = self.subject.format.habits.header.is_some();
        let (mut next, mut stops, mut arguments) = (0, 0, String::new());
        for seen in &log.seen {
            if stops > 0 && !is_late && !matches!(seen, Seen::Malformed(_)) {
                return broken("an event follows the stop without a report".to_owned());
            }
            match seen {
                Seen::Started { index, .. } | Seen::CodeStarted { index, .. } => {
                    if *index != next || open.is_some() {
                        return broken(format!("call {index} starts out of order"));
                    }
                    (open, next) = (Some((next, matches!(seen, Seen::CodeStarted { .. }))), next + 1);
                    arguments.clear();
                }
                Seen::Arguments { index, text } if open == Some((*index, false)) => arguments.push_str(text),
                Seen::Code { index, .. } if open == Some((*index, true)) => {}
                Seen::Finished { index, whole, .. } if open.is_some_and(|(at, _)| at == *index) => {
                    let is_code = open.take().is_some_and(|(_, is_code)| is_code);
                    // Half of a surrogate pair is valid JSON but not valid text.
                    let is_json = || json::parse(&arguments).is_ok() || arguments.contains("\\ud");
                    if *whole && !is_code && !is_json() {
                        return broken(format!("the complete arguments of call {index} are not JSON: {arguments:?}"));
                    }
                }
                Seen::Arguments { index, .. } | Seen::Code { index, .. } | Seen::Finished { index, .. } => {
                    return broken(format!("call {index} continues but is not open"));
                }
                Seen::Stop(_) => stops += 1,
                Seen::Malformed(malformed) => {
                    let span = &malformed.span;
                    if span.start > span.end || span.end > text.len() as u64 {
                        return broken(format!("{span:?} is outside a text of {} bytes", text.len()));
                    }
                    if [span.start, span.end].iter().any(|end| !text.is_char_boundary(*end as usize)) {
                        return broken(format!("{span:?} divides a character"));
                    }
                    is_late |= malformed.why == Why::AfterEnd;
                }
                Seen::Content(_) | Seen::Reasoning(_) if open.is_some() => {
                    return broken("text occurs inside a call".to_owned());
                }
                Seen::Content(_) | Seen::Reasoning(_) => {}
            }
        }
        match (open, stops) {
            (None, 1) => Ok(()),
            _ => broken(format!("expected one stop and no open call, found {stops} stops and {open:?}")),
        }
    }

    /// Checks that the raw text of the events occurs in the output in order and only once, and that
    /// without calls only markers and white space are missing from it.
    fn accounts(&self, text: &str, log: &Log) -> Result<(), Broken> {
        let mut rest = text;
        for character in log.raw_texts().flat_map(str::chars) {
            match rest.find(character) {
                Some(at) => rest = &rest[at + character.len_utf8()..],
                None => {
                    return Err(Broken {
                        law: "nothing is emitted twice",
                        output: text.to_owned(),
                        what: format!(
                            "{character:?} is emitted, but the text does not have it after the previous character\n  {:?}",
                            log.seen
                        ),
                    });
                }
            }
        }
        let has_call = log.seen.iter().any(|seen| matches!(seen, Seen::Started { .. } | Seen::CodeStarted { .. }));
        if !has_call {
            let out: String = log.raw_texts().collect();
            let is_over = log.seen.contains(&Seen::Stop(Stop::End));
            let mut unread: Vec<&std::ops::Range<u64>> = log.unread().collect();
            // A header that the end of the output cuts off is reported as a whole.
            let has_headers = self.subject.format.habits.header.is_some();
            unread.extend(log.seen.iter().filter(|_| has_headers).filter_map(|seen| match seen {
                Seen::Malformed(Malformed { span, why: Why::Expected(_) }) if span.end == text.len() as u64 => {
                    Some(span)
                }
                _ => None,
            }));
            let headers = self.headers_in(text);
            let is_unread = |at: usize| {
                unread.iter().any(|span| span.contains(&(at as u64))) || headers.iter().any(|span| span.contains(&at))
            };
            if !self.is_left_out(text, &out, is_over, is_unread) {
                return Err(Broken {
                    law: "nothing is lost",
                    output: text.to_owned(),
                    what: format!("more than markers is missing\n  {:?}", log.seen),
                });
            }
        }
        self.keeps_words(text, log)?;
        self.reports_markers(text, log)
    }

    /// Reports whether a text is the emitted text with markers, white space and unread parts added.
    fn is_left_out(&self, text: &str, out: &str, is_over: bool, is_unread: impl Fn(usize) -> bool) -> bool {
        let mut marks = self.marks_in(text, false);
        marks.sort_by_key(|mark| mark.start);
        // After the end, a cut-off marker still counts as a marker.
        let is_cut = |at: &usize| self.subject.marks.iter().any(|mark| mark.contains(&text[*at..]));
        let places = text.char_indices().rev().map(|(at, _)| at).take_while(is_cut);
        let cut_from = places.last().unwrap_or(text.len());
        // Reachable pairs of positions in the text and in the emitted text, smallest first.
        let mut reached = std::collections::BTreeSet::from([(0usize, 0usize)]);
        let mut steps = 0;
        while let Some((at, out_at)) = reached.pop_first() {
            steps += 1;
            if (at, out_at) == (text.len(), out.len()) || steps > 200_000 {
                return true;
            }
            let Some(character) = text[at..].chars().next() else { continue };
            if is_over && out_at == out.len() && at >= cut_from {
                return true;
            }
            if out[out_at..].starts_with(character) {
                reached.insert((at + character.len_utf8(), out_at + character.len_utf8()));
            }
            if is_unread(at) || character.is_whitespace() || rolecall::format::codec::is_python_space(character) {
                reached.insert((at + character.len_utf8(), out_at));
            }
            let here = &marks[marks.partition_point(|mark| mark.start < at)..];
            reached.extend(here.iter().take_while(|mark| mark.start == at).map(|mark| (mark.end, out_at)));
        }
        false
    }
}

/// Describes the first difference between a reading and the message, if there is one.
pub fn difference(said: &Said, reading: &Reading, subject: &Subject) -> Option<String> {
    let text = |key: &str| said.message.get(key).and_then(Json::as_str).unwrap_or_default();
    // The message's texts have no white space at their ends.
    let trim = |text| if subject.promise.white_space { text } else { str::trim(text) };
    if trim(&reading.content) != text("content") {
        return Some(format!("content {:?}, expected {:?}", reading.content, text("content")));
    }
    let reasoning = reading.reasoning.as_deref().unwrap_or_default();
    if trim(reasoning) != text("reasoning_content") {
        return Some(format!("reasoning {reasoning:?}, expected {:?}", text("reasoning_content")));
    }
    if let Some(malformed) = reading.malformed.first() {
        return Some(format!("{malformed:?}"));
    }
    let message = Message::from_object(said.message.clone()).ok()?;
    if message.calls().len() != reading.calls.len() {
        return Some(format!("{} calls, expected {}", reading.calls.len(), message.calls().len()));
    }
    message.calls().zip(&reading.calls).find_map(|(call, read)| difference_of_calls(&call, read, subject.places.ids))
}

fn difference_of_calls(call: &Call<'_>, read: &ParsedCall, with_ids: bool) -> Option<String> {
    match (call, read) {
        (Call::CodeInterpreter { code, .. }, ParsedCall::Code { code: read, whole, .. }) => {
            (code != read || !whole).then(|| format!("code {read:?}, expected {code:?}"))
        }
        (
            Call::Function { id, name, arguments },
            ParsedCall::Function { id: read_id, name: read_name, arguments: read, whole },
        ) => {
            if name != read_name || !whole {
                return Some(format!("call of {read_name:?} (complete: {whole}), expected {name:?}"));
            }
            if with_ids && *id != Some(read_id.as_str()) {
                return Some(format!("id {read_id:?}, expected {id:?}"));
            }
            let wanted = match arguments {
                Arguments::Value(object) => Json::Object((*object).clone()),
                _ => Json::Object(Object::new()),
            };
            match json::parse(read) {
                Ok(value) if same_value(&value, &wanted) => None,
                _ => Some(format!("arguments {read:?} of {name:?}")),
            }
        }
        _ => Some("a call of another kind".to_owned()),
    }
}

/// Reports whether two values are equal, ignoring the order of keys and the spelling of numbers.
pub fn same_value(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => {
            one.spelling() == other.spelling() || one.as_f64().is_some() && one.as_f64() == other.as_f64()
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_value(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same_value(value, other)))
        }
        _ => one == other,
    }
}

fn shown(said: &Said) -> String {
    json::write(&Json::Object(said.message.clone()), &json::Layout::default())
}

/// Reports whether a call of a function can be told from an answer without its markers: arguments in brackets follow
/// its name, which is no word that an answer has by chance, and they are not shown as code.
fn is_distinct_call(call: &Json, text: &str) -> bool {
    let function = call.as_object().and_then(|call| call.get("function")?.as_object());
    let name = function.and_then(|function| function.get("name")?.as_str()).unwrap_or_default();
    let has_arguments =
        function.and_then(|function| function.get("arguments")?.as_object()).is_some_and(|all| !all.is_empty());
    let Some(at) = text.find(name).filter(|_| has_arguments && name.contains('_') && name.len() > 6) else {
        return false;
    };
    let behind = &text[at + name.len()..];
    let before = &text[..at];
    let is_other = before.contains("```") || before.ends_with(['#', '*', '/', '-', ':', '|']);
    !is_other && behind.find(['{', '(']).is_some_and(|open| open < 40)
}
