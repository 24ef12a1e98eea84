//! `spec.tls`: certificates between the kube-apiserver, the server and the database.

use kube::KubeSchema;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::v1alpha1::schema;

/// Certificates. Only the member that belongs to `mode` may be set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.operator) || !has(self.mode) || self.mode == 'Operator'")
        .message("operator can only be set with mode Operator"),
    validation = Rule::new("(has(self.mode) && self.mode == 'CertManager') == has(self.certManager)")
        .message("certManager must be set with mode CertManager, and only then"),
    validation = Rule::new("(has(self.mode) && self.mode == 'Provided') == has(self.provided)")
        .message("provided must be set with mode Provided, and only then")
)]
#[serde(rename_all = "camelCase")]
pub struct TlsSpec {
    /// The issuer of the certificates: `Operator` (a certificate authority of its own),
    /// `CertManager` or `Provided` (you). Default: `Operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TlsMode>,
    /// Details of mode `Operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<OperatorTlsSpec>,
    /// Details of mode `CertManager`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManagerSpec>,
    /// Details of mode `Provided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provided: Option<ProvidedTlsSpec>,
}

/// The issuer of certificates.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum TlsMode {
    /// The operator, with a certificate authority of its own.
    #[default]
    Operator,
    /// cert-manager.
    CertManager,
    /// The user.
    Provided,
}

/// Lifetimes of the certificates that the operator issues.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.caValidity) || !has(self.certValidity) || duration(self.certValidity) < duration(self.caValidity)")
        .message("certValidity must be shorter than caValidity"),
    validation = Rule::new("!has(self.certValidity) || !has(self.renewBefore) || duration(self.renewBefore) < duration(self.certValidity)")
        .message("renewBefore must be shorter than certValidity")
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorTlsSpec {
    /// Lifetime of the certificate authority. Default: `8760h` (365 days).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub ca_validity: Option<Duration>,
    /// Lifetime of a leaf certificate. Default: `2160h` (90 days).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub cert_validity: Option<Duration>,
    /// The time before its end at which a certificate is replaced. Default: a third of its
    /// lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub renew_before: Option<Duration>,
}

/// Certificates by cert-manager.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.certValidity) || !has(self.renewBefore) || duration(self.renewBefore) < duration(self.certValidity)")
        .message("renewBefore must be shorter than certValidity")
)]
#[serde(rename_all = "camelCase")]
pub struct CertManagerSpec {
    /// The issuer that signs.
    pub issuer_ref: IssuerReference,
    /// Secret in `targetNamespace` whose `ca.crt` has the authorities that sign. Needed where the
    /// issuer puts no `ca.crt` into its Secrets, as ACME does. Default: the `ca.crt` that the
    /// issuer gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<LocalReference>,
    /// Lifetime of the certificate. Default: that of cert-manager, which is 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub cert_validity: Option<Duration>,
    /// The time before its end at which cert-manager replaces it. Default: that of cert-manager,
    /// which is a third of its lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub renew_before: Option<Duration>,
}

/// A cert-manager issuer.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuerReference {
    /// Name of the issuer.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Kind of the issuer. Default: `Issuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// API group of the issuer. Default: `cert-manager.io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub group: Option<String>,
}

/// Certificates by the user.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvidedTlsSpec {
    /// Secret in `targetNamespace` with `tls.crt` and `tls.key`, and with `ca.crt` where
    /// `caSecretRef` is not set.
    pub secret_ref: LocalReference,
    /// Secret in `targetNamespace` whose `ca.crt` has the authorities that sign. Default: the
    /// Secret of the certificate itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<LocalReference>,
    /// The time before its end from which on a warning asks for another certificate. Default: a
    /// third of its lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::validity")]
    pub renew_before: Option<Duration>,
}
