//! The certificates of server and database: own CA and leafs, replaced with an overlap, or a
//! certificate of somebody else in the same manner (`docs/certificates.md`).
//!
//! [`plan()`] decides, [`reconcile`] carries its moves out on the [`Material`] of the Secrets.
//! Neither talks to the cluster.

mod database;
pub mod given;
mod issue;
mod material;
mod pair;
mod plan;
#[cfg(test)]
mod tests;
mod time;
mod x509;

use jiff::Timestamp;

use given::Installed;
pub use given::{Given, Problem};
pub use issue::{SELF_SIGNED_VALIDITY, self_signed};
pub use material::{CA_CRT, Material, TLS_CRT, TLS_KEY, Trusted};
pub use pair::{Pair, PairError};
pub use plan::{
    CaInfo, DatabaseLeaf, DatabaseNames, Fingerprint, LeafInfo, Observed, Policy, Rotation, Why,
    plan,
};
pub use x509::validity_of;

/// The reason why certificates could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CA could not be made.
    #[error("the certificate authority could not be issued: {0}")]
    Ca(#[source] rcgen::Error),
    /// A certificate could not be made.
    #[error("a certificate could not be issued: {0}")]
    Leaf(#[source] rcgen::Error),
    /// The plan does not come to rest: a bound against issuing without end.
    #[error(
        "certificates issued just now are already due: lifetimes in spec.tls.operator are too short"
    )]
    Unstable,
}

/// The phase of a change of the authorities that are trusted of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Those of the certificate in use are trusted.
    Stable,
    /// Old and new ones are trusted, and the old certificate is in use.
    Overlap,
    /// The new certificate is in use, and the old authorities are about to go.
    Retiring,
}

/// The outcome of [`reconcile`].
#[derive(Debug)]
pub struct Outcome {
    /// The wanted content of the Secrets.
    pub material: Material,
    /// The moves that were made, for events.
    pub moves: Vec<Rotation>,
    /// The moves of a certificate that somebody else issued, for events.
    pub given: Vec<given::Move>,
    /// The time of the next look.
    pub next: Timestamp,
    /// The phase of a change.
    pub phase: Phase,
    /// The problem because of which the certificate that is asked for is not in use.
    pub problem: Option<Problem>,
    /// True where a certificate that the operator cannot replace ends soon.
    pub expiring: bool,
    /// The words of the issuer about the next certificate.
    pub note: Option<String>,
}

impl Outcome {
    /// Returns the same where the moves could not be stored, and `stored` is what there is.
    #[must_use]
    pub fn unstored(self, stored: Material) -> Self {
        Self {
            material: stored,
            moves: Vec::new(),
            given: Vec::new(),
            ..self
        }
    }
}

/// Makes every move that is due. `published` is the CA bundle of each `APIService` that points to
/// the server; `name` becomes part of the CA's common name.
///
/// A certificate of somebody else that cannot be used leaves the one in use where it is. The
/// operator's own takes over before that ends, so that the API goes on.
///
/// # Errors
/// If a certificate cannot be issued.
pub fn reconcile(
    name: &str,
    now: Timestamp,
    mut material: Material,
    published: &[Vec<u8>],
    policy: &Policy,
) -> Result<Outcome, Error> {
    let (installed, problem) = match &policy.serving {
        Some(Ok(given)) => {
            let installed = given::install(now, &mut material, published, given);
            (Some(installed), None)
        }
        Some(Err(problem)) => {
            let held = given::holds(&material, now).map(|next| Installed {
                moves: Vec::new(),
                next,
            });
            (held, Some(problem.clone()))
        }
        None => (None, None),
    };
    let Some(Installed { moves, next }) = installed else {
        let own = own(name, now, material.taken_back(), published, policy)?;
        return Ok(Outcome { problem, ..own });
    };
    let own = own(name, now, material, published, policy)?;
    let given = policy
        .serving
        .as_ref()
        .and_then(|given| given.as_ref().ok());
    Ok(Outcome {
        given: moves,
        next: own.next.min(next),
        phase: given.map_or(Phase::Stable, |given| phase_of(&own.material, given)),
        problem,
        expiring: given.is_some_and(|given| now >= given.due),
        note: given.and_then(|given| given.note.clone()),
        ..own
    })
}

/// Returns how far the change to a certificate of somebody else is.
fn phase_of(material: &Material, given: &Given) -> Phase {
    let trusted = material.trusted.as_ref();
    if material.leaf.as_ref() != Some(&given.pair) {
        Phase::Overlap
    } else if trusted.is_some_and(|trusted| trusted.cas != given.cas) {
        Phase::Retiring
    } else {
        Phase::Stable
    }
}

/// Returns how far the replacement of the operator's own CA is.
fn own_phase(material: &Material) -> Phase {
    let observed = material.observe(&[]);
    let issuer = observed.leaf.as_ref().and_then(|leaf| leaf.issuer.as_ref());
    match (&observed.previous[..], &observed.ca) {
        ([], _) => Phase::Stable,
        (_, Some(ca)) if issuer == Some(&ca.fingerprint) => Phase::Retiring,
        _ => Phase::Overlap,
    }
}

/// Makes every move that is due of what the operator issues itself.
fn own(
    name: &str,
    now: Timestamp,
    mut material: Material,
    published: &[Vec<u8>],
    policy: &Policy,
) -> Result<Outcome, Error> {
    let mut moves = Vec::new();
    // At most: CA, leaf, two of a database, drop. One more to find that nothing is left to do.
    for _ in 0..6 {
        let observed = material.observe(published);
        let step = plan(now, &observed, policy);
        match &step {
            Rotation::Wait(next) => {
                return Ok(Outcome {
                    phase: own_phase(&material),
                    material,
                    moves,
                    given: Vec::new(),
                    next: *next,
                    problem: None,
                    expiring: false,
                    note: None,
                });
            }
            Rotation::IssueCa(_) => {
                let ca = issue::ca(name, now, policy.ca_validity).map_err(Error::Ca)?;
                let old = material.ca.replace(ca);
                material.previous.splice(0..0, old.map(|pair| pair.cert));
            }
            Rotation::IssueLeaf(_) => {
                let (Some(ca), Some(info)) = (&material.ca, &observed.ca) else {
                    return Err(Error::Unstable);
                };
                let names = &policy.dns_names;
                let leaf = issue::leaf(ca, info.not_after, names, now, policy.cert_validity);
                material.leaf = Some(leaf.map_err(Error::Leaf)?);
            }
            Rotation::IssueDatabase(kind, _) => {
                let (Some(ca), Some(info), Some(names)) =
                    (&material.ca, &observed.ca, &policy.database)
                else {
                    return Err(Error::Unstable);
                };
                let end = info.not_after;
                match kind {
                    DatabaseLeaf::Server => {
                        let leaf = issue::leaf(ca, end, &names.server, now, policy.cert_validity);
                        material.database_server = Some(leaf.map_err(Error::Leaf)?);
                    }
                    DatabaseLeaf::Client => {
                        let leaf = issue::client(ca, end, &names.role, now, policy.cert_validity);
                        material.database_client = Some(leaf.map_err(Error::Leaf)?);
                    }
                }
            }
            Rotation::DropPrevious => {
                material.previous.clear();
                material.others.clear();
            }
        }
        moves.push(step);
    }
    Err(Error::Unstable)
}
