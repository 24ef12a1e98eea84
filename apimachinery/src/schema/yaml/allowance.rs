//! The bound of what a body may hold once its aliases are followed.

use super::error::YamlError;

/// Values that aliases may stand for in a small text, as many as `go.yaml.in/yaml/v2` allows
/// (`alias_ratio_range_low`).
const ALIASED: usize = 400_000;

/// The rest of the values, and of the bytes in texts, that a body may hold. Without this bound a
/// megabyte of values with an anchor, and as much of aliases to it, would fill the memory.
#[derive(Clone, Copy, Debug)]
pub struct Allowance(usize);

impl Allowance {
    /// Returns an allowance that is enough for all that a text can hold without aliases: each value
    /// and each key takes a byte of it, and no escape stands for more than twice its length.
    pub const fn of(text: &str) -> Self {
        Self(ALIASED + 2 * text.len())
    }

    /// Takes a value whose text has this many bytes.
    ///
    /// # Errors
    /// If it is one too many.
    pub fn take(&mut self, bytes: usize) -> Result<(), YamlError> {
        self.0 = self.0.checked_sub(1 + bytes).ok_or(YamlError::Aliasing)?;
        Ok(())
    }
}
