//! A certificate with its key.

/// A certificate and its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The private key; PKCS#8 where the operator made it.
    pub key: String,
}

/// Hides the key, which never reaches a log.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}
