use std::collections::HashMap;

/// The tokens that ordinary text must not encode to, although merging could produce them.
pub(crate) struct ForgedTokens {
    /// The ids as a bit set.
    watched: Vec<u64>,
    tokens: HashMap<u32, MergeSpelling>,
}

/// How merging spells such a token.
pub(crate) struct MergeSpelling {
    /// The spelling in the vocabulary's own alphabet.
    pub name: String,
    /// The spelling in bytes of text; `None` if no text spells it.
    pub text: Option<Vec<u8>>,
    /// Whether the model also uses this id for text that it does not know: the unknown token and
    /// the fallback bytes.
    pub stands_in: bool,
}

impl ForgedTokens {
    pub fn new(tokens: HashMap<u32, MergeSpelling>) -> Self {
        let mut watched = Vec::new();
        for &id in tokens.keys() {
            let place = id as usize / 64;
            if watched.len() <= place {
                watched.resize(place + 1, 0);
            }
            watched[place] |= 1 << (id % 64);
        }
        Self { watched, tokens }
    }

    /// Reports whether a token is forged, given the bytes that it was produced from.
    #[inline]
    pub fn is_forged(&self, id: u32, bytes: &[u8], space: Option<char>) -> bool {
        let watched = self.watched.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1);
        watched && self.spells(id, bytes, space)
    }

    fn spells(&self, id: u32, bytes: &[u8], space: Option<char>) -> bool {
        let Some(token) = self.tokens.get(&id) else { return false };
        if !token.stands_in {
            return true;
        }
        let Some(name) = &token.text else { return false };
        match space {
            None => bytes == name.as_slice(),
            Some(space) => {
                let mut encoded = [0; 4];
                let space = space.encode_utf8(&mut encoded).as_bytes();
                let spelled = bytes.iter().flat_map(|byte| match byte {
                    b' ' => space,
                    _ => std::slice::from_ref(byte),
                });
                spelled.eq(name)
            }
        }
    }

    pub fn name(&self, id: u32) -> &str {
        self.tokens.get(&id).map_or("", |token| &token.name)
    }
}
