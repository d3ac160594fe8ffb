//! Who speaks where in a prompt, by the origins of its text.

use std::ops::Range;

use rolecall_conversation::{Conversation, Role};

use crate::Prompt;
use crate::origin::Speaker;

/// A stretch of a prompt that begins and ends with text of one speaker, with no other speaker in
/// between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Speech {
    pub speaker: Speaker,
    pub start: usize,
    pub end: usize,
    /// The index of the turn in which it begins.
    pub turn: usize,
    /// The template's own text between texts of the speaker.
    pub gaps: Vec<Range<usize>>,
}

/// Returns the speeches of a prompt in order. A reply that the template writes without any text of
/// the message has an empty speech at the start of its turn.
pub(super) fn speeches(prompt: &Prompt) -> Vec<Speech> {
    let turns = prompt.turns();
    let mut speeches: Vec<Speech> = Vec::with_capacity(turns.len() + 4);
    let mut at = 0;
    let mut silent = Silent::default();
    // What a later turn repeats of a message belongs to the later turn.
    let is_elsewhere = |turn: usize, at: usize| {
        let message = |at: usize| turns.get(at).and_then(|turn| turn.message);
        turn != at && message(at).is_some() && message(turn).is_some() && message(at) != message(turn)
    };
    for piece in prompt.text.pieces().filter(|piece| !piece.text.is_empty()) {
        while turns.get(at + 1).is_some_and(|turn| turn.start <= piece.start) {
            silent.close(prompt, at, &mut speeches);
            at += 1;
        }
        let Some(speaker) = prompt.speaker(piece.source) else { continue };
        let end = piece.start + piece.text.len();
        silent.speaks(speaker, turns.get(at).and_then(|turn| turn.message));
        match speeches.last_mut() {
            Some(last) if last.speaker == speaker && !is_elsewhere(last.turn, at) => {
                if last.end < piece.start {
                    last.gaps.push(last.end..piece.start);
                }
                last.end = end;
            }
            _ => speeches.push(Speech { speaker, start: piece.start, end, turn: at, gaps: Vec::new() }),
        }
    }
    // The last turns may lie inside one piece of the template's text.
    for at in at..turns.len() {
        silent.close(prompt, at, &mut speeches);
    }
    speeches
}

/// Whether the message of the current turn has spoken in it.
#[derive(Default)]
struct Silent {
    has_spoken: bool,
    is_interrupted: bool,
}

impl Silent {
    fn speaks(&mut self, speaker: Speaker, message: Option<usize>) {
        match speaker {
            Speaker::Message(index) if Some(index) == message => self.has_spoken = true,
            _ => self.is_interrupted = true,
        }
    }

    /// Ends a turn. If a reply did not speak in it, adds an empty speech.
    fn close(&mut self, prompt: &Prompt, at: usize, speeches: &mut Vec<Speech>) {
        let Silent { has_spoken, is_interrupted } = std::mem::take(self);
        let Some(turn) = prompt.turns().get(at).filter(|turn| turn.is_reply()) else { return };
        let Some(message) = turn.message.filter(|_| !has_spoken && !is_interrupted) else { return };
        let speaker = Speaker::Message(message);
        if speeches.iter().rev().take(4).all(|speech| speech.speaker != speaker) {
            speeches.push(Speech { speaker, start: turn.start, end: turn.start, turn: at, gaps: Vec::new() });
        }
    }
}

/// The kind of message that a reply follows. The generation prompt may differ for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    /// The reply is the first text of the prompt.
    Nothing,
    Role(Role),
    /// Tools, documents, switches, or a role of another name.
    Other,
}

impl QuestionKind {
    pub fn of(before: Option<&Speech>, conversation: &Conversation) -> QuestionKind {
        match before.map(|speech| speech.speaker) {
            None => QuestionKind::Nothing,
            Some(Speaker::Other) => QuestionKind::Other,
            Some(Speaker::Message(index)) => match conversation.messages.get(index) {
                // Invented roles share a kind, so that they do not add probes.
                Some(message) if matches!(message.role(), Role::Other(_)) => QuestionKind::Other,
                Some(message) => QuestionKind::Role(message.role().clone()),
                None => QuestionKind::Other,
            },
        }
    }
}
