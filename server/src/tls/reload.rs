//! Serving a certificate that is exchanged while connections come in.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use super::certificate::{CertificateFiles, LoadError, Loaded};

/// The certificate in force. New handshakes use it; connections keep the one they began with.
#[derive(Debug)]
pub struct Certificates {
    files: CertificateFiles,
    current: ArcSwap<Loaded>,
}

impl Certificates {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// If they cannot be served.
    pub async fn load(files: CertificateFiles) -> Result<Arc<Self>, LoadError> {
        let current = ArcSwap::from_pointee(files.load().await?);
        Ok(Arc::new(Self { files, current }))
    }

    /// Returns the end of validity of the certificate in force, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.current.load().not_after
    }

    /// Reads the files again; returns true when a new certificate is in force now.
    ///
    /// # Errors
    /// If the files cannot be served; the certificate in force stays.
    pub async fn refresh(&self) -> Result<bool, LoadError> {
        let new = self.files.load().await?;
        let changed = new.digest != self.current.load().digest;
        if changed {
            self.current.store(Arc::new(new));
        }
        Ok(changed)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().key.clone())
    }
}

/// Looks at the files every `interval` until `stop`, and reports each new end of validity.
///
/// It compares the content and does not wait for a file event: a Secret volume is exchanged by
/// moving a symbolic link two levels up, and some volumes send no events at all.
pub async fn reload(
    certificates: Arc<Certificates>,
    interval: Duration,
    stop: CancellationToken,
    report: impl Fn(i64),
) {
    let mut last_error = String::new();
    while stop
        .run_until_cancelled(tokio::time::sleep(interval))
        .await
        .is_some()
    {
        match certificates.refresh().await {
            Ok(changed) => {
                last_error.clear();
                if changed {
                    let not_after = certificates.not_after();
                    report(not_after);
                    tracing::info!(not_after, "new serving certificate");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if error != last_error {
                    tracing::warn!(error, "the serving certificate in force stays");
                    last_error = error;
                }
            }
        }
    }
}
