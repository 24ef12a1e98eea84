//! The way of a certificate to the server. At no moment anybody meets one that it cannot verify:
//!
//! 1. its authorities join those in the bundle of every `APIService`;
//! 2. once that has reached every kube-apiserver, the server gets the certificate;
//! 3. once that is the one in use, the authorities of the one before leave the bundle.

use std::time::Duration;

use jiff::Timestamp;

use super::facts::{Given, Move};
use crate::certs::material::{Material, Trusted};
use crate::certs::plan::{MAX_OVERLAP, MAX_SETTLE};
use crate::certs::time::{between, minus, plus};
use crate::certs::x509::is_trusted;

/// Longest time before its end at which a certificate that cannot be replaced is given up.
const MAX_GRACE: Duration = Duration::from_hours(1);

/// The outcome of [`install`].
pub(in crate::certs) struct Installed {
    /// The moves that were made.
    pub moves: Vec<Move>,
    /// The time of the next look.
    pub next: Timestamp,
}

/// Makes every move that is due. `published` is the CA bundle of each `APIService` that points to
/// the server.
pub(in crate::certs) fn install(
    now: Timestamp,
    material: &mut Material,
    published: &[Vec<u8>],
    given: &Given,
) -> Installed {
    let mut moves = Vec::new();
    let mut trusted = material.trusted(now);
    let due = if now < given.due {
        given.due
    } else {
        given.not_after
    };
    let mut next = due;
    if given.cas.iter().any(|ca| !trusted.cas.contains(ca)) {
        let old = trusted.cas.into_iter().filter(|ca| !given.cas.contains(ca));
        trusted = Trusted {
            cas: given.cas.iter().cloned().chain(old).collect(),
            changed: now,
        };
        moves.push(Move::Trust);
    }
    if material.leaf.as_ref() != Some(&given.pair) {
        let settled = plus(trusted.changed, MAX_SETTLE.min(given.lifetime() / 12));
        let bundle = trusted.cas.concat();
        let arrived = published.iter().all(|pem| *pem == bundle.as_bytes()) && now >= settled;
        // Nobody verifies it yet, or nobody can.
        let free = published.is_empty() || !is_in_use(material, &trusted, now);
        if arrived || free {
            material.leaf = Some(given.pair.clone());
            trusted.changed = now;
            moves.push(Move::Use);
        } else if now < settled {
            next = next.min(settled);
        }
    }
    if material.leaf.as_ref() == Some(&given.pair) && trusted.cas != given.cas {
        let over = plus(trusted.changed, MAX_OVERLAP.min(given.lifetime() / 6));
        // Without a server nobody has to be waited for.
        if now >= over || published.is_empty() {
            trusted = Trusted {
                cas: given.cas.clone(),
                changed: now,
            };
            moves.push(Move::Retire);
        } else {
            next = next.min(over);
        }
    }
    material.trusted = Some(trusted);
    material.others.clear();
    Installed { moves, next }
}

/// Returns whether those who trust `trusted` accept the certificate that the server shows.
fn is_in_use(material: &Material, trusted: &Trusted, now: Timestamp) -> bool {
    let leaf = material.leaf.as_ref();
    leaf.is_some_and(|leaf| is_trusted(&leaf.cert, &trusted.cas, now))
}

/// Returns until when the certificate in use can stay although none can take its place; none where
/// it is the operator's own, or at its end. The rest of its time is for the change to one of the
/// operator's own.
pub(in crate::certs) fn holds(material: &Material, now: Timestamp) -> Option<Timestamp> {
    let trusted = material.trusted.as_ref()?;
    let leaf = material.leaf.as_ref()?;
    let own = material.ca.iter().map(|ca| ca.cert.clone());
    let own: Vec<String> = own.chain(material.previous.iter().cloned()).collect();
    if !is_trusted(&leaf.cert, &trusted.cas, now) || is_trusted(&leaf.cert, &own, now) {
        return None;
    }
    let (begin, end) = material.leaf_validity()?;
    let until = minus(end, MAX_GRACE.min(between(begin, end) / 6));
    (now < until).then_some(until)
}
