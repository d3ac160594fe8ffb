use super::char_block::{BLOCK, BlockText, FAR_MARK, UNKNOWN};
use super::char_classes::{CharTable, decode};

/// The most characters in a window, and the most that are read together.
const MOST: usize = 1024;
const CHUNK: usize = 16;

/// The next characters of a text: the kind of each, and where it begins.
pub(crate) struct CharWindow {
    /// Followed by a block of unknown characters.
    kinds: Box<[u8; MOST + BLOCK]>,
    places: Box<[u32; MOST + BLOCK]>,
    count: usize,
    /// Whether the last character is that of the text.
    is_last: bool,
}

impl Default for CharWindow {
    fn default() -> Self {
        Self { kinds: Box::new([UNKNOWN; MOST + BLOCK]), places: Box::new([0; MOST + BLOCK]), count: 0, is_last: false }
    }
}

impl CharWindow {
    /// Reads the characters from `at` on, in a text that ends at `end`. Returns the number of those of
    /// no known kind.
    pub fn fill(&mut self, table: &CharTable, text: &str, mut at: usize, end: usize) -> usize {
        let bytes = &text.as_bytes()[..end];
        let mut count = 0;
        while count < MOST && at < end {
            let rest = &bytes[at..];
            if rest[0] < 0x80 {
                let length = match rest.first_chunk::<CHUNK>() {
                    Some(chunk) if count + CHUNK <= MOST => self.copy_ascii(chunk, count, at),
                    _ => 0,
                };
                if length == 0 {
                    (self.kinds[count], self.places[count]) = (rest[0], at as u32);
                }
                count += length.max(1);
                at += length.max(1);
                continue;
            }
            let (code, length) = match *rest {
                [first @ 0xE0..0xF0, second, third, ..] => {
                    let bits = |byte: u8, mask: u8| usize::from(byte & mask);
                    (bits(first, 0x0F) << 12 | bits(second, 0x3F) << 6 | bits(third, 0x3F), 3)
                }
                _ => decode(bytes, at).unwrap_or((0, 1)),
            };
            (self.kinds[count], self.places[count]) = (table.of(code).unwrap_or(UNKNOWN), at as u32);
            count += 1;
            at += length;
        }
        (self.count, self.is_last) = (count, at >= end);
        self.kinds[count..count + BLOCK].fill(UNKNOWN);
        self.places[count] = at as u32;
        self.kinds[..count].iter().filter(|&&kind| kind > FAR_MARK).count()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies the ASCII characters of a chunk, and returns their number.
    #[inline(always)]
    fn copy_ascii(&mut self, chunk: &[u8; CHUNK], count: usize, at: usize) -> usize {
        let others = u128::from_le_bytes(*chunk) & u128::from_le_bytes([0x80; CHUNK]);
        let (Some(kinds), Some(places)) = (self.kinds.get_mut(count..), self.places.get_mut(count..)) else { return 0 };
        let (Some(kinds), Some(places)) = (kinds.first_chunk_mut(), places.first_chunk_mut::<CHUNK>()) else {
            return 0;
        };
        *kinds = *chunk;
        for (ahead, place) in places.iter_mut().enumerate() {
            *place = (at + ahead) as u32;
        }
        others.trailing_zeros() as usize / 8
    }
}

impl BlockText for CharWindow {
    const OTHERS: bool = true;

    #[inline(always)]
    fn block(&mut self, at: usize) -> Option<(&[u8; BLOCK], usize)> {
        let rest = self.count.checked_sub(at).filter(|&rest| rest > 0 && (self.is_last || rest >= BLOCK))?;
        let block = self.kinds.get(at..)?.first_chunk()?;
        Some((block, if self.is_last { rest } else { usize::MAX }))
    }

    #[inline(always)]
    fn places(&self, at: usize) -> impl Fn(u8) -> u32 {
        let places = self.places.get(at..).and_then(<[u32]>::first_chunk::<BLOCK>);
        move |ahead| places.map_or(0, |places| places[usize::from(ahead) % BLOCK])
    }

    fn find(&self, at: usize, place: usize) -> usize {
        at + self.places[at..self.count].iter().take_while(|&&start| (start as usize) < place).count()
    }
}
