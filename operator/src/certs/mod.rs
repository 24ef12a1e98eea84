//! The certificates of server and database: own CA and leafs, replaced with an overlap
//! (`docs/certificates.md`).
//!
//! [`plan()`] decides, [`reconcile`] carries its moves out on the [`Material`] of the Secrets.
//! Neither talks to the cluster.

mod database;
mod issue;
mod material;
mod plan;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use material::{CA_CRT, Material, Pair, TLS_CRT, TLS_KEY};
pub use plan::{
    CaInfo, DatabaseLeaf, DatabaseNames, Fingerprint, LeafInfo, Observed, Policy, Rotation, Why,
    plan,
};

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

/// The outcome of [`reconcile`].
#[derive(Debug)]
pub struct Outcome {
    /// The wanted content of the Secrets.
    pub material: Material,
    /// The moves that were made, for events.
    pub moves: Vec<Rotation>,
    /// The time of the next look.
    pub next: Timestamp,
}

/// Makes every move that is due. `published` is the CA bundle of each `APIService` that points to
/// the server; `name` becomes part of the CA's common name.
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
    let mut moves = Vec::new();
    // At most: CA, leaf, two of a database, drop. One more to find that nothing is left to do.
    for _ in 0..6 {
        let observed = material.observe(published);
        let step = plan(now, &observed, policy);
        match &step {
            Rotation::Wait(next) => {
                return Ok(Outcome {
                    material,
                    moves,
                    next: *next,
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
            Rotation::DropPrevious => material.previous.clear(),
        }
        moves.push(step);
    }
    Err(Error::Unstable)
}
