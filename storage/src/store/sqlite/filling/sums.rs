//! Sums of texts, as PostgreSQL adds up those of the database that is moved.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Bits of the first eight bytes of a hash that do not count: PostgreSQL adds up signed numbers.
const UNUSED_BITS: u32 = 4;

/// The number of some texts, and the sum of their hashes, whatever their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    texts: u64,
    hashes: u128,
}

impl Sum {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        let digest = Sha256::digest(text.as_bytes());
        let mut head = [0; 8];
        head.copy_from_slice(&digest[..8]);
        self.texts += 1;
        self.hashes += u128::from(u64::from_be_bytes(head) >> UNUSED_BITS);
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.texts, self.hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::Sum;

    #[test]
    fn texts_are_counted_and_their_hashes_added() {
        let mut sum = Sum::default();
        assert_eq!(sum.to_string(), "0 0");
        // The SHA-256 of "abc" begins with ba7816bf8f01cfea.
        sum.add("abc");
        let first: u128 = 0x0ba7_816b_f8f0_1cfe;
        assert_eq!(sum.to_string(), format!("1 {first}"));
        sum.add("abc");
        assert_eq!(sum.to_string(), format!("2 {}", 2 * first));
    }
}
