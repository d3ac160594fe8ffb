//! Maps bytes to the characters that represent them in byte-level vocabularies: printable bytes to
//! themselves, the rest to U+0100 and up.

/// The character of each byte, numbered as in GPT-2's `bytes_to_unicode`.
pub(super) struct ByteAlphabet {
    characters: [char; 256],
}

impl ByteAlphabet {
    pub fn new() -> Self {
        let mut characters = ['\0'; 256];
        let mut others = 0x100;
        for (byte, character) in (0..=u8::MAX).zip(characters.iter_mut()) {
            let is_printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
            *character = if is_printable { char::from(byte) } else { char::from_u32(others).unwrap_or('\0') };
            others += u32::from(!is_printable);
        }
        Self { characters }
    }

    pub fn spell(&self, bytes: &[u8]) -> String {
        bytes.iter().map(|&byte| self.characters[usize::from(byte)]).collect()
    }

    /// Returns the bytes that a token spells, or `None` if one of its characters represents no
    /// byte.
    pub fn read(&self, token: &str) -> Option<Vec<u8>> {
        token.chars().map(|c| self.byte(c)).collect()
    }

    fn byte(&self, character: char) -> Option<u8> {
        // Most characters are letters and punctuation, which represent themselves.
        let same = u8::try_from(character).ok().filter(|&byte| self.characters[usize::from(byte)] == character);
        same.or_else(|| (0..=u8::MAX).zip(self.characters).find(|&(_, c)| c == character).map(|(byte, _)| byte))
    }
}

/// Returns the name of a fallback byte.
pub(crate) fn byte_name(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}
