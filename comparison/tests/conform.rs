//! The same requests to the CRDs and to our server: every case, and what comes of a server with a
//! behaviour that was broken on purpose, and operations that nobody wrote. `hack/conform` does it by
//! hand.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use apimachinery::mutation::Mutation;
use comparison::conform::deviations::{self, Deviation};
use comparison::conform::ground::{Ground, GroundOptions};
use comparison::conform::{self, Selection, case, random};
use comparison::serving::Storage;

/// Of the operations that nobody wrote.
const SEED: u64 = 1;

fn whole() -> bool {
    std::env::var_os("E2E_FULL").is_some()
}

fn known(ground: &Ground) -> Vec<Deviation> {
    deviations::on(
        ground.release,
        deviations::load(&deviations::file()).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_tell_the_server_from_the_crd() {
    let options = GroundOptions {
        all_groups: whole(),
        servers: 1,
        ..GroundOptions::default()
    };
    let ground = started(&options).await;
    compare(&ground).await;
    generate(&ground, if whole() { 20_000 } else { 200 }).await;
}

/// Two servers on one database, of which the kube-apiserver takes one or the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_two_servers_on_postgresql() {
    if !whole() {
        return;
    }
    let options = GroundOptions {
        all_groups: true,
        storage: Storage::Postgres,
        servers: 2,
        ..GroundOptions::default()
    };
    let ground = started(&options).await;
    compare(&ground).await;
    generate(&ground, 1_000).await;
}

async fn started(options: &GroundOptions) -> Ground {
    Ground::start(options).await.unwrap()
}

async fn compare(ground: &Ground) {
    let files = case::load(&case::folder()).unwrap();
    let selection = Selection {
        files: &files,
        asked: &[],
        thin: !whole(),
        deviations: &known(ground),
    };
    let report = conform::run(ground, selection, &|_| ()).await;
    let report = report.unwrap();
    println!("{report}");
    assert!(report.good(), "what differs is shown above");
}

/// Does operations that nobody wrote, the same ones each time.
async fn generate(ground: &Ground, operations: usize) {
    let generated = random::run(ground, operations, SEED, &known(ground), &|_| ()).await;
    let generated = generated.unwrap();
    for failure in &generated.failures {
        println!("{failure}");
    }
    println!(
        "{} generated operations, {} sequences equal when repeated, {:.0} s",
        generated.operations,
        generated.by_chance,
        generated.took.as_secs_f64()
    );
    assert!(
        generated.failures.is_empty(),
        "what differs is shown above; hack/conform --seed {SEED} repeats it"
    );
}

/// Cases that have to find that a behaviour is broken.
fn witnesses(mutation: Mutation) -> &'static [&'static str] {
    match mutation {
        Mutation::NoOpWrites => &["update-of-nothing"],
        Mutation::ConflictUnnoticed => &["update-of-a-former-version"],
        Mutation::UnknownKept => &["prune-unknown-fields"],
        Mutation::FinalizerIgnored => &["delete-with-finalizers"],
        Mutation::LeaveUntold => &["watch-selected-labels"],
        Mutation::BookmarkMissing => &["watch-list"],
        Mutation::WarningsDropped => &["field-validation"],
        Mutation::OwnersLost => &["owned-after-each-write"],
        Mutation::PagesMixed => &["pages-of-a-state"],
        Mutation::GenerationStays => &["generation-of-content"],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_behaviours_are_found() {
    let mut ground = started(&GroundOptions::default()).await;
    let all = Mutation::ALL.map(witnesses).concat();
    assert!(is_equal(&ground, &all).await, "it differs unbroken");
    let mut unseen = Vec::new();
    for mutation in Mutation::ALL {
        ground.break_ours(Some(mutation)).await.unwrap();
        if is_equal(&ground, witnesses(mutation)).await {
            unseen.push(mutation.name());
        }
    }
    assert_eq!(unseen, [""; 0], "nothing differs although these are broken");
}

/// Returns whether both sides do the same in these cases.
async fn is_equal(ground: &Ground, names: &[&str]) -> bool {
    let files = case::load(&case::folder()).unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let selection = Selection {
        files: &files,
        asked: &names,
        thin: !whole(),
        deviations: &known(ground),
    };
    let report = conform::run(ground, selection, &|_| ()).await.unwrap();
    println!("{}: {}", names.join(", "), report.summary());
    report.good()
}
