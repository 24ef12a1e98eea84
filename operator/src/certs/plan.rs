//! The plan of the next certificate to replace: a pure function of the time and of what there is.
//!
//! A certificate authority is replaced in three moves, so that at no moment anybody meets a
//! certificate that it cannot verify:
//!
//! 1. the new CA joins the old one in the bundle of every `APIService`;
//! 2. once that has reached every kube-apiserver, the server gets a leaf of the new CA;
//! 3. once that leaf is the one in use, the old CA leaves the bundle.

use std::time::Duration;

use jiff::Timestamp;

use super::database;
use super::given::{Given, Problem};
use super::issue::BACKDATE;
use super::time::{minus, plus};

/// Upper bound of the time between the write of a bundle and its use by every kube-apiserver.
/// They watch APIServices, so this takes well below a second; the rest is for a lagging watch.
pub(super) const MAX_SETTLE: Duration = Duration::from_mins(2);
/// Upper bound of the time between the write of a leaf and its use by the server. The kubelet
/// refreshes a mounted Secret within its sync period plus its cache's delay, two minutes at most.
pub(super) const MAX_OVERLAP: Duration = Duration::from_hours(1);

/// SHA-256 of a certificate's DER, hex.
pub type Fingerprint = String;

/// The facts about a CA that the plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaInfo {
    /// Identity of the certificate.
    pub fingerprint: Fingerprint,
    /// The time of its issue.
    pub issued: Timestamp,
    /// The time of its expiry.
    pub not_after: Timestamp,
}

/// The facts about the server's certificate that the plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafInfo {
    /// The CA, of those at hand, that signed it.
    pub issuer: Option<Fingerprint>,
    /// The time of its issue.
    pub issued: Timestamp,
    /// The time of its expiry.
    pub not_after: Timestamp,
    /// The DNS names it is for; of a client's, the role.
    pub dns_names: Vec<String>,
}

/// The certificates that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The CA that signs; absent when it is missing or its key does not fit.
    pub ca: Option<CaInfo>,
    /// CAs that still have to be trusted.
    pub previous: Vec<CaInfo>,
    /// The server's certificate; absent when it is missing or its key does not fit.
    pub leaf: Option<LeafInfo>,
    /// The certificate of the database.
    pub database_server: Option<LeafInfo>,
    /// The certificate by which servers are let in.
    pub database_client: Option<LeafInfo>,
    /// True when every `APIService` that points to the server carries exactly the bundle of `ca`
    /// and `previous`.
    pub published: bool,
    /// True where the operator does not issue the server's certificate.
    pub foreign: bool,
}

/// The wanted certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Lifetime of a CA; at least twice `cert_validity`.
    pub ca_validity: Duration,
    /// Lifetime of a leaf.
    pub cert_validity: Duration,
    /// The time before its end at which a leaf is replaced; below `cert_validity`.
    pub renew_before: Duration,
    /// The DNS names the leaf must be for.
    pub dns_names: Vec<String>,
    /// The certificates of a database that the operator runs.
    pub database: Option<DatabaseNames>,
    /// The server's certificate, where somebody else issues it, or why it cannot be used.
    pub serving: Option<Result<Given, Problem>>,
}

/// The holders of a database's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseNames {
    /// DNS names of the database.
    pub server: Vec<String>,
    /// The role that the client certificate is for.
    pub role: String,
}

/// One of the two certificates of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseLeaf {
    /// The database's own.
    Server,
    /// The one by which servers are let in.
    Client,
}

impl DatabaseNames {
    /// Returns the names that the certificate must be for.
    #[must_use]
    pub fn of(&self, leaf: DatabaseLeaf) -> Vec<String> {
        match leaf {
            DatabaseLeaf::Server => self.server.clone(),
            DatabaseLeaf::Client => vec![self.role.clone()],
        }
    }
}

impl Policy {
    /// Returns the time before the end of the server's certificate in which it is replaced, or in
    /// which another one is asked for where somebody else issues it.
    #[must_use]
    pub fn renewal(&self) -> Duration {
        match &self.serving {
            Some(Ok(given)) => given.renewal(),
            Some(Err(_)) | None => self.renew_before,
        }
    }

    fn settle(&self) -> Duration {
        MAX_SETTLE.min(self.cert_validity / 12)
    }

    pub(super) fn overlap(&self) -> Duration {
        MAX_OVERLAP.min(self.cert_validity / 6)
    }
}

/// The next move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Issue a CA; the present one, if there is one, goes on being trusted.
    IssueCa(Why),
    /// Issue a leaf, signed by the present CA.
    IssueLeaf(Why),
    /// Issue a certificate of the database, signed by the present CA.
    IssueDatabase(DatabaseLeaf, Why),
    /// Stop trusting all CAs but the present one.
    DropPrevious,
    /// Nothing now; look again at this time, or when something changes.
    Wait(Timestamp),
}

/// The reason why a certificate is issued; the text stands in the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no usable one.
    Missing,
    /// The present one expires soon or has expired.
    Expiring,
    /// The present one is not valid yet: the clock that it was issued by was ahead.
    NotYetValid,
    /// The present one is for other DNS names.
    DnsNames,
    /// The present one is signed by a CA that is on its way out, or by an unknown one.
    Issuer,
}

impl Why {
    /// Returns the reason in words for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "there was no usable one",
            Self::Expiring => "the previous one was about to expire",
            Self::NotYetValid => "the previous one was not valid yet",
            Self::DnsNames => "the previous one was for other DNS names",
            Self::Issuer => "the previous one was signed by another certificate authority",
        }
    }
}

/// Returns whether a certificate that was issued at a time is valid by now, as far as its beginning
/// says. Clocks that differ by less than the allowance of each certificate change nothing.
pub(super) fn has_begun(issued: Timestamp, now: Timestamp) -> bool {
    issued <= plus(now, BACKDATE)
}

/// Returns the present CA.
///
/// # Errors
/// The reason why another one is needed at once.
fn valid_ca(now: Timestamp, observed: &Observed) -> Result<&CaInfo, Why> {
    match &observed.ca {
        Some(ca) if !has_begun(ca.issued, now) => Err(Why::NotYetValid),
        Some(ca) if now < ca.not_after => Ok(ca),
        Some(_) | None => Err(Why::Missing),
    }
}

/// Returns the next move. Call it again after carrying the move out, until it returns
/// [`Rotation::Wait`].
#[must_use]
pub fn plan(now: Timestamp, observed: &Observed, policy: &Policy) -> Rotation {
    let serving = if observed.foreign {
        plan_authority(now, observed, policy)
    } else {
        plan_serving(now, observed, policy)
    };
    let (Some(database), Some(ca)) = (&policy.database, &observed.ca) else {
        return serving;
    };
    match serving {
        Rotation::Wait(_) | Rotation::DropPrevious => {
            database::plan(now, observed, policy, database, ca, serving)
        }
        // The server's own certificate comes first.
        issue => issue,
    }
}

fn plan_serving(now: Timestamp, observed: &Observed, policy: &Policy) -> Rotation {
    let ca = match valid_ca(now, observed) {
        Ok(ca) => ca,
        Err(why) => return Rotation::IssueCa(why),
    };
    // From here on a leaf of full length would outlive its CA.
    let ca_due = minus(ca.not_after, policy.cert_validity);
    let Some(leaf) = &observed.leaf else {
        return Rotation::IssueLeaf(Why::Missing);
    };
    if leaf.issuer.as_ref() != Some(&ca.fingerprint) {
        return replace_foreign_leaf(now, observed, policy, ca, leaf);
    }
    if !has_begun(leaf.issued, now) {
        return Rotation::IssueLeaf(Why::NotYetValid);
    }
    if now >= ca_due && observed.previous.is_empty() {
        return Rotation::IssueCa(Why::Expiring);
    }
    let mut wanted = policy.dns_names.clone();
    let mut present = leaf.dns_names.clone();
    wanted.sort_unstable();
    present.sort_unstable();
    if wanted != present {
        return Rotation::IssueLeaf(Why::DnsNames);
    }
    // A leaf that ends with its CA cannot be prolonged by another one of the same CA.
    let leaf_due = if leaf.not_after < ca.not_after {
        minus(leaf.not_after, policy.renew_before)
    } else {
        ca.not_after
    };
    if now >= leaf_due {
        return Rotation::IssueLeaf(Why::Expiring);
    }
    if observed.previous.is_empty() {
        return Rotation::Wait(leaf_due.min(ca_due));
    }
    let drop_at = plus(leaf.issued, policy.overlap());
    if now >= drop_at {
        return Rotation::DropPrevious;
    }
    Rotation::Wait(leaf_due.min(drop_at))
}

/// Returns the move of a CA that does not sign the server's certificate: it is there for a database,
/// and to step in.
fn plan_authority(now: Timestamp, observed: &Observed, policy: &Policy) -> Rotation {
    let ca = match valid_ca(now, observed) {
        Ok(ca) => ca,
        Err(why) => return Rotation::IssueCa(why),
    };
    let ca_due = minus(ca.not_after, policy.cert_validity);
    if observed.previous.is_empty() {
        return if now >= ca_due {
            Rotation::IssueCa(Why::Expiring)
        } else {
            Rotation::Wait(ca_due)
        };
    }
    let drop_at = plus(ca.issued, policy.overlap());
    if now >= drop_at {
        Rotation::DropPrevious
    } else {
        Rotation::Wait(drop_at)
    }
}

/// Returns the move for a leaf that is not of the present CA: either a rotation is under way, or
/// nobody can verify it.
fn replace_foreign_leaf(
    now: Timestamp,
    observed: &Observed,
    policy: &Policy,
    ca: &CaInfo,
    leaf: &LeafInfo,
) -> Rotation {
    let valid = has_begun(leaf.issued, now) && now < leaf.not_after;
    let trusted = leaf.issuer.is_some() && valid;
    let settled = plus(ca.issued, policy.settle());
    if !trusted || (observed.published && now >= settled) {
        return Rotation::IssueLeaf(Why::Issuer);
    }
    Rotation::Wait(if now < settled {
        settled
    } else {
        leaf.not_after
    })
}
