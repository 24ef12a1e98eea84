//! The certificate with which the metrics themselves are served.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
}

/// The origin of the certificate with which the metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files, of a certificate that somebody else issues.
    Files,
    /// The operator, which signs it itself.
    Operator,
}

impl CertificateSource {
    const ALL: [Self; 2] = [Self::Files, Self::Operator];

    const fn labels(self) -> SourceLabels {
        let source = match self {
            Self::Files => "files",
            Self::Operator => "operator",
        };
        SourceLabels { source }
    }
}

/// Beginning and end of the certificate with which the metrics are served; nothing where they are
/// served in plain.
#[derive(Clone, Default)]
pub(super) struct OwnCertificate {
    not_before: Family<SourceLabels, Gauge>,
    expiry: Family<SourceLabels, Gauge>,
}

impl OwnCertificate {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register(
            "metrics_certificate_not_before_timestamp_seconds",
            "When the certificate with which these metrics are served begins, in Unix time",
            own.not_before.clone(),
        );
        registry.register(
            "metrics_certificate_expiry_timestamp_seconds",
            "When the certificate with which these metrics are served expires, in Unix time",
            own.expiry.clone(),
        );
        own
    }

    pub(super) fn show(&self, source: CertificateSource, validity: Option<(i64, i64)>) {
        for known in CertificateSource::ALL {
            let labels = known.labels();
            if let Some((not_before, expiry)) = validity.filter(|_| known == source) {
                self.not_before.get_or_create(&labels).set(not_before);
                self.expiry.get_or_create(&labels).set(expiry);
            } else {
                self.not_before.remove(&labels);
                self.expiry.remove(&labels);
            }
        }
    }
}
