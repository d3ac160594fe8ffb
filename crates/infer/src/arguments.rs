//! Inference of how a template writes the arguments of a call.

use std::ops::Range;

use rolecall_conversation::json::{self, Object};
use rolecall_conversation::{Json, object};
use rolecall_format::codec::kinds::Words;
use rolecall_format::codec::{JsonStyle, MarkedSyntax};
use rolecall_format::{Codec, Field};

use crate::probe::{Probe, ProbeTurn, Stage};
use crate::repetition::{Row, take_apart};
use crate::said::{KEYS, NAMES, ProbeCall, ProbeMessage, plain_value};
use crate::sequence::{Item, items, items_with_key, literal, text_with_key};
use crate::typed::{Kinds, fit_typed};
use crate::value::{elements, json_styles, nested, object_around, print, print_arguments, same};

/// The arguments of a call, as a layout describes them.
#[derive(Clone, Debug)]
pub(crate) enum Arguments {
    /// All arguments as one value.
    Whole {
        codec: Codec,
        /// Whether the codec prints exactly what the template prints. If not, any JSON with the
        /// same value is accepted.
        is_exact: bool,
        /// The kinds of values that the template prints differently.
        inexact: Vec<&'static str>,
    },
    /// Arguments written one by one.
    Each(Box<Each>),
}

/// Arguments written one by one.
#[derive(Clone, Debug)]
pub(crate) struct Each {
    /// The text around the arguments. `open` begins after the name, and `close` extends to the
    /// turn's end.
    pub row: Row,
    /// The text between key and value, if the value is a string.
    pub middle: Vec<Item>,
    pub string: Codec,
    /// The text between key and value, the text after the value, and the codec, if the value is not
    /// a string. `None` if no codec prints all such values.
    pub other: Option<(Vec<Item>, Vec<Item>, Codec)>,
    /// The kinds of values that no codec prints as the template does, or whose surrounding text
    /// differs.
    pub inexact: Vec<&'static str>,
    /// The words for the kinds of values, which fill the holes in the text around keys and values.
    pub words: Option<Words>,
    /// The number of bytes before the first key and after the last value that belong to the
    /// arguments, without the keys that the text after a value repeats.
    pub margins: (usize, usize),
    /// How often the text after a value repeats the key.
    pub repeats: usize,
    /// Whether the template sorts the keys.
    pub is_sorted: bool,
}

/// Returns one value of each kind except strings.
pub(crate) fn kinds() -> [(&'static str, Json); 6] {
    let read = |text: &str| json::parse(text).unwrap_or(Json::Null);
    [
        ("integers", read("52417")),
        ("fractions", read("81.75")),
        ("booleans", read("true")),
        ("null", Json::Null),
        ("lists", read(r#"["Drelk", 61, false]"#)),
        ("objects", nested()),
    ]
}

/// Strings that reveal whether anything is escaped.
pub(crate) const HARD_STRINGS: [&str; 3] = ["Frizu \"gano\" \\ 'x'", "Frizu\nmeb\ttol", "Frizu é < & > </a> 日"];

/// Returns three arguments that are plain strings.
fn plain_arguments() -> Object {
    object! { KEYS[0] => plain_value(0), KEYS[1] => plain_value(1), KEYS[2] => plain_value(2) }
}

pub(crate) fn find(probe: &Probe<'_>, stage: &Stage, content: Option<&str>) -> Option<Arguments> {
    let turn_of = |arguments: Object| {
        let said = ProbeMessage { content: content.map(str::to_owned), ..ProbeMessage::default() };
        probe.turn(&said.calling(vec![ProbeCall { name: NAMES[0], arguments }]), stage).ok()
    };
    let plain = plain_arguments();
    let plain_turn = turn_of(plain.clone())?;
    let mut telling: Vec<(Object, ProbeTurn)> = vec![(plain.clone(), plain_turn)];
    let mut mixed = plain.clone();
    for (at, (_, value)) in kinds().into_iter().enumerate() {
        mixed.insert(format!("zub{at}"), value);
    }
    let hard =
        |at: usize| object! { KEYS[0] => plain_value(0), KEYS[1] => HARD_STRINGS[at], KEYS[2] => plain_value(2) };
    for arguments in [mixed, hard(0), hard(1), hard(2)] {
        // If a template fails here, the other conversations are enough.
        if let Some(turn) = turn_of(arguments.clone()) {
            telling.push((arguments, turn));
        }
    }
    let plain_turn = &telling[0].1;
    let mut codecs: Vec<Codec> = vec![Codec::Json(JsonStyle::PLAIN), Codec::Python, Codec::JsonString];
    codecs.extend(mark_around(plain_turn).map(|marker| Codec::Marked(MarkedSyntax::new(marker))));
    codecs.extend(json_styles(plain_turn.text.contains('\n')).into_iter().skip(1).map(Codec::Json));
    for codec in codecs {
        let prints = |(arguments, turn): &(Object, ProbeTurn)| place_of(&codec, true, arguments, turn).is_some();
        if telling.iter().all(prints) {
            return Some(Arguments::Whole { codec, is_exact: true, inexact: Vec::new() });
        }
        // The codec prints everything except some kinds of values.
        if telling.len() > 2 && telling.iter().enumerate().all(|(at, telling)| at == 1 || prints(telling)) {
            let inexact: Vec<&'static str> = kinds()
                .into_iter()
                .filter(|(_, value)| {
                    let arguments = object! { KEYS[0] => plain_value(0), KEYS[1] => value.clone() };
                    turn_of(arguments.clone()).is_none_or(|turn| place_of(&codec, true, &arguments, &turn).is_none())
                })
                .map(|(kind, _)| kind)
                .collect();
            if inexact.len() < kinds().len() {
                return Some(Arguments::Whole { codec, is_exact: true, inexact });
            }
        }
    }
    let lenient = Codec::Json(JsonStyle::PLAIN);
    if telling.iter().all(|(arguments, turn)| place_of(&lenient, false, arguments, turn).is_some()) {
        return Some(Arguments::Whole { codec: lenient, is_exact: false, inexact: Vec::new() });
    }
    let each = each(probe, plain_turn, &turn_of);
    each.map(|each| Arguments::Each(Box::new(each)))
}

impl Arguments {
    /// Returns the position in a turn of a call's arguments, which are plain strings.
    pub fn place(&self, arguments: &Object, turn: &ProbeTurn) -> Option<Range<usize>> {
        match self {
            Arguments::Whole { codec, is_exact, .. } => place_of(codec, *is_exact, arguments, turn),
            Arguments::Each(each) => {
                let spots = spots(arguments, turn)?;
                let (first, last) = (spots.first()?, spots.last()?);
                let start = first.0.start.checked_sub(each.margins.0)?;
                let end = last.1.end + each.margins.1 + each.repeats * last.0.len();
                (end <= turn.text.len()).then_some(start..end)
            }
        }
    }
}

/// Returns the position of all arguments as a codec prints them.
fn place_of(codec: &Codec, is_exact: bool, arguments: &Object, turn: &ProbeTurn) -> Option<Range<usize>> {
    if is_exact {
        let printed = print_arguments(codec, arguments)?;
        return turn.places(&printed).into_iter().next();
    }
    let (first, _) = arguments.iter().next()?;
    let keys = turn.text.match_indices(first).map(|(at, _)| at);
    let mut found = keys.filter_map(|at| object_around(&turn.text, at));
    let (range, read) = found.next()?;
    let is_same = same(&Json::Object(read), &Json::Object(arguments.clone()));
    (is_same && !turn.is_own(&range)).then_some(range)
}

/// Returns the marker on both sides of a string after a bare key and a colon.
fn mark_around(turn: &ProbeTurn) -> Option<String> {
    let key = turn.places(KEYS[0]).into_iter().next()?;
    let value = turn.places(plain_value(0).as_str()?).into_iter().next()?;
    let mark = turn.text.get(key.end..value.start)?.strip_prefix(':')?;
    let behind = turn.text.get(value.end..)?;
    (!mark.is_empty() && behind.starts_with(mark)).then(|| mark.to_owned())
}

/// Returns the positions of each key and its value, in the order of the text.
fn spots(arguments: &Object, turn: &ProbeTurn) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut spots = Vec::new();
    for (key, value) in arguments.iter() {
        let value = turn.places(value.as_str()?).into_iter().next()?;
        let key = turn.places(key).into_iter().rfind(|place| place.end <= value.start)?;
        spots.push((key, value));
    }
    spots.sort_by_key(|(key, _)| key.start);
    let in_order = spots.windows(2).all(|pair| pair[0].1.end <= pair[1].0.start);
    in_order.then_some(spots)
}

/// Returns how a template writes arguments one by one, or `None` if it does not.
fn each(probe: &Probe<'_>, plain: &ProbeTurn, turn_of: &impl Fn(Object) -> Option<ProbeTurn>) -> Option<Each> {
    let spots = spots(&plain_arguments(), plain)?;
    let (middle, joint) = between_each(&spots, plain)?;
    let row = row_of(probe, plain, &spots, &joint, turn_of)?;
    let first_key = plain.text.get(spots[0].0.clone())?;
    let mut found = Each {
        is_sorted: first_key != KEYS[0],
        margins: (literal(&row.prefix).len(), literal(&row.suffix).len()),
        repeats: row.suffix.iter().filter(|item| **item == Item::Hole(Field::Key)).count(),
        words: None,
        middle: items(middle),
        string: Codec::Text,
        other: None,
        inexact: Vec::new(),
        row,
    };
    // The text between one argument's value and the next one's key, starting with the separator.
    let tail = [found.row.separator.as_slice(), found.row.prefix.as_slice()].concat();
    let tail = literal(&tail);
    let strings = HARD_STRINGS.map(|text| Some(written(Json::from(text), &tail, turn_of)?.1));
    found.fit_strings(&strings);
    let others = kinds().map(|(kind, value)| (kind, value.clone(), written(value, &tail, turn_of)));
    found.fit_others(&others.clone().map(|(kind, value, text)| (kind, value, text.map(|(_, text)| text))));
    let seen = others.into_iter().filter_map(|(kind, value, text)| {
        let (before, text) = text?;
        Some((kind, value, (before?, text)))
    });
    let seen = seen.collect::<Vec<Kinds>>();
    let differs = seen.windows(2).any(|pair| pair[0].2.0 != pair[1].2.0);
    if differs || !found.inexact.is_empty() {
        fit_typed(&mut found, &seen);
    }
    if found.is_sorted {
        found.inexact.push("keys, which are sorted alphabetically");
    }
    Some(found)
}

/// Returns the text between a key and its value, and between a value and the next key, if they are
/// the same for all arguments.
fn between_each<'a>(spots: &[(Range<usize>, Range<usize>)], turn: &'a ProbeTurn) -> Option<(&'a str, Vec<Item>)> {
    let between = |from: usize, to: usize| turn.text.get(from..to);
    let middle = between(spots[0].0.end, spots[0].1.start)?;
    let joint = |pair: &[(Range<usize>, Range<usize>)]| {
        let key = turn.text.get(pair[0].0.clone())?;
        Some(items_with_key(between(pair[0].1.end, pair[1].0.start)?, key))
    };
    let joints = spots.windows(2).map(joint).collect::<Option<Vec<_>>>()?;
    let alike = joints.windows(2).all(|pair| pair[0] == pair[1])
        && spots.iter().all(|(key, value)| between(key.end, value.start) == Some(middle));
    alike.then_some((middle, joints.into_iter().next()?))
}

/// Returns the text around the arguments, which starts at the end of the name or the id, whichever
/// is closer.
fn row_of(
    probe: &Probe<'_>,
    plain: &ProbeTurn,
    spots: &[(Range<usize>, Range<usize>)],
    joint: &[Item],
    turn_of: &impl Fn(Object) -> Option<ProbeTurn>,
) -> Option<Row> {
    let id = probe.id(0, NAMES[0]);
    let named_before = |turn: &ProbeTurn, limit: usize| {
        let names = [NAMES[0], id.as_str()].into_iter().flat_map(|text| turn.places(text));
        names.map(|place| place.end).filter(|end| *end <= limit).max()
    };
    let first = spots[0].0.start;
    let before = plain.text.get(named_before(plain, first).unwrap_or(0)..first)?;
    let (last_key, last_value) = spots.last()?;
    let after = items_with_key(plain.text.get(last_value.end..)?, plain.text.get(last_key.clone())?);
    let empty = turn_of(Object::new()).and_then(|turn| {
        let named = named_before(&turn, turn.text.len())?;
        turn.text.get(named..).map(items)
    });
    Some(take_apart(&items(before), joint, &after, empty.as_deref()))
}

/// The text before the second key, and the text after it.
type TextsAround = (Option<String>, String);

/// Returns the text between the first value and the second key, if the template writes them in this
/// order, and the text between that key and the end of its argument, if the argument has this
/// value. `tail` is the text between an argument and the next key.
fn written(value: Json, tail: &str, turn_of: &impl Fn(Object) -> Option<ProbeTurn>) -> Option<TextsAround> {
    let turn = turn_of(object! { KEYS[0] => plain_value(0), KEYS[1] => value, KEYS[2] => plain_value(2) })?;
    let key = turn.places(KEYS[1]).into_iter().next()?;
    let first = turn.places(plain_value(0).as_str()?).into_iter().next();
    let before = first.and_then(|first| turn.text.get(first.end..key.start)).map(str::to_owned);
    let ends = turn.places(KEYS[2]).into_iter().filter_map(|next| {
        let end = next.start.checked_sub(tail.len()).filter(|end| *end >= key.end)?;
        (turn.text.get(end..next.start) == Some(tail)).then_some(end)
    });
    let end = ends.into_iter().next()?;
    Some((before, turn.text.get(key.end..end)?.to_owned()))
}

impl Each {
    /// Chooses the codec for strings: unchanged, in CDATA, or quoted as in JSON or Python. `seen`
    /// contains what the template writes for each of [`HARD_STRINGS`].
    fn fit_strings(&mut self, seen: &[Option<String>]) {
        let (before, after) = (literal(&self.middle), text_with_key(&self.row.suffix, KEYS[1]));
        let prints = |codec: &Codec, before: &str, after: &str| {
            seen.iter().zip(HARD_STRINGS).all(|(seen, text)| match (seen, print(codec, &Json::from(text))) {
                (Some(seen), Some(printed)) => *seen == format!("{before}{printed}{after}"),
                _ => false,
            })
        };
        let json = Codec::Json(JsonStyle::PLAIN);
        if prints(&Codec::Text, &before, &after) {
            self.string = Codec::Text;
        } else if prints(&Codec::Cdata, &before, &after) {
            self.string = Codec::Cdata;
        } else if let Some((open, close)) = unquoted_by(&before, &after, "\"")
            && prints(&json, open, close)
        {
            self.quote(json, open, close);
        } else if let Some((open, close)) = unquoted_by(&before, &after, "'")
            && prints(&Codec::Python, open, close)
        {
            self.quote(Codec::Python, open, close);
        } else {
            self.inexact.push("strings with quotes, line breaks or markers");
            // Quoted and escaped by a rule that is not Python's, but parsed as Python's.
            let is_python = |quote: &str| {
                unquoted_by(&before, &after, quote).filter(|(open, close)| {
                    let escapes =
                        seen.iter().flatten().any(|seen| seen.contains('\\') && seen.contains(&format!("\\{quote}")));
                    escapes && seen.iter().flatten().all(|seen| seen.starts_with(open) && seen.ends_with(close))
                })
            };
            if let Some((open, close)) = is_python("'").or_else(|| is_python("\"")) {
                self.quote(Codec::Python, open, close);
            }
        }
    }

    /// Sets a codec for strings that prints their quotes, and the text around them.
    fn quote(&mut self, codec: Codec, open: &str, close: &str) {
        self.string = codec;
        self.middle = items(open);
        self.row.suffix = items_with_key(close, KEYS[1]);
    }

    /// Chooses the codec for values that are not strings, and lists the kinds that it does not
    /// print as the template does.
    fn fit_others(&mut self, seen: &[ValueExample]) {
        let (before, after) = (literal(&self.middle), text_with_key(&self.row.suffix, KEYS[1]));
        let nested = seen.iter().find(|(kind, ..)| *kind == "objects").and_then(|(_, _, text)| {
            // A list or an object may lack the white space around other values.
            let text = text.as_ref()?;
            let inside = text.strip_prefix(&*before).or(text.strip_prefix(before.trim_end()))?;
            let inside = inside.strip_suffix(&*after).or(inside.strip_suffix(after.trim_start()))?;
            Some(elements(inside))
        });
        let Some((before, after, codec)) = best_codec(seen, nested.unwrap_or_default()) else {
            self.inexact.extend(seen.iter().map(|(kind, ..)| *kind));
            return;
        };
        for (kind, value, text) in seen {
            let printed = print(&codec, value).map(|printed| format!("{before}{printed}{after}"));
            if *text != printed {
                self.inexact.push(kind);
            }
        }
        self.other = Some((items(&before), items_with_key(&after, KEYS[1]), codec));
    }
}

/// A kind of value, a value of this kind, and what the template writes for it.
type ValueExample = (&'static str, Json, Option<String>);

/// Returns the codec that prints the most values with the same text around them, and that text. If
/// several are equally good, the first is taken.
fn best_codec(seen: &[ValueExample], mut codecs: Vec<Codec>) -> Option<(String, String, Codec)> {
    let mut best: Option<(usize, (String, String, Codec))> = None;
    codecs.extend(value_codecs());
    for codec in codecs {
        let mut surroundings: Vec<((String, String), usize)> = Vec::new();
        for (_, value, text) in seen {
            let (Some(text), Some(printed)) = (text, print(&codec, value)) else { continue };
            let Some(at) = text.find(&printed) else { continue };
            let around = (text[..at].to_owned(), text[at + printed.len()..].to_owned());
            match surroundings.iter_mut().find(|(known, _)| *known == around) {
                Some((_, count)) => *count += 1,
                None => surroundings.push((around, 1)),
            }
        }
        let most = surroundings.into_iter().max_by_key(|(_, count)| *count);
        if let Some(((before, after), count)) = most
            && best.as_ref().is_none_or(|(known, _)| count > *known)
        {
            best = Some((count, (before, after, codec)));
        }
    }
    best.map(|(_, best)| best)
}

/// Returns the codecs for values that are not strings.
pub(crate) fn value_codecs() -> Vec<Codec> {
    let mut codecs = vec![Codec::Json(JsonStyle::PLAIN), Codec::Mixed, Codec::Literal];
    codecs.extend(json_styles(false).into_iter().skip(1).map(Codec::Json));
    codecs
}

/// Returns the text around a value, without the quotes next to it.
fn unquoted_by<'a>(before: &'a str, behind: &'a str, quote: &str) -> Option<(&'a str, &'a str)> {
    before.strip_suffix(quote).zip(behind.strip_prefix(quote))
}

impl Arguments {
    /// Returns the kinds of values that the template prints differently from the layout.
    pub fn inexact(&self) -> &[&'static str] {
        match self {
            Arguments::Whole { inexact, .. } => inexact,
            Arguments::Each(each) => &each.inexact,
        }
    }
}

/// Returns the items of one argument.
pub(crate) fn argument(prefix: &[Item], middle: &[Item], suffix: &[Item]) -> Vec<Item> {
    let holes = [Item::Hole(Field::Key), Item::Hole(Field::Value)];
    [prefix, &holes[..1], middle, &holes[1..], suffix].concat()
}
