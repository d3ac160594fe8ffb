use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

/// The size of a large page of memory, from which on a table has pages of its own.
const PAGE: usize = 2 << 20;

/// A table of zeros that is read at places far from each other.
///
/// A large one asks for large pages of memory: with small pages, the processor would look up a
/// page's address for nearly every place.
pub(crate) enum LargeTable<T> {
    Vec(Vec<T>),
    Pages { pages: MmapMut, first: usize, bytes: usize },
}

impl<T: Pod> LargeTable<T> {
    pub fn new(count: usize) -> Self {
        let bytes = count * size_of::<T>();
        // Without pages of its own, a table is only slower.
        Self::with_pages(bytes).unwrap_or_else(|| Self::Vec(vec![T::zeroed(); count]))
    }

    fn with_pages(bytes: usize) -> Option<Self> {
        if !bytes.is_multiple_of(PAGE) || bytes == 0 || !cfg!(target_os = "linux") {
            return None;
        }
        let pages = MmapMut::map_anon(bytes + PAGE).ok()?;
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        let first = pages.as_ptr().align_offset(PAGE);
        Some(Self::Pages { pages, first, bytes })
    }
}

impl<T: Pod> Deref for LargeTable<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            Self::Vec(table) => table,
            Self::Pages { pages, first, bytes } => {
                bytemuck::cast_slice(pages.get(*first..first + bytes).unwrap_or_default())
            }
        }
    }
}

impl<T: Pod> DerefMut for LargeTable<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Vec(table) => table,
            Self::Pages { pages, first, bytes } => {
                bytemuck::cast_slice_mut(pages.get_mut(*first..*first + *bytes).unwrap_or_default())
            }
        }
    }
}
