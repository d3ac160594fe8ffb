use rolecall_conversation::spelling::{near_miss, nearest_within};

/// The number of bytes of a text that are kept.
const KEPT: usize = 128;

/// The most letters that a misspelled marker has too many or too few.
const OTHERS: usize = 2;

/// The most letters by which the word of a marker is longer than it should be.
const LONGER: usize = 8;

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
        self.misspelled(mark, OTHERS).is_some()
    }

    /// Returns what almost is a marker at the end of the text, and the number of bytes of white space behind it: one in
    /// other letter case, one that differs in a number of letters at most, or one whose word is longer. One in backticks
    /// is meant as it is.
    pub fn misspelled(&self, mark: &str, most: usize) -> Option<(&str, usize)> {
        let text = self.text().trim_end();
        if text.ends_with(mark) {
            return None;
        }
        let count = mark.chars().count();
        // Either of the first two may be missing.
        let is_first = |c: char| mark.chars().take(2).any(|first| first == c);
        // Most texts have neither at their end.
        if !text.chars().rev().take(count + LONGER).any(is_first) {
            return None;
        }
        let small = mark.to_lowercase();
        let is_it = |suffix: &&str| {
            let lower = suffix.to_lowercase();
            let differs = near_miss(&lower, [&*small]).and(nearest_within(&lower, [&*small], most)).is_some();
            differs || is_longer(&lower, &small)
        };
        let letters: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        // A suffix of each length in question, the longest first.
        let suffixes = (count.saturating_sub(OTHERS)..=count + LONGER)
            .rev()
            .filter_map(|length| Some(&text[*letters.get(letters.len().checked_sub(length)?)?..]));
        let found = suffixes.filter(|suffix| suffix.starts_with(is_first)).find(is_it)?;
        let is_quoted = text[..text.len() - found.len()].ends_with('`');
        (!is_quoted).then_some((found, self.text().len() - text.len()))
    }
}

/// Reports whether a text is a marker with more letters before its last sign, as `</thinking>` is `</think>`.
fn is_longer(text: &str, mark: &str) -> bool {
    let Some((end, last)) = mark.char_indices().next_back() else { return false };
    let more = text.strip_prefix(&mark[..end]).and_then(|rest| rest.strip_suffix(last));
    more.is_some_and(|more| !more.is_empty() && more.chars().all(char::is_alphabetic))
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
        let texts = [
            "</parameter",
            "/parameter>",
            "</paramter>",
            "< /parameter>",
            "</parametre> \n",
            "</parameters>",
            "</parametergroup>",
            "</PARAMETER>",
        ];
        for text in texts.map(|text| format!("{long}{text}")) {
            assert!((1..60).all(|size| almost(&text, size)), "{text}");
        }
        for text in [
            "</p>",
            "parameter",
            "</b></para",
            "",
            &long,
            "</parameter> and more",
            "`</paramter>",
            "</parameter>",
            "</parameter-kind>",
        ] {
            assert!((1..60).all(|size| !almost(text, size)), "{text}");
        }
    }
}
