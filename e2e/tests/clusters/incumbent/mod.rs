//! Report APIs are taken over from the incumbent, kyverno/reports-server, on a control plane with two
//! kube-apiservers, while clients write through both; or from its database when it is gone. Where its
//! source is not present, these tests are skipped and say so.

mod database;
mod watches;

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::incumbent::{
    self, Account, Incumbent, NAME, Objects, Writers, api_services, leads_to, list,
};
use e2e::processes::{Ended, Processes, ProcessesOptions, SERVICE};
use e2e::takeover::{GROUPS, load};
use e2e::witness::strict_client;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client};
use rstest::rstest;
use serde_json::{Value, json};
use testreports::{Owner, ReportKind, kinds};

use self::watches::{EarlyWatch, Follower, refusal};
use crate::common::full;

/// Reports in a short run and in a whole one.
const REPORTS: [usize; 2] = [300, 10_000];
const TEAMS: usize = 20;
/// Writes a second of all writers together.
const RATE: f64 = 25.0;
/// Writes at the incumbent before the takeover begins, and at our server after it.
const BEFORE: u64 = 60;
const AFTER: u64 = 100;
/// For how long the incumbent goes on after the takeover; it looks at the APIServices every second.
const BESIDE: Duration = Duration::from_secs(30);
/// The group of the reports that lay in etcd before.
const POLICY_WORKING_GROUP: &str = "wgpolicyk8s.io";
const LOOK: Duration = Duration::from_millis(200);
/// Longest time of one direction.
const LIMIT: Duration = Duration::from_mins(20);

fn reports() -> usize {
    REPORTS[usize::from(full())]
}

/// A cluster on which the incumbent serves reports.
struct Ground {
    incumbent: Incumbent,
    processes: Processes,
    owners: Vec<Owner>,
    /// One for each kube-apiserver.
    clients: Vec<Client>,
    /// Watches on the CRDs from before the incumbent.
    early: Vec<EarlyWatch>,
}

impl Ground {
    /// `None` where the incumbent's source is not present.
    async fn start(crds: bool) -> Option<Self> {
        let Some(parts) = incumbent::parts().await.unwrap() else {
            println!(
                "skipped: the source of kyverno/reports-server is not in ../shared/data/sources"
            );
            return None;
        };
        let options = ProcessesOptions {
            crds,
            ..ProcessesOptions::default()
        };
        let processes = Processes::with(options).await.unwrap();
        let cluster = &processes.cluster;
        let mut clients = Vec::new();
        for index in 0..cluster.apiservers() {
            // Somebody else than the migration: whoever holds a gate reads past it.
            let mut config = cluster.config(index).await.unwrap();
            config.auth_info.impersonate = Some("writer".to_owned());
            config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
            clients.push(strict_client(config).unwrap());
        }
        let mut early = Vec::new();
        for client in clients.iter().filter(|_| crds) {
            for kind in kinds() {
                early.push(EarlyWatch::open(client, kind).await);
            }
        }
        let incumbent = Incumbent::start(cluster, &parts).await.unwrap();
        let owners = load::namespaces(&clients[0], "owner", TEAMS).await.unwrap();
        let say = |text: &str| println!("{text}");
        load::load(&clients[0], &processes.corpus, &owners, reports(), &say)
            .await
            .unwrap();
        Some(Self {
            incumbent,
            processes,
            owners,
            clients,
            early,
        })
    }

    async fn objects(&self) -> Objects {
        Objects::read(&self.clients[0]).await.unwrap()
    }

    fn write(&self, there: &Objects) -> Writers {
        let corpus = &self.processes.corpus;
        Writers::start(&self.clients, corpus, &self.owners, there, RATE)
    }

    /// Compares what every kube-apiserver shows with what was acknowledged.
    async fn is_as_acknowledged(&self, account: &Account) {
        println!("{account}");
        assert!(account.failures.is_empty(), "{:#?}", account.failures);
        for client in &self.clients {
            let found = Objects::read(client).await.unwrap();
            nothing(&account.differences(&found));
        }
    }

    async fn etcd_has(&self) -> u64 {
        let mut count = 0;
        for group in GROUPS {
            let prefix = format!("/registry/{group}/");
            count += self.processes.cluster.etcd_count(&prefix).await.unwrap();
        }
        count
    }

    async fn migrate(&self, name: &str, more: &[&str]) -> Ended {
        let migration = self.processes.migrate(name, None, more).unwrap();
        let ended = migration.ended(LIMIT).await.unwrap();
        assert!(ended.done, "{}: {}", ended.how, ended.log);
        ended
    }

    /// Waits until our server answers for each kind.
    async fn serves(&self) {
        let serves = async {
            while !self.is_ours().await {
                tokio::time::sleep(LOOK).await;
            }
            for kind in kinds() {
                list(&self.clients[0], kind, "?limit=1").await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, serves).await.unwrap();
    }

    /// Checks that no client resumes a watch from before the incumbent.
    async fn early_watches_expire(&mut self) {
        for watch in std::mem::take(&mut self.early) {
            let kind = watch.kind;
            assert_eq!(watch.refusal().await, Some(410), "{kind:?}");
        }
    }

    /// Returns whether all APIServices lead to our server.
    async fn is_ours(&self) -> bool {
        let services: Api<APIService> = Api::all(self.clients[0].clone());
        let services = services.list(&ListParams::default()).await.unwrap();
        let ours: BTreeSet<_> = services
            .into_iter()
            .filter(|service| leads_to(service, SERVICE))
            .filter_map(|service| service.metadata.name)
            .collect();
        ours.is_superset(&api_services())
    }
}

fn nothing(differences: &[String]) {
    let shown = &differences[..differences.len().min(20)];
    assert!(differences.is_empty(), "{}: {shown:#?}", differences.len());
}

/// For each kind the version of a list of the incumbent, and the last that one of its objects has.
fn versions(there: &Objects) -> Vec<(ReportKind, String)> {
    let of = |kind: ReportKind| {
        let objects = there.0.iter().filter(move |(key, _)| key.0 == kind);
        let versions = objects.filter_map(|(_, object)| {
            object["metadata"]["resourceVersion"]
                .as_str()?
                .parse::<u64>()
                .ok()
        });
        versions.max().unwrap_or(1)
    };
    kinds()
        .flat_map(|kind| [(kind, "1".to_owned()), (kind, of(kind).to_string())])
        .collect()
}

#[rstest]
#[case::beside_crds(true)]
#[case::without_crds(false)]
#[tokio::test(flavor = "multi_thread")]
async fn the_incumbent_has_what_it_acknowledged(#[case] crds: bool) {
    if !full() {
        println!("only with E2E_FULL=1");
        return;
    }
    let Some(ground) = Ground::start(crds).await else {
        return;
    };
    let there = ground.objects().await;
    assert_eq!(there.0.len(), reports());
    assert_eq!(ground.etcd_has().await, 0);
    let made_of = ground.incumbent.objects(&ground.processes.cluster).await;
    let writers = ground.write(&there);
    writers.ledger.more_writes(BEFORE + AFTER).await;
    let account = writers.finish().await.account();
    ground.is_as_acknowledged(&account).await;
    let rows = ground.incumbent.rows().await.unwrap();
    let rows: i64 = rows.values().map(|(count, _)| count).sum();
    assert_eq!(usize::try_from(rows).unwrap(), account.stored.0.len());
    let made_of_then = ground.incumbent.objects(&ground.processes.cluster).await;
    assert_eq!(made_of.unwrap(), made_of_then.unwrap());
}

#[rstest]
#[case::beside_crds(true)]
#[case::without_crds(false)]
#[tokio::test(flavor = "multi_thread")]
async fn reports_are_taken_over_from_the_incumbent(#[case] crds: bool) {
    if !crds && !full() {
        println!("only with E2E_FULL=1");
        return;
    }
    let Some(mut ground) = Ground::start(crds).await else {
        return;
    };
    let account = format!("system:serviceaccount:{NAME}:{NAME}");
    let _server = ground.processes.serve_refusing(&account).unwrap();
    ground.processes.register().await.unwrap();
    let there = ground.objects().await;
    let followers: Vec<_> = kinds()
        .map(|kind| Follower::start(&ground.clients[0], kind))
        .collect();
    let made_of = ground.incumbent.objects(&ground.processes.cluster).await;

    let writers = ground.write(&there);
    writers.ledger.more_writes(BEFORE).await;
    let from = format!("{NAME}/{NAME}");
    ground.migrate("takeover", &["--from", &from]).await;
    let rows = ground.incumbent.rows().await.unwrap();
    beside(&ground).await;
    assert_eq!(rows, ground.incumbent.rows().await.unwrap());
    let made_of_then = ground.incumbent.objects(&ground.processes.cluster).await;
    assert_eq!(made_of.unwrap(), made_of_then.unwrap());
    writers.ledger.more_writes(AFTER).await;
    let account = writers.finish().await.account();
    ground.is_as_acknowledged(&account).await;
    assert_ne!(list_version(&ground.clients[1]).await, "1");

    for (kind, version) in versions(&there) {
        for client in &ground.clients {
            let code = refusal(client, kind, &version).await;
            assert_eq!(code, Some(410), "{kind:?} from {version}");
        }
    }
    ground.early_watches_expire().await;
    let stored = ground.objects().await;
    restart(&mut ground, &stored).await;
    for follower in &followers {
        follower.converges(&stored).await;
    }
    if crds {
        way_back(&mut ground, &stored).await;
    }
}

/// A report from before the incumbent lies in etcd, and an old state of one that the incumbent has.
/// When an APIService is deleted after the takeover, the CRD shows both; none of it is merged, only
/// what is written to etcd since. Watches on the CRDs from before do not go on at the server.
#[tokio::test(flavor = "multi_thread")]
async fn what_lay_in_etcd_before_the_incumbent_stays_there() {
    let Some(mut ground) = Ground::start(true).await else {
        return;
    };
    let _server = ground.processes.serve().unwrap();
    ground.processes.register().await.unwrap();
    let there = ground.objects().await;
    let of_kind = |key: &&incumbent::Key| key.0 == ReportKind::PolicyReport;
    let (_, namespace, name) = there.0.keys().find(of_kind).unwrap().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(
        ground.clients[0].clone(),
        &namespace,
        &ReportKind::PolicyReport.api_resource(),
    );
    let cluster = &ground.processes.cluster;
    let folder = format!("/registry/{POLICY_WORKING_GROUP}/policyreports/{namespace}");
    for (name, uid) in [(&*name, "old"), ("forgotten", "forgotten")] {
        let report = report(&namespace, name, uid);
        let key = format!("{folder}/{name}");
        cluster.etcd_put(&key, &report).await.unwrap();
    }
    let from = format!("{NAME}/{NAME}");
    let options = ["--from", &from];
    let taken_over = ground.migrate("takeover", &options);
    // What comes to etcd then is taken over.
    let straggler = report(&namespace, "straggler", "straggler");
    let written = async {
        ground.serves().await;
        let key = format!("{folder}/straggler");
        cluster.etcd_put(&key, &straggler).await.unwrap();
    };
    tokio::join!(taken_over, written);
    ground.early_watches_expire().await;
    ground.incumbent.kill().await.unwrap();

    let services: Api<APIService> = Api::all(ground.clients[0].clone());
    let service = format!("v1alpha2.{POLICY_WORKING_GROUP}");
    let params = DeleteParams::default();
    services.delete(&service, &params).await.unwrap();
    let shown = async {
        while api.get_opt("forgotten").await.ok().flatten().is_none() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(LIMIT, shown).await.unwrap();
    let late = serde_json::from_value(report(&namespace, "late", "")).unwrap();
    let late = api.create(&PostParams::default(), &late).await.unwrap();

    ground.migrate("again", &["--from", &from]).await;
    let mut wanted = there;
    for report in [serde_json::to_value(late).unwrap(), straggler] {
        let key = incumbent::key(ReportKind::PolicyReport, &report);
        wanted.0.insert(key, report);
    }
    nothing(&ground.objects().await.differences(&wanted, false));
}

/// The least of a report.
fn report(namespace: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": format!("{POLICY_WORKING_GROUP}/v1alpha2"), "kind": "PolicyReport",
        "metadata": {
            "namespace": namespace, "name": name, "uid": uid, "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    })
}

/// The incumbent goes on, and does not get an APIService back.
async fn beside(ground: &Ground) {
    let mut looks = tokio::time::interval(LOOK);
    let watched = async {
        loop {
            looks.tick().await;
            assert!(
                ground.is_ours().await,
                "the incumbent has an APIService back"
            );
        }
    };
    let ended: Result<(), _> = tokio::time::timeout(BESIDE, watched).await;
    assert!(ended.is_err());
    assert_eq!(ground.incumbent.ending().unwrap(), None);
}

/// The incumbent is ended and started again: it gives no APIService away, and its own migration, which
/// moves what it finds into its database, deletes nothing.
async fn restart(ground: &mut Ground, stored: &Objects) {
    ground.incumbent.end().await.unwrap();
    assert!(
        ground.is_ours().await,
        "the incumbent gave an APIService away"
    );
    ground.incumbent.again(&ground.processes.cluster).unwrap();
    let incumbent = &ground.incumbent;
    // It goes through the reports at five a second, and is refused each of them.
    incumbent.says("may not write to it").await.unwrap();
    nothing(&ground.objects().await.differences(stored, false));
    assert!(
        ground.is_ours().await,
        "the incumbent has an APIService back"
    );
}

/// Back to the CRDs, whose etcd has nothing of all this.
async fn way_back(ground: &mut Ground, stored: &Objects) {
    ground.incumbent.kill().await.unwrap();
    ground.migrate("back", &["--back"]).await;
    for client in &ground.clients {
        let found = Objects::read(client).await.unwrap();
        nothing(&found.differences(stored, true));
    }
    assert_eq!(ground.etcd_has().await, stored.0.len() as u64);
}

async fn list_version(client: &Client) -> String {
    let list = list(client, ReportKind::PolicyReport, "?limit=1").await;
    let version = list.unwrap()["metadata"]["resourceVersion"].clone();
    version.as_str().unwrap_or_default().to_owned()
}
