use rolecall_text::common_prefix;

/// Text of a format that is expected in the output, with a flag for each byte that a control token
/// writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Literal {
    text: String,
    /// For each byte, whether a control token writes it.
    control: Vec<bool>,
}

impl Literal {
    pub fn of(text: &str) -> Literal {
        let mut literal = Literal::default();
        literal.push(text, false);
        literal
    }

    pub fn push(&mut self, text: &str, is_control: bool) {
        self.text.push_str(text);
        self.control.resize(self.text.len(), is_control);
    }

    pub fn append(&mut self, other: &Literal) {
        self.text.push_str(&other.text);
        self.control.extend_from_slice(&other.control);
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Reports whether the text is empty or only white space.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    pub fn byte(&self, at: usize) -> Option<(u8, bool)> {
        Some((*self.text.as_bytes().get(at)?, *self.control.get(at)?))
    }

    /// Returns the rest from a byte.
    pub fn from(&self, start: usize) -> Literal {
        let start = self.boundary(start);
        Literal { text: self.text[start..].to_owned(), control: self.control[start..].to_vec() }
    }

    pub fn up_to(&self, end: usize) -> Literal {
        let end = self.boundary(end);
        Literal { text: self.text[..end].to_owned(), control: self.control[..end].to_vec() }
    }

    /// Returns where the literal can be cut at or before a byte, which another literal may have told.
    fn boundary(&self, at: usize) -> usize {
        (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// Returns the leading white space.
    pub fn lead(&self) -> &str {
        &self.text[..self.text.len() - self.text.trim_start().len()]
    }

    /// Returns the trailing white space, or nothing if the text is only white space.
    pub fn trail(&self) -> &str {
        match self.is_blank() {
            true => "",
            false => &self.text[self.text.trim_end().len()..],
        }
    }

    /// Returns the literal without leading and trailing white space.
    pub fn core(&self) -> Literal {
        let start = self.lead().len();
        self.from(start).up_to(self.text[start..].trim_end().len())
    }

    /// Returns the rest after an opening, if the literal begins with it. White space around the
    /// opening may be missing.
    pub fn behind(&self, opening: &Literal) -> Option<Literal> {
        let core = opening.core();
        let own = self.text.strip_prefix(opening.lead()).map_or(0, |_| opening.lead().len());
        self.text[own..].starts_with(core.text()).then(|| self.from(own + core.text.len()))
    }

    /// Returns the length of the common prefix, cut at a character boundary.
    pub fn common(&self, other: &Literal) -> usize {
        common_prefix(&self.text, &other.text)
    }

    /// Returns the text behind the marker at its start, if models may leave that out.
    pub fn without_omitted(&self, may_omit: &[String]) -> Option<Literal> {
        let core = self.core();
        let mark = may_omit.iter().find(|mark| !mark.is_empty() && core.text().starts_with(mark.as_str()))?;
        Some(core.from(mark.len()).core())
    }

    /// Returns the length of the first marker: a control token, or text in angle or square
    /// brackets. If the literal begins with neither, that is its whole length.
    pub fn first_mark(&self) -> usize {
        let control = self.control.iter().take_while(|is_control| **is_control).count();
        if control > 0 {
            return control;
        }
        let close = match self.text.as_bytes().first() {
            Some(b'<') => '>',
            Some(b'[') => ']',
            _ => return self.text.len(),
        };
        match self.text.find(close) {
            // `[{` is not a marker.
            Some(at) if at > 1 => at + 1,
            _ => self.text.len(),
        }
    }

    /// Returns the length of the shortest prefix that ends with a marker and that no other literal
    /// shares.
    ///
    /// In `<|open|>think<|sep|>` next to `<|open|>say<|sep|>`, the first token alone does not tell
    /// them apart.
    pub fn mark_apart<'a>(&self, others: impl Iterator<Item = &'a Literal> + Clone) -> usize {
        let mut end = self.first_mark();
        loop {
            let start = &self.text[..end];
            let is_apart = others.clone().all(|other| !other.text.starts_with(start));
            if end == self.text.len() || is_apart {
                return end;
            }
            end = self.next_mark(end);
        }
    }

    /// Reports whether one of two literals begins with the other.
    pub fn is_begun_by(&self, other: &Literal) -> bool {
        other.text.starts_with(&self.text) || self.text.starts_with(&other.text)
    }

    /// Returns the end of the first marker that begins at a byte or after it.
    fn next_mark(&self, from: usize) -> usize {
        let begins = |at: &usize| {
            matches!(self.text.as_bytes()[*at], b'<' | b'[') || (self.control[*at] && self.text.is_char_boundary(*at))
        };
        match (from..self.text.len()).find(begins) {
            Some(start) => start + self.from(start).first_mark(),
            None => self.text.len(),
        }
    }

    /// Returns the start of the last marker, including a word before it that another marker
    /// directly precedes: `<|open|>think<|sep|>`.
    pub fn last_mark(&self) -> Option<usize> {
        let last = self.text.rfind(['<', '['])?;
        let before = self.text[..last].trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'));
        match before.len() < last && before.ends_with(['>', ']']) {
            true => before.rfind(['<', '[']).or(Some(last)),
            false => Some(last),
        }
    }

    /// Returns the last control token of a literal that consists of several.
    pub fn last_token(&self) -> Option<Literal> {
        let start = self.text.rfind('<').filter(|start| *start > 0)?;
        self.control.iter().all(|is_control| *is_control).then(|| self.from(start))
    }

    /// Reports whether the text is so unlikely in ordinary text that it may be searched for
    /// everywhere.
    pub fn is_strong(&self) -> bool {
        self.control.contains(&true)
            || (self.text.trim().len() >= 3 && self.text.contains(['<', '[', '{', '|']))
            || (self.text.trim().chars().count() >= 3 && self.text.contains(is_symbol))
            || self.text.trim().starts_with("```")
    }

    /// Reports whether one part of the text ends before this byte and another one begins: a marker
    /// in angle brackets, a bracket, or a control token. White space between them belongs to both.
    pub fn is_seam(&self, at: usize) -> bool {
        let (Some(before), Some(behind)) = (self.text.get(..at), self.text.get(at..)) else { return false };
        let (before, behind) = (before.trim_end(), behind.trim_start());
        !before.is_empty()
            && !behind.is_empty()
            && (before.ends_with(['>', ']', '}'])
                || behind.starts_with('<')
                || (behind.starts_with([']', '}']) && !before.ends_with(char::is_alphanumeric)))
    }

    /// Flags every occurrence of these tokens as a control token.
    pub fn mark_tokens(&mut self, tokens: &[String]) {
        for token in tokens.iter().filter(|token| !token.is_empty()) {
            for (start, _) in self.text.match_indices(token.as_str()) {
                self.control[start..start + token.len()].fill(true);
            }
        }
    }

    /// Returns the literal without the white space between adjacent markers.
    pub fn without_space(&self) -> Literal {
        let mut tight = Literal::default();
        let mut space = String::new();
        let mut is_behind_mark = false;
        for (at, character) in self.text.char_indices() {
            if character.is_whitespace() && is_behind_mark {
                space.push(character);
                continue;
            }
            if character != '<' {
                tight.push(&space, false);
            }
            space.clear();
            tight.push(character.encode_utf8(&mut [0; 4]), self.control[at]);
            is_behind_mark = character == '>';
        }
        tight.push(&space, false);
        tight
    }
}

/// Reports whether a character is neither ASCII nor part of words, nor punctuation of ordinary text:
/// `§`, `⟦`, `▶`, `＜`.
fn is_symbol(character: char) -> bool {
    let is_usual = |c: char| {
        matches!(c, '\u{b0}' | '\u{b7}' | '\u{2010}'..='\u{203a}' | '\u{20a0}'..='\u{20cf}' | '¡' | '¿' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{300f}')
            || matches!(c, '！' | '（' | '）' | '，' | '．' | '：' | '；' | '？' | '､' | '｡' | '～')
    };
    !character.is_ascii() && !character.is_alphanumeric() && !character.is_whitespace() && !is_usual(character)
}

#[cfg(test)]
mod tests {
    use super::Literal;

    #[test]
    fn a_first_mark_is_a_token_or_what_stands_in_brackets() {
        let first = |text: &str, tokens: &[&str]| {
            let mut literal = Literal::of(text);
            literal.mark_tokens(&tokens.iter().map(|token| (*token).to_owned()).collect::<Vec<_>>());
            text[..literal.first_mark()].to_owned()
        };
        assert_eq!(first("⟦call⟧{", &["⟦call⟧"]), "⟦call⟧");
        assert_eq!(first("<a b>c", &[]), "<a b>");
        assert_eq!(first("[T]c", &[]), "[T]");
        assert_eq!(first("call:{", &[]), "call:{");
    }

    #[test]
    fn a_mark_is_extended_until_no_other_mark_begins_like_it() {
        let apart = |text: &str, others: &[&str]| {
            let others: Vec<Literal> = others.iter().map(|other| Literal::of(other)).collect();
            text[..Literal::of(text).mark_apart(others.iter())].to_owned()
        };
        assert_eq!(apart("<|a|>think<|b|>\n", &["<|c|>x"]), "<|a|>");
        assert_eq!(apart("<|a|>think<|b|>\n", &["<|a|>say<|b|>"]), "<|a|>think<|b|>");
        assert_eq!(apart("<|a|>x k=\"", &["<|a|>say<|b|>"]), "<|a|>x k=\"");
        assert_eq!(apart("#</f>", &["#<"]), "#</f>");
    }

    #[test]
    fn a_last_mark_may_hold_a_word() {
        let last = |text: &str| text[Literal::of(text).last_mark().unwrap_or(0)..].to_owned();
        assert_eq!(last("<|a|>x<|b|>"), "<|a|>x<|b|>");
        assert_eq!(last("<|s|>\n<|a|>think<|b|>"), "<|a|>think<|b|>");
        assert_eq!(last("<|s|><think>\n"), "<think>\n");
    }
}
