use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The size in bytes of a large page.
const LARGE_PAGE: usize = 1 << 21;

/// A table that is read here and there. In pages of 4 KB, the processor would have to look up the page
/// almost every time, so a large table asks the system for large pages.
pub(super) enum LargeTable<T> {
    Small(Vec<T>),
    Large(MmapMut),
}

impl<T: Clone + FromBytes + IntoBytes + Immutable + KnownLayout> LargeTable<T> {
    /// Creates a table of so many copies of an entry.
    pub fn new(entry: T, length: usize) -> Self {
        let bytes = length.saturating_mul(size_of::<T>());
        let Some(mut pages) = (bytes >= LARGE_PAGE).then(|| map(bytes)).flatten() else {
            return Self::Small(vec![entry; length]);
        };
        // New pages hold zeros.
        if entry.as_bytes().iter().any(|&byte| byte != 0)
            && let Ok(entries) = <[T]>::mut_from_bytes(&mut pages)
        {
            entries.fill(entry);
        }
        Self::Large(pages)
    }
}

/// Returns pages of zeros.
fn map(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes).ok()?;
    // Where the system does not take the advice, the pages are small.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Some(pages)
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout> Deref for LargeTable<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            Self::Small(entries) => entries,
            Self::Large(pages) => <[T]>::ref_from_bytes(pages).unwrap_or_default(),
        }
    }
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout> DerefMut for LargeTable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Small(entries) => entries,
            Self::Large(pages) => <[T]>::mut_from_bytes(pages).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE_PAGE, LargeTable};

    #[test]
    fn a_table_holds_its_entries_in_pages_of_both_sizes() {
        for length in [0, 1, 1000, LARGE_PAGE / 8 - 1, LARGE_PAGE / 8, LARGE_PAGE / 8 + 1, LARGE_PAGE] {
            for entry in [0, u64::MAX] {
                let mut table = LargeTable::new(entry, length);
                assert_eq!(table.len(), length);
                assert!(table.iter().all(|&found| found == entry), "{length}");
                if let Some(last) = table.last_mut() {
                    *last = 7;
                    assert_eq!(table[length - 1], 7);
                }
            }
        }
    }
}
