//! Reading the serving certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The files of the certificate chain and its key, in PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// Chain, leaf first.
    pub cert: PathBuf,
    /// Key of the leaf.
    pub key: PathBuf,
}

/// A certificate that can be served.
#[derive(Debug)]
pub struct Loaded {
    /// Chain and key.
    pub key: Arc<CertifiedKey>,
    /// End of the leaf's validity, in seconds since 1970.
    pub not_after: i64,
    /// Hash of both files.
    pub digest: [u8; 32],
}

/// The files do not hold a certificate that can be served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} holds no usable {what}: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// `certificate chain` or `private key`.
        what: &'static str,
        /// The fault.
        why: String,
    },
    /// Certificate and key are not a pair; usual for a moment while both are being exchanged.
    #[error("the private key {key} does not belong to the certificate {cert}: {source}")]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The error of the check.
        source: rustls::Error,
    },
}

async fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })
}

impl CertificateFiles {
    /// Reads both files and checks that they belong together.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn load(&self) -> Result<Loaded, LoadError> {
        let (cert, key) = (read(&self.cert).await?, read(&self.key).await?);
        let digest = Sha256::new_with_prefix(&cert)
            .chain_update([0])
            .chain_update(&key)
            .finalize();
        let (chain, not_after) = self.chain(&cert)?;
        let signer = self.signer(&key)?;
        let certified = CertifiedKey::new(chain, signer);
        certified
            .keys_match()
            .map_err(|source| LoadError::Mismatch {
                cert: self.cert.clone(),
                key: self.key.clone(),
                source,
            })?;
        Ok(Loaded {
            key: Arc::new(certified),
            not_after,
            digest: digest.into(),
        })
    }

    fn chain(&self, pem: &[u8]) -> Result<(Vec<CertificateDer<'static>>, i64), LoadError> {
        let unusable = |why: String| LoadError::Content {
            path: self.cert.clone(),
            what: "certificate chain",
            why,
        };
        let chain = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        let leaf = chain
            .first()
            .ok_or_else(|| unusable("no PEM certificate in it".to_owned()))?;
        let (_, parsed) =
            X509Certificate::from_der(leaf).map_err(|error| unusable(error.to_string()))?;
        let not_after = parsed.validity().not_after.timestamp();
        Ok((chain, not_after))
    }

    fn signer(&self, pem: &[u8]) -> Result<Arc<dyn rustls::sign::SigningKey>, LoadError> {
        let unusable = |why: String| LoadError::Content {
            path: self.key.clone(),
            what: "private key",
            why,
        };
        let key =
            PrivateKeyDer::from_pem_slice(pem).map_err(|error| unusable(error.to_string()))?;
        any_supported_type(&key).map_err(|error| unusable(error.to_string()))
    }
}
