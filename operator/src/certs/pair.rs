//! A certificate with its key.

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A certificate and its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The private key; PKCS#8 where the operator made it.
    pub key: String,
}

/// The reason why a certificate and a key cannot be used together.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// One of them is not in PEM.
    #[error("tls.crt or tls.key is not in PEM: {0}")]
    Pem(#[source] pem::Error),
    /// There is no certificate.
    #[error("tls.crt holds no certificate")]
    Empty,
    /// The key is of a kind that is not known, or of another certificate; the latter is usual for a
    /// moment while both files are exchanged.
    #[error("tls.key cannot be used with tls.crt: {0}")]
    Key(#[source] rustls::Error),
}

impl Pair {
    /// Returns the certificate with its intermediates and its key, as TLS uses it.
    ///
    /// # Errors
    /// If one of them cannot be read, or the key is of another certificate.
    pub fn certified(&self) -> Result<CertifiedKey, PairError> {
        let chain = CertificateDer::pem_slice_iter(self.cert.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(PairError::Pem)?;
        if chain.is_empty() {
            return Err(PairError::Empty);
        }
        certified(chain, &self.key)
    }

    /// Returns whether the key belongs to the first certificate, whatever follows that.
    pub(super) fn matches(&self) -> bool {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes());
        cert.is_ok_and(|cert| certified(vec![cert], &self.key).is_ok())
    }
}

/// Returns a chain of certificates with the key of its first one.
fn certified(chain: Vec<CertificateDer<'static>>, key: &str) -> Result<CertifiedKey, PairError> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(PairError::Pem)?;
    let key = any_supported_type(&key).map_err(PairError::Key)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(PairError::Key)?;
    Ok(certified)
}

/// Hides the key, which never reaches a log.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}
