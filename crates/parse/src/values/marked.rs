use rolecall_conversation::json::escape_into;

/// The marker around strings, prepared for a search in text that is cut anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StringMarker {
    characters: Box<[char]>,
    /// The first byte.
    first: u8,
    /// For each matched length, the length of the longest proper suffix that is also a prefix of
    /// the marker.
    shorter: Box<[usize]>,
}

impl StringMarker {
    pub(super) fn new(mark: &str) -> StringMarker {
        let characters: Box<[char]> = mark.chars().collect();
        let mut shorter = vec![0; characters.len() + 1];
        let mut known = 0;
        for seen in 1..characters.len() {
            while known > 0 && characters[known] != characters[seen] {
                known = shorter[known];
            }
            known += usize::from(characters[known] == characters[seen]);
            shorter[seen + 1] = known;
        }
        StringMarker { characters, first: mark.bytes().next().unwrap_or_default(), shorter: shorter.into() }
    }

    /// Returns the character that follows this many matched characters.
    pub(super) fn character(&self, seen: usize) -> Option<char> {
        self.characters.get(seen).copied()
    }

    /// Reports whether no marker begins in a text.
    pub(super) fn is_plain(&self, text: &str) -> bool {
        !text.bytes().any(|byte| byte == self.first)
    }

    /// Continues a text that ends with a marker, after this many matched characters. Returns the
    /// number of bytes used and the new number of matched characters. A complete match is the end
    /// of the text.
    pub(super) fn text(&self, mut seen: usize, text: &str, out: &mut String) -> (usize, usize) {
        let mut at = 0;
        let Some(first) = self.character(0) else { return (0, 0) };
        while seen < self.characters.len() {
            if seen == 0 {
                let run = text[at..].find(first).unwrap_or(text.len() - at);
                escape_into(out, &text[at..at + run], false);
                at += run;
            }
            let Some(character) = text[at..].chars().next() else { break };
            if self.character(seen) == Some(character) {
                seen += 1;
                at += character.len_utf8();
                continue;
            }
            // The match failed. Its text is output, except for a suffix that may start the marker.
            let kept = self.shorter[seen];
            for character in &self.characters[..seen - kept] {
                escape_into(out, character.encode_utf8(&mut [0; 4]), false);
            }
            seen = kept;
        }
        (at, seen)
    }
}
