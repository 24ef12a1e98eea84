//! CAs of the system, for databases with a certificate of a public CA.

use std::{env, fs};

use rustls::pki_types::CertificateDer;

use super::certificates;
use crate::value::{ParametersError, SslMode, key};

/// The variable that names the bundle, as for OpenSSL.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The places where distributions keep the bundle.
const PLACES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the system's bundle. The images of this project hold none.
pub(super) fn of_the_system(
    mode: SslMode,
) -> Result<Vec<CertificateDer<'static>>, ParametersError> {
    let named = env::var(VARIABLE).ok();
    let places = named.iter().map(String::as_str).chain(PLACES);
    for place in places {
        if let Ok(pem) = fs::read(place) {
            return certificates(place, &pem);
        }
    }
    let why =
        format!("is missing: {mode} needs the CA that signed the database's certificate (PEM)");
    Err(ParametersError::invalid(key::CA, why))
}
