use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use redb::StorageBackend;

/// The bytes of a store in memory, in blocks that stay where they are. redb doubles its length when it grows; its
/// own backend copies all bytes then, and requests wait meanwhile.
#[derive(Default)]
pub(super) struct Blocks(RwLock<Bytes>);

#[derive(Default)]
struct Bytes {
    /// A block that was never written is missing.
    blocks: Vec<Option<Box<[u8]>>>,
    /// The bytes after it are zero.
    len: usize,
}

const BLOCK: usize = 1 << 20;

impl Bytes {
    /// Returns the stretches of blocks that a range is made of.
    fn stretches(&self, offset: u64, len: usize) -> io::Result<impl Iterator<Item = (usize, Range<usize>)> + use<>> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "the range is not within the bytes");
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(len).filter(|end| *end <= self.len).ok_or_else(outside)?;
        Ok((start / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
            let first = block * BLOCK;
            (block, start.max(first) - first..end.min(first + BLOCK) - first)
        }))
    }
}

impl StorageBackend for Blocks {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).len as u64)
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let stretches = bytes.stretches(offset, len)?;
        let mut found = Vec::with_capacity(len);
        stretches.for_each(|(block, range)| match &bytes.blocks[block] {
            Some(block) => found.extend_from_slice(&block[range]),
            None => found.resize(found.len() + range.len(), 0),
        });
        Ok(found)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        bytes.blocks.resize_with(len.div_ceil(BLOCK), || None);
        let end = len % BLOCK;
        if let Some(Some(last)) = bytes.blocks.last_mut().filter(|_| end > 0) {
            last[end..].fill(0);
        }
        bytes.len = len;
        Ok(())
    }

    fn sync_data(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut rest = data;
        for (block, range) in bytes.stretches(offset, data.len())? {
            let (now, later) = rest.split_at(range.len());
            bytes.blocks[block].get_or_insert_with(|| vec![0; BLOCK].into())[range].copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Blocks({} bytes)", self.0.read().unwrap_or_else(PoisonError::into_inner).len)
    }
}

#[cfg(test)]
mod tests {
    use redb::StorageBackend;

    use super::{BLOCK, Blocks};

    #[test]
    fn blocks_are_one_row_of_bytes() {
        let (blocks, mut bytes) = (Blocks::default(), Vec::new());
        let mut state = 5_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..200 {
            if random(4) == 0 {
                let len = random(4 * BLOCK);
                blocks.set_len(len as u64).unwrap();
                bytes.resize(len, 0);
            }
            let start = random(bytes.len() + 1);
            let len = random(bytes.len() - start + 1);
            let data = vec![random(256) as u8; len];
            blocks.write(start as u64, &data).unwrap();
            bytes[start..start + len].copy_from_slice(&data);
            assert!(blocks.read(0, bytes.len()).unwrap() == bytes);
            assert!(blocks.read(start as u64 / 2, len).unwrap() == bytes[start / 2..start / 2 + len]);
        }
        assert_eq!(blocks.len().unwrap(), bytes.len() as u64);
        assert!(blocks.read(bytes.len() as u64, 1).is_err() && blocks.write(u64::MAX, &[1]).is_err());
        blocks.set_len(0).unwrap();
        blocks.set_len(3).unwrap();
        assert_eq!(blocks.read(0, 3).unwrap(), [0, 0, 0]);
    }
}
