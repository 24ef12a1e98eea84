//! Who has rights in one namespace sees no byte of another: not in lists, watches, tables, counts,
//! tokens or the texts of errors; through the kube-apiserver and straight at the server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

#[path = "../api_support/mod.rs"]
mod api_support;
mod ground;
mod watching;

use api_support::{ALL_REPORTS, CLUSTER_REPORTS, GROUP, Setup};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::serving::request::Outgoing;
use ground::{FORMS, Ground, HIDDEN, MINE, OURS, THEIRS, Way, controlled, in_namespace, other};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_what_is_not_theirs_to_see() {
    let mut setup = Setup::start().await;
    setup.switch().await;
    let ground = Ground::lay(&setup).await;
    the_administrator_sees_everything(&ground).await;
    for way in &ground.ways {
        println!("{}", way.name);
        other_namespaces_are_refused(&ground, way).await;
        names_are_not_confirmed(&ground, way).await;
        lists_hold_what_is_ours(&ground, way).await;
        pages_and_counts_are_of_ours(&ground, way).await;
        paths_lead_nowhere_else(&ground, way).await;
        writes_stay_in_their_namespace(&ground, way).await;
        one_name_is_one_name(&ground, way).await;
        watching::watches_tell_what_is_ours(&setup, &ground, way).await;
    }
    others_words_for_the_user_count_for_nothing(&ground).await;
    a_right_that_is_taken_away_is_gone(&setup, &ground).await;
}

/// What is looked for below is there to be seen.
async fn the_administrator_sees_everything(ground: &Ground) {
    for (accept, plain) in FORMS {
        let request = Outgoing::get(ALL_REPORTS).header("accept", accept);
        let answer = ground.admin(&request).await;
        assert_eq!(answer.code, 200, "{}", answer.text());
        assert!(answer.text().contains(HIDDEN), "{accept}");
        assert!(!plain || ground.uids.iter().all(|uid| answer.text().contains(uid)));
    }
}

/// Whatever is asked of another namespace, or of all of them, is refused in any form.
async fn other_namespaces_are_refused(ground: &Ground, way: &Way) {
    let theirs = in_namespace(THEIRS);
    let token = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}"#);
    let queries = [
        String::new(),
        "?limit=1".to_owned(),
        "?resourceVersion=0".to_owned(),
        "?resourceVersion=1&resourceVersionMatch=Exact".to_owned(),
        "?labelSelector=app%3Dx".to_owned(),
        format!("?fieldSelector=metadata.namespace%3D{OURS}"),
        format!("?continue={token}"),
        "?watch=1".to_owned(),
        "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
            .to_owned(),
    ];
    let versioned = format!("/apis/{GROUP}/v1alpha2");
    let watches = [
        format!("{versioned}/watch/policyreports"),
        format!("{versioned}/watch/namespaces/{THEIRS}/policyreports"),
        format!("{versioned}/namespaces/{THEIRS}/policyreports/a/status"),
    ];
    let places = [ALL_REPORTS, CLUSTER_REPORTS, &theirs];
    let listed = places
        .iter()
        .flat_map(|place| queries.iter().map(move |query| format!("{place}{query}")));
    for uri in listed.chain(watches).chain(controlled()) {
        for (accept, _) in FORMS {
            let request = Outgoing::get(&uri).header("accept", accept);
            let answer = ground.ask(way, &request).await;
            assert_eq!(answer.code, 403, "{uri}: {}", answer.text());
        }
    }
}

/// A name that is there and one that is not are refused in the same words, whatever is asked.
async fn names_are_not_confirmed(ground: &Ground, way: &Way) {
    let theirs = in_namespace(THEIRS);
    let there = ground.hidden[0].as_str();
    let absent = "x".repeat(there.len());
    let body = |name: &str| other(name, THEIRS);
    let requests = |name: &str| {
        let at = format!("{theirs}/{name}");
        let patch = |type_: &str, body: &Value| Outgoing {
            headers: vec![("content-type".to_owned(), type_.to_owned())],
            body: body.to_string().into_bytes(),
            ..Outgoing::new("PATCH", &at)
        };
        [
            Outgoing::get(&at),
            Outgoing::new("HEAD", &at),
            Outgoing::get(format!("{theirs}?fieldSelector=metadata.name%3D{name}")),
            Outgoing::get(format!("{at}?watch=1")),
            Outgoing::new("PUT", &at).json(&body(name)),
            Outgoing::new("POST", &theirs).json(&body(name)),
            Outgoing::new("POST", format!("{theirs}?dryRun=All")).json(&body(name)),
            Outgoing::new("DELETE", &at),
            Outgoing::new("DELETE", &theirs),
            patch("application/merge-patch+json", &json!({"metadata": {}})),
            patch("application/json-patch+json", &json!([])),
            patch("application/apply-patch+yaml", &body(name)),
        ]
    };
    for (of_there, of_absent) in requests(there).iter().zip(&requests(&absent)) {
        let (first, second) = (
            ground.ask(way, of_there).await,
            ground.ask(way, of_absent).await,
        );
        assert_eq!(first.code, 403, "{of_there:?}: {}", first.text());
        let same = second.text().replace(&absent, there);
        assert_eq!((second.code, same), (403, first.text()), "{of_there:?}");
    }
}

/// Lists of what is ours, in every form and with every selector.
async fn lists_hold_what_is_ours(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let all = MINE.len();
    let queries = [
        (String::new(), all),
        ("?resourceVersion=0".to_owned(), all),
        (format!("?fieldSelector=metadata.namespace%3D{OURS}"), all),
        (format!("?fieldSelector=metadata.namespace%3D{THEIRS}"), 0),
        (format!("?fieldSelector=metadata.namespace%21%3D{OURS}"), 0),
        (
            format!("?fieldSelector=metadata.name%3D{}", ground.hidden[0]),
            0,
        ),
        (format!("?labelSelector={HIDDEN}"), 0),
        (format!("?labelSelector=%21{HIDDEN}"), all),
        (
            format!("?labelSelector={HIDDEN}%20in%20({HIDDEN})&limit=1"),
            0,
        ),
    ];
    for (query, expected) in queries {
        for (accept, plain) in FORMS {
            let request = Outgoing::get(format!("{ours}{query}")).header("accept", accept);
            let answer = ground.ask(way, &request).await;
            assert_eq!(answer.code, 200, "{query}: {}", answer.text());
            let found = MINE
                .iter()
                .filter(|name| answer.text().contains(**name))
                .count();
            assert_eq!(found, expected, "{query} as {accept}: {}", answer.text());
            if plain {
                assert_eq!(names(&answer.json().unwrap()).len(), expected, "{query}");
            }
        }
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    let name = |item: &Value| {
        assert_eq!(item["metadata"]["namespace"], OURS);
        item["metadata"]["name"].as_str().unwrap().to_owned()
    };
    items.iter().map(name).collect()
}

/// What remains is counted within the namespace; tokens name what was listed, and a forged one
/// leads no further.
async fn pages_and_counts_are_of_ours(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let first = ground
        .ask(way, &Outgoing::get(format!("{ours}?limit=2")))
        .await;
    let page = first.json().unwrap();
    assert_eq!(names(&page), MINE[..2]);
    assert_eq!(page["metadata"]["remainingItemCount"], MINE.len() - 2);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let wire = String::from_utf8(URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    assert!(wire.contains(MINE[1]) && !wire.contains(HIDDEN), "{wire}");
    let next = Outgoing::get(format!("{ours}?limit=2&continue={token}"));
    let rest = ground.ask(way, &next).await.json().unwrap();
    assert_eq!(names(&rest), MINE[2..4]);

    let past = format!("{}\\u0000", ground.hidden[0]);
    let starts = [
        "a",
        "~",
        "/a",
        "../theirs/a",
        "theirs/a",
        &format!("{THEIRS}/{past}"),
        &format!("{OURS}/../{THEIRS}/{past}"),
        &past,
    ];
    for start in starts {
        for rv in ["-1", "1", "99999999"] {
            let wire = format!(r#"{{"v":"meta.k8s.io/v1","rv":{rv},"start":"{start}"}}"#);
            let forged = URL_SAFE_NO_PAD.encode(&wire);
            let request = Outgoing::get(format!("{ours}?limit=100&continue={forged}"));
            let answer = ground.ask(way, &request).await;
            match answer.code {
                200 => drop(names(&answer.json().unwrap())),
                400 | 410 | 504 => {}
                code => panic!("{wire}: {code} {}", answer.text()),
            }
            // The same, where nothing may be listed.
            let theirs = in_namespace(THEIRS);
            let request = Outgoing::get(format!("{theirs}?limit=100&continue={forged}"));
            assert_eq!(ground.ask(way, &request).await.code, 403, "{wire}");
        }
    }
}

/// However a path is written, it is authorized as it is served.
async fn paths_lead_nowhere_else(ground: &Ground, way: &Way) {
    let base = format!("/apis/{GROUP}/v1alpha2");
    let name = &ground.hidden[0];
    for path in [
        format!("{base}/namespaces//policyreports"),
        format!("{base}/namespaces/{OURS}/../{THEIRS}/policyreports"),
        format!("{base}/namespaces/{OURS}%2F..%2F{THEIRS}/policyreports"),
        format!(
            "{base}/namespaces/{OURS}/policyreports/..%2F..%2F{THEIRS}%2Fpolicyreports%2F{name}"
        ),
        format!("{base}/namespaces/{OURS}/policyreports/%2e%2e/%2e%2e/{THEIRS}/policyreports"),
        format!("{base}/namespaces/{OURS}/namespaces/{THEIRS}/policyreports"),
        format!("{base}/namespaces/{OURS}%00/policyreports"),
        format!("{base}//namespaces/{THEIRS}/policyreports"),
        format!("/{base}/namespaces/{THEIRS}/policyreports"),
        format!("{base}/namespaces/{THEIRS}/policyreports/"),
        format!("{base}/proxy/namespaces/{THEIRS}/policyreports/{name}"),
        format!("{base}/namespaces/{OURS}/policyreports/{name}"),
        format!("{base}/namespaces/{OURS}/clusterpolicyreports"),
        format!("{base}/namespaces/{OURS}/policyreports;namespace={THEIRS}"),
        format!("{base}/namespaces/{OURS}/policyreports/?namespace={THEIRS}"),
    ] {
        let answer = ground.ask(way, &Outgoing::get(&path)).await;
        // Only what is a list of ours may be answered with objects.
        if answer.code == 200 {
            names(&answer.json().unwrap());
        }
        assert!(answer.code < 500, "{path}: {}", answer.text());
    }
}

/// A body that names another namespace goes nowhere, and a name that is taken there is free here.
async fn writes_stay_in_their_namespace(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let name = ground.hidden[0].as_str();
    let strayed = Outgoing::new("POST", &ours).json(&other(name, THEIRS));
    assert_eq!(ground.ask(way, &strayed).await.code, 400);
    let moved = Outgoing {
        headers: vec![(
            "content-type".to_owned(),
            "application/merge-patch+json".to_owned(),
        )],
        body: json!({"metadata": {"namespace": THEIRS}})
            .to_string()
            .into_bytes(),
        ..Outgoing::new("PATCH", format!("{ours}/{}", MINE[0]))
    };
    assert_eq!(ground.ask(way, &moved).await.code, 400);
    let free = Outgoing::new("POST", &ours).json(&other(name, OURS));
    let created = ground.ask(way, &free).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let everything = ground
        .ask(way, &Outgoing::new("DELETE", format!("{ours}/{name}")))
        .await;
    assert_eq!(everything.code, 200);
    let there = ground
        .admin(&Outgoing::get(format!("{}/{name}", in_namespace(THEIRS))))
        .await;
    assert_eq!(there.code, 200);
    assert_eq!(there.json().unwrap()["metadata"]["uid"], ground.uids[0]);
}

/// Who may see one report by its name sees that one.
async fn one_name_is_one_name(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let own = format!("metadata.name%3D{}", MINE[0]);
    for (uri, code) in [
        (format!("{ours}/{}", MINE[0]), 200),
        (format!("{ours}?fieldSelector={own}"), 200),
        (
            format!("{ours}?fieldSelector={own}%2Cmetadata.name%3D{}", MINE[1]),
            200,
        ),
        (format!("{ours}/{}", MINE[1]), 403),
        (ours.clone(), 403),
        (
            format!("{ours}?fieldSelector=metadata.name%21%3D{}", MINE[0]),
            403,
        ),
        (format!("{ours}?labelSelector=app%3D{}", MINE[0]), 403),
        (format!("{ours}?watch=1"), 403),
    ] {
        let answer = ground
            .ask_with(way, &ground.narrow, &Outgoing::get(&uri))
            .await;
        assert_eq!(answer.code, code, "{uri}: {}", answer.text());
        for name in &MINE[1..] {
            let told = answer.code == 200 && answer.text().contains(name);
            assert!(!told, "{uri}: {}", answer.text());
        }
    }
}

/// Headers by which a front proxy names users are worth nothing without its certificate, and
/// nobody may speak for another.
async fn others_words_for_the_user_count_for_nothing(ground: &Ground) {
    for way in &ground.ways {
        let claims = [
            [
                ("x-remote-user", "admin"),
                ("x-remote-group", "system:masters"),
            ],
            [
                ("impersonate-user", "admin"),
                ("impersonate-group", "system:masters"),
            ],
        ];
        for claim in claims {
            let request = claim
                .iter()
                .fold(Outgoing::get(ALL_REPORTS), |request, (name, value)| {
                    request.header(name, value)
                });
            let answer = ground.ask(way, &request).await;
            assert!(
                matches!(answer.code, 400 | 403),
                "{}: {}",
                way.name,
                answer.text()
            );
            let nobody = ground.send(way, &request).await;
            assert!(matches!(nobody.code, 400 | 401 | 403), "{}", nobody.text());
        }
    }
}

/// Decisions are kept for seconds only.
async fn a_right_that_is_taken_away_is_gone(setup: &Setup, ground: &Ground) {
    let arguments = ["delete", "rolebinding", "reader", "-n", OURS];
    setup.cluster.kubectl(arguments).await.unwrap();
    let request = Outgoing::get(in_namespace(OURS));
    for way in &ground.ways {
        let refused = async || ground.ask(way, &request).await.code == 403;
        setup.until(&format!("{} refuses", way.name), refused).await;
    }
}
