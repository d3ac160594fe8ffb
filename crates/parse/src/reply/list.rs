//! Arguments that follow one another, each in the layout of an argument.

use rolecall_format::codec::Spelling;
use rolecall_format::codec::kinds::Words;
use rolecall_format::{Codec, Field, Slot};

use super::program::{LayoutPiece, Layouts};
use crate::literal::Literal;
use crate::marks::Marks;

/// The layout of a list of arguments.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// The text before each argument.
    pub open: Literal,
    /// The word for the kind of the value, if it precedes the key.
    pub word: Option<KindWord>,
    /// The text between two arguments.
    pub separator: Literal,
    /// The text after all arguments, where the call continues.
    pub end: Literal,
    /// Whether that text may be missing.
    pub may_end: bool,
    /// The layouts of values.
    pub kinds: Vec<ValueLayout>,
    /// Whether one layout serves values of all types, so that only the schema tells which of them
    /// are strings.
    pub is_single: bool,
    /// Markers at a place where an argument may begin.
    pub between: Marks<Between>,
    /// The marker that ends a call and the one that opens an argument, with the line break before them: a value
    /// ends there that is never closed. They are not part of the value's end.
    pub breaks: Marks<Between>,
    /// Markers between key and value, with the index of the value's kind.
    pub middles: Marks<usize>,
    /// Whether keys are escaped as in a quoted attribute.
    pub escapes_keys: bool,
    /// Whether the arguments are those of a call in Python, where a string has Python's escapes.
    pub is_python: bool,
}

/// A marker at a place where an argument may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Open,
    Separator,
    End,
    /// The opening of another call, in a value.
    Call,
}

/// The layout of one kind of value.
#[derive(Clone, Debug)]
pub(crate) struct ValueLayout {
    /// The text after the key, without white space around it.
    pub middle: Literal,
    /// The white space before that text, if only it tells the key from the text.
    pub middle_lead: String,
    /// The word for the kind of the value, if it follows the key.
    pub word: Option<KindWord>,
    /// White space before the value that is not part of it.
    pub pad: String,
    /// The text after the value, without white space around it. If it repeats the key, this is the
    /// text before that.
    pub close: Literal,
    /// The text after the value, with white space around it, if it does not repeat the key.
    pub whole_close: Literal,
    /// What tells where the value ends.
    pub end: ValueEnd,
    /// Whether the value is a string.
    pub is_string: bool,
    pub form: ValueForm,
    /// Markers that close the value, with the white space that is not part of it, and whether they
    /// belong to it.
    pub closes: Marks<bool>,
    /// Markers that close a value in a CDATA section.
    pub cdata_closes: Marks<bool>,
}

/// How a value is written.
#[derive(Clone, Debug)]
pub(crate) enum ValueForm {
    /// As it is.
    Plain,
    /// Maybe as a CDATA section.
    Cdata,
    /// Maybe without quotes, up to the next argument or the end of all.
    Bare,
    /// Unchanged between these quotes.
    Quoted(char),
    /// As nested elements.
    Elements(Box<ElementLayout>),
}

/// What tells where a value ends.
#[derive(Clone, Debug)]
pub(crate) enum ValueEnd {
    /// The value itself, which is a literal.
    Literal,
    /// The closing marker.
    Marker,
    /// The closing marker, which the model may leave out.
    OptionalMarker,
    /// A text in which the key or the word for the kind occurs again.
    Repetition(Vec<Closing>),
    /// The next argument, or the end of all.
    Next,
}

/// The layout of nested elements.
#[derive(Clone, Debug)]
pub(crate) struct ElementLayout {
    /// The text before and after the name in an opening tag.
    pub open: Literal,
    pub open_end: Literal,
    /// The text before and after the name in a closing tag.
    pub close: Literal,
    pub close_end: Literal,
    /// The name of the items of a list.
    pub item: String,
}

/// A word for the kind of a value.
#[derive(Clone, Debug)]
pub(crate) struct KindWord {
    pub words: Words,
    /// The text after the word.
    pub after: Literal,
    /// The same as a marker.
    pub afters: Marks<()>,
}

/// A piece of the text after a value.
#[derive(Clone, Debug)]
pub(crate) enum Closing {
    Text(Literal),
    Key,
    Word,
}

/// The markers that open and close a CDATA section.
pub(crate) const CDATA: (&str, &str) = ("<![CDATA[", "]]>");

impl KindWord {
    fn new(codec: &Codec, after: &Literal) -> Option<KindWord> {
        let words = match codec {
            Codec::Kinds(words) => words.clone(),
            _ => Words::default(),
        };
        let mut afters = Marks::new();
        let after = match after.is_blank() {
            true => after.clone(),
            // White space before the text ends the word too.
            false => after.up_to(after.text().trim_end().len()),
        };
        match after.is_blank() {
            true => afters.add("", &after, ()),
            false => afters.add(after.lead(), &after.core(), ()),
        }
        (!after.is_empty()).then_some(KindWord { words, after, afters })
    }
}

impl ValueLayout {
    /// Returns the quote around the value, if there is one.
    pub fn quote(&self) -> Option<char> {
        match self.form {
            ValueForm::Quoted(quote) => Some(quote),
            _ => None,
        }
    }

    /// Reports whether the model may leave out the closing marker.
    pub fn may_omit_close(&self) -> bool {
        matches!(self.end, ValueEnd::OptionalMarker)
    }

    /// Returns the layout of a literal that needs no closing text.
    fn literal_after(middle: Literal) -> ValueLayout {
        ValueLayout {
            middle_lead: String::new(),
            middle,
            word: None,
            pad: String::new(),
            close: Literal::default(),
            whole_close: Literal::default(),
            end: ValueEnd::Literal,
            is_string: false,
            form: ValueForm::Plain,
            closes: Marks::new(),
            cdata_closes: Marks::new(),
        }
    }

    /// Returns the text that closes a value with this key and this word for its kind, if it repeats one of them.
    pub fn close_of(&self, key: &str, word: &str) -> Option<Literal> {
        let ValueEnd::Repetition(closing) = &self.end else { return None };
        let mut close = Literal::default();
        for piece in closing {
            match piece {
                Closing::Text(literal) => close.append(literal),
                Closing::Key => close.push(key, false),
                Closing::Word => close.push(word, false),
            }
        }
        Some(close)
    }

    /// Returns the markers that close a value, and those that close it in a CDATA section.
    pub fn closes_of(close: &Literal) -> (Marks<bool>, Marks<bool>) {
        let (mut closes, mut cdata_closes) = (Marks::new(), Marks::new());
        closes.add(close.lead(), &close.core(), true);
        let mut section = Literal::of(CDATA.1);
        section.append(&close.core());
        cdata_closes.add("", &section, true);
        (closes, cdata_closes)
    }
}

impl List {
    /// Reports whether the end of a value tells that its closing marker is damaged or missing.
    pub fn keeps_tail(&self, kind: &ValueLayout) -> bool {
        kind.may_omit_close() || self.is_python && kind.quote().is_some()
    }

    /// Reports whether the key is the name of a tag, which the text after the value repeats.
    pub fn has_keys_as_tags(&self) -> bool {
        let repeats_key = |end: &ValueEnd| match end {
            ValueEnd::Repetition(closing) => closing.iter().any(|piece| matches!(piece, Closing::Key)),
            _ => false,
        };
        self.kinds.iter().any(|kind| repeats_key(&kind.end))
    }
}

/// Returns the layout of arguments that `end` follows.
pub(super) fn list_of(layouts: Layouts<'_>, end: Literal) -> Option<List> {
    let mut kinds = Vec::new();
    let mut untyped = None;
    let mut first = (Literal::default(), None);
    for (slot, is_string) in [(Slot::ArgumentString, true), (Slot::Argument, false)] {
        let Some(pieces) = layouts.pieces(slot) else { continue };
        let kind;
        (first, kind) = argument(layouts, &pieces, is_string, &end)?;
        kinds.push(kind);
        // Without the word for its kind, a value is a string.
        let without = layouts.pieces_without(slot, Field::Type)?;
        if without.len() < pieces.len() {
            untyped = argument(layouts, &without, true, &end).map(|(_, kind)| kind);
        }
    }
    let (open, word) = first;
    join_equal(&mut kinds);
    if kinds.is_empty() {
        return None;
    }
    let is_single = kinds.len() == 1;
    // Keyword arguments may also be literals, even if the layout writes every value in quotes.
    if open.is_empty() && kinds.iter().all(|kind| kind.middle.text().len() > 1 && kind.middle.text().starts_with('=')) {
        kinds.push(ValueLayout::literal_after(kinds[0].middle.up_to(1)));
    }
    kinds.extend(untyped);
    let mut separator = layouts.literal(Slot::ArgumentSeparator).unwrap_or_default().core();
    if is_single && separator.is_empty() && is_delimited(layouts, &kinds[0]) {
        // The value ends by itself, so that the text after it separates it from the next one.
        separator = std::mem::take(&mut kinds[0].close);
        kinds[0].whole_close = Literal::default();
        (kinds[0].end, kinds[0].closes) = (ValueEnd::Literal, Marks::new());
    }
    let mut between = Marks::new();
    between.add("", &end.up_to(end.mark_apart([&open, &separator].into_iter())), Between::End);
    // If the marker after all arguments is missing, the next one ends them.
    let mut rest = end.clone();
    while let Some(others) = without_omitted(layouts, &rest) {
        rest = others;
        between.add("", &rest.up_to(rest.first_mark()), Between::End);
        between.add("", &call_opening(layouts), Between::End);
    }
    // The model may stop after the last argument if all text after it may be missing.
    let may_end = rest.is_empty();
    between.add_loosely("", &open, Between::Open);
    between.add_loosely("", &separator, Between::Separator);
    let mut breaks = Marks::new();
    if end.is_strong() {
        breaks.add_loosely("\n", &end.core(), Between::End);
    }
    // Elements in a value begin as an argument does.
    if open.is_strong() && !kinds.iter().any(|kind| matches!(kind.form, ValueForm::Elements(_))) {
        breaks.add_loosely("\n", &open, Between::Open);
        let call = layouts.literal(Slot::Call).unwrap_or_default().core();
        if call.is_strong() {
            breaks.add_loosely("\n", &call, Between::Call);
            between.add("", &call, Between::Call);
        }
    }
    let is_keyword = |kind: &ValueLayout| kind.middle.text().starts_with('=');
    let is_python = open.is_empty() && kinds.iter().any(is_keyword) && end.core().text().starts_with(')');
    Some(List {
        open,
        word,
        separator,
        end,
        may_end,
        is_single,
        between,
        breaks,
        middles: middles_of(&kinds),
        escapes_keys: escapes_keys(layouts),
        is_python,
        kinds,
    })
}

/// Makes one layout of those of strings and of other values if they are equal. Only the schema or the word tells then
/// which values are strings.
fn join_equal(kinds: &mut Vec<ValueLayout>) {
    if let [string, other] = &kinds[..]
        && (&string.middle, &string.close) == (&other.middle, &other.close)
    {
        let form = match (&string.form, &other.form) {
            (ValueForm::Bare | ValueForm::Cdata, _) => string.form.clone(),
            _ => other.form.clone(),
        };
        kinds.remove(0);
        kinds[0].form = form;
    }
}

/// Returns the markers between key and value.
fn middles_of(kinds: &[ValueLayout]) -> Marks<usize> {
    let mut middles = Marks::new();
    for (number, kind) in kinds.iter().enumerate() {
        middles.add_loosely(&kind.middle_lead, &kind.middle, number);
        middles.add(&kind.middle_lead, &kind.middle.without_space(), number);
    }
    middles
}

/// Reports whether keys are escaped as in a quoted attribute.
fn escapes_keys(layouts: Layouts<'_>) -> bool {
    let is_escaped = |piece: &LayoutPiece| matches!(piece, LayoutPiece::Hole(Field::Key, Codec::Attribute));
    let slots = [Slot::ArgumentString, Slot::Argument].into_iter();
    slots.filter_map(|slot| layouts.pieces(slot)).flatten().any(|piece| is_escaped(&piece))
}

/// The text before an argument, and the word for the kind of its value if that comes before the
/// key.
type First = (Literal, Option<KindWord>);

fn argument(
    layouts: Layouts<'_>,
    pieces: &[LayoutPiece],
    is_string: bool,
    end: &Literal,
) -> Option<(First, ValueLayout)> {
    let place = |wanted: Field| {
        pieces.iter().position(|piece| matches!(piece, LayoutPiece::Hole(field, _) if *field == wanted))
    };
    let (key, value) = (place(Field::Key)?, place(Field::Value)?);
    let kind = place(Field::Type).filter(|kind| *kind < value);
    let literal = |at: Option<usize>| match at.and_then(|at| pieces.get(at)) {
        Some(LayoutPiece::Literal(literal)) => literal.clone(),
        _ => Literal::default(),
    };
    let word_at = |at: usize| match &pieces[at] {
        LayoutPiece::Hole(_, codec) => KindWord::new(codec, &literal(Some(at + 1))),
        _ => None,
    };
    let word = if let Some(at) = kind { Some(word_at(at)?) } else { None };
    let is_first = kind.is_some_and(|kind| kind < key);
    let open = literal(key.min(kind.unwrap_or(key)).checked_sub(1)).core();
    let middle = if value > key + 1 { literal(Some(key + 1)) } else { Literal::default() };
    // The text before the value may be white space after the word.
    let before = literal(value.checked_sub(1).filter(|before| *before > key));
    let closing: Vec<Closing> = pieces[value + 1..].iter().filter_map(closing).collect();
    let close = match closing.first() {
        Some(Closing::Text(literal)) => literal.clone(),
        _ => Literal::default(),
    };
    let repeats = closing.len() > 1 || matches!(closing.first(), Some(Closing::Key | Closing::Word));
    let (mut closes, cdata_closes) = ValueLayout::closes_of(&close);
    // Without text of its own after it, a value ends where the next argument begins.
    let is_open_ended = close.is_empty() && !repeats && open.is_strong() && end.is_strong();
    if is_open_ended {
        closes = Marks::new();
        for next in [&open, &end.core()] {
            closes.add_loosely("", next, false);
        }
    }
    let others = instead_of(layouts, &close, &open, end);
    let value_end = end_of(repeats.then_some(closing), is_open_ended, &close, !others.is_empty());
    for other in others {
        closes.add_loosely("", &other, false);
    }
    let (first_word, word) = if is_first { (word, None) } else { (None, word) };
    // `key=value`, as in Python, but without quotes.
    let is_bare = is_string
        && word.is_none()
        && first_word.is_none()
        && open.is_empty()
        && middle.core().text() == "="
        && close.is_empty()
        && !repeats
        && matches!(&pieces[value], LayoutPiece::Hole(_, Codec::Text));
    let form = match is_bare {
        true => ValueForm::Bare,
        false => form_of(layouts, &pieces[value], quote_around(&middle.core(), &close.core())),
    };
    let layout = ValueLayout {
        pad: before.trail().to_owned(),
        middle_lead: match middle.core().text().starts_with(char::is_alphanumeric) {
            true => middle.lead().to_owned(),
            false => String::new(),
        },
        middle: middle.core(),
        word,
        close: close.core(),
        whole_close: close.clone(),
        end: value_end,
        is_string,
        form,
        closes,
        cdata_closes,
    };
    Some(((open, first_word), layout))
}

/// Returns what tells where a value ends: the text that repeats something, if there is one, the next argument, or else
/// the text after it.
fn end_of(closing: Option<Vec<Closing>>, is_open_ended: bool, close: &Literal, may_be_left_out: bool) -> ValueEnd {
    match closing {
        Some(closing) => ValueEnd::Repetition(closing),
        None if is_open_ended => ValueEnd::Next,
        None if close.core().is_empty() => ValueEnd::Literal,
        None if may_be_left_out => ValueEnd::OptionalMarker,
        None => ValueEnd::Marker,
    }
}

/// Returns how a value is written that is not bare.
fn form_of(layouts: Layouts<'_>, piece: &LayoutPiece, quote: Option<char>) -> ValueForm {
    match (piece, quote) {
        (LayoutPiece::Hole(_, codec), _) if is_cdata(codec) => ValueForm::Cdata,
        (_, Some(quote)) => ValueForm::Quoted(quote),
        (piece, None) => elements_of(layouts, piece).map_or(ValueForm::Plain, |own| ValueForm::Elements(Box::new(own))),
    }
}

/// Reports whether every value is JSON and the text after it is a sign such as `;`, which JSON may
/// contain.
fn is_delimited(layouts: Layouts<'_>, kind: &ValueLayout) -> bool {
    let pieces = layouts.pieces(Slot::Argument).unwrap_or_default();
    let is_json = |piece: &LayoutPiece| {
        let LayoutPiece::Hole(Field::Value, codec) = piece else { return false };
        codec.value_syntax().is_some_and(|syntax| matches!(syntax.spelling(), Spelling::Json(_)))
    };
    layouts.pieces(Slot::ArgumentString).is_none()
        && !matches!(kind.end, ValueEnd::Repetition(_))
        && kind.quote().is_none()
        && !kind.close.is_blank()
        && !kind.close.is_strong()
        && pieces.iter().any(is_json)
}

/// Returns the quote that text before a value ends with and text after it begins with.
fn quote_around(before: &Literal, behind: &Literal) -> Option<char> {
    let quote = before.text().chars().next_back().filter(|quote| matches!(quote, '"' | '\''))?;
    behind.text().starts_with(quote).then_some(quote)
}

/// Returns a literal without the marker at its start, if models may leave that out.
fn without_omitted(layouts: Layouts<'_>, literal: &Literal) -> Option<Literal> {
    literal.without_omitted(&layouts.format.habits.may_omit)
}

/// Returns the first marker of a call's layout.
fn call_opening(layouts: Layouts<'_>) -> Literal {
    let literal = layouts.literal(Slot::Call).unwrap_or_default().core();
    literal.up_to(literal.first_mark())
}

/// Returns the texts that end a value if its closing marker is missing: the opening of the next
/// argument, and the end of all arguments. A value may contain either, so the white space before
/// them and the text after them must be those of the layout.
fn instead_of(layouts: Layouts<'_>, close: &Literal, open: &Literal, end: &Literal) -> Vec<Literal> {
    if without_omitted(layouts, &close.core()).is_none() {
        return Vec::new();
    }
    let mut texts = vec![open.core(), end.core()];
    texts.extend(without_omitted(layouts, end));
    let lead = Literal::of(close.lead());
    let with_lead = |text: &Literal| {
        let mut whole = lead.clone();
        whole.append(text);
        whole
    };
    let mut all: Vec<Literal> = texts.iter().filter(|text| !text.is_empty()).map(with_lead).collect();
    // Several markers in a row end a value that is on the line of its key.
    let end = end.core();
    if end.first_mark() < end.text().len() {
        all.push(end);
    }
    all
}

fn closing(piece: &LayoutPiece) -> Option<Closing> {
    match piece {
        LayoutPiece::Literal(literal) => Some(Closing::Text(literal.clone())),
        LayoutPiece::Hole(Field::Key, _) => Some(Closing::Key),
        LayoutPiece::Hole(Field::Type, _) => Some(Closing::Word),
        LayoutPiece::Hole(..) => None,
    }
}

fn elements_of(layouts: Layouts<'_>, piece: &LayoutPiece) -> Option<ElementLayout> {
    let LayoutPiece::Hole(_, codec) = piece else { return None };
    let Spelling::Elements(elements) = codec.value_syntax()?.spelling() else { return None };
    let literal = |text: &str| layouts.literal_of(text);
    Some(ElementLayout {
        open: literal(&elements.open.0),
        open_end: literal(&elements.open.1),
        close: literal(&elements.close.0),
        close_end: literal(&elements.close.1),
        item: elements.item.clone(),
    })
}

fn is_cdata(codec: &Codec) -> bool {
    codec.value_syntax().is_some_and(|syntax| syntax.spelling() == Spelling::Cdata)
}
