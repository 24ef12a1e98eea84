//! What a verification has found.

use super::target::Verification;

/// What a verification has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects in etcd.
    pub objects: u64,
    /// Of these, those found equal in all three; the others had changed since the list.
    pub equal: u64,
    /// Of the equal ones, those whose checksum was compared.
    pub checksummed: u64,
    /// How thorough it was.
    pub as_asked: Verification,
    /// SHA-256 (hex) over key, uid, resourceVersion and, where it was compared, checksum of the
    /// equal ones, in the order of their keys.
    pub checksum: String,
}
