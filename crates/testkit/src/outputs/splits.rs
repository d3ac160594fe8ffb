use fastrand::Rng;

/// Splits a text into its characters.
pub fn characters(text: &str) -> Vec<&str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
}

/// Splits a text into pieces of one to `most` characters.
pub fn pieces<'t>(text: &'t str, most: usize, rng: &mut Rng) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let count = rng.usize(1..=most);
        let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Splits bytes into pieces of one to `most` bytes, even inside characters.
pub fn byte_pieces<'t>(bytes: &'t [u8], most: usize, rng: &mut Rng) -> Vec<&'t [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rng.usize(1..=most).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
