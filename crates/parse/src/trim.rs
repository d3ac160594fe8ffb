//! White space around a reply's text, where it means nothing.

/// Leaves out the white space at both ends of a text that arrives in pieces.
///
/// A run of white space that is longer than [`LONGEST`] is text, so that no more needs to be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trim {
    /// Whether the text has begun.
    has_begun: bool,
    /// The white space since the last other character.
    held: String,
    /// The length of that white space, of which the part that was passed on is not kept.
    run: usize,
}

/// The longest run of white space that is left out at the end of a text.
const LONGEST: usize = 4096;

impl Trim {
    /// Takes the next piece. Returns the white space before it that turned out to be part of the
    /// text, and the part of the piece that is, with its first byte.
    pub fn take<'t>(&mut self, piece: &'t str) -> (String, &'t str, usize) {
        let body = if self.has_begun { piece } else { piece.trim_start() };
        let from = piece.len() - body.len();
        let text = body.trim_end();
        if !text.is_empty() {
            self.has_begun = true;
            let before = std::mem::take(&mut self.held);
            let space = &body[text.len()..];
            self.run = space.len();
            if self.run > LONGEST {
                return (before, body, from);
            }
            self.held.push_str(space);
            return (before, text, from);
        }
        self.run += body.len();
        if self.run > LONGEST {
            return (std::mem::take(&mut self.held), body, from);
        }
        self.held.push_str(body);
        (String::new(), "", from)
    }

    /// Forgets the white space so far, which belongs to the prompt.
    pub fn hide(&mut self) {
        self.held.clear();
        self.run = 0;
    }

    /// Begins another text.
    pub fn restart(&mut self) {
        *self = Trim::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Trim};

    fn trimmed(pieces: &[&str]) -> String {
        let mut trim = Trim::default();
        let mut all = String::new();
        for piece in pieces {
            let (before, text, _) = trim.take(piece);
            all += &before;
            all += text;
        }
        all
    }

    #[test]
    fn white_space_at_both_ends_is_left_out_however_a_text_is_split() {
        let text = " \n Hello  there\n\n";
        for at in 0..=text.len() {
            for other in at..=text.len() {
                assert_eq!(trimmed(&[&text[..at], &text[at..other], &text[other..]]), "Hello  there");
            }
        }
    }

    #[test]
    fn long_white_space_is_text_however_it_is_split() {
        let long = " ".repeat(LONGEST + 1);
        for at in [0, 1, LONGEST, LONGEST + 1] {
            assert_eq!(trimmed(&["a", &long[..at], &long[at..]]), format!("a{long}"));
            assert_eq!(trimmed(&[&format!("a{}", &long[..at]), &long[at..], "b "]), format!("a{long}b"));
        }
        assert_eq!(trimmed(&["a", &long[1..]]), "a");
    }
}
