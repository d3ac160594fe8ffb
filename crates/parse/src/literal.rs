/// Text of a format that is expected in output, each byte knowing whether a control token writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Literal {
    text: String,
    /// By byte.
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

    /// Whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    pub fn byte(&self, at: usize) -> Option<(u8, bool)> {
        Some((*self.text.as_bytes().get(at)?, self.control[at]))
    }

    pub fn from(&self, start: usize) -> Literal {
        Literal { text: self.text[start..].to_owned(), control: self.control[start..].to_vec() }
    }

    pub fn up_to(&self, end: usize) -> Literal {
        Literal { text: self.text[..end].to_owned(), control: self.control[..end].to_vec() }
    }

    /// The white space before what is to be seen.
    pub fn lead(&self) -> &str {
        &self.text[..self.text.len() - self.text.trim_start().len()]
    }

    /// The white space behind it.
    pub fn trail(&self) -> &str {
        match self.is_blank() {
            true => "",
            false => &self.text[self.text.trim_end().len()..],
        }
    }

    /// Without white space at its ends.
    pub fn core(&self) -> Literal {
        let start = self.lead().len();
        self.from(start).up_to(self.text[start..].trim_end().len())
    }

    /// What is left behind an opening, if it begins with that; white space at the opening's end may be missing.
    pub fn behind(&self, opening: &Literal) -> Option<Literal> {
        let core = opening.core();
        let own = self.text.strip_prefix(opening.lead()).map_or(0, |_| opening.lead().len());
        self.text[own..].starts_with(core.text()).then(|| self.from(own + core.text.len()))
    }

    /// How many bytes both have in common at their start, on a character border.
    pub fn common(&self, other: &Literal) -> usize {
        let same = self.text.bytes().zip(other.text.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
        (0..=same).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// How long its first mark is: a control token, or what stands in the first pair of angle or square brackets; all of it,
    /// where it does not begin with one.
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
            // `[{` is no mark.
            Some(at) if at > 1 => at + 1,
            _ => self.text.len(),
        }
    }

    /// The last of several control tokens that it is made of.
    pub fn last_token(&self) -> Option<Literal> {
        let start = self.text.rfind('<').filter(|start| *start > 0)?;
        self.control.iter().all(|is_control| *is_control).then(|| self.from(start))
    }

    /// Whether it is unlikely enough in ordinary text to be looked for everywhere.
    pub fn is_strong(&self) -> bool {
        self.control.contains(&true)
            || (self.text.trim().len() >= 3 && self.text.contains(['<', '[', '{', '|', '＜', '«']))
            || self.text.trim().starts_with("```")
    }

    /// Takes each of these tokens for a control token wherever it is spelled.
    pub fn mark_tokens(&mut self, tokens: &[String]) {
        for token in tokens.iter().filter(|token| !token.is_empty()) {
            for (start, _) in self.text.match_indices(token.as_str()) {
                self.control[start..start + token.len()].fill(true);
            }
        }
    }

    /// The same where marks stand side by side without white space between them.
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
}
