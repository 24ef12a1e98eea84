//! The cost of an answer does not depend on what there is elsewhere: time tells nothing.

use benchmark::usage::{Watched, outer_pid};
use comparison::serving::request::{Outgoing, send};

use crate::api_support::Setup;
use crate::isolation::ground::{Ground, HIDDEN, MINE, OURS, in_namespace};

/// Reports that come to the other namespace.
const CROWD: usize = 5_000;
/// Requests of each kind that are counted.
const REQUESTS: u64 = 300;
/// CPU time of the server beside them, in milliseconds.
const BESIDE: u64 = 150;

/// Lists, pages, counts and refusals take the server as much CPU time with a handful of reports in
/// the other namespace as with thousands.
pub async fn of_others(setup: &Setup, ground: &Ground) {
    let inner = setup.server().info().unwrap().pid;
    let server = Watched {
        name: "reports-server".to_owned(),
        pid: outer_pid(setup.cluster.founder_pid(), inner).unwrap(),
    };
    let few = all(ground, &server).await;
    ground.crowd(CROWD).await;
    let many = all(ground, &server).await;
    for ((uri, few), (_, many)) in few.into_iter().zip(many) {
        println!("{uri}: {few} ms, then {many} ms");
        assert!(many <= 2 * few + BESIDE, "{uri}: {few} ms, then {many} ms");
    }
}

/// Each request, and what it costs.
async fn all(ground: &Ground, server: &Watched) -> Vec<(String, u64)> {
    let ours = in_namespace(OURS);
    let mut costs = Vec::new();
    for query in [
        "?limit=1".to_owned(),
        format!("?limit=1&labelSelector=%21{HIDDEN}"),
        format!("?fieldSelector=metadata.name%3D{}", MINE[0]),
        "/absent".to_owned(),
    ] {
        let uri = format!("{ours}{query}");
        let cost = cost(ground, server, &uri).await;
        costs.push((uri, cost));
    }
    costs
}

/// CPU time in milliseconds of the server for all requests together, straight at it.
async fn cost(ground: &Ground, server: &Watched, uri: &str) -> u64 {
    let request = ground.request(&Outgoing::get(uri));
    let client = &ground.ways[1].client;
    let mut began = 0;
    // The first of them asks who this is, and whether they may.
    for index in 0..=REQUESTS {
        let code = send(client, &request).await.unwrap().code;
        assert!(matches!(code, 200 | 404), "{uri}: {code}");
        if index == 0 {
            began = server.cpu_ms().unwrap();
        }
    }
    server.cpu_ms().unwrap() - began
}
