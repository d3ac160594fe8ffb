use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::byte_joints::ByteJoints;
use super::merges::{Merges, NONE, Symbols};

/// The code points of up to three bytes.
const CODE_POINTS: usize = 1 << 16;

/// The characters beyond ASCII that are one token each, for a vocabulary of bytes.
///
/// Merging may begin with these tokens instead of bytes. The result is the same if no token holds part
/// of a character together with bytes of its neighbor, and if what a character merges with has a
/// higher rank than every merge of its own bytes. To see why, consider a merge of whole characters
/// that comes first when merging begins with bytes. The characters that are not merged yet have merges
/// of a higher rank left, and whatever they could merge with as whole characters has a still higher
/// rank, so the same merge comes first when merging begins with characters.
pub(crate) struct WholeCharacters {
    /// By code point; [`NONE`] for a character that merging has to begin with bytes.
    tokens: Vec<u32>,
}

impl WholeCharacters {
    /// Takes the bytes and ids of all tokens, and the pairs that merge.
    pub fn new<'a>(
        tokens: impl Iterator<Item = (&'a [u8], u32)>,
        byte_ids: &[u32; 256],
        pairs: impl Iterator<Item = (u32, u32)>,
        merges: &Merges,
    ) -> Self {
        let mut characters: HashMap<u32, (usize, u32), RandomState> = HashMap::default();
        for (bytes, id) in tokens {
            if let Some(code) = code_of_one(bytes)
                && let Some(highest) = highest_rank(bytes, id, byte_ids, merges)
            {
                characters.insert(id, (code, highest));
            }
        }
        let mut tokens = vec![NONE; CODE_POINTS];
        for (&id, &(code, _)) in &characters {
            tokens[code] = id;
        }
        for (left, right) in pairs {
            for id in [left, right] {
                if let Some(&(code, highest)) = characters.get(&id)
                    && merges.rank(left, right) < highest
                {
                    tokens[code] = NONE;
                }
            }
        }
        Self { tokens }
    }

    /// Fills `word` with the tokens of its characters. Returns false if merging has to begin with
    /// bytes.
    pub fn fill(&self, bytes: &[u8], joints: &ByteJoints, word: &mut Symbols) -> bool {
        // Part of a text may be cut inside a character.
        let Some(text) = bytes.first().filter(|byte| !byte.is_ascii()).and_then(|_| std::str::from_utf8(bytes).ok())
        else {
            return false;
        };
        word.clear();
        for (at, character) in text.char_indices() {
            let id = self.tokens.get(character as usize).copied().unwrap_or(NONE);
            if id == NONE || (at > 0 && joints.may_be_cut_otherwise(bytes, at)) {
                return false;
            }
            word.push(id, at + character.len_utf8());
        }
        true
    }
}

/// Returns the code point of bytes that are one character of two or three bytes.
fn code_of_one(bytes: &[u8]) -> Option<usize> {
    let code = super::byte_joints::code(bytes).filter(|_| (2..=3).contains(&bytes.len()))?;
    Some(code as usize)
}

/// Merges the bytes of a token. Returns the highest rank of these merges, or `None` if they do not lead
/// to the token.
fn highest_rank(bytes: &[u8], id: u32, byte_ids: &[u32; 256], merges: &Merges) -> Option<u32> {
    let mut ids: Vec<u32> = bytes.iter().map(|&byte| byte_ids[usize::from(byte)]).collect();
    let mut highest = 0;
    while ids.len() > 1 {
        let ranks = ids.windows(2).map(|pair| merges.rank(pair[0], pair[1]));
        let (rank, at) = ranks.zip(0..).min()?;
        if rank == NONE {
            return None;
        }
        let right = ids.remove(at + 1);
        ids[at] = merges.product(rank, ids[at], right);
        highest = highest.max(rank);
    }
    (ids == [id]).then_some(highest)
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::Alphabet;
    use super::super::byte_joints::ByteJoints;
    use super::super::merges::{Merges, Symbols};
    use super::WholeCharacters;

    /// Merges that were learned from random text. In half of the rounds, they are in random order: what a
    /// token merges with may then have a lower rank than what makes the token.
    struct Learned {
        tokens: Vec<Vec<u8>>,
        merges: Vec<(u32, u32, u32)>,
    }

    impl Learned {
        fn new(random: &mut impl FnMut(usize) -> usize) -> Self {
            let mut learned = Self { tokens: (0..=u8::MAX).map(|byte| vec![byte]).collect(), merges: Vec::new() };
            for _ in 0..random(40) {
                let mut ids: Vec<u32> = text(random, 6).bytes().map(u32::from).collect();
                for &(left, right, product) in &learned.merges {
                    while let Some(at) = ids.windows(2).position(|pair| pair == [left, right]) {
                        ids.splice(at..at + 2, [product]);
                    }
                }
                if let Some(&[left, right]) = ids.get(random(ids.len())..).and_then(|ids| ids.first_chunk()) {
                    let bytes = [left, right].map(|id| &*learned.tokens[id as usize]).concat();
                    let known = learned.tokens.iter().position(|token| *token == bytes);
                    let product = known.unwrap_or(learned.tokens.len()) as u32;
                    if known.is_none() {
                        learned.tokens.push(bytes);
                    }
                    learned.merges.push((left, right, product));
                }
            }
            if random(2) == 0 {
                for at in 1..learned.merges.len() {
                    learned.merges.swap(at, random(at + 1));
                }
            }
            learned
        }
    }

    fn text(random: &mut impl FnMut(usize) -> usize, characters: usize) -> String {
        (0..=random(characters)).map(|_| ['é', 'è', '中', '丮', '文', '😀', 'a'][random(7)]).collect()
    }

    #[test]
    fn merging_may_begin_with_characters() {
        let mut state = 1u64;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let (mut whole, mut parts) = (0, 0);
        for round in 0..4000 {
            let Learned { tokens, merges: pairs } = Learned::new(&mut random);
            let merges = Merges::new(&pairs, tokens.len() as u32).unwrap();
            let byte_ids = std::array::from_fn(|byte| byte as u32);
            let texts = || tokens.iter().map(Vec::as_slice);
            let joints = ByteJoints::new(texts());
            let sides = pairs.iter().map(|&(left, right, _)| (left, right));
            let characters = WholeCharacters::new(texts().zip(0..), &byte_ids, sides, &merges);
            let alphabet = Alphabet::Bytes(Box::new(byte_ids));
            for _ in 0..20 {
                let text = text(&mut random, 8);
                let [mut from_characters, mut from_bytes] = [(); 2].map(|()| Symbols::default());
                if !characters.fill(text.as_bytes(), &joints, &mut from_characters) {
                    parts += 1;
                    continue;
                }
                whole += 1;
                alphabet.fill(text.as_bytes(), &mut from_bytes);
                merges.merge(&mut from_characters);
                merges.merge(&mut from_bytes);
                let [found, expected] = [&from_characters, &from_bytes].map(|word| (&word.ids, &word.ends));
                assert_eq!(found, expected, "round {round}, {text}, {pairs:?}");
            }
        }
        assert!(whole > 2000 && parts > 2000, "{whole} words of whole characters, {parts} of bytes");
    }

    #[test]
    fn part_of_a_character_is_no_character() {
        let tokens = [&b"\xE4"[..], "é".as_bytes()];
        let merges = Merges::new(&[(0xC3, 0xA9, 256)], 256).unwrap();
        let joints = ByteJoints::new(tokens.into_iter());
        let byte_ids = std::array::from_fn(|byte| byte as u32);
        let characters =
            WholeCharacters::new(tokens.into_iter().zip([0xE4, 256]), &byte_ids, [(0xC3, 0xA9)].into_iter(), &merges);
        let mut word = Symbols::default();
        for (bytes, is_whole) in
            [("éé".as_bytes(), true), (&b"\xA9"[..], false), (b"\xC3", false), (b"\x83\xA9", false), (b"", false)]
        {
            assert_eq!(characters.fill(bytes, &joints, &mut word), is_whole, "{bytes:x?}");
        }
    }
}
