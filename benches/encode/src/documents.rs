//! Documents: the corpus with its kinds mixed, cut into pieces of one size.

use crate::corpus::Text;
use crate::random::Random;

/// Returns all texts as one, in an order that mixes the kinds.
pub fn mix(mut texts: Vec<Text>) -> String {
    Random::new(7).shuffle(&mut texts);
    texts.iter().map(|text| text.text.as_str()).collect()
}

/// Cuts a text into documents of at most this many bytes, at character boundaries, in mixed order.
pub fn cut(text: &str, bytes: usize) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (document, behind) = rest.split_at(rest.floor_char_boundary(bytes).max(1));
        documents.push(document);
        rest = behind;
    }
    Random::new(11).shuffle(&mut documents);
    documents
}
