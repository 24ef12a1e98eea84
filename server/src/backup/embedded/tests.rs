use clap::{CommandFactory as _, Parser as _};
use serde_json::json;
use storage::model::{GroupResource, ObjectKey, ResourceDef};
use storage::store::{Store, StoreOptions, Write};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

use super::*;
use crate::backup::Cli;

const UID: &str = "uid-of-kube-system";

fn reports() -> GroupResource {
    GroupResource::new("example.io", "reports")
}

async fn opened(path: &Path) -> Store {
    let store = Store::open(StoreOptions::new(path)).await.unwrap();
    let def = ResourceDef {
        resource: reports(),
        kind: "Report".into(),
        namespaced: true,
    };
    store.ensure_resource(def).await.unwrap();
    store
}

/// Returns the bytes of a copy of a database with one object.
async fn copy(directory: &Path) -> Vec<u8> {
    let store = opened(&directory.join("source.db")).await;
    let gate = crds::control::GateSpec {
        state: crds::control::GateState::Open,
        ..crds::control::GateSpec::default()
    };
    store.set_gate(&reports(), gate, None).await.unwrap();
    let write = Write::Create {
        key: ObjectKey::new("ns", "r"),
        object: json!({"apiVersion": "example.io/v1", "kind": "Report",
            "metadata": {"name": "r", "namespace": "ns", "uid": "u"}}),
    };
    store.write(&reports(), &write).await.unwrap();
    let path = directory.join("copy.db");
    store.write_copy(&path).await.unwrap();
    store.close().await;
    fs::read(path).unwrap()
}

/// Answers one request, and returns its head.
async fn answering(answer: Vec<u8>) -> (Url, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answered = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(&answer).await.unwrap();
        stream.shutdown().await.unwrap();
        String::from_utf8(head).unwrap()
    });
    (url.parse().unwrap(), answered)
}

fn ok(length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Returns a way to the server, with a CA that is not needed and a token.
fn source(directory: &Path, server: Url) -> Source {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (ca, token) = (directory.join("ca.crt"), directory.join("token"));
    fs::write(&ca, key.cert.pem()).unwrap();
    fs::write(&token, "secret\n").unwrap();
    Source {
        server,
        ca_file: ca,
        token_file: token,
    }
}

fn named(directory: &TempDir, name: &str) -> Named {
    Named {
        name: name.to_owned(),
        directory: directory.path().to_owned(),
    }
}

fn restoring(directory: &TempDir, name: &str, database: &Path, uid: &str) -> Restore {
    Restore {
        file: named(directory, name),
        database: database.to_owned(),
        cluster_uid: uid.to_owned(),
    }
}

#[tokio::test]
async fn a_backup_is_made_kept_for_its_time_and_restored() {
    let (work, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bytes = copy(work.path()).await;
    let then = std::time::SystemTime::now() - Duration::from_hours(2);
    for old in ["old.dump", "cut-off.partial"] {
        let file = fs::File::create(backups.path().join(old)).unwrap();
        file.set_modified(then).unwrap();
    }
    // The second one is being written by another Job.
    for young in ["young.dump", "by-hand.partial"] {
        fs::write(backups.path().join(young), "a young one").unwrap();
    }
    let (url, answered) = answering(ok(bytes.len(), &bytes)).await;
    let options = Make {
        file: named(&backups, "night"),
        source: source(work.path(), url),
        cluster_uid: UID.to_owned(),
        retention_minutes: Some(60),
    };
    make(&options).await.unwrap();
    let head = answered.await.unwrap().to_lowercase();
    let path = "get /apis/control.reports-server.io/v1alpha1/databases/database/copy ";
    assert!(head.starts_with(path), "{head}");
    assert!(head.contains("authorization: bearer secret\r\n"), "{head}");
    let mut names: Vec<_> = fs::read_dir(backups.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["by-hand.partial", "night.dump", "young.dump"]);

    let database = work.path().join("reports.db");
    let options = restoring(&backups, "night", &database, UID);
    restore(&options).await.unwrap();
    let store = opened(&database).await;
    let resource = store.resource(&reports()).unwrap();
    assert_eq!(resource.snapshot().len(), 1);
    store.close().await;
    // A Job that is tried again after all was done changes nothing; another backup is refused.
    restore(&options).await.unwrap();
    fs::copy(
        backups.path().join("night.dump"),
        backups.path().join("other.dump"),
    )
    .unwrap();
    let error = restore(&restoring(&backups, "other", &database, UID))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("holds 1 objects"), "{error}");
}

#[tokio::test]
async fn what_was_cut_off_is_no_backup() {
    let (work, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (url, _answered) = answering(ok(1000, b"half")).await;
    let partial = backups.path().join("night.partial");
    let error = source(work.path(), url).try_fetch(&partial, UID).await;
    assert!(error.unwrap_err().is_passing());
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_the_server() {
    let (work, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let body = json!({"kind": "Status", "message": "the reports are in PostgreSQL"}).to_string();
    let answer = format!(
        "HTTP/1.1 409 Conflict\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (url, _answered) = answering(answer.into_bytes()).await;
    let options = Make {
        file: named(&backups, "night"),
        source: source(work.path(), url),
        cluster_uid: UID.to_owned(),
        retention_minutes: None,
    };
    let error = make(&options).await.unwrap_err();
    assert!(
        error.to_string().contains("409 the reports are in"),
        "{error}"
    );
    assert_eq!(fs::read_dir(backups.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn another_kind_of_file_and_an_unknown_name_are_refused() {
    let (work, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(backups.path().join("dump.dump"), "PGDMP").unwrap();
    let database = work.path().join("reports.db");
    let error = restore(&restoring(&backups, "dump", &database, UID)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("not a backup of an embedded"), "{error}");
    let error = restore(&restoring(&backups, "none", &database, UID)).await;
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "backup none does not exist; existing backups: dump");
    assert!(!database.exists());
    assert!(!beside(&database, RESTORING).exists());
}

/// The pod of a Job that was deleted goes on for a while.
#[tokio::test]
async fn two_restores_are_not_at_work_at_once() {
    let (work, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(backups.path().join("night.dump"), "not looked at").unwrap();
    let database = work.path().join("reports.db");
    let other = Vacancy::take(&database).await.unwrap();
    let unpacked = beside(&database, RESTORING);
    fs::write(&unpacked, "the work of the other").unwrap();
    let error = restore(&restoring(&backups, "night", &database, UID)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    assert!(unpacked.exists());
    drop(other);
}

#[test]
fn a_backup_tells_its_cluster() {
    let directory = TempDir::new().unwrap();
    let (path, to) = (directory.path().join("a.dump"), directory.path().join("a"));
    let mut archive = archive::Archive::create(&path, UID).unwrap();
    archive.add(b"pages").unwrap();
    archive.finish().unwrap();
    assert_eq!(archive::check(&path).unwrap(), 5);
    assert_eq!(archive::unpack(&path, &to).unwrap().as_deref(), Some(UID));
    assert_eq!(fs::read(&to).unwrap(), b"pages");
    // The last bytes are a checksum.
    let mut damaged = fs::read(&path).unwrap();
    let end = damaged.len() - 8;
    damaged[end] ^= 1;
    fs::write(&path, damaged).unwrap();
    assert!(archive::check(&path).is_err());
}

/// As the operator writes them (`operator/src/database/embedded/children.rs`).
#[test]
fn the_arguments_of_jobs_are_taken() {
    Cli::command().debug_assert();
    let of_all = ["--name=n", "--directory=/backups", "--cluster-uid=u"];
    let to_volume = [
        "make",
        "--server=https://h",
        "--ca-file=/ca",
        "--retention-minutes=1",
    ];
    let restore = ["restore", "--database=/data/reports.db"];
    for own in [&to_volume[..], &to_volume[..3], &restore] {
        let args = ["backup"].iter().chain(own).chain(&of_all);
        Cli::try_parse_from(args).unwrap();
    }
    let missing = Cli::try_parse_from(["backup", "make", "--name=n"]);
    assert!(missing.unwrap_err().to_string().contains("--server"));
}
