/// The bytes of all tokens, one after the other.
pub(super) struct TokenBytes {
    /// Followed by `STEP` bytes that belong to no token.
    bytes: Vec<u8>,
    /// Where the bytes of each id start, and at last where those of the last id end. `NONE` is set for an id
    /// without bytes.
    starts: Vec<u32>,
}

/// The flag of an id without bytes of its own.
const NONE: u32 = 1 << 31;

/// The number of bytes that are copied for a token, of which the next token overwrites those that are too
/// many. Few tokens are longer, and a copy of a constant size is a few instructions.
const STEP: usize = 16;

/// The number of tokens for which room is made at once.
const PART: usize = 64;

impl TokenBytes {
    /// Collects the bytes of the ids up to `end`. `write` appends those of an id, or returns false.
    pub fn new(end: usize, write: impl Fn(u32, &mut Vec<u8>) -> bool) -> TokenBytes {
        let mut tokens = TokenBytes { bytes: Vec::new(), starts: Vec::with_capacity(end + 1) };
        for id in 0..u32::try_from(end).unwrap_or(u32::MAX) {
            let start = tokens.bytes.len();
            if start >= NONE as usize {
                break;
            }
            let has_bytes = write(id, &mut tokens.bytes);
            if !has_bytes {
                tokens.bytes.truncate(start);
            }
            tokens.starts.push(start as u32 | if has_bytes { 0 } else { NONE });
        }
        match u32::try_from(tokens.bytes.len()).ok().filter(|length| *length < NONE) {
            Some(length) => tokens.starts.push(length),
            // The last id is too long.
            None => tokens.bytes.truncate(tokens.starts.last().map_or(0, |start| (start & !NONE) as usize)),
        }
        tokens.bytes.extend([0; STEP]);
        tokens.bytes.shrink_to_fit();
        tokens
    }

    /// Appends the bytes of ids up to the first one without bytes, and returns how many these are.
    fn append(&self, ids: &[u32], out: &mut Vec<u8>) -> usize {
        let mut filled = out.len();
        let mut count = 0;
        for part in ids.chunks(PART) {
            out.resize(filled + part.len() * STEP, 0);
            for (at, &id) in part.iter().enumerate() {
                let Some((start, end)) = self.range(id) else {
                    out.truncate(filled);
                    return count + at;
                };
                if end - start > STEP {
                    out.truncate(filled);
                    out.extend_from_slice(&self.bytes[start..end]);
                    out.resize(filled + end - start + (part.len() - at) * STEP, 0);
                } else {
                    out[filled..filled + STEP].copy_from_slice(&self.bytes[start..start + STEP]);
                }
                filled += end - start;
            }
            count += part.len();
        }
        out.truncate(filled);
        count
    }

    /// Appends the bytes of ids up to the first one without bytes, and returns how many these are. `write` is
    /// asked about ids that are not here.
    pub fn decode(&self, ids: &[u32], write: impl Fn(u32, &mut Vec<u8>) -> bool, out: &mut Vec<u8>) -> usize {
        let mut count = 0;
        loop {
            count += self.append(&ids[count..], out);
            match ids.get(count) {
                Some(&id) if write(id, out) => count += 1,
                _ => return count,
            }
        }
    }

    fn range(&self, id: u32) -> Option<(usize, usize)> {
        let [start, end] = *self.starts.get(id as usize..)?.first_chunk::<2>()?;
        (start & NONE == 0).then_some((start as usize, (end & !NONE) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::TokenBytes;

    #[test]
    fn the_bytes_of_tokens_of_any_length_are_appended_up_to_one_without_bytes() {
        // Of each length up to 39, and none for each seventh id.
        let bytes_of = |id: u32| (!id.is_multiple_of(7)).then(|| vec![id as u8; id as usize % 40]);
        let write = |id: u32, out: &mut Vec<u8>| {
            // What was written before an id turned out to have no bytes does not stay.
            out.extend(bytes_of(id).unwrap_or(vec![0; 3]));
            bytes_of(id).is_some()
        };
        let tokens = TokenBytes::new(1_000, write);
        let with_bytes: Vec<u32> = (0..1_000).filter(|id| id % 7 != 0).collect();
        for ids in [&with_bytes[..], &[], &[1], &[39], &[39, 1, 0, 5], &[7, 5], &[999, 1_000, 1], &[u32::MAX]] {
            let count = ids.iter().take_while(|id| **id < 1_000 && bytes_of(**id).is_some()).count();
            let mut expected = b"before".to_vec();
            expected.extend(ids[..count].iter().filter_map(|id| bytes_of(*id)).flatten());
            let mut out = b"before".to_vec();
            let appended = tokens.append(ids, &mut out);
            assert_eq!((appended, out), (count, expected), "{ids:?}");
        }
    }

    #[test]
    fn ids_that_were_not_collected_are_asked_for() {
        let write = |id: u32, out: &mut Vec<u8>| {
            out.extend((id != 9).then_some(id as u8));
            id != 9
        };
        for collected in 0..12 {
            let tokens = TokenBytes::new(collected, write);
            let mut out = Vec::new();
            assert_eq!(tokens.decode(&[1, 8, 3, 11, 9, 2], write, &mut out), 4);
            assert_eq!(out, [1, 8, 3, 11]);
        }
    }
}
