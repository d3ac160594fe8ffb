use std::borrow::Cow;
use std::ops::Range;

use rolecall::{EncodedToken, Origin, Role, Segment};

use super::Explained;
use super::forgery::{Forgery, find_forgeries};
use super::turns::{Owner, find_turns};
use crate::visible;

/// A prompt cut into rows, each of one turn, and rows into pieces, each of one origin and one token.
pub struct View<'a> {
    pub explained: Explained<'a>,
    pub rows: Vec<Row<'a>>,
    pub forgeries: Vec<Forgery>,
}

/// A line of the prompt, or what is on it of one turn.
pub struct Row<'a> {
    pub owner: Owner,
    /// Whether it is the first of its turn.
    pub opens: bool,
    pub pieces: Vec<Piece<'a>>,
}

/// A run of characters that have everything in common.
pub struct Piece<'a> {
    pub kind: Kind,
    pub origin: Origin,
    /// Its characters as they are shown, in runs; marks stand for white space and for what cannot be shown.
    pub shown: Vec<Shown>,
    /// Whether a token begins here whose neighbour before is an ordinary token too.
    pub edge: bool,
    /// The tokens that it is part of.
    pub tokens: &'a [EncodedToken],
    /// Whether a training loss may touch it.
    pub learned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    pub mark: bool,
}

/// What a piece is to the eye.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Control,
    Format,
    /// Of a message with this role.
    Said(Role),
    /// Of a tool that is offered.
    Offered,
    /// Of an option.
    Chosen,
    /// Of the conversation, and it spells a control token.
    Spelled,
    /// Of the conversation, and it became a control token.
    Forged,
}

impl<'a> View<'a> {
    pub fn new(explained: Explained<'a>) -> View<'a> {
        let forgeries = find_forgeries(explained.prompt, explained.encoded, explained.added);
        let rows = cut_rows(explained, &forgeries);
        View { explained, rows, forgeries }
    }
}

fn cut_rows<'a>(explained: Explained<'a>, forgeries: &[Forgery]) -> Vec<Row<'a>> {
    let text = explained.prompt.text();
    let turns = find_turns(explained);
    let mut rows = Vec::new();
    let mut pieces = Pieces::new(explained, forgeries);
    for (at, turn) in turns.iter().enumerate() {
        let end = turns.get(at + 1).map_or(text.len(), |next| next.start);
        let mut start = turn.start;
        while start < end {
            let line = text[start..end].find('\n').map_or(end, |at| start + at + 1);
            let pieces = pieces.cut(start..line);
            let owner = speaker(&pieces, explained).unwrap_or_else(|| turn.owner.clone());
            rows.push(Row { owner, opens: start == turn.start, pieces });
            start = line;
        }
    }
    rows
}

/// The one message that a row's values are of. A row may show another message than its turn's: a system text that is
/// folded into the user's turn.
fn speaker(pieces: &[Piece<'_>], explained: Explained<'_>) -> Option<Owner> {
    let mut speaking = pieces.iter().filter_map(|piece| piece.origin.message());
    let index = speaking.next()?;
    let role = explained.conversation.messages.get(index)?.role().clone();
    speaking.all(|other| other == index).then_some(Owner::Message(index, role))
}

/// Walks a prompt from its start to its end.
struct Pieces<'a, 'f> {
    explained: Explained<'a>,
    segments: Vec<Segment<'a>>,
    forgeries: &'f [Forgery],
    tokens: &'a [EncodedToken],
    /// The first segment, forgery, token and span of loss that are not behind.
    segment: usize,
    forgery: usize,
    token: usize,
    loss: usize,
    /// Whether the piece before was a control token, or there was none.
    behind_control: bool,
}

impl<'a, 'f> Pieces<'a, 'f> {
    fn new(explained: Explained<'a>, forgeries: &'f [Forgery]) -> Pieces<'a, 'f> {
        Pieces {
            explained,
            segments: explained.prompt.segments().collect(),
            forgeries,
            tokens: explained.encoded.map_or(&[], |encoded| &encoded.tokens),
            segment: 0,
            forgery: 0,
            token: 0,
            loss: 0,
            behind_control: true,
        }
    }

    /// The pieces of the next row.
    fn cut(&mut self, row: Range<usize>) -> Vec<Piece<'a>> {
        let whole = self.explained.prompt.text();
        let dots = self.dotted_spaces(row.clone());
        let mut pieces = Vec::new();
        let mut start = row.start;
        while start < row.end {
            let end = self.next_cut(start).min(row.end);
            let Some(segment) = self.segments.get(self.segment) else { break };
            let kind = self.kind(segment, start);
            let is_control = matches!(kind, Kind::Control | Kind::Forged);
            let begins = self.tokens.get(self.token).is_some_and(|token| token.start == start);
            pieces.push(Piece {
                origin: segment.origin.clone(),
                shown: show(&whole[start..end], &dots[start - row.start..end - row.start]),
                edge: begins && !is_control && !self.behind_control,
                tokens: self.tokens_of(start..end),
                learned: self.loss().is_some_and(|span| span.contains(&start)),
                kind,
            });
            self.behind_control = is_control;
            start = end;
        }
        pieces
    }

    /// For each byte of the next row, whether it is a space to be shown as a dot.
    fn dotted_spaces(&self, row: Range<usize>) -> Vec<bool> {
        let whole = self.explained.prompt.text();
        let mut dots = Vec::with_capacity(row.len());
        let mut start = row.start;
        let inside = self.segments[self.segment..].iter().take_while(|segment| segment.start < row.end);
        for segment in inside.filter(|segment| matches!(segment.origin, Origin::Control(_))) {
            let end = segment.start + segment.text.len();
            if end > start {
                dots.extend(dotted_spaces(&whole[start..segment.start.max(start)]));
                dots.resize(end - row.start, false);
                start = end;
            }
        }
        if start < row.end {
            dots.extend(dotted_spaces(&whole[start..row.end]));
        }
        dots
    }

    /// Where the next origin, token or forgery begins or ends behind a place; moves up to that place.
    fn next_cut(&mut self, start: usize) -> usize {
        while self.segments.get(self.segment).is_some_and(|segment| segment.start + segment.text.len() <= start) {
            self.segment += 1;
        }
        while self.forgeries.get(self.forgery).is_some_and(|forgery| forgery.span.end <= start) {
            self.forgery += 1;
        }
        while self.tokens.get(self.token).is_some_and(|token| token.end <= start) {
            self.token += 1;
        }
        let segment = self.segments.get(self.segment).map(|segment| segment.start + segment.text.len());
        let forgery = self.forgeries.get(self.forgery);
        let forgery =
            forgery.map(|forgery| if forgery.span.start > start { forgery.span.start } else { forgery.span.end });
        let token =
            self.tokens[self.token..].iter().flat_map(|token| [token.start, token.end]).find(|cut| *cut > start);
        while self.loss().is_some_and(|span| span.end <= start) {
            self.loss += 1;
        }
        let loss = self.loss().map(|span| if span.start > start { span.start } else { span.end });
        segment.into_iter().chain(forgery).chain(token).chain(loss).min().unwrap_or(usize::MAX)
    }

    fn kind(&self, segment: &Segment<'_>, start: usize) -> Kind {
        match self.forgeries.get(self.forgery) {
            Some(forgery) if forgery.span.contains(&start) && forgery.succeeded => return Kind::Forged,
            Some(forgery) if forgery.span.contains(&start) => return Kind::Spelled,
            _ => {}
        }
        match &segment.origin {
            Origin::Control(_) => Kind::Control,
            // A template has no list of its control tokens: the tokenizer finds them in its text.
            Origin::Format
                if self.tokens.get(self.token).is_some_and(|token| token.control && token.start <= start) =>
            {
                Kind::Control
            }
            Origin::Format => Kind::Format,
            Origin::Message { message, .. } => {
                let message = self.explained.conversation.messages.get(*message);
                Kind::Said(message.map_or(Role::Other(String::new()), |message| message.role().clone()))
            }
            Origin::Tool { .. } | Origin::Document { .. } => Kind::Offered,
            Origin::Option { .. } => Kind::Chosen,
        }
    }

    fn loss(&self) -> Option<&'a Range<usize>> {
        self.explained.loss.unwrap_or_default().get(self.loss)
    }

    fn tokens_of(&self, span: Range<usize>) -> &'a [EncodedToken] {
        let rest = &self.tokens[self.token..];
        let touching = rest.iter().take_while(|token| token.start < span.end).count();
        &rest[..touching]
    }
}

/// For each byte of a text without control tokens, whether it is a space that is easily overlooked: at either end, or
/// beside another one.
fn dotted_spaces(text: &str) -> impl Iterator<Item = bool> + '_ {
    let bytes = text.as_bytes();
    let line = text.trim_end_matches(['\n', '\r']);
    let lead = line.len() - line.trim_start_matches(' ').len();
    let trail = line.trim_end_matches(' ').len();
    let is_space = |at: Option<usize>| at.and_then(|at| bytes.get(at)) == Some(&b' ');
    let dotted = move |at: usize| at < lead || at >= trail || is_space(at.checked_sub(1)) || is_space(Some(at + 1));
    (0..bytes.len()).map(move |at| bytes[at] == b' ' && dotted(at))
}

/// Characters as they are shown.
fn show(text: &str, dots: &[bool]) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for (at, character) in text.char_indices() {
        let mark = mark_of(character).filter(|_| character != ' ' || dots[at]).unwrap_or_default();
        let is_mark = !mark.is_empty();
        match shown.last_mut() {
            Some(last) if last.mark == is_mark => {}
            _ => shown.push(Shown { text: String::new(), mark: is_mark }),
        }
        if let Some(last) = shown.last_mut() {
            match is_mark {
                true => last.text.push_str(&mark),
                false => last.text.push(character),
            }
        }
    }
    shown
}

/// What stands for a character that is white space, steers or hides, or is one of the marks itself.
pub fn mark_of(character: char) -> Option<Cow<'static, str>> {
    match character {
        '\n' => Some("⏎".into()),
        '\t' => Some("→".into()),
        '\r' => Some("␍".into()),
        ' ' => Some("·".into()),
        c if visible::is_steering(c) || is_own_mark(c) => Some(format!("\\u{{{:x}}}", c as u32).into()),
        _ => None,
    }
}

/// Characters with which a text could draw a control token or a line break of its own.
fn is_own_mark(character: char) -> bool {
    matches!(character, '⟦' | '⟧' | '⏎' | '▏' | '‹' | '›')
}
