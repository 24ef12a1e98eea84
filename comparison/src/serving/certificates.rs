//! The serving certificate of the servers behind the aggregator.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::ServingError;

/// Writes `tls.crt` and `tls.key` for `name` into a folder; returns their CA in base64.
pub(super) fn write(folder: &Path, name: &str) -> Result<String, ServingError> {
    let ca_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["test-ca".to_owned()])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key)?;
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &issuer)?;
    save(folder.join("tls.crt"), &leaf.pem())?;
    save(folder.join("tls.key"), &key.serialize_pem())?;
    Ok(STANDARD.encode(ca.pem()))
}

fn save(path: PathBuf, text: &str) -> Result<(), ServingError> {
    std::fs::write(&path, text).map_err(|source| ServingError::File { path, source })
}
