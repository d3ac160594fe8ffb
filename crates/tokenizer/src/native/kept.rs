use super::super::Token;

/// What a caller keeps of each token: all of it, or the id alone, which takes less time.
pub(crate) trait Kept: Copy + Send + 'static {
    fn of(token: Token) -> Self;

    /// Returns the tokens whose spans are kept: all, or none.
    fn spans(kept: &mut [Self]) -> &mut [Token];

    /// Returns the room for what is kept of the tokens of neighboring words.
    fn room(room: &mut KeptRoom) -> &mut [Self; ROOM];
}

/// The tokens that there is room for.
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
