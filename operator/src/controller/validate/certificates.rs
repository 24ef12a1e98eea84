//! The origin of the server's certificate, and whether what is there of it can be used.

use std::collections::BTreeSet;
use std::time::Duration;

use crds::v1alpha1::spec::{ProvidedTlsSpec, ReportsServerSpec, TlsMode};

use super::validated::{Refusal, Validated};
use crate::certs::given::{Part, check};
use crate::certs::{Given, Problem};
use crate::controller::found::{Dereferenced, ServingFound};
use crate::controller::watches::Watched;

/// The issuer of the server's certificate, and the Secrets that it is read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Origin {
    /// The operator.
    #[default]
    Operator,
    /// The user.
    Provided(Secrets),
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
    pub fn of(spec: &ReportsServerSpec) -> Self {
        let Some(tls) = &spec.tls else {
            return Self::Operator;
        };
        match (tls.mode.unwrap_or_default(), &tls.provided) {
            (TlsMode::Provided, Some(provided)) => Self::Provided(provided_secrets(provided)),
            _ => Self::Operator,
        }
    }

    /// Returns the mode that it is.
    #[must_use]
    pub fn mode(&self) -> TlsMode {
        match self {
            Self::Operator => TlsMode::Operator,
            Self::Provided(_) => TlsMode::Provided,
        }
    }

    /// Returns the Secrets that the certificate is read from; none where the operator issues it.
    #[must_use]
    pub fn secrets(&self) -> Option<&Secrets> {
        match self {
            Self::Operator => None,
            Self::Provided(secrets) => Some(secrets),
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
        secrets.collect()
    }
}

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
    };
    spec
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crds::v1alpha1::reasons;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::certs::given::Values;
    use crate::certs::given::tests::secret;
    use crate::controller::fixtures::{material, object, read};
    use crate::controller::found::Inside;
    use crate::controller::validate::validate;

    const HOST: &str = "simple-server.target.svc";

    fn found(certificate: Option<Values>, in_use: bool) -> Dereferenced {
        let serving = ServingFound {
            certificate,
            ca: None,
        };
        let mut inside = Inside {
            serving,
            ..Inside::default()
        };
        if in_use {
            inside.material = material();
        }
        Dereferenced {
            now: now(),
            inside,
            ..read()
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn provided() -> serde_json::Value {
        json!({"tls": {"mode": "Provided", "provided": {"secretRef": {"name": "theirs"}}}})
    }

    #[test]
    fn without_a_certificate_to_begin_with_the_specification_is_refused() {
        let refused = validate(&object(provided()), &found(None, false)).unwrap_err();
        assert_eq!(refused.refusal.reason, reasons::SECRET_MISSING);
        let start = "spec.tls.provided.secretRef: Secret target/theirs does not exist";
        assert!(refused.refusal.message.starts_with(start));
        let spec = refused.spec.unwrap();
        let watched = Watched::Secret("theirs".into());
        assert!(spec.origin.watched().contains(&watched), "it is looked for");
    }

    #[test]
    fn where_one_is_in_use_everything_else_is_carried_out() {
        let spec = validate(&object(provided()), &found(None, true)).unwrap();
        let problem = spec.certs.serving.unwrap().unwrap_err();
        assert_eq!(problem.reason, reasons::SECRET_MISSING);
    }

    #[test]
    fn a_certificate_must_be_for_the_service() {
        let day = Duration::from_hours(24);
        for (host, fits) in [(HOST, true), ("simple-server.other.svc", false)] {
            let certificate = Some(secret(host, now(), day));
            let valid = validate(&object(provided()), &found(certificate, false));
            assert_eq!(valid.is_ok(), fits, "{host}: {valid:?}");
        }
    }

    #[test]
    fn the_authorities_may_be_in_a_secret_of_their_own() {
        let day = Duration::from_hours(24);
        let mut spec = provided();
        spec["tls"]["provided"]["caSecretRef"] = json!({"name": "roots"});
        let mut certificate = secret(HOST, now(), day);
        let ca = certificate.remove(crate::certs::CA_CRT).unwrap();
        let mut read = found(Some(certificate), false);
        let refused = validate(&object(spec.clone()), &read).unwrap_err();
        let start = "spec.tls.provided.caSecretRef: Secret target/roots does not exist";
        assert!(refused.refusal.message.starts_with(start));
        let roots = Values::from([(crate::certs::CA_CRT.to_owned(), ca)]);
        read.inside.serving.ca = Some(roots);
        let valid = validate(&object(spec), &read).unwrap();
        assert!(valid.certs.serving.unwrap().is_ok());
        assert_eq!(valid.origin.watched().len(), 2);
    }
}
