use rolecall_conversation::spelling::near_miss;

/// The number of bytes of a text that are kept.
pub(crate) const KEPT: usize = 128;

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
        let text = self.text().trim_end();
        if text.ends_with(mark) {
            return false;
        }
        let letters: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let count = mark.chars().count();
        let firsts: Vec<char> = mark.chars().take(2).collect();
        // Where a suffix of each length in question begins, the longest first.
        let lengths = count.saturating_sub(OTHERS)..=count + OTHERS;
        let mut starts = lengths.rev().filter_map(|length| letters.get(letters.len().checked_sub(length)?).copied());
        let near = starts.find(|start| {
            let suffix = &text[*start..];
            suffix.starts_with(firsts.as_slice()) && near_miss(suffix, [mark]).is_some()
        });
        near.is_some_and(|start| !text[..start].ends_with('`')) || misspelled_marker(text, mark).is_some()
    }
}

/// Returns a misspelled marker at the end of a text: one with another letter, a letter too many or too few, in another
/// letter case, or with a longer word, as `</thinking>` is `</think>`. One in backticks is meant as it is.
pub(crate) fn misspelled_marker<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    if text.ends_with(mark) {
        return None;
    }
    let count = mark.chars().count();
    // Either of the first two may be missing.
    let mut letters = mark.chars();
    let firsts = [letters.next()?, letters.next()?];
    let is_first = |c: char| firsts[0] == c || firsts[1] == c;
    let last_letters = text.char_indices().rev().zip(1..=count + LONGER);
    let starts = last_letters.filter(|((_, c), length)| length + 1 >= count && is_first(*c));
    let is_it = |found: &str, length: usize| {
        let before = shared(found.chars(), mark.chars(), count.min(length));
        let behind = shared(found.chars().rev(), mark.chars().rev(), count.min(length) - before);
        let more = found.chars().skip(before).take(length - before - behind);
        let is_longer = before + behind == count && behind > 0 && more.into_iter().all(char::is_alphabetic);
        is_longer || count.max(length) - before - behind <= 1
    };
    // The longest counts.
    let found =
        starts.map(|((start, _), length)| (start, length)).filter(|(start, length)| is_it(&text[*start..], *length));
    let (start, _) = found.last()?;
    (!text[..start].ends_with('`')).then_some(&text[start..])
}

/// Markers with which models end their reasoning.
const ENDS: [&str; 8] = [
    "</think>",
    "</thinking>",
    "</thought>",
    "</thoughts>",
    "</reasoning>",
    "</reason>",
    "[/THINK]",
    "<|END_THINKING|>",
];

/// Returns the marker with which other models end their reasoning at the end of a text. One in backticks is meant as it
/// is.
pub(crate) fn other_end<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    let end = ENDS.iter().find(|end| **end != mark && text.ends_with(**end))?;
    let start = text.len() - end.len();
    (!text.ends_with(mark) && !text[..start].ends_with('`')).then_some(&text[start..])
}

/// Returns the number of letters, up to a limit, with which both begin in whatever case.
fn shared(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>, most: usize) -> usize {
    one.zip(other).take(most).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count()
}

/// Returns the last bytes of a text.
pub(crate) fn last(text: &str) -> &str {
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
