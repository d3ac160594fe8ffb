use super::super::Token;

/// What a caller keeps of each token: all of it, or the id alone, which takes less time.
pub(crate) trait Kept: Copy + Send + 'static {
    fn of(token: Token) -> Self;

    /// Returns the tokens whose spans are kept: all, or none.
    fn spans(kept: &mut [Self]) -> &mut [Token];

    /// Returns the room for what is kept of the tokens of neighboring words.
    fn room(room: &mut KeptRoom) -> &mut [Self; ROOM];
}

/// The number of tokens that there is room for.
pub(super) const ROOM: usize = 272;

/// The tokens of words that are looked up together, in one of the two lists.
pub(crate) struct KeptRoom {
    tokens: [Token; ROOM],
    ids: [u32; ROOM],
}

impl Default for KeptRoom {
    fn default() -> Self {
        Self { tokens: [Token { id: 0, start: 0, end: 0 }; ROOM], ids: [0; ROOM] }
    }
}

impl Kept for Token {
    #[inline(always)]
    fn of(token: Token) -> Self {
        token
    }

    #[inline(always)]
    fn spans(kept: &mut [Self]) -> &mut [Token] {
        kept
    }

    #[inline(always)]
    fn room(room: &mut KeptRoom) -> &mut [Self; ROOM] {
        &mut room.tokens
    }
}

impl Kept for u32 {
    #[inline(always)]
    fn of(token: Token) -> Self {
        token.id
    }

    #[inline(always)]
    fn spans(_: &mut [Self]) -> &mut [Token] {
        &mut []
    }

    #[inline(always)]
    fn room(room: &mut KeptRoom) -> &mut [Self; ROOM] {
        &mut room.ids
    }
}

/// Returns the tokens of a word that begins at byte `start`, from their ids and ends. Tokens that each
/// hold part of a character span the whole character.
#[inline]
pub(super) fn place_tokens<K: Kept>(
    text: &str,
    start: usize,
    tokens: impl Iterator<Item = (u32, usize)>,
    splits_characters: bool,
) -> impl Iterator<Item = K> {
    let mut from = start;
    tokens.map(move |(id, end)| {
        let place = (std::mem::replace(&mut from, start + end), start + end);
        K::of(match splits_characters {
            true => Token::covering(id, place, text),
            false => Token::new(id, place.0, place.1),
        })
    })
}
