//! The replacement of the certificates of a database.
//!
//! Both ends read the bundle of trusted CAs from a mounted Secret. So a leaf of a new CA is issued
//! once the bundle with that CA must have arrived there, and the old CA stays trusted until both
//! new leafs must be in use.

use jiff::Timestamp;

use super::plan::{
    CaInfo, DatabaseLeaf, DatabaseNames, LeafInfo, Observed, Policy, Rotation, Why, has_begun,
};
use super::time::{minus, plus};

/// Returns the next move, where that of the serving certificate is `serving`: to wait, or to drop
/// the previous CAs.
pub(super) fn plan(
    now: Timestamp,
    observed: &Observed,
    policy: &Policy,
    names: &DatabaseNames,
    ca: &CaInfo,
    serving: Rotation,
) -> Rotation {
    let leafs = [
        (DatabaseLeaf::Server, &observed.database_server),
        (DatabaseLeaf::Client, &observed.database_client),
    ];
    let mut due = Vec::new();
    // Until when the previous CAs are needed.
    let mut retained = None;
    for (kind, present) in leafs {
        match judge(now, present.as_ref(), &names.of(kind), policy, ca) {
            Verdict::Replace(why) => return Rotation::IssueDatabase(kind, why),
            Verdict::Keep { until, previous } => {
                due.push(until);
                retained = retained.max(previous);
            }
        }
    }
    let first = due.into_iter().min();
    match (serving, retained.filter(|needed| now < *needed)) {
        (Rotation::Wait(then), _) => Rotation::Wait(first.map_or(then, |first| first.min(then))),
        (Rotation::DropPrevious, Some(needed)) => {
            Rotation::Wait(first.map_or(needed, |first| first.min(needed)))
        }
        (serving, _) => serving,
    }
}

enum Verdict {
    Replace(Why),
    Keep {
        /// The time of the next look.
        until: Timestamp,
        /// The time until which a CA other than the present one is needed for it.
        previous: Option<Timestamp>,
    },
}

fn judge(
    now: Timestamp,
    present: Option<&LeafInfo>,
    wanted: &[String],
    policy: &Policy,
    ca: &CaInfo,
) -> Verdict {
    let Some(leaf) = present else {
        return Verdict::Replace(Why::Missing);
    };
    if leaf.issuer.as_ref() != Some(&ca.fingerprint) {
        let valid = has_begun(leaf.issued, now) && now < leaf.not_after;
        let trusted = leaf.issuer.is_some() && valid;
        let arrived = plus(ca.issued, policy.overlap());
        if !trusted || now >= arrived {
            return Verdict::Replace(Why::Issuer);
        }
        let until = arrived.min(leaf.not_after);
        return Verdict::Keep {
            until,
            previous: Some(Timestamp::MAX),
        };
    }
    if !has_begun(leaf.issued, now) {
        return Verdict::Replace(Why::NotYetValid);
    }
    if leaf.dns_names != wanted {
        return Verdict::Replace(Why::DnsNames);
    }
    // A leaf that ends with its CA cannot be prolonged by another one of the same CA.
    let due = if leaf.not_after < ca.not_after {
        minus(leaf.not_after, policy.renew_before)
    } else {
        ca.not_after
    };
    if now >= due {
        return Verdict::Replace(Why::Expiring);
    }
    Verdict::Keep {
        until: due,
        previous: Some(plus(leaf.issued, policy.overlap())),
    }
}
