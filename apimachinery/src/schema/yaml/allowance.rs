//! How much a body may hold once its aliases are followed.

use serde::de::Error;

/// Values that aliases may stand for in a small text, as many as `go.yaml.in/yaml/v2` lets them
/// (`alias_ratio_range_low`).
const ALIASED: usize = 400_000;

/// What is left of the values, and of the bytes in texts, that a body may hold. Without it a
/// megabyte of values with an anchor, and as much of aliases to it, would fill the memory.
#[derive(Clone, Copy, Debug)]
pub struct Allowance(usize);

impl Allowance {
    /// As much as there is.
    pub const UNBOUNDED: Self = Self(usize::MAX);

    /// Enough for all that a text can hold without aliases: each value and each key takes a byte
    /// of it, and no escape stands for more than twice its length.
    pub const fn of(text: &[u8]) -> Self {
        Self(ALIASED + 2 * text.len())
    }

    /// Takes a value whose text has so many bytes.
    ///
    /// # Errors
    /// In Go's words when it is one too many.
    pub fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.0.checked_sub(1 + bytes) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(E::custom("document contains excessive aliasing")),
        }
    }
}
