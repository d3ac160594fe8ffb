use rolecall_conversation::spelling::near_miss;

/// The number of bytes of a text that are kept.
const KEPT: usize = 128;

/// The most letters that a misspelled marker has too many or too few.
const OTHERS: usize = 2;

/// The end of a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(String);

impl Tail {
    /// Adds the next piece of the text.
    pub fn push(&mut self, text: &str) {
        if text.len() > KEPT || self.0.len() > 4 * KEPT {
            self.0 = if text.len() > KEPT { String::new() } else { last(&self.0).to_owned() };
        }
        self.0.push_str(last(text));
    }

    /// Returns the end of the text.
    pub fn text(&self) -> &str {
        last(&self.0)
    }

    /// Reports whether the text ends with what almost is a marker.
    pub fn almost_is(&self, mark: &str) -> bool {
        let text = self.text().trim_end();
        let letters: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let count = mark.chars().count();
        let firsts: Vec<char> = mark.chars().take(2).collect();
        // A suffix of each length in question.
        let mut suffixes = (count.saturating_sub(OTHERS)..=count + OTHERS)
            .filter_map(|length| Some(&text[*letters.get(letters.len().checked_sub(length)?)?..]));
        suffixes.any(|suffix| suffix.starts_with(firsts.as_slice()) && near_miss(suffix, [mark]).is_some())
    }
}

/// Returns the last bytes of a text.
fn last(text: &str) -> &str {
    let start = (text.len().saturating_sub(KEPT)..=text.len()).find(|at| text.is_char_boundary(*at));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn a_misspelled_marker_is_found_in_every_chunking() {
        let almost = |text: &str, size: usize| {
            let mut tail = Tail::default();
            let letters: Vec<char> = text.chars().collect();
            letters.chunks(size).for_each(|chunk| tail.push(&chunk.iter().collect::<String>()));
            tail.almost_is("</parameter>")
        };
        let long = "é".repeat(300);
        let texts = ["</parameter", "/parameter>", "</paramter>", "< /parameter>", "</parametre> \n", "</parameters>"];
        for text in texts.map(|text| format!("{long}{text}")) {
            assert!((1..60).all(|size| almost(&text, size)), "{text}");
        }
        for text in ["</p>", "parameter", "</b></para", "", &long, "</parameter> and more"] {
            assert!((1..60).all(|size| !almost(text, size)), "{text}");
        }
    }
}
