//! The certificate of the metrics: out of files, which are read again, or one that the operator signs
//! itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{info, warn};

use crate::certs::{
    Pair, PairError, SELF_SIGNED_VALIDITY, TLS_CRT, TLS_KEY, self_signed, validity_of,
};
use crate::metrics::{CertificateSource, Metrics};

/// Interval of looks at files and clock. The kubelet brings a changed Secret within about a minute.
const INTERVAL: Duration = Duration::from_secs(10);

/// The reason why there is no certificate, or not the one that is asked for.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The files do not belong together, or are no certificate and key.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// None could be made.
    #[error("a certificate could not be issued: {0}")]
    Issue(#[source] rcgen::Error),
}

/// The certificate that is in use. New connections get it; others keep the one they began with.
#[derive(Debug)]
pub struct Certificates {
    /// The folder with the files, where there is one.
    folder: Option<PathBuf>,
    /// The names of a certificate that the operator signs itself.
    dns_names: Vec<String>,
    current: ArcSwap<Current>,
}

/// A certificate in use.
#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    pair: Pair,
    /// The time from which on another one takes its place; none where somebody else issues it.
    due: Option<Timestamp>,
}

impl Current {
    const fn source(&self) -> CertificateSource {
        match self.due {
            Some(_) => CertificateSource::Operator,
            None => CertificateSource::Files,
        }
    }
}

impl Certificates {
    /// Returns the certificate of the files in `folder`, and one for `dns_names` that the operator
    /// signs itself as long as there are none that can be used: the operator has more to do than to
    /// show metrics.
    ///
    /// # Errors
    /// If none can be made.
    pub fn new(
        folder: Option<PathBuf>,
        dns_names: Vec<String>,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let current = match folder.as_deref().map(from_files) {
            Some(Ok(current)) => current,
            Some(Err(error)) => {
                info!(%error, "metrics have a self-signed certificate until there is another");
                own(&dns_names, now)?
            }
            None => own(&dns_names, now)?,
        };
        Ok(Self {
            folder,
            dns_names,
            current: ArcSwap::from_pointee(current),
        })
    }

    /// Looks at files and clock; returns true when another certificate is in use now.
    ///
    /// # Errors
    /// If the files cannot be used, or none can be made. The certificate in use stays.
    pub fn look(&self, now: Timestamp) -> Result<bool, CertificateError> {
        let current = self.current.load();
        let files = self.folder.as_deref().map(from_files).transpose();
        let next = match files {
            Ok(Some(found)) => (found.pair != current.pair).then_some(found),
            _ if current.due.is_some_and(|due| now >= due) => Some(own(&self.dns_names, now)?),
            Ok(None) => None,
            Err(error) => return Err(error),
        };
        let is_new = next.is_some();
        if let Some(next) = next {
            self.current.store(Arc::new(next));
        }
        Ok(is_new)
    }

    /// Shows beginning and end of the certificate in use.
    pub(super) fn show(&self, metrics: &Metrics) {
        let current = self.current.load();
        let validity = validity_of(&current.pair.cert);
        let validity = validity.map(|(begin, end)| (begin.as_second(), end.as_second()));
        metrics.served_with(current.source(), validity);
    }

    /// Looks again and again for as long as it is polled, and shows what is in use.
    pub(super) async fn follow(&self, metrics: &Metrics) {
        let mut said = String::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let looked = self.look(Timestamp::now());
            self.show(metrics);
            match looked {
                Ok(is_new) => {
                    said.clear();
                    if is_new {
                        info!("metrics have a new certificate");
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if error != said {
                        warn!(error, "the certificate of the metrics stays");
                        said = error;
                    }
                }
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().key.clone())
    }
}

/// Returns a new certificate that the operator signs itself.
fn own(dns_names: &[String], now: Timestamp) -> Result<Current, CertificateError> {
    let (pair, due) =
        self_signed(dns_names, now, SELF_SIGNED_VALIDITY).map_err(CertificateError::Issue)?;
    Ok(Current {
        key: Arc::new(pair.certified()?),
        pair,
        due: Some(due),
    })
}

/// Returns the certificate of the files in a folder.
fn from_files(folder: &Path) -> Result<Current, CertificateError> {
    let pair = Pair {
        cert: read(folder.join(TLS_CRT))?,
        key: read(folder.join(TLS_KEY))?,
    };
    Ok(Current {
        key: Arc::new(pair.certified()?),
        pair,
        due: None,
    })
}

fn read(path: PathBuf) -> Result<String, CertificateError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text),
        Err(source) => Err(CertificateError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn names() -> Vec<String> {
        vec!["a.example".to_owned()]
    }

    fn plus(time: Timestamp, days: u32) -> Timestamp {
        time + DAY * days
    }

    fn write(folder: &Path, pair: &Pair) {
        std::fs::write(folder.join(TLS_CRT), &pair.cert).unwrap();
        std::fs::write(folder.join(TLS_KEY), &pair.key).unwrap();
    }

    fn pair() -> Pair {
        self_signed(&names(), Timestamp::now(), DAY).unwrap().0
    }

    fn shown(certificates: &Certificates) -> Pair {
        certificates.current.load().pair.clone()
    }

    #[test]
    fn a_certificate_of_the_operator_is_replaced_before_its_end() {
        let now = Timestamp::now();
        let certificates = Certificates::new(None, names(), now).unwrap();
        let first = shown(&certificates);
        assert!(!certificates.look(plus(now, 59)).unwrap());
        assert_eq!(shown(&certificates), first);
        assert!(certificates.look(plus(now, 61)).unwrap());
        assert_ne!(shown(&certificates), first);
        assert!(!certificates.look(plus(now, 62)).unwrap());
    }

    #[test]
    fn files_are_used_as_soon_as_they_can_be_and_read_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let now = Timestamp::now();
        let path = folder.path().to_owned();
        let certificates = Certificates::new(Some(path), names(), now).unwrap();
        let own = shown(&certificates);
        let missing = certificates.look(now).unwrap_err();
        assert!(
            matches!(missing, CertificateError::Read { .. }),
            "{missing}"
        );
        let (first, second) = (pair(), pair());
        for pair in [&first, &second] {
            write(folder.path(), pair);
            assert!(certificates.look(now).unwrap());
            assert_eq!(shown(&certificates), *pair);
            assert!(
                !certificates.look(plus(now, 400)).unwrap(),
                "somebody else's"
            );
        }
        assert_ne!(own, first);
    }

    #[test]
    fn metrics_show_the_certificate_in_use() {
        let folder = tempfile::TempDir::new().unwrap();
        let now = Timestamp::now();
        let path = folder.path().to_owned();
        let certificates = Certificates::new(Some(path), names(), now).unwrap();
        let metrics = Metrics::new();
        let end_of = |source: &str| {
            certificates.show(&metrics);
            let start = format!(
                "reports_server_operator_metrics_certificate_expiry_timestamp_seconds\
                 {{source=\"{source}\"}} "
            );
            let text = metrics.encode().unwrap();
            let end = text.lines().find_map(|line| line.strip_prefix(&start));
            end.map(|end| end.parse::<i64>().unwrap())
        };
        let own = (now + SELF_SIGNED_VALIDITY).as_second();
        assert_eq!((end_of("operator"), end_of("files")), (Some(own), None));
        let theirs = self_signed(&names(), now, DAY).unwrap().0;
        write(folder.path(), &theirs);
        assert!(certificates.look(now).unwrap());
        let end = plus(now, 1).as_second();
        assert_eq!((end_of("operator"), end_of("files")), (None, Some(end)));
    }

    #[test]
    fn files_that_cannot_be_used_leave_the_one_in_use() {
        let folder = tempfile::TempDir::new().unwrap();
        let now = Timestamp::now();
        let good = pair();
        write(folder.path(), &good);
        let path = folder.path().to_owned();
        let certificates = Certificates::new(Some(path), names(), now).unwrap();
        for bad in [
            Pair {
                key: pair().key,
                ..good.clone()
            },
            Pair {
                cert: String::new(),
                ..good.clone()
            },
            Pair {
                key: "x".to_owned(),
                ..good.clone()
            },
        ] {
            write(folder.path(), &bad);
            assert!(certificates.look(now).is_err(), "{bad:?}");
            assert_eq!(shown(&certificates), good);
        }
    }

    /// Nobody waits for files that never come with a certificate that has ended.
    #[test]
    fn while_files_are_missing_the_operators_own_is_replaced_too() {
        let folder = tempfile::TempDir::new().unwrap();
        let now = Timestamp::now();
        let path = folder.path().to_owned();
        let certificates = Certificates::new(Some(path), names(), now).unwrap();
        let first = shown(&certificates);
        assert!(certificates.look(plus(now, 61)).unwrap());
        assert_ne!(shown(&certificates), first);
    }
}
