//! The goals of an engine over HTTP, and of the resources that it takes.

use super::goal::Goal;
use super::set::{CHECKING, PROJECTING, Set, by, median};

const POSTGRES: &str = "postgres";
const CRD: &str = "crd";
const NULL: &str = "null aggregated";
const WIRE: &str = "null direct";
const ACROSS: &str = "postgres direct across replicas";
const COPYING: &str = "decompression and the characters that Go escapes";

/// Returns the goals of an engine.
pub(super) fn goals(engine: &str) -> Vec<Goal> {
    let all = [
        speed(engine),
        processor(engine),
        through(engine),
        lists(engine),
        clients(engine),
        watches(engine),
        sizes(engine),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the goals of writes of an engine beside the CRD.
fn speed(engine: &str) -> Vec<Goal> {
    let direct = &format!("{engine} direct");
    let ratio = |load: &str| {
        by(
            &format!("{load} rate"),
            direct,
            &format!("{load} rate"),
            CRD,
        )
    };
    let rate = |load: &str| median(&format!("{load} rate"), direct);
    let create = format!("creates on {engine}");
    let update = format!("updates on {engine}");
    let crd = |what: &str| format!("{what} by the CRD's, 64 connections");
    let sets = [
        Set::new("13.1", CHECKING).least(&crd(&create), "x", &[20.0, 35.0], &ratio("create@64")),
        Set::new("13.2", CHECKING).least(&crd(&update), "x", &[25.0, 40.0], &ratio("update@64")),
        Set::new("13a", CHECKING)
            .least(&create, "/s", &[7000.0], &rate("create@64"))
            .least(&update, "/s", &[6500.0], &rate("update@64")),
    ];
    sets.into_iter().flat_map(|set| set.goals).collect()
}

/// Returns the goals of processor time of server and database.
fn processor(engine: &str) -> Vec<Goal> {
    let direct = &format!("{engine} direct");
    let cpu = |load: &str| median(&format!("{load} CPU"), direct);
    let of = |what: &str| format!("processor time of {what} on {engine}");
    let update = if engine == POSTGRES { 0.7 } else { 0.45 };
    let life = by("life CPU", direct, "life CPU", CRD);
    let corrected = Set::new("13a", CHECKING)
        .most(&of("a create"), "ms", &[0.25], &cpu("create@64"))
        .most(&of("a get"), "ms", &[0.05], &cpu("get@16"));
    let real = Set::new("19", CHECKING)
        .most(&of("an update"), "ms", &[update], &cpu("update@64"))
        .most(
            &of("an update that changes nothing"),
            "ms",
            &[0.15],
            &cpu("no-op@16"),
        )
        .most(&of("a get"), "ms", &[0.06], &cpu("get@16"))
        .most(
            &format!("one report's life on {engine} by the CRD's"),
            "x",
            &[1.0 / 12.0],
            &life,
        );
    [corrected, real]
        .into_iter()
        .flat_map(|set| set.goals)
        .collect()
}

/// Returns the goals of rates through the kube-apiserver.
fn through(engine: &str) -> Vec<Goal> {
    let aggregated = &format!("{engine} aggregated");
    let set = Set::new(
        "13a",
        "the kube-apiserver shares two cores with server and database",
    );
    let loads = ["create@64", "update@64", "get@16"];
    let set = loads.into_iter().fold(set, |set, load| {
        let rate = format!("{load} rate");
        let what = format!("{load} on {engine}, aggregated, by the null backend's");
        set.least(&what, "x", &[0.9], &by(&rate, aggregated, &rate, NULL))
    });
    set.goals
}

/// Returns the goals of lists without Accept-Encoding.
fn lists(engine: &str) -> Vec<Goal> {
    let (direct, aggregated) = (&format!("{engine} direct"), &format!("{engine} aggregated"));
    let of = |what: &str| format!("{what} on {engine}");
    let null = |name: &str| by(name, aggregated, name, NULL);
    let sets = [
        Set::new("13.7", COPYING).least(
            &of("speed of a list of 10,000 by the CRD's"),
            "x",
            &[12.0, 20.0],
            &by("list", CRD, "list", direct),
        ),
        Set::new("13.9", COPYING).least(
            &of("bandwidth of a list by the wire's"),
            "x",
            &[0.5, 0.8],
            &by("list", WIRE, "list", direct),
        ),
        Set::new("13a", COPYING)
            .most(
                &of("list of 10,000 by the null backend's"),
                "x",
                &[1.2],
                &null("list"),
            )
            .most(
                &of("first byte of a list"),
                "ms",
                &[20.0],
                &median("list first byte", aggregated),
            )
            .most(
                &of("list by label"),
                "ms",
                &[2.0],
                &median("label", aggregated),
            ),
        Set::new("19", COPYING)
            .most(
                &of("page of 500 by the null backend's"),
                "x",
                &[1.2],
                &null("page"),
            )
            .most(
                &of("page of 500 by the null backend's, gzip"),
                "x",
                &[1.2],
                &null("page gzip"),
            ),
    ];
    sets.into_iter().flat_map(|set| set.goals).collect()
}

/// Returns the goals of lists as client-go asks for them.
fn clients(engine: &str) -> Vec<Goal> {
    let aggregated = &format!("{engine} aggregated");
    let of = |what: &str| format!("{what} on {engine}");
    let cost =
        |metric: &str, process: &str| median(&format!("{metric} CPU of {process}"), aggregated);
    Set::new("19", "the first list, which compresses every report")
        .most(
            &of("processor time of the server for a list of 10,000, gzip"),
            "ms",
            &[130.0],
            &cost("list gzip", "reports-server"),
        )
        .most(
            &of("processor time of the kube-apiserver for a list of 10,000, gzip"),
            "ms",
            &[60.0],
            &cost("list gzip", "kube-apiserver"),
        )
        .most(
            &of("first byte of a list of 10,000, gzip"),
            "ms",
            &[20.0],
            &median("list gzip first byte", aggregated),
        )
        .most(
            &of("processor time of the server for a metadata list in protobuf"),
            "ms",
            &[30.0],
            &cost("metadata protobuf", "reports-server"),
        )
        .goals
}

/// Returns the goals of watches.
fn watches(engine: &str) -> Vec<Goal> {
    let (direct, aggregated) = (&format!("{engine} direct"), &format!("{engine} aggregated"));
    let of = |what: &str| format!("{what} on {engine}");
    let waiting = "the flush of the commit, and queues where both cores are busy";
    let fan_out = by("fan-out rate", direct, "fan-out rate", WIRE);
    let mut sets = vec![
        Set::new("13.20", COPYING).least(&of("fan-out by the wire's"), "x", &[0.5, 0.8], &fan_out),
        Set::new("13a", waiting)
            .most(
                &of("watch at 50/s, p50"),
                "ms",
                &[2.0],
                &median("watch@50/s p50", aggregated),
            )
            .most(
                &of("watch at 50/s, p99"),
                "ms",
                &[5.0],
                &median("watch@50/s p99", aggregated),
            )
            .most(
                &of("watch at 1,000/s, p50"),
                "ms",
                &[3.0],
                &median("watch@1000/s p50", direct),
            )
            .most(
                &of("watch at 1,000/s, p99"),
                "ms",
                &[10.0],
                &median("watch@1000/s p99", direct),
            ),
    ];
    if engine == POSTGRES {
        let across = median("watch@1000/s p99", ACROSS);
        let what = "watch across replicas at 1,000/s, p99";
        sets.push(Set::new("13.15", waiting).most(what, "ms", &[10.0, 3.0], &across));
    }
    sets.into_iter().flat_map(|set| set.goals).collect()
}

/// Returns the goals of memory, disk and start.
fn sizes(engine: &str) -> Vec<Goal> {
    let of = |what: &str| format!("{what} on {engine}");
    let here = |name: &str| median(name, engine);
    let buffers = "buffers for requests that are passed on, and what the allocator keeps";
    let memory = by("kube-apiserver memory", CRD, "server memory", engine);
    let (disk, stored) = if engine == POSTGRES {
        (2100.0, PROJECTING)
    } else {
        (
            3000.0,
            "the text, compressed one by one; keys, labels and the room that pages leave",
        )
    };
    let crd = "memory of the CRD's kube-apiserver by that of the server";
    let sets = [
        Set::new("13.11", buffers).least(&of(crd), "x", &[25.0, 45.0], &memory),
        Set::new("13a", buffers)
            .most(
                &of("growth of the kube-apiserver"),
                "MiB",
                &[25.0],
                &here("kube-apiserver growth"),
            )
            .most(
                &of("memory of the server"),
                "MiB",
                &[60.0],
                &here("server memory"),
            )
            .most(
                &of("killed to serving"),
                "s",
                &[1.0],
                &here("killed to serving"),
            )
            .most(
                &of("WAL an update that changes nothing"),
                "bytes",
                &[1.0],
                &here("no-op update WAL"),
            ),
        Set::new("13a", stored).most(
            &of("disk a report"),
            "bytes",
            &[1300.0],
            &here("disk a report"),
        ),
        Set::new("19", buffers).most(
            &of("memory of the server after all rounds"),
            "MiB",
            &[60.0],
            &here("server memory after lists"),
        ),
        Set::new("19", stored).most(
            &of("disk a report, all tables"),
            "bytes",
            &[disk],
            &here("disk a report"),
        ),
    ];
    let goals = sets.into_iter().flat_map(|set| set.goals);
    // SQLite has no log of PostgreSQL's kind.
    goals
        .filter(|goal| engine == POSTGRES || !goal.what.starts_with("WAL"))
        .collect()
}
