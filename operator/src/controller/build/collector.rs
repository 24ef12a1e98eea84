//! The arguments and the volume by which the server's pods learn of the collector of traces.

use k8s_openapi::api::core::v1::{KeyToPath, SecretVolumeSource, Volume};

use super::Validated;

/// Name of the volume with the collector's CAs.
pub(super) const CA_VOLUME: &str = "tracing-ca";
/// The folder of that volume.
pub(super) const CA_DIR: &str = "/etc/reports-server/tracing";
/// Key of the Secret, and its file.
const CA_FILE: &str = "ca.crt";

/// Returns the server's arguments; none without a collector: a server of an earlier release does not
/// know them.
pub(super) fn args(spec: &Validated) -> Vec<String> {
    let Some(tracing) = &spec.tracing else {
        return Vec::new();
    };
    let rate = tracing.rate_per_million;
    let mut args = vec![
        format!("--tracing-endpoint={}", tracing.endpoint),
        format!("--tracing-sampling-rate-per-million={rate}"),
    ];
    let ca = tracing.ca.iter();
    args.extend(ca.map(|_| format!("--tracing-ca-file={CA_DIR}/{CA_FILE}")));
    args
}

/// Returns the volume with the collector's CAs, and nothing else of their Secret. It need not exist:
/// that there are no traces is no reason for a server not to start.
pub(super) fn volume(spec: &Validated) -> Option<Volume> {
    let secret = spec.tracing.as_ref()?.ca.clone()?;
    Some(Volume {
        name: CA_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            items: Some(vec![KeyToPath {
                key: CA_FILE.to_owned(),
                path: CA_FILE.to_owned(),
                ..KeyToPath::default()
            }]),
            default_mode: Some(0o440),
            optional: Some(true),
        }),
        ..Volume::default()
    })
}
