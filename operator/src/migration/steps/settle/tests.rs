//! The times of the looks for late writes, and what is reported of them.

use std::collections::BTreeSet;

use crds::v1alpha1::spec::ApiOwner;
use serde_json::json;

use super::*;
use crate::apiservice::Holder;
use crate::migration::cluster::endpoints::Endpoint;
use crate::migration::cluster::wire::SERVER_HEADER;
use crate::migration::context::fixtures::context;
use crate::migration::plan::target::GroupTarget;
use crate::migration::plan::tests as states;
use crate::testing::{Server, pair};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn switched(window: u64) -> (Observed, GroupTarget) {
    let mut o = Observed::default();
    o.notes.switched_at = Some(at(0));
    let mut target = states::target();
    target.settings.drain_window = Duration::from_secs(window);
    (o, target)
}

#[test]
fn the_window_is_counted_from_the_switch_whoever_looks() {
    let (o, target) = switched(60);
    assert_eq!(due::drained(&o, &target), Some(at(60)));
    let (o, target) = switched(0);
    assert_eq!(due::drained(&o, &target), None);
}

#[test]
fn a_group_that_is_to_go_back_does_not_wait_for_the_window() {
    let (o, mut target) = switched(60);
    target.owner = ApiOwner::Crd;
    assert_eq!(due::drained(&o, &target), None);
    let (mut o, target) = switched(60);
    o.reverted = Some("the soak".to_owned());
    assert_eq!(due::drained(&o, &target), None);
}

#[test]
fn the_last_look_begins_after_the_window() {
    let seconds = Duration::from_secs;
    let window = Some(at(60));
    assert_eq!(next(window, at(0), seconds(1)), Some(at(6)));
    assert_eq!(next(window, at(0), seconds(3)), Some(at(15)));
    assert_eq!(next(window, at(56), seconds(2)), Some(at(60)));
    assert_eq!(next(window, at(56), seconds(9)), Some(at(65)));
    assert_eq!(next(window, at(60), seconds(1)), None);
    assert_eq!(next(None, at(0), seconds(1)), None);
}

#[test]
fn a_look_that_is_due_belongs_to_its_switch() {
    let reported = Reported {
        switched_at: Some(at(0)),
        next: Some(at(6)),
        ..Reported::default()
    };
    assert_eq!(reported.next(Some(at(0))), Some(at(6)));
    assert_eq!(reported.next(Some(at(1))), None);
}

fn identity(name: &str, version: u64) -> Identity {
    Identity {
        key: Key {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        },
        uid: "u".to_owned(),
        version,
    }
}

#[test]
fn what_gave_way_and_is_found_again_is_told_once() {
    let missed = || Missed {
        written: vec![identity("taken over", 1), identity("dropped", 2)],
        deleted: vec![identity("gone", 3)],
        kept: vec![identity("kept", 4)],
        ..Missed::default()
    };
    let mut reported = Reported::default();
    reported.begin(Some(at(0)));
    assert_eq!(reported.news("r", missed()), missed());
    let dropped = [identity("dropped", 2).key, identity("kept", 4).key];
    reported.note("r", &missed(), &dropped);
    reported.begin(Some(at(0)));
    let dropped: Vec<Identity> = reported.dropped("r").collect();
    assert_eq!(dropped, [identity("dropped", 2)]);
    assert_eq!(reported.dropped("other").count(), 0);
    let again = reported.news("r", missed());
    assert_eq!(again.written, [identity("taken over", 1)]);
    assert_eq!((again.deleted.len(), again.kept.len()), (1, 0));
    assert_eq!(reported.news("other", missed()), missed());
    // An APIService that came back is no reason to tell it again.
    reported.begin(Some(at(5)));
    let again = reported.news("r", missed());
    assert_eq!((again.written.len(), again.kept.len()), (1, 0));
    // So is a deletion that the server refused to carry out.
    reported.note("r", &missed(), &[identity("gone", 3).key]);
    assert_eq!(reported.news("r", missed()).deleted, []);
    // Written once more, it is news.
    let mut later = missed();
    later.written = vec![identity("dropped", 9)];
    assert_eq!(reported.news("r", later.clone()).written, later.written);
}

/// A mark of a copy that is gone would tell that it was deleted in etcd.
#[test]
fn only_dropped_writes_that_are_in_etcd_are_marked_and_each_once() {
    let missed = |version: u64| Missed {
        written: vec![identity("dropped", version)],
        ..Missed::default()
    };
    let names = |reported: &Reported| -> Vec<u64> {
        reported.dropped("r").map(|one| one.version).collect()
    };
    let mut reported = Reported::default();
    reported.note("r", &missed(2), &[identity("dropped", 2).key]);
    reported.news("r", missed(2));
    assert_eq!(names(&reported), vec![2]);
    reported.news("other", Missed::default());
    assert_eq!(names(&reported), vec![2]);
    // Written once more.
    assert_eq!(reported.news("r", missed(9)), missed(9));
    assert_eq!(names(&reported), Vec::<u64>::new());
    reported.note("r", &missed(9), &[identity("dropped", 9).key]);
    assert_eq!(names(&reported), vec![9]);
    reported.forget_marked("r");
    assert_eq!(names(&reported), Vec::<u64>::new());
}

/// The server takes bodies of 3 MiB.
#[tokio::test]
async fn large_late_writes_go_in_several_requests() {
    let (client, mut server) = pair();
    let answering = tokio::spawn(async move {
        let mut imported = Vec::new();
        while let Some(request) = server.next_if_any().await {
            if request.path.ends_with("/import") {
                imported.push(request.body["items"].as_array().unwrap().len());
            }
            let taken = json!({"apiVersion": "", "kind": "", "imported": 0, "unchanged": 0});
            request.answer(200, &taken);
        }
        imported
    });
    let cx = context(&client);
    let resource = states::resource("rs", GateState::Open, true, None);
    let mut sender = Sender::new(&cx, &resource, ImportMode::Straggler, STRAGGLERS_A_BATCH);
    for size in [1_200_000, 1_200_000, 10, 10] {
        let object = json!({"metadata": {"name": "r"}, "message": "x".repeat(size)});
        let written = Entry::event(ImportType::Modified, &object);
        sender.push(written).await.unwrap();
    }
    sender.finish().await.unwrap();
    // Without its clients, the server waits for no further request.
    drop((cx, client));
    assert_eq!(answering.await.unwrap(), [1, 3]);
}

/// Answers until the client is gone; returns what was imported: mode and name. The server has every
/// object as it was written back, but for those that are called otherwise.
async fn imported(mut server: Server) -> Vec<(String, String)> {
    let mut imported = Vec::new();
    while let Some(request) = server.next_if_any().await {
        let path = request.path.split('?').next().unwrap().to_owned();
        let name = path.rsplit('/').next().unwrap().to_owned();
        let report = |message: &str| json!({"metadata": {"name": name, "namespace": "n", "uid": "u"}, "message": message});
        if name == "import" {
            let mode = request.body["mode"].as_str().unwrap().to_owned();
            for item in request.body["items"].as_array().unwrap() {
                let name = item["object"]["metadata"]["name"].as_str().unwrap();
                imported.push((mode.clone(), name.to_owned()));
            }
            let taken = json!({"apiVersion": "", "kind": "", "imported": 0, "unchanged": 0});
            request.answer(200, &taken);
        } else if request.method != "GET" {
            let body = request.body.clone();
            request.answer(201, &body);
        } else if path.contains("/legacy/") && name == "gone" {
            request.refuse(404, "policyreports.wgpolicyk8s.io \"gone\" not found");
        } else if path.contains("/legacy/") && name == "closed" {
            request.refuse(404, "the server could not find the requested resource");
        } else if path.contains("/legacy/") {
            request.answer(200, &report("written"));
        } else if name == "copy" {
            request.answer_with(SERVER_HEADER, &report("written"));
        } else {
            request.answer_with(SERVER_HEADER, &report("another"));
        }
    }
    imported
}

/// Imports what was missed; returns the result, what was missed, and what the server was sent.
async fn import_of(
    mut missed: Missed,
) -> (Result<Vec<Key>, WireError>, Missed, Vec<(String, String)>) {
    let (client, server) = pair();
    let answering = tokio::spawn(imported(server));
    let cx = context(&client);
    let crd = states::crd("policyreports");
    let resource = states::resource("policyreports", GateState::Open, true, None);
    let wire = Wire::new(client.clone());
    let dropped = import(&cx, (&resource, &crd), &wire, &mut missed).await;
    drop((cx, wire, client));
    (dropped, missed, answering.await.unwrap())
}

#[tokio::test]
async fn a_copy_that_the_way_back_could_not_tell_of_is_marked_and_is_no_late_write() {
    let missed = Missed {
        written: vec![
            identity("announced", 2),
            identity("copy", 3),
            identity("gone", 4),
            identity("late", 4),
        ],
        announced: HashSet::from([identity("announced", 2).key]),
        rewritten: HashSet::from(["copy", "late"].map(|name| identity(name, 0).key)),
        ..Missed::default()
    };
    let (dropped, missed, imported) = import_of(missed).await;
    assert_eq!(dropped.unwrap(), [identity("announced", 2).key]);
    assert_eq!(
        missed.written,
        [identity("announced", 2), identity("late", 4)]
    );
    let of = |mode: &str, name: &str| (mode.to_owned(), name.to_owned());
    assert_eq!(
        imported,
        [of("WrittenBack", "copy"), of("Straggler", "late")]
    );
}

/// Whoever applies the CRD anew closes the door: then every object seems to be gone, and none is.
#[tokio::test]
async fn a_late_write_behind_a_door_that_was_closed_is_not_given_up() {
    let missed = Missed {
        written: vec![identity("closed", 4)],
        ..Missed::default()
    };
    let (refused, _, imported) = import_of(missed).await;
    assert_eq!(refused.unwrap_err().code(), Some(404));
    assert_eq!(imported, []);
}

/// One that has not heard of the APIService takes writes to etcd, perhaps after the look.
#[tokio::test(start_paused = true)]
async fn nobody_looks_before_every_kube_apiserver_answers_from_the_server() {
    let (client, mut server) = pair();
    let answering = tokio::spawn(async move {
        let mut asked = BTreeSet::new();
        while let Some(request) = server.next_if_any().await {
            asked.insert(format!("{} {}", request.method, request.path));
            // Without the header of our server.
            request.answer(200, &json!({}));
        }
        asked
    });
    let cx = context(&client);
    let o = Observed {
        versions: vec![states::version(Holder::Ours)],
        ..Observed::default()
    };
    let endpoints = Endpoints {
        all: vec![Endpoint {
            address: "a".to_owned(),
            wire: Wire::new(client.clone()),
        }],
        direct: true,
        alive: 1,
    };
    let looked = look(&cx, &o, &endpoints, &mut Reported::default()).await;
    let path = format!("GET /apis/{}/{}", cx.target.group, o.versions[0].name);
    drop((cx, endpoints, client));
    assert!(matches!(looked, Err(SettleError::Confirm(_))));
    assert_eq!(answering.await.unwrap(), BTreeSet::from([path]));
}
