//! An allocator for test programs: the system's, which counts what it is asked for.
//!
//! Counts do not depend on how fast or how busy a machine is, so a test can hold them to narrow
//! bounds. Everything in the process is counted that Rust allocates; what C libraries allocate for
//! themselves is not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, which counts. To be the `#[global_allocator]` of a test program.
#[derive(Debug, Default)]
pub struct CountingAllocator {
    count: AtomicU64,
    bytes: AtomicU64,
    freed: AtomicU64,
}

/// Sums of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Number of allocations. Memory that grows or shrinks is allocated once more.
    pub count: u64,
    /// Bytes that were allocated.
    pub bytes: u64,
    /// Bytes that were freed.
    pub freed: u64,
}

impl Allocations {
    /// Returns the part of these that came after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count - earlier.count,
            bytes: self.bytes - earlier.bytes,
            freed: self.freed - earlier.freed,
        }
    }

    /// Returns the bytes that are not freed yet.
    #[must_use]
    pub fn held(self) -> u64 {
        self.bytes.saturating_sub(self.freed)
    }
}

impl CountingAllocator {
    /// Returns an allocator that was asked for nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    /// Returns the sums since the start of the process.
    #[must_use]
    pub fn read(&self) -> Allocations {
        Allocations {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            freed: self.freed.load(Ordering::Relaxed),
        }
    }

    fn allocated(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn freed(&self, bytes: usize) {
        self.freed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator as it came, and counting allocates
// nothing.
#[allow(unsafe_code, reason = "the trait of allocators is unsafe")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocated(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.allocated(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.allocated(size);
        self.freed(layout.size());
        // SAFETY: the pointer came from the system's allocator, with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.freed(layout.size());
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "the trait of allocators is unsafe")]
    fn allocations_are_counted_and_what_is_freed_is_not_held() {
        let allocator = CountingAllocator::new();
        let (small, large) = (Layout::new::<[u64; 10]>(), Layout::new::<[u64; 30]>());
        // SAFETY: the layouts are not empty, and have the same alignment.
        let pointer = unsafe { allocator.realloc(allocator.alloc(small), small, large.size()) };
        let grown = allocator.read();
        assert_eq!((grown.count, grown.bytes, grown.held()), (2, 320, 240));
        // SAFETY: it was grown to this layout.
        unsafe { allocator.dealloc(pointer, large) };
        let ended = allocator.read();
        assert_eq!((ended.count, ended.freed, ended.held()), (2, 320, 0));
        assert_eq!(ended.since(grown).freed, 240);
    }
}
