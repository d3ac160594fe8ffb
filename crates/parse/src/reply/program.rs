//! A call's layout as a list of items to parse in order.

use std::sync::Arc;

use rolecall_conversation::{Json, json};
use rolecall_format::codec::Spelling;
use rolecall_format::{Codec, Field, Format, Op, Slot};

use super::constant::{Constant, INDEX};
use super::list::{List, list_of};
use crate::literal::Literal;
use crate::marks::Marks;

/// The items of a call, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub items: Vec<Item>,
    pub opening: CallOpening,
    /// Whether the text before the call opens a list of calls, which has an end of its own.
    pub opens_list: bool,
    /// The number of items that form a header like an answer's. If no call follows the header, an
    /// answer does.
    pub header: Option<usize>,
}

/// What tells a call from ordinary text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallOpening {
    /// A marker.
    #[default]
    Marker,
    /// Text with which ordinary text often begins, too. If it is no call, nothing is reported.
    Weak,
    /// Nothing but a tool's name.
    Bare,
    /// A weak marker in the middle of an answer. The call needs an object, and the name of a tool if there are tools.
    InText,
}

impl Program {
    /// Reports whether the call has no marker, so that only a tool's name distinguishes it from an answer.
    pub fn is_bare(&self) -> bool {
        self.opening == CallOpening::Bare
    }

    /// Reports whether the call is an object without a marker.
    pub fn is_bare_object(&self) -> bool {
        self.is_bare() && matches!(self.items.first(), Some(Item::Object(_)))
    }

    /// Reports whether the call's arguments are a JSON object.
    pub fn has_object(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Object(_) | Item::Arguments(Syntax::Json)))
    }

    /// Reports whether the items before this one tell the call from ordinary text, although its
    /// marker does not: words of the layout follow the name on another line.
    pub fn is_told(&self, item: usize) -> bool {
        let read = self.items.iter().take(item);
        let mut behind = read.skip_while(|item| !matches!(item, Item::Name(_)));
        let is_line = |text: &str| text.contains('\n') && text.contains(char::is_alphabetic);
        behind.any(|item| matches!(item, Item::Literal(literal) if is_line(literal.text())))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Text of the format. White space in it and around it may differ.
    Literal(Literal),
    /// The function's name. It ends at this byte at the latest.
    Name(Option<u8>),
    /// The call's id. It ends at this byte at the latest.
    Id(Option<u8>),
    /// The call's index.
    Index,
    /// A JSON object that holds the name and the arguments.
    Object(Arc<Keys>),
    /// The arguments.
    Arguments(Syntax),
    /// Optional white space that belongs to no value.
    Pad(String),
    /// Optional text of the format.
    Fence(Literal),
    /// Text that begins an optional group. Without it, this many of the next items are skipped.
    Group(Literal, usize),
    /// Code, up to one of these markers.
    Code(Marks<()>),
    /// Code, up to one of these markers, which are not part of the call.
    Body(Marks<()>),
    /// No arguments, if one of these markers is here. Otherwise an object must begin.
    NoArguments(Marks<()>),
}

/// The keys of an object that holds a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keys {
    pub name: String,
    pub arguments: String,
    pub id: Option<String>,
    /// Keys whose values are objects that hold some of the keys above.
    pub wrappers: Vec<String>,
    /// Keys of the layout whose values are always the same.
    pub constants: Vec<Constant>,
    /// Whether the object has a single key, which is the name, and the arguments as its value.
    pub name_is_key: bool,
    /// Whether the opening brace was already read as a marker.
    pub is_open: bool,
}

/// The syntax of arguments.
#[derive(Clone, Debug)]
pub(crate) enum Syntax {
    /// JSON, or a JSON string that holds JSON.
    Json,
    /// Python keyword arguments.
    Python,
    /// Bare keys, and strings between markers.
    Marked(String),
    /// One argument after another, each in the layout of an argument.
    List(Box<List>),
}

impl Syntax {
    /// Returns the syntax of all arguments that a codec prints.
    fn of(codec: &Codec) -> Syntax {
        match codec.value_syntax().map(|syntax| syntax.spelling()) {
            Some(Spelling::Python) => Syntax::Python,
            Some(Spelling::Marked(marker)) => Syntax::Marked(marker.to_owned()),
            None
            | Some(
                Spelling::Json(_) | Spelling::JsonString | Spelling::Text(_) | Spelling::Cdata | Spelling::Elements(_),
            ) => Syntax::Json,
        }
    }
}

/// A piece of a layout, literal text or a hole. Groups are flattened.
#[derive(Clone, Debug)]
pub(crate) enum LayoutPiece {
    Literal(Literal),
    Hole(Field, Codec),
}

/// A format's layouts, and the tokenizer's added tokens. Text that spells one of them is that
/// token.
#[derive(Clone, Copy)]
pub(crate) struct Layouts<'a> {
    pub format: &'a Format,
    pub tokens: &'a [String],
}

impl Layouts<'_> {
    /// Returns the pieces of a slot's layout, with groups flattened and adjacent literals joined.
    pub fn pieces(self, slot: Slot) -> Option<Vec<LayoutPiece>> {
        let mut pieces = Vec::new();
        self.collect(self.format.layout(slot)?.ops(), &mut pieces);
        for piece in &mut pieces {
            if let LayoutPiece::Literal(literal) = piece {
                literal.mark_tokens(self.tokens);
            }
        }
        Some(pieces)
    }

    /// Returns a literal text of the format, with the control tokens in it flagged.
    pub fn literal_of(self, text: &str) -> Literal {
        let mut literal = Literal::of(text);
        let controls: Vec<String> = self.format.controls.iter().map(|control| control.text.clone()).collect();
        literal.mark_tokens(&controls);
        literal.mark_tokens(self.tokens);
        literal
    }

    /// Returns the pieces of a slot's layout without the groups that contain this field.
    pub fn pieces_without(self, slot: Slot, field: Field) -> Option<Vec<LayoutPiece>> {
        let has = |op: &Op| matches!(op, Op::Group(inner) if inner.iter().any(|op| matches!(op, Op::Hole { field: found, .. } if *found == field)));
        let ops: Vec<Op> = self.format.layout(slot)?.ops().iter().filter(|op| !has(op)).cloned().collect();
        let mut pieces = Vec::new();
        self.collect(&ops, &mut pieces);
        for piece in &mut pieces {
            if let LayoutPiece::Literal(literal) = piece {
                literal.mark_tokens(self.tokens);
            }
        }
        Some(pieces)
    }

    /// Returns the pieces of a slot's layout, each with the number of its group.
    fn grouped(self, slot: Slot) -> Option<Vec<(LayoutPiece, Option<usize>)>> {
        let mut grouped = Vec::new();
        for (number, ops) in
            self.format.layout(slot)?.ops().chunk_by(|one, other| !is_group(one) && !is_group(other)).enumerate()
        {
            let mut pieces = Vec::new();
            self.collect(ops, &mut pieces);
            let group = ops.first().is_some_and(is_group).then_some(number);
            for mut piece in pieces {
                if let LayoutPiece::Literal(literal) = &mut piece {
                    literal.mark_tokens(self.tokens);
                }
                grouped.push((piece, group));
            }
        }
        Some(grouped)
    }

    /// Returns the literal text that a slot's layout begins with.
    pub fn literal(self, slot: Slot) -> Option<Literal> {
        match self.pieces(slot)?.into_iter().next()? {
            LayoutPiece::Literal(literal) => Some(literal),
            LayoutPiece::Hole(..) => None,
        }
    }

    fn collect(self, ops: &[Op], pieces: &mut Vec<LayoutPiece>) {
        for op in ops {
            let (text, is_control) = match op {
                Op::Literal(text) => (text.as_str(), false),
                Op::Control(id) => (self.format.control(*id).text.as_str(), true),
                Op::Hole { codec: Codec::Present, .. } | Op::Seam | Op::Own(_) => continue,
                Op::Hole { field, codec, .. } => {
                    pieces.push(LayoutPiece::Hole(*field, codec.clone()));
                    continue;
                }
                Op::Group(inner) => {
                    self.collect(inner, pieces);
                    continue;
                }
            };
            match pieces.last_mut() {
                Some(LayoutPiece::Literal(literal)) => literal.push(text, is_control),
                _ => {
                    let mut literal = Literal::default();
                    literal.push(text, is_control);
                    pieces.push(LayoutPiece::Literal(literal));
                }
            }
        }
    }
}

fn is_group(op: &Op) -> bool {
    matches!(op, Op::Group(_))
}

/// Returns the items of a call's layout, or `None` if no call can be parsed from it.
pub(crate) fn call_items(layouts: Layouts<'_>) -> Option<Vec<Item>> {
    let mut pieces = layouts.pieces(Slot::Call)?;
    // In a JSON object, a group is a key, which may be missing anyway.
    let is_object = (0..pieces.len())
        .any(|at| matches!(&pieces[at], LayoutPiece::Literal(literal) if object_in(literal, &pieces[at..]).is_some()));
    let mut groups = vec![None; pieces.len()];
    if !is_object {
        (pieces, groups) = layouts.grouped(Slot::Call)?.into_iter().unzip();
    }
    let mut items = Vec::new();
    let mut at = 0;
    // The item that begins the current group.
    let mut group: Option<(usize, usize)> = None;
    while at < pieces.len() {
        if group.map(|(number, _)| number) != groups[at] {
            close_group(group.take(), &mut items);
            if let (Some(number), LayoutPiece::Literal(literal)) = (groups[at], &pieces[at])
                && !literal.is_blank()
            {
                group = Some((number, items.len()));
                items.push(Item::Group(literal.clone(), 0));
                at += 1;
                continue;
            }
        }
        if let LayoutPiece::Literal(literal) = &pieces[at]
            && let Some((before, keys, behind, used)) = object_in(literal, &pieces[at..])
        {
            push_item(&mut items, before);
            items.push(Item::Object(Arc::new(keys)));
            push_item(&mut items, behind);
            at += used;
            continue;
        }
        match &pieces[at] {
            LayoutPiece::Literal(literal) => push_item(&mut items, literal.clone()),
            LayoutPiece::Hole(field, codec) => {
                let next = pieces[at + 1..].iter().find_map(|piece| match piece {
                    LayoutPiece::Literal(literal) => first_byte(literal),
                    LayoutPiece::Hole(..) => None,
                });
                match (field, codec) {
                    (Field::Name, _) => items.push(Item::Name(next)),
                    (Field::Id, _) => items.push(Item::Id(next)),
                    (Field::Index, _) => items.push(Item::Index),
                    (Field::Call, Codec::Call(keys)) => items.push(Item::Object(Arc::new(Keys {
                        name: keys.name().to_owned(),
                        arguments: keys.arguments().to_owned(),
                        ..Keys::default()
                    }))),
                    (Field::Arguments, Codec::Text) => {
                        let end = match pieces.get(at + 1) {
                            Some(LayoutPiece::Literal(literal)) => literal.core(),
                            _ => Literal::default(),
                        };
                        items.push(Item::Arguments(Syntax::List(Box::new(list_of(layouts, end)?))));
                    }
                    (Field::Arguments, codec) => items.push(Item::Arguments(Syntax::of(codec))),
                    _ => {}
                }
            }
        }
        at += 1;
    }
    close_group(group, &mut items);
    let is_call = items.iter().any(|item| matches!(item, Item::Name(_) | Item::Id(_) | Item::Object(_)));
    is_call.then_some(items)
}

/// Records how many items a group has. Arguments are never optional.
fn close_group(group: Option<(usize, usize)>, items: &mut [Item]) {
    let Some((_, start)) = group else { return };
    let count = items.len() - start - 1;
    let has_arguments = items[start..].iter().any(|item| matches!(item, Item::Arguments(_) | Item::Object(_)));
    if let Item::Group(literal, length) = &mut items[start] {
        match has_arguments {
            true => items[start] = Item::Literal(std::mem::take(literal)),
            false => *length = count,
        }
    }
}

/// Returns the byte that ends a word before a literal. White space ends it if the literal goes on
/// with a letter, which the word may contain.
fn first_byte(literal: &Literal) -> Option<u8> {
    let core = literal.core();
    match core.text().starts_with(char::is_alphanumeric) && !literal.lead().is_empty() {
        true => literal.byte(0).map(|(byte, _)| byte),
        false => core.byte(0).map(|(byte, _)| byte),
    }
}

/// Returns the items of the code interpreter's layout.
pub(crate) fn code_items(layouts: Layouts<'_>) -> Option<Vec<Item>> {
    let pieces = layouts.pieces(Slot::CallInterpreter)?;
    let at = pieces.iter().position(|piece| matches!(piece, LayoutPiece::Hole(Field::Code, _)))?;
    let mut items = Vec::new();
    if let Some(LayoutPiece::Literal(literal)) = at.checked_sub(1).and_then(|before| pieces.get(before)) {
        let fence = literal.text().find("```").unwrap_or(literal.text().len());
        push_item(&mut items, literal.up_to(fence));
        if fence < literal.text().len() {
            items.push(Item::Fence(literal.from(fence).core()));
        }
        items.push(Item::Pad(literal.trail().to_owned()));
    }
    let close = match pieces.get(at + 1) {
        Some(LayoutPiece::Literal(literal)) => literal.clone(),
        _ => Literal::default(),
    };
    // The fence around the code may be missing if a marker follows it.
    let core = close.core();
    let mut closes = Marks::new();
    closes.add(close.lead(), &core, ());
    if let Some(rest) = core.text().strip_prefix("```")
        && !rest.trim().is_empty()
    {
        closes.add("", &core.from("```".len()).core(), ());
    }
    items.push(Item::Code(closes));
    Some(items)
}

fn push_item(items: &mut Vec<Item>, literal: Literal) {
    if !literal.is_blank() {
        items.push(Item::Literal(literal));
    }
}

/// Finds a JSON object that literal text and holes form together. Returns the text before it, its
/// keys, the text after it, and the number of pieces that it spans.
fn object_in(first: &Literal, pieces: &[LayoutPiece]) -> Option<(Literal, Keys, Literal, usize)> {
    let starts = first.text().match_indices('{').map(|(at, _)| at);
    starts.into_iter().find_map(|start| object_from(first, start, pieces))
}

fn object_from(first: &Literal, start: usize, pieces: &[LayoutPiece]) -> Option<(Literal, Keys, Literal, usize)> {
    // Placeholders for holes, in text that no layout writes.
    const NAME: &str = "\u{1}n";
    const ID: &str = "\u{1}i";
    const ARGUMENTS: &str = "\u{1}a";
    let mut text = String::new();
    let mut braces = Braces::default();
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            LayoutPiece::Literal(literal) => {
                let offset = text.len();
                let from = if at == 0 { start } else { 0 };
                text.push_str(&literal.text()[from..]);
                // The object ends where its braces are balanced.
                if let Some(end) = braces.balanced(&text) {
                    let object = json::parse(&text[..end].replace('\u{1}', "\\u0001")).ok()?;
                    let keys = keys_of(object.as_object()?, (NAME, ID, ARGUMENTS))?;
                    let before = first.up_to(start);
                    let behind = literal.from(from + end - offset);
                    return Some((before, keys, behind, at + 1));
                }
            }
            LayoutPiece::Hole(field, codec) => {
                let word = match field {
                    Field::Name => NAME,
                    Field::Id => ID,
                    Field::Index => INDEX,
                    Field::Arguments => ARGUMENTS,
                    _ => return None,
                };
                // An index may be part of a string.
                let is_quoted = text.ends_with('"') || (*field == Field::Index && braces.is_quoted);
                let prints_quotes = matches!(
                    codec.value_syntax().map(|syntax| syntax.spelling()),
                    Some(Spelling::Json(_) | Spelling::JsonString)
                );
                let quoted = prints_quotes || !is_quoted;
                match quoted {
                    true => {
                        text.push('"');
                        text.push_str(word);
                        text.push('"');
                    }
                    false => text.push_str(word),
                }
            }
        }
    }
    None
}

/// The depth of braces in a JSON text that grows.
#[derive(Default)]
struct Braces {
    /// The number of bytes read.
    read: usize,
    depth: usize,
    is_quoted: bool,
    is_escaped: bool,
}

impl Braces {
    /// Reads on to the end of the object that the text begins with. Returns `None` if the text ends
    /// first.
    fn balanced(&mut self, text: &str) -> Option<usize> {
        for byte in text.bytes().skip(self.read) {
            self.read += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_quoted => self.is_escaped = true,
                b'"' => self.is_quoted = !self.is_quoted,
                b'{' if !self.is_quoted => self.depth += 1,
                b'}' if !self.is_quoted => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.read);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn keys_of(object: &json::Object, words: (&str, &str, &str)) -> Option<Keys> {
    let mut keys = Keys::default();
    find_keys(object, words, &mut keys);
    let is_whole = keys.name_is_key || (!keys.name.is_empty() && !keys.arguments.is_empty());
    is_whole.then_some(keys)
}

fn find_keys(object: &json::Object, words: (&str, &str, &str), keys: &mut Keys) {
    for (key, value) in object.iter() {
        match value {
            _ if key == words.0 => keys.name_is_key = true,
            Json::String(text) if text == words.0 => keys.name = key.to_owned(),
            Json::String(text) if text == words.1 => keys.id = Some(key.to_owned()),
            Json::String(text) if text == words.2 => keys.arguments = key.to_owned(),
            Json::Object(inner) => {
                keys.wrappers.push(key.to_owned());
                find_keys(inner, words, keys);
            }
            _ => keys.constants.push(Constant { key: key.to_owned(), value: value.clone() }),
        }
    }
}
