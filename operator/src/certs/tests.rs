//! The plan against a model of the cluster, and real certificates against a real verifier.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;

use super::time::{minus, plus};
use super::*;

const DAY: Duration = Duration::from_hours(24);

fn policy() -> Policy {
    Policy {
        ca_validity: 365 * DAY,
        cert_validity: 90 * DAY,
        renew_before: 30 * DAY,
        dns_names: vec![
            "a-server.ns.svc".into(),
            "a-server.ns.svc.cluster.local".into(),
        ],
        database: None,
        serving: None,
    }
}

fn t0() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn secrets(material: &Material) -> (Secret, Secret) {
    let with = |data| Secret {
        data: Some(data),
        ..Secret::default()
    };
    (with(material.ca_data()), with(material.serving_data()))
}

fn install() -> Material {
    let outcome = reconcile("a", t0(), Material::default(), &[], &policy()).unwrap();
    assert_eq!(
        outcome.moves,
        [
            Rotation::IssueCa(Why::Missing),
            Rotation::IssueLeaf(Why::Missing)
        ]
    );
    assert_eq!(
        outcome.next,
        plus(t0(), 60 * DAY),
        "the leaf is due 30 days before its end"
    );
    outcome.material
}

#[test]
fn the_first_pair_is_accepted_by_a_tls_client_and_survives_the_secrets() {
    let material = install();
    let observed = material.observe(&[]);
    let leaf = observed.leaf.unwrap();
    assert_eq!(
        leaf.issuer,
        observed.ca.map(|ca| ca.fingerprint),
        "verified by webpki"
    );
    assert_eq!(leaf.dns_names, policy().dns_names);
    let (ca, serving) = secrets(&material);
    assert_eq!(Material::from_secrets(Some(&ca), Some(&serving)), material);
}

#[test]
fn a_ca_is_replaced_in_three_moves() {
    let old = install();
    let due = plus(t0(), 275 * DAY);
    // The leaf is renewed first, as on any other day, by the CA that still has its length.
    let fresh = reconcile("a", minus(due, DAY), old, &[], &policy())
        .unwrap()
        .material;
    let published = fresh.bundle().into_bytes();

    let first = reconcile(
        "a",
        due,
        fresh.clone(),
        std::slice::from_ref(&published),
        &policy(),
    );
    let first = first.unwrap();
    assert_eq!(first.moves, [Rotation::IssueCa(Why::Expiring)]);
    assert_eq!(
        first.material.leaf, fresh.leaf,
        "the server keeps its certificate"
    );
    assert!(
        first.material.bundle().contains(&fresh.bundle()),
        "the old CA stays trusted"
    );

    // Not published yet: nothing moves, however late it is.
    let late = plus(due, DAY);
    let stuck = reconcile("a", late, first.material.clone(), &[published], &policy()).unwrap();
    assert!(stuck.moves.is_empty());

    let both = first.material.bundle().into_bytes();
    let second = reconcile(
        "a",
        late,
        first.material,
        std::slice::from_ref(&both),
        &policy(),
    );
    let second = second.unwrap();
    assert_eq!(second.moves, [Rotation::IssueLeaf(Why::Issuer)]);
    let later = plus(late, Duration::from_hours(1));
    let third = reconcile("a", later, second.material, &[both], &policy()).unwrap();
    assert_eq!(third.moves, [Rotation::DropPrevious]);
    assert_eq!(third.material.ca_fingerprints().len(), 1);
}

#[test]
fn a_lost_ca_is_replaced_without_a_gap_in_trust() {
    let old = install();
    let published = old.bundle().into_bytes();
    let (_, serving) = secrets(&old);
    let found = Material::from_secrets(None, Some(&serving));
    let outcome = reconcile("a", plus(t0(), DAY), found, &[published], &policy()).unwrap();
    assert_eq!(outcome.moves, [Rotation::IssueCa(Why::Missing)]);
    assert_eq!(outcome.material.leaf, old.leaf);
    assert!(outcome.material.bundle().contains(&old.bundle()));
}

#[test]
fn a_key_that_does_not_fit_counts_as_missing() {
    let (one, other) = (install(), install());
    let (ca, mut serving) = secrets(&one);
    let stranger = other.serving_data().remove(TLS_KEY).unwrap();
    serving
        .data
        .as_mut()
        .unwrap()
        .insert(TLS_KEY.into(), stranger);
    let found = Material::from_secrets(Some(&ca), Some(&serving));
    assert_eq!(found.leaf, None);
    let outcome = reconcile("a", t0(), found, &[], &policy()).unwrap();
    assert_eq!(outcome.moves, [Rotation::IssueLeaf(Why::Missing)]);
}

#[test]
fn other_dns_names_give_another_leaf() {
    let renamed = Policy {
        dns_names: vec!["b-server.ns.svc".into()],
        ..policy()
    };
    let outcome = reconcile("a", t0(), install(), &[], &renamed).unwrap();
    assert_eq!(outcome.moves, [Rotation::IssueLeaf(Why::DnsNames)]);
}

#[test]
fn garbage_in_a_secret_is_replaced() {
    let (mut ca, mut serving) = secrets(&install());
    for secret in [&mut ca, &mut serving] {
        secret
            .data
            .as_mut()
            .unwrap()
            .values_mut()
            .for_each(|value| value.0 = b"\xff{}".to_vec());
    }
    assert_eq!(
        Material::from_secrets(Some(&ca), Some(&serving)),
        Material::default()
    );
}

#[test]
fn lifetimes_too_short_are_refused_instead_of_issuing_for_ever() {
    let policy = Policy {
        cert_validity: Duration::ZERO,
        renew_before: Duration::ZERO,
        ..policy()
    };
    assert!(reconcile("a", t0(), Material::default(), &[], &policy).is_err());
}

/// Returns a policy with the certificates of a database.
fn with_database() -> Policy {
    Policy {
        database: Some(DatabaseNames {
            server: vec!["a-postgres.ns.svc".into()],
            role: "reports_server".into(),
        }),
        ..policy()
    }
}

#[test]
fn certificates_of_a_clock_that_was_ahead_are_replaced_at_once() {
    let policy = with_database();
    let ahead = plus(t0(), 400 * DAY);
    let issued = reconcile("a", ahead, Material::default(), &[], &policy).unwrap();
    let published = issued.material.bundle().into_bytes();
    let published = std::slice::from_ref(&published);
    let outcome = reconcile("a", t0(), issued.material, published, &policy).unwrap();
    let expected = [
        Rotation::IssueCa(Why::NotYetValid),
        Rotation::IssueLeaf(Why::Issuer),
        Rotation::IssueDatabase(DatabaseLeaf::Server, Why::Issuer),
        Rotation::IssueDatabase(DatabaseLeaf::Client, Why::Issuer),
    ];
    assert_eq!(outcome.moves, expected);
    let observed = outcome.material.observe(&[]);
    let leaf = observed.leaf.unwrap();
    assert_eq!(leaf.issued, t0());
    assert!(leaf.issuer.is_some(), "verified by webpki");
}

#[test]
fn a_leaf_of_a_clock_that_was_ahead_is_replaced_by_the_same_authority() {
    let policy = with_database();
    let mut material = reconcile("a", t0(), Material::default(), &[], &policy)
        .unwrap()
        .material;
    let ahead = plus(t0(), 20 * DAY);
    material.leaf = None;
    material.database_client = None;
    let material = reconcile("a", ahead, material, &[], &policy)
        .unwrap()
        .material;
    let outcome = reconcile("a", t0(), material, &[], &policy).unwrap();
    let expected = [
        Rotation::IssueLeaf(Why::NotYetValid),
        Rotation::IssueDatabase(DatabaseLeaf::Client, Why::NotYetValid),
    ];
    assert_eq!(outcome.moves, expected);
}

#[test]
fn clocks_that_differ_a_little_replace_nothing() {
    let ahead = plus(t0(), Duration::from_mins(4));
    let issued = reconcile("a", ahead, Material::default(), &[], &policy()).unwrap();
    let outcome = reconcile("a", t0(), issued.material, &[], &policy()).unwrap();
    assert_eq!(outcome.moves, []);
}

#[test]
fn a_database_gets_a_certificate_for_each_end() {
    let policy = with_database();
    let outcome = reconcile("a", t0(), install(), &[], &policy).unwrap();
    let issued = [DatabaseLeaf::Server, DatabaseLeaf::Client]
        .map(|kind| Rotation::IssueDatabase(kind, Why::Missing));
    assert_eq!(outcome.moves, issued);
    let material = outcome.material;
    let observed = material.observe(&[]);
    let ca = observed.ca.map(|ca| ca.fingerprint);
    let (server, client) = (observed.database_server, observed.database_client);
    assert_eq!(server.unwrap().issuer, ca, "verified by webpki as a server");
    let client = client.unwrap();
    assert_eq!(client.issuer, ca, "verified by webpki as a client");
    assert_eq!(client.dns_names, ["reports_server"]);
    // Through the Secrets and back nothing is issued again.
    let with = |data| Secret {
        data: Some(data),
        ..Secret::default()
    };
    let (ca, serving) = secrets(&material);
    let read = Material::from_secrets(Some(&ca), Some(&serving)).with_database(
        Some(&with(material.database_server_data())),
        Some(&with(material.database_client_data())),
    );
    assert_eq!(read, material);
    let again = reconcile("a", t0(), read, &[], &policy).unwrap();
    assert_eq!(again.moves, []);
}

/// A cluster in which a written bundle reaches the kube-apiservers, and a written leaf the server,
/// only after a delay.
struct World {
    now: Timestamp,
    policy: Policy,
    observed: Observed,
    /// Bundles that the kube-apiservers will use, each with the time from which on they do.
    bundles: Vec<(Timestamp, Vec<Fingerprint>)>,
    /// Leafs that the server will use, each with the time from which on it does.
    leafs: Vec<(Timestamp, LeafInfo)>,
    /// Bundles that both ends of the database's connections will use, each with the time from which
    /// on they do.
    mounted: Vec<(Timestamp, Vec<Fingerprint>)>,
    /// Certificates that the database and its clients will show, each with the time from which on
    /// they do.
    database: [Vec<(Timestamp, LeafInfo)>; 2],
    issued: u32,
}

impl World {
    fn bundle(&self) -> Vec<Fingerprint> {
        let cas = self.observed.ca.iter().chain(&self.observed.previous);
        cas.map(|ca| ca.fingerprint.clone()).collect()
    }

    /// Carries out one reconcile; `delay` is the time until its writes arrive.
    fn reconcile(&mut self, publish: bool, delay: Duration) -> Timestamp {
        self.observed.published = self.bundles.last().is_none_or(|(_, b)| *b == self.bundle());
        let mut steps = 0;
        let next = loop {
            steps += 1;
            assert!(steps < 7, "the plan comes to rest");
            match plan(self.now, &self.observed, &self.policy) {
                Rotation::Wait(next) => break next,
                Rotation::IssueCa(_) => self.issue_ca(),
                Rotation::IssueLeaf(_) => self.issue_leaf(delay),
                Rotation::IssueDatabase(kind, _) => self.issue_database(kind, delay),
                Rotation::DropPrevious => self.observed.previous.clear(),
            }
            self.observed.published = self.bundles.is_empty();
        };
        if publish && self.bundles.last().is_none_or(|(_, b)| *b != self.bundle()) {
            // The first bundle and the first leaf arrive together: nothing is served before.
            let delay = if self.bundles.is_empty() {
                Duration::ZERO
            } else {
                delay / 60
            };
            self.bundles.push((plus(self.now, delay), self.bundle()));
        }
        if self.mounted.last().is_none_or(|(_, b)| *b != self.bundle()) {
            let delay = if self.mounted.is_empty() {
                Duration::ZERO
            } else {
                delay
            };
            self.mounted.push((plus(self.now, delay), self.bundle()));
        }
        next
    }

    fn issue_database(&mut self, kind: DatabaseLeaf, delay: Duration) {
        let ca = self.observed.ca.clone().unwrap();
        let leaf = LeafInfo {
            issuer: Some(ca.fingerprint),
            issued: self.now,
            not_after: plus(self.now, self.policy.cert_validity).min(ca.not_after),
            dns_names: self.policy.database.as_ref().unwrap().of(kind),
        };
        let (shown, observed) = match kind {
            DatabaseLeaf::Server => (&mut self.database[0], &mut self.observed.database_server),
            DatabaseLeaf::Client => (&mut self.database[1], &mut self.observed.database_client),
        };
        let delay = if shown.is_empty() {
            Duration::ZERO
        } else {
            delay
        };
        shown.push((plus(self.now, delay), leaf.clone()));
        *observed = Some(leaf);
    }

    fn issue_ca(&mut self) {
        self.issued += 1;
        let ca = CaInfo {
            fingerprint: self.issued.to_string(),
            issued: self.now,
            not_after: plus(self.now, self.policy.ca_validity),
        };
        let old = self.observed.ca.replace(ca);
        self.observed.previous.splice(0..0, old);
    }

    fn issue_leaf(&mut self, delay: Duration) {
        let ca = self.observed.ca.clone().unwrap();
        let leaf = LeafInfo {
            issuer: Some(ca.fingerprint),
            issued: self.now,
            not_after: plus(self.now, self.policy.cert_validity).min(ca.not_after),
            dns_names: self.policy.dns_names.clone(),
        };
        let delay = if self.leafs.is_empty() {
            Duration::ZERO
        } else {
            delay
        };
        self.leafs.push((plus(self.now, delay), leaf.clone()));
        self.observed.leaf = Some(leaf);
    }

    fn check(&self) {
        for (bundles, leafs) in [
            (&self.bundles, &self.leafs),
            (&self.mounted, &self.database[0]),
            (&self.mounted, &self.database[1]),
        ] {
            let bundle = in_use(bundles, self.now);
            let leaf = in_use(leafs, self.now);
            assert!(
                bundle.contains(leaf.issuer.as_ref().unwrap()),
                "{leaf:?} against {bundle:?}"
            );
            assert!(self.now < leaf.not_after, "{leaf:?} at {}", self.now);
        }
    }
}

/// Returns the newest part that has arrived.
fn in_use<T>(written: &[(Timestamp, T)], now: Timestamp) -> &T {
    let found = written.iter().rev().find(|(at, _)| *at <= now);
    &found.unwrap().1
}

#[derive(Clone, Debug)]
enum Act {
    /// The plan is called at the time that it asks for, or after the given time if that is less.
    Sleep(Duration),
    /// The next reconcile cannot write APIServices.
    Fail,
    /// Somebody deletes the Secret of the CA.
    LoseCa,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => (0_u64..40 * 24 * 3600).prop_map(|s| Act::Sleep(Duration::from_secs(s))),
        4 => (0_u64..7200).prop_map(|s| Act::Sleep(Duration::from_secs(s))),
        1 => Just(Act::Fail),
        1 => Just(Act::LoseCa),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    /// For any events in any order, the kube-apiservers trust the certificate that the server
    /// shows, and it has not expired.
    #[test]
    fn the_served_leaf_is_always_trusted(
        acts in acts(),
        delay in 0_u64..3600,
        ca_days in 180_u32..4000,
    ) {
        let delay = Duration::from_secs(delay);
        let policy = Policy {
            ca_validity: ca_days * DAY,
            database: Some(DatabaseNames {
                server: vec!["a-postgres.ns.svc".into()],
                role: "reports_server".into(),
            }),
            ..policy()
        };
        let mut world = World {
            now: t0(),
            policy,
            observed: Observed::default(),
            bundles: Vec::new(),
            leafs: Vec::new(),
            mounted: Vec::new(),
            database: [Vec::new(), Vec::new()],
            issued: 0,
        };
        let mut next = world.reconcile(true, delay);
        let mut publish = true;
        for act in acts {
            match act {
                Act::Sleep(duration) => world.now = plus(world.now, duration).min(next),
                Act::Fail => publish = false,
                Act::LoseCa => {
                    // The bundle beside the leaf keeps it trusted; see `Material::from_secrets`.
                    let lost = world.observed.ca.take();
                    world.observed.previous.splice(0..0, lost);
                }
            }
            world.check();
            next = world.reconcile(publish, delay);
            prop_assert!(next > world.now, "waits for the future");
            if !publish {
                // A failed write is tried again within seconds.
                world.now = plus(world.now, Duration::from_secs(5));
                next = world.reconcile(true, delay);
                publish = true;
            }
            world.check();
        }
    }
}
