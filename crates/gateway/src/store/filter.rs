/// A Bloom filter of names: which of them are certainly not in the tables.
///
/// A request with a long history asks for one name per reply in it, and mostly none is known.
#[derive(Debug)]
pub struct Filter {
    words: Vec<u64>,
    /// How many names it has, and for how many it was made.
    names: usize,
    room: usize,
}

/// The bits for each name, and how many of them one sets. About one unknown name in 400 passes.
const BITS: usize = 16;
const SET: usize = 4;

/// The smallest number of names that a filter is made for. It takes 128 KiB then.
const LEAST: usize = 1 << 16;

impl Filter {
    /// Makes a filter for a number of names, and as many again.
    pub fn new(names: usize) -> Filter {
        let room = (2 * names).max(LEAST).next_power_of_two();
        Filter { words: vec![0; room * BITS / 64], names: 0, room }
    }

    /// Adds the digest of a name.
    pub fn add(&mut self, name: &[u8; 32]) {
        for (word, bit) in places(name, self.words.len()) {
            self.words[word] |= bit;
        }
        self.names += 1;
    }

    /// Reports whether a name may be known.
    pub fn may_have(&self, name: &[u8; 32]) -> bool {
        places(name, self.words.len()).all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Reports whether so many names were added that it should be made again from those that are left.
    pub fn is_full(&self) -> bool {
        self.names >= self.room
    }
}

/// Returns the words and bits of a name. Its bytes are those of a digest, and as good as random.
fn places(name: &[u8; 32], words: usize) -> impl Iterator<Item = (usize, u64)> {
    let (numbers, _) = name.as_chunks::<8>();
    numbers.iter().take(SET).map(move |bytes| {
        let number = u64::from_le_bytes(*bytes);
        ((number >> 6) as usize & (words - 1), 1 << (number & 63))
    })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn name(number: usize) -> [u8; 32] {
        Sha256::digest(number.to_le_bytes()).into()
    }

    #[test]
    fn known_names_pass_and_few_others() {
        for count in [0, 1, 1_000, LEAST] {
            let mut filter = Filter::new(count);
            let room = filter.room;
            assert!(room >= 2 * count);
            for number in 0..room {
                assert!(!filter.is_full());
                filter.add(&name(number));
            }
            assert!(filter.is_full());
            assert!((0..room).all(|number| filter.may_have(&name(number))));
            let passed = (room..room + 100_000).filter(|number| filter.may_have(&name(*number))).count();
            assert!(passed < 500, "{passed} of 100,000 with {count}");
        }
    }
}
