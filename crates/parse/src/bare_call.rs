use std::ops::Range;

use rolecall_conversation::Tool;

/// The beginning of the content of a reply without calls. It tells whether the content is a call whose
/// markers were removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct BareCall {
    text: String,
    span: Option<Range<u64>>,
}

/// The number of bytes of the content to look at.
const LONGEST: usize = 256;

impl BareCall {
    /// Adds text of the content.
    pub fn add(&mut self, place: &Range<u64>, text: &str) {
        let span = self.span.get_or_insert(place.start..place.end);
        span.end = place.end;
        let room = LONGEST - self.text.len();
        let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&text[..end]);
        if end < text.len() {
            // Nothing more fits, not even a shorter character.
            self.text.extend(std::iter::repeat_n(' ', LONGEST - self.text.len()));
        }
    }

    /// Returns the tool that the content calls, with the place of the content: the tool's name follows
    /// only brackets, quotes and the keys of calls, and arguments follow the name.
    pub fn find<'t>(&self, tools: &'t [Tool]) -> Option<(Range<u64>, &'t str)> {
        let span = self.span.clone()?;
        let name = tools.iter().map(Tool::name).find(|name| self.calls(name))?;
        Some((span, name))
    }

    fn calls(&self, name: &str) -> bool {
        let Some(at) = self.text.find(name).filter(|_| !name.is_empty()) else { return false };
        let (before, behind) = (&self.text[..at], &self.text[at + name.len()..]);
        let is_key = |word: &str| {
            KEYS.split(' ').any(|key| key.eq_ignore_ascii_case(word)) || word.chars().all(|c| c.is_ascii_digit())
        };
        let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).all(is_key);
        let Some(open) = behind.find(['{', '(']) else { return false };
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && words(before) && words(&behind[..open])
    }
}

/// The words around a tool's name in calls.
const KEYS: &str = "name arguments parameters function functions functools action input type id json";
