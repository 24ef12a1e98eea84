//! The origin of the server's certificate, and whether what is there of it can be used.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::{CertManagerSpec, ProvidedTlsSpec, ReportsServerSpec, TlsMode};

use super::refusal::Refusal;
use super::validated::Validated;
use crate::cert_manager::{self, Observed, Plan};
use crate::certs::given::{Part, check};
use crate::certs::{Given, Problem};
use crate::controller::found::{Dereferenced, ServingFound};
use crate::controller::watches::Watched;
use crate::names::Names;

/// The issuer of the server's certificate, and the Secrets that it is read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Origin {
    /// The operator.
    #[default]
    Operator,
    /// The user.
    Provided(Secrets),
    /// cert-manager.
    CertManager(Secrets, Box<Plan>),
}

/// The Secrets of a certificate that somebody else issues.
#[derive(Clone, Debug, PartialEq)]
pub struct Secrets {
    /// The Secret with the certificate and its key.
    pub certificate: String,
    /// The Secret with the authorities, where that is another one.
    pub ca: Option<String>,
    /// The field that names the first.
    field: &'static str,
    /// The field that names the second.
    ca_field: &'static str,
    /// The time before its end at which another certificate is asked for.
    renew_before: Option<Duration>,
}

impl Origin {
    /// Returns the origin that a specification asks for.
    #[must_use]
    pub fn of(spec: &ReportsServerSpec, names: &Names) -> Self {
        let Some(tls) = &spec.tls else {
            return Self::Operator;
        };
        match (
            tls.mode.unwrap_or_default(),
            &tls.provided,
            &tls.cert_manager,
        ) {
            (TlsMode::Provided, Some(provided), _) => Self::Provided(provided_secrets(provided)),
            (TlsMode::CertManager, _, Some(wanted)) => {
                cert_manager_origin(wanted, names, &spec.target_namespace)
            }
            _ => Self::Operator,
        }
    }

    /// Returns the mode that it is.
    #[must_use]
    pub fn mode(&self) -> TlsMode {
        match self {
            Self::Operator => TlsMode::Operator,
            Self::Provided(_) => TlsMode::Provided,
            Self::CertManager(..) => TlsMode::CertManager,
        }
    }

    /// Returns the Secrets that the certificate is read from; none where the operator issues it.
    #[must_use]
    pub fn secrets(&self) -> Option<&Secrets> {
        match self {
            Self::Operator => None,
            Self::Provided(secrets) | Self::CertManager(secrets, _) => Some(secrets),
        }
    }

    /// Returns the `Certificate` that is asked of cert-manager.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Operator | Self::Provided(_) => None,
            Self::CertManager(_, plan) => Some(plan.as_ref()),
        }
    }

    /// Returns the objects of others that the certificate depends on.
    #[must_use]
    pub fn watched(&self) -> BTreeSet<Watched> {
        let secrets = self.secrets().into_iter().flat_map(|secrets| {
            let certificate = Watched::Secret(secrets.certificate.clone());
            let ca = secrets.ca.clone().map(Watched::Secret);
            [certificate].into_iter().chain(ca)
        });
        let issuer = self.plan().into_iter().flat_map(|plan| {
            [
                Watched::Crd(cert_manager::CRD.to_owned()),
                Watched::Certificate(plan.name.clone()),
            ]
        });
        secrets.chain(issuer).collect()
    }
}

/// Returns the origin of a certificate by cert-manager.
fn cert_manager_origin(wanted: &CertManagerSpec, names: &Names, namespace: &str) -> Origin {
    // Taken apart without `..`: a new field cannot be forgotten here.
    let CertManagerSpec {
        issuer_ref,
        ca_secret_ref,
        cert_validity,
        renew_before,
    } = wanted.clone();
    let renew_before = renew_before.map(Into::into);
    let secrets = Secrets {
        certificate: names.issued_cert(),
        ca: ca_secret_ref.map(|reference| reference.name),
        field: "spec.tls.certManager",
        ca_field: "spec.tls.certManager.caSecretRef",
        renew_before,
    };
    let plan = Plan {
        name: names.certificate(),
        secret: names.issued_cert(),
        dns_names: names.dns_names(namespace),
        issuer: issuer_ref,
        validity: cert_validity.map(Into::into),
        renew_before,
    };
    Origin::CertManager(secrets, Box::new(plan))
}

/// Returns the Secrets of a certificate by the user.
fn provided_secrets(provided: &ProvidedTlsSpec) -> Secrets {
    // Taken apart without `..`: a new field cannot be forgotten here.
    let ProvidedTlsSpec {
        secret_ref,
        ca_secret_ref,
        renew_before,
    } = provided.clone();
    Secrets {
        certificate: secret_ref.name,
        ca: ca_secret_ref.map(|reference| reference.name),
        field: "spec.tls.provided.secretRef",
        ca_field: "spec.tls.provided.caSecretRef",
        renew_before: renew_before.map(Into::into),
    }
}

impl Secrets {
    /// Checks what was found of them.
    ///
    /// # Errors
    /// [`Problem`] names what is wrong with it.
    fn check(
        &self,
        spec: &Validated,
        found: &ServingFound,
        read: &Dereferenced,
    ) -> Result<Given, Problem> {
        let namespace = spec.namespace.as_str();
        let certificate = Part {
            field: self.field,
            namespace,
            name: &self.certificate,
            values: found.certificate.as_ref(),
        };
        let ca = self.ca.as_ref().map(|name| Part {
            field: self.ca_field,
            namespace,
            name,
            values: found.ca.as_ref(),
        });
        let ca = ca.unwrap_or(certificate);
        let host = spec.names.dns_names(namespace).into_iter().next();
        let host = host.unwrap_or_default();
        check(&certificate, &ca, &host, self.renew_before, read.now)
    }
}

/// Returns the same with the certificate that was found, or what is wrong with it.
#[must_use]
pub(super) fn certified(mut spec: Validated, read: &Dereferenced) -> Validated {
    let found = &read.inside.serving;
    spec.certs.serving = match &spec.origin {
        Origin::Operator => None,
        Origin::Provided(secrets) => Some(secrets.check(&spec, found, read)),
        Origin::CertManager(secrets, plan) => {
            let checked = secrets.check(&spec, found, read);
            Some(issued(&spec, secrets, plan, found, checked))
        }
    };
    let crd = found.cert_manager.as_ref().is_some_and(|found| found.crd);
    spec.certificate = spec.origin.plan().filter(|_| crd).cloned();
    spec
}

/// Returns the certificate of cert-manager with what it tells of the next one.
///
/// # Errors
/// Why there is none to use.
fn issued(
    spec: &Validated,
    secrets: &Secrets,
    plan: &Plan,
    found: &ServingFound,
    checked: Result<Given, Problem>,
) -> Result<Given, Problem> {
    let cert_manager = found.cert_manager.as_ref();
    let certificate = cert_manager.and_then(|found| found.certificate.as_ref());
    let missing = cert_manager.is_none_or(|found| !found.crd);
    let told = |observed: &Observed| {
        let place = format!("Certificate {}/{}", spec.namespace, plan.name);
        format!("{place} of cert-manager is not ready: {}", observed.words)
    };
    let unready = certificate.filter(|observed| !observed.ready).map(told);
    let absent = || {
        format!(
            "spec.tls.mode: CertManager needs cert-manager, and there is no CRD {}: install it, or \
             set another mode",
            cert_manager::CRD
        )
    };
    match checked {
        Ok(given) => {
            // Replaced by cert-manager at that time; half of what is left then is for people.
            let due = given.between_due_and_end();
            let note = missing.then(absent).or(unready);
            Ok(Given { due, note, ..given })
        }
        Err(_) if missing => Err(Problem::new(reasons::CERT_MANAGER_MISSING, absent())),
        Err(problem) => match (unready, certificate) {
            (Some(words), _) => Err(Problem::waiting(reasons::CERTIFICATE_NOT_READY, words)),
            (None, None) => {
                let words = format!(
                    "Certificate {}/{} of cert-manager is being created",
                    spec.namespace, plan.name
                );
                Err(Problem::waiting(reasons::CERTIFICATE_NOT_READY, words))
            }
            (None, Some(_)) => Err(of_ready(secrets, problem)),
        },
    }
}

/// Returns what is wrong with a certificate that cert-manager takes for ready.
fn of_ready(secrets: &Secrets, problem: Problem) -> Problem {
    if problem.reason == reasons::SECRET_MISSING {
        // It is deleted, and cert-manager has not noticed yet.
        return Problem::waiting(problem.reason, problem.message);
    }
    if problem.reason != reasons::SECRET_KEY_MISSING || secrets.ca.is_some() {
        return problem;
    }
    let message = format!(
        "{}; where the issuer gives none, name a Secret with them in \
         spec.tls.certManager.caSecretRef",
        problem.message
    );
    Problem { message, ..problem }
}

/// Makes sure that there is a certificate to begin with. One that is in use already stays where it
/// is; the status tells then.
///
/// # Errors
/// If there is none, and the one that is asked for cannot be used.
pub(super) fn beginning(spec: &Validated, read: &Dereferenced) -> Result<(), Refusal> {
    let problem = spec
        .certs
        .serving
        .as_ref()
        .and_then(|given| given.as_ref().err());
    match problem.filter(|problem| !problem.waiting) {
        Some(problem) if read.inside.material.leaf.is_none() => Err(Refusal {
            reason: problem.reason,
            message: problem.message.clone(),
        }),
        _ => Ok(()),
    }
}
