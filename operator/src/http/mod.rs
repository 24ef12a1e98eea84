//! The operator's own endpoints: `/healthz` and `/readyz` over plain HTTP, for the kubelet's probes, and
//! `/metrics` over TLS, for those who may read it.

mod access;
mod certificate;
mod connections;
mod endpoints;
mod error;
mod health;
mod metrics;
#[cfg(test)]
mod tests;

pub use self::access::Access;
pub use self::certificate::{CertificateError, Certificates};
pub use self::endpoints::{Endpoints, Secure, Settings};
pub use self::error::Error;
