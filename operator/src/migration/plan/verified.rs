//! The result of a verification.

use crds::v1alpha1::spec::Verification;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects in etcd.
    pub objects: u64,
    /// Of these, those found equal in all three; the others had changed since the list.
    pub equal: u64,
    /// Of the equal ones, those whose checksum was compared.
    pub checksummed: u64,
    /// The depth of the verification.
    pub as_asked: Verification,
    /// SHA-256 (hex) over key, uid, resourceVersion and, where it was compared, checksum of the
    /// equal ones, in the order of their keys.
    pub checksum: String,
}
