//! The allocator of this program.

use allocations::CountingAllocator;

#[global_allocator]
pub static ALLOCATOR: CountingAllocator = CountingAllocator::new();
