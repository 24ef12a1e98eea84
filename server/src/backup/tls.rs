//! The CAs by which a bucket's certificate is checked.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::Error;

const OPTION: &str = "--ca-file";

/// Returns the CAs of the file, else those of Mozilla: the image has no others.
///
/// # Errors
/// If the file cannot be used.
pub(super) fn client_config(ca: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => add(&mut roots, path)?,
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let unusable = |why: &dyn ToString| invalid(format!("{}: {}", path.display(), why.to_string()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"holds no certificate"));
    }
    Ok(())
}

fn invalid(why: String) -> Error {
    Error::Invalid { what: OPTION, why }
}
