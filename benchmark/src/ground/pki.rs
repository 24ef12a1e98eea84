//! Certificates of the servers and of clients.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::SERVER_NAME;
use crate::client::Credentials;
use crate::target::Kind;

/// Returns a client's pair, `pair.crt` and `pair.key`, and the CA that it trusts.
pub(super) fn credentials(ca: &Path, pair: &Path) -> anyhow::Result<Credentials> {
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(Credentials {
        ca: read(ca.to_owned())?,
        certificate: read(pair.with_extension("crt"))?,
        key: read(pair.with_extension("key"))?,
    })
}

/// Writes the certificate of all servers; returns the CA.
pub(super) fn certificates(folder: &Path) -> anyhow::Result<String> {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    let ca_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["bench-ca".to_owned()])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key)?;
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate()?;
    let names: Vec<_> = Kind::SERVED
        .into_iter()
        .map(|kind| format!("{}.default.svc", kind.name()))
        .chain([SERVER_NAME.to_owned()])
        .collect();
    let leaf = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    std::fs::write(folder.join("tls.crt"), leaf.pem())?;
    std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(ca.pem())
}
