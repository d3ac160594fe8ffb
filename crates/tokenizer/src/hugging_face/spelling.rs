use serde_json::Value;

use super::super::TokenizerKind;

/// How a vocabulary spells the bytes of its tokens.
#[derive(Clone, Copy)]
pub(super) enum Spelling {
    /// One character per byte.
    ByteLevel,
    /// As text. Spaces may be escaped, and bytes without a token may be spelled `<0x0A>`.
    Text { escapes_spaces: bool, byte_fallback: bool },
    /// Only together with the previous token: word pieces.
    None,
}

const ESCAPED_SPACE: char = '\u{2581}';

impl Spelling {
    /// Determines the spelling from the parts of a file.
    pub fn of(
        kind: TokenizerKind,
        normalizer: &Value,
        pre_tokenizer: &Value,
        byte_fallback: bool,
        has_affixes: bool,
    ) -> Spelling {
        match kind {
            TokenizerKind::ByteLevelBpe => Spelling::ByteLevel,
            TokenizerKind::WordPiece => Spelling::None,
            _ if has_affixes => Spelling::None,
            _ => Spelling::Text {
                escapes_spaces: [normalizer, pre_tokenizer].into_iter().any(escapes_spaces),
                byte_fallback,
            },
        }
    }

    /// Appends the bytes of a token. Returns false if they depend on the previous token.
    pub fn write(self, token: &str, out: &mut Vec<u8>) -> bool {
        match self {
            Spelling::None => return false,
            Spelling::ByteLevel => {
                // These represent themselves.
                if token.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
                    out.extend_from_slice(token.as_bytes());
                    return true;
                }
                let first = out.len();
                for character in token.chars() {
                    let Some(byte) = BYTES.get(character as usize).copied().flatten() else {
                        // The token is not spelled in bytes, like added tokens.
                        out.truncate(first);
                        out.extend_from_slice(token.as_bytes());
                        return true;
                    };
                    out.push(byte);
                }
            }
            Spelling::Text { byte_fallback: true, .. } if byte_of(token).is_some() => out.extend(byte_of(token)),
            Spelling::Text { escapes_spaces: true, .. } => {
                let mut letter = [0; 4];
                for character in token.chars() {
                    let character = if character == ESCAPED_SPACE { ' ' } else { character };
                    out.extend_from_slice(character.encode_utf8(&mut letter).as_bytes());
                }
            }
            Spelling::Text { .. } => out.extend_from_slice(token.as_bytes()),
        }
        true
    }
}

/// Returns the byte of a token such as `<0x0A>`.
fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

fn escapes_spaces(part: &Value) -> bool {
    let nested = ["normalizers", "pretokenizers"].map(|key| part[key].as_array());
    part["type"] == "Metaspace"
        || (part["type"] == "Replace" && part["content"] == ESCAPED_SPACE.to_string())
        || nested.into_iter().flatten().flatten().any(escapes_spaces)
}

/// GPT-2: printable bytes represent themselves, and the others are U+0100 and up, in order.
static BYTES: [Option<u8>; 0x180] = {
    let mut bytes = [None; 0x180];
    let (mut byte, mut next) = (0, 0x100);
    while byte < 0x100 {
        let is_printable = matches!(byte as u8, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let character = if is_printable { byte } else { next };
        next += !is_printable as usize;
        bytes[character] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::Spelling;

    #[test]
    fn a_token_that_is_half_in_the_alphabet_of_bytes_is_its_own_text() {
        for (token, expected) in [("ab", "before ab"), ("ab｜", "before ab｜"), ("aĠb", "before a b")] {
            let mut bytes = b"before ".to_vec();
            assert!(Spelling::ByteLevel.write(token, &mut bytes));
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        }
    }
}
