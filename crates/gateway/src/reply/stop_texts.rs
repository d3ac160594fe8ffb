/// Ends content at the first of some texts, however it is cut into pieces.
#[derive(Clone, Debug, Default)]
pub struct StopTexts {
    texts: Vec<String>,
    /// The number of the first of them that are the client's.
    of_client: usize,
    /// The end of the content so far, which may be the beginning of a stop text.
    held: String,
    /// The index of the stop text that was found.
    found: Option<usize>,
}

impl StopTexts {
    /// Returns a filter for the client's stop texts, and for those of the model that are no tokens.
    pub fn new(mut texts: Vec<String>, of_model: &[String]) -> StopTexts {
        let of_client = texts.len();
        texts.extend_from_slice(of_model);
        StopTexts { texts, of_client, ..StopTexts::default() }
    }

    /// Reports whether a stop text was found.
    pub fn is_over(&self) -> bool {
        self.found.is_some()
    }

    /// Ends the content here, if the model has stop texts that are no tokens. Reports whether it has.
    pub fn end_at_those_of_model(&mut self) -> bool {
        if self.texts.len() > self.of_client {
            self.found = self.found.or(Some(self.of_client));
        }
        self.is_over()
    }

    /// Returns the client's stop text that was found.
    pub fn found(&self) -> Option<&str> {
        self.texts.get(self.found.filter(|found| *found < self.of_client)?).map(String::as_str)
    }

    /// Takes a piece of content, and returns what is certainly before any stop text.
    pub fn push(&mut self, piece: &str) -> String {
        if self.is_over() {
            return String::new();
        }
        if self.texts.is_empty() {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        let places = self.texts.iter().enumerate().filter_map(|(which, text)| Some((self.held.find(text)?, which)));
        if let Some((at, which)) = places.min() {
            self.found = Some(which);
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let is_open = |at: &usize| self.texts.iter().any(|text| text.starts_with(&self.held[*at..]));
        let open = self.held.char_indices().map(|(at, _)| at).find(is_open).unwrap_or(self.held.len());
        let rest = self.held.split_off(open);
        std::mem::replace(&mut self.held, rest)
    }

    /// Returns what was held back, once no more content comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::StopTexts;

    /// What is left of a text that is cut before each of some bytes.
    fn cut(text: &str, stops: &[&str], cuts: u32) -> (String, bool) {
        let mut filter =
            StopTexts::new(Vec::new(), &stops.iter().map(|stop| (*stop).to_owned()).collect::<Vec<String>>());
        let (mut out, mut piece) = (String::new(), String::new());
        for (at, character) in text.chars().enumerate() {
            if cuts & (1 << at) != 0 {
                out += &filter.push(&std::mem::take(&mut piece));
            }
            piece.push(character);
        }
        out += &filter.push(&piece);
        out += &filter.finish();
        (out, filter.is_over())
    }

    #[test]
    fn content_ends_at_the_first_stop_text_however_it_is_cut() {
        for (text, stops, wanted) in [
            ("aabaabc", &["aabc"] as &[&str], Some("aab")),
            ("abcabd", &["abd", "cab"], Some("ab")),
            ("aaaa", &["b"], None),
            ("xéyéz", &["éz"], Some("xéy")),
            ("abab", &["abc", "aba"], Some("")),
            ("ends in a", &["ab"], None),
        ] {
            for cuts in 0..1 << text.chars().count() {
                let found = cut(text, stops, cuts);
                assert_eq!(found, (wanted.unwrap_or(text).to_owned(), wanted.is_some()), "{text} {stops:?} {cuts:b}");
            }
        }
    }
}
