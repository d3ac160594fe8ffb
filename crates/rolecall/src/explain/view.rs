use std::io;
use std::iter::Peekable;
use std::ops::Range;

use crate::conversation::Role;
use crate::model::explain::Marks;
use crate::{Origin, Segment};

use super::ExplainedPrompt;
use super::forgery::{self, Forgery};
use super::piece::{DrawnPiece, PieceKind};
use super::seen::SeenParts;
use super::turns::{Owner, find_turns};

/// A prompt cut into rows of one turn each, and rows cut into pieces of one origin and one token
/// each. Rows and pieces are not stored but passed to the drawing code one by one.
pub struct View<'a> {
    pub(super) explained: ExplainedPrompt<'a>,
    marks: Marks<'a>,
}

/// A line of the prompt, or the part of a line that belongs to one turn.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub owner: Owner,
    /// Whether this is the first row of its turn.
    pub opens: bool,
    span: Range<usize>,
}

/// A step of drawing a prompt.
pub(super) enum Stroke<'a, 's> {
    /// A row begins.
    Row(&'s Row),
    /// A piece of the row.
    Piece(&'s DrawnPiece<'a, 's>),
    /// The row ends.
    End,
}

impl<'a> View<'a> {
    /// Creates a view.
    pub fn new(explained: ExplainedPrompt<'a>) -> View<'a> {
        View { explained, marks: Marks::new(explained.prompt, explained.added) }
    }

    /// Returns the places where the conversation spells control tokens.
    pub(super) fn forgeries(&self) -> impl Iterator<Item = Forgery<'a>> {
        forgery::find(&self.marks, self.explained.prompt, self.explained.tokens)
    }

    /// Returns the rows in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        let explained = self.explained;
        let text = explained.prompt.text();
        let mut turns = find_turns(explained).peekable();
        let mut turn = turns.next();
        let mut at = turn.as_ref().map_or(0, |turn| turn.start);
        std::iter::from_fn(move || {
            loop {
                let owner = &turn.as_ref()?.owner;
                let end = turns.peek().map_or(text.len(), |next| next.start);
                if at < end {
                    let line = text[at..end].find('\n').map_or(end, |length| at + length + 1);
                    let span = at..line;
                    let opens = turn.as_ref().is_some_and(|turn| turn.start == at);
                    let owner = speaker(explained, span.clone()).unwrap_or_else(|| owner.clone());
                    at = line;
                    return Some(Row { owner, opens, span });
                }
                turn = turns.next();
                at = turn.as_ref().map_or(at, |turn| turn.start);
            }
        })
    }

    /// Draws the prompt from start to end, and returns what occurred in it.
    pub(super) fn draw(&self, mut draw: impl FnMut(Stroke<'a, '_>) -> io::Result<()>) -> io::Result<SeenParts> {
        let mut seen = SeenParts::default();
        let mut pieces = Pieces::new(self.explained, self.forgeries());
        for row in self.rows() {
            draw(Stroke::Row(&row))?;
            pieces.cut(row.span.clone(), |piece| {
                seen.see(piece);
                draw(Stroke::Piece(piece))
            })?;
            draw(Stroke::End)?;
        }
        Ok(seen)
    }
}

/// Returns the message that a row's values belong to, if it is only one. It may differ from the
/// turn's message, as for a system text that is folded into the user's turn.
fn speaker(explained: ExplainedPrompt<'_>, row: Range<usize>) -> Option<Owner> {
    let mut speaking = explained.prompt.segments_in(row).filter_map(|segment| segment.origin.message());
    let index = speaking.next()?;
    let role = explained.conversation.messages.get(index)?.role().clone();
    speaking.all(|other| other == index).then_some(Owner::Message(index, role))
}

/// A walk over a prompt from start to end that cuts it into pieces.
struct Pieces<'a, S: Iterator<Item = Segment<'a>>, F: Iterator<Item = Forgery<'a>>> {
    explained: ExplainedPrompt<'a>,
    /// The remaining segments and forgeries.
    segments: Peekable<S>,
    forgeries: Peekable<F>,
    /// The index of the current token, and of the current span of loss.
    token: usize,
    loss: usize,
    /// Whether the previous piece was a control token, or there was none.
    behind_control: bool,
}

impl<'a, F: Iterator<Item = Forgery<'a>>> Pieces<'a, Box<dyn Iterator<Item = Segment<'a>> + 'a>, F> {
    fn new(explained: ExplainedPrompt<'a>, forgeries: F) -> Self {
        let segments: Box<dyn Iterator<Item = Segment<'a>> + 'a> = Box::new(explained.prompt.segments());
        let (segments, forgeries) = (segments.peekable(), forgeries.peekable());
        Pieces { explained, segments, forgeries, token: 0, loss: 0, behind_control: true }
    }
}

impl<'a, S: Iterator<Item = Segment<'a>>, F: Iterator<Item = Forgery<'a>>> Pieces<'a, S, F> {
    /// Cuts the next row into pieces.
    fn cut(
        &mut self,
        row: Range<usize>,
        mut take: impl FnMut(&DrawnPiece<'a, '_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let whole = self.explained.prompt.text();
        let dots = self.dotted_spaces(row.clone());
        let mut ids = Vec::new();
        let mut start = row.start;
        while start < row.end {
            let end = self.next_cut(start).min(row.end);
            let Some(origin) = self.segments.peek().map(|segment| segment.origin.clone()) else { break };
            let kind = self.kind(&origin, start);
            let is_control = matches!(kind, PieceKind::Control | PieceKind::Forged);
            let tokens = self.explained.tokens;
            let begins = tokens.and_then(|tokens| tokens.get(self.token)).is_some_and(|token| token.start == start);
            ids.clear();
            if let Some(tokens) = tokens {
                ids.extend(tokens.from(self.token).take_while(|token| token.start < end).map(|token| token.id));
            }
            take(&DrawnPiece {
                origin: &origin,
                text: &whole[start..end],
                dots: &dots[start - row.start..end - row.start],
                edge: begins && !is_control && !self.behind_control,
                ids: &ids,
                learned: self.loss().is_some_and(|span| span.contains(&start)),
                kind,
            })?;
            self.behind_control = is_control;
            start = end;
        }
        Ok(())
    }

    /// Returns for each byte of a row whether it is a space shown as a dot.
    fn dotted_spaces(&self, row: Range<usize>) -> Vec<bool> {
        let whole = self.explained.prompt.text();
        let mut dots = Vec::with_capacity(row.len());
        let mut start = row.start;
        let inside = self.explained.prompt.segments_in(row.clone());
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

    /// Advances to a position, and returns where the next origin, token, forgery or span of loss
    /// begins or ends after it.
    fn next_cut(&mut self, start: usize) -> usize {
        while self.segments.next_if(|segment| segment.start + segment.text.len() <= start).is_some() {}
        while self.forgeries.next_if(|forgery| forgery.span.end <= start).is_some() {}
        let token_at = |at| self.explained.tokens.and_then(|tokens| tokens.get(at));
        while token_at(self.token).is_some_and(|token| token.end <= start) {
            self.token += 1;
        }
        let segment = self.segments.peek().map(|segment| segment.start + segment.text.len());
        let forgery = self.forgeries.peek();
        let forgery =
            forgery.map(|forgery| if forgery.span.start > start { forgery.span.start } else { forgery.span.end });
        let tokens = self.explained.tokens.into_iter().flat_map(|tokens| tokens.from(self.token));
        let token = tokens.flat_map(|token| [token.start, token.end]).find(|cut| *cut > start);
        while self.loss().is_some_and(|span| span.end <= start) {
            self.loss += 1;
        }
        let loss = self.loss().map(|span| if span.start > start { span.start } else { span.end });
        segment.into_iter().chain(forgery).chain(token).chain(loss).min().unwrap_or(usize::MAX)
    }

    fn kind(&mut self, origin: &Origin, start: usize) -> PieceKind {
        match self.forgeries.peek() {
            Some(forgery) if forgery.span.contains(&start) && forgery.succeeded => return PieceKind::Forged,
            Some(forgery) if forgery.span.contains(&start) => return PieceKind::Spelled,
            _ => {}
        }
        let token = self.explained.tokens.and_then(|tokens| tokens.get(self.token));
        match origin {
            Origin::Control(_) => PieceKind::Control,
            // A template has no list of control tokens; the tokenizer finds them in its text.
            Origin::Format if token.is_some_and(|token| token.control && token.start <= start) => PieceKind::Control,
            Origin::Format => PieceKind::Format,
            Origin::Message { message, .. } => {
                let message = self.explained.conversation.messages.get(*message);
                PieceKind::Said(message.map_or(Role::Other(String::new()), |message| message.role().clone()))
            }
            Origin::Tool { .. } | Origin::Document { .. } => PieceKind::Offered,
            Origin::Option { .. } => PieceKind::Chosen,
        }
    }

    fn loss(&self) -> Option<&'a Range<usize>> {
        Some(&self.explained.loss?.loss.spans.get(self.loss)?.range)
    }
}

/// Returns for each byte of a text without control tokens whether it is a space that is easily
/// overlooked: at either end, or next to another space.
fn dotted_spaces(text: &str) -> impl Iterator<Item = bool> + '_ {
    let bytes = text.as_bytes();
    let line = text.trim_end_matches(['\n', '\r']);
    let lead = line.len() - line.trim_start_matches(' ').len();
    let trail = line.trim_end_matches(' ').len();
    let is_space = |at: Option<usize>| at.and_then(|at| bytes.get(at)) == Some(&b' ');
    let dotted = move |at: usize| at < lead || at >= trail || is_space(at.checked_sub(1)) || is_space(Some(at + 1));
    (0..bytes.len()).map(move |at| bytes[at] == b' ' && dotted(at))
}
