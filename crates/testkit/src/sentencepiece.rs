//! Writes sentencepiece models, for tests.

/// Writes a sentencepiece model, field by field: the text, score and type of each piece, then the
/// messages of the trainer and the normalizer. Lengths must be below 128.
pub fn write_sentencepiece<T: AsRef<str>>(pieces: &[(T, f32, u8)], trainer: &[u8], normalizer: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for (text, score, kind) in pieces {
        let text = text.as_ref();
        let mut piece = vec![0x0A, text.len() as u8];
        piece.extend_from_slice(text.as_bytes());
        piece.push(0x15);
        piece.extend_from_slice(&score.to_le_bytes());
        piece.extend_from_slice(&[0x18, *kind]);
        file.extend_from_slice(&[0x0A, piece.len() as u8]);
        file.extend(piece);
    }
    for (tag, message) in [(0x12, trainer), (0x1A, normalizer)] {
        file.extend_from_slice(&[tag, message.len() as u8]);
        file.extend_from_slice(message);
    }
    file
}
