use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use super::super::Token;
use super::memory::{Memory, MemoryOwner};

/// Texts of this length are encoded on all processors.
pub(crate) const LONG_TEXT: usize = 1 << 18;
/// The length of the piece that a processor encodes at once, and the bytes in which a place for
/// the next one is sought.
const PIECE: usize = 1 << 16;
const SOUGHT: usize = 1 << 12;

/// A range of a text that is cut into pieces.
#[derive(Clone, Copy)]
pub(crate) struct LongText<'a> {
    pub owner: &'a MemoryOwner,
    pub start: usize,
    pub end: usize,
}

impl LongText<'_> {
    /// Encodes the first pieces of the range on all processors, as long as there are several.
    /// `find_place` returns a place between two positions at which a word begins, whatever precedes
    /// it. Returns where the rest begins; it is also the rest if `take` wants no more.
    pub fn encode<E: Send>(
        self,
        memory: &mut Memory,
        find_place: impl Fn(usize, usize) -> Option<usize>,
        encode: impl Fn((usize, usize), &mut Memory, &mut Vec<Token>) -> Result<(), E> + Sync,
        mut take: impl FnMut(usize, &[Token]) -> ControlFlow<()>,
    ) -> Result<usize, E> {
        let mut at = self.start;
        let mut first = Vec::new();
        while self.end - at >= LONG_TEXT && processors() > 1 {
            let mut places = vec![at];
            while let Some(&last) = places.last()
                && places.len() <= processors()
                && last + PIECE + SOUGHT < self.end
                && let Some(place) = find_place(last + PIECE, last + PIECE + SOUGHT)
            {
                places.push(place);
            }
            let [start, second, rest @ ..] = &*places else { break };
            if rest.is_empty() {
                break;
            }
            let (encode, owner) = (&encode, self.owner);
            first.clear();
            let others = thread::scope(|scope| {
                let starts = [*second].into_iter().chain(rest.iter().copied());
                let others: Vec<_> = starts
                    .zip(rest)
                    .map(|(start, &end)| {
                        scope.spawn(move || {
                            let mut tokens = Vec::with_capacity((end - start) / 3);
                            owner.with_spare_memory(|memory| encode((start, end), memory, &mut tokens))?;
                            Ok(tokens)
                        })
                    })
                    .collect();
                let here = encode((*start, *second), memory, &mut first);
                let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
                let others = others.collect::<Vec<Result<Vec<Token>, E>>>();
                here.map(|()| others)
            })?;
            if take(*second, &first).is_break() {
                return Ok(*second);
            }
            for (tokens, &end) in others.into_iter().zip(rest) {
                at = end;
                if take(end, &tokens?).is_break() {
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }
}

/// Returns the number of processors that this process may use.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}
