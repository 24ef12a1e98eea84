//! Requests that are refused, and the words of the refusals.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use comparison::serving::request::{Answer, Outgoing};
use crds::control;
use serde_json::json;

use crate::api_support::{ALL_REPORTS, CLUSTER_REPORTS, GROUP, Setup};
use crate::isolation::ground::{FORMS, Ground, OURS, THEIRS, Way, in_namespace, other, patch};

pub async fn all(ground: &Ground, way: &Way) {
    other_namespaces_are_refused(ground, way).await;
    names_are_not_confirmed(ground, way).await;
    paths_lead_nowhere_else(ground, way).await;
    words_about_the_user_count_for_nothing(ground, way).await;
}

/// Returns the paths at which the control API tells of all reports.
fn controlled() -> Vec<String> {
    let base = format!("/apis/{}/{}", control::GROUP, control::VERSION);
    let one = format!("{base}/{}/policyreports.{GROUP}", control::PLURAL);
    vec![
        format!("{base}/{}", control::PLURAL),
        format!("{one}/digest"),
        format!("{one}/digest?set=Imported&limit=1"),
        format!("{one}/gate"),
        format!("{one}/floor"),
        format!("{base}/{}/{}", control::DATABASES, control::DATABASE_NAME),
        one,
    ]
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
    let there = ground.hidden[0].as_str();
    let absent = "x".repeat(there.len());
    for (of_there, of_absent) in about(there).iter().zip(&about(&absent)) {
        let first = ground.ask(way, of_there).await;
        let second = ground.ask(way, of_absent).await;
        assert_eq!(first.code, 403, "{of_there:?}: {}", first.text());
        assert_eq!(seen(&first, there), seen(&second, &absent), "{of_there:?}");
    }
}

/// Requests for what has this name in the other namespace.
fn about(name: &str) -> Vec<Outgoing> {
    let theirs = in_namespace(THEIRS);
    let at = format!("{theirs}/{name}");
    let body = other(name, THEIRS);
    vec![
        Outgoing::get(&at),
        Outgoing::new("HEAD", &at),
        Outgoing::get(format!("{theirs}?fieldSelector=metadata.name%3D{name}")),
        Outgoing::get(format!("{at}?watch=1")),
        Outgoing::new("PUT", &at).json(&body),
        Outgoing::new("POST", &theirs).json(&body),
        Outgoing::new("POST", format!("{theirs}?dryRun=All")).json(&body),
        Outgoing::new("DELETE", &at),
        Outgoing::new("DELETE", &theirs),
        patch(
            &at,
            "application/merge-patch+json",
            &json!({"metadata": {}}),
        ),
        patch(&at, "application/json-patch+json", &json!([])),
        patch(
            &format!("{at}?fieldManager=m"),
            "application/apply-patch+yaml",
            &body,
        ),
    ]
}

/// Returns an answer as a client sees it, but for the name that it has asked about, and for what
/// differs with every request.
fn seen(answer: &Answer, name: &str) -> (u16, Vec<String>, String) {
    let each_time = ["audit-id", "date"];
    let headers = answer.headers.iter();
    let mut headers: Vec<String> = headers
        .filter(|(name, _)| !each_time.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    (answer.code, headers, answer.text().replace(name, "NAME"))
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
            crate::isolation::reading::names(&answer.json().unwrap());
        }
        assert!(answer.code < 500, "{path}: {}", answer.text());
    }
}

/// Headers by which a front proxy names users are worth nothing without its certificate, and
/// nobody may speak for another.
async fn words_about_the_user_count_for_nothing(ground: &Ground, way: &Way) {
    let claims: [&[(&str, &str)]; 4] = [
        &[
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
        ],
        &[
            ("impersonate-user", "admin"),
            ("impersonate-group", "system:masters"),
        ],
        &[("impersonate-user", "system:serviceaccount:theirs:owner")],
        &[("impersonate-uid", "1")],
    ];
    for claim in claims {
        for uri in [
            ALL_REPORTS.to_owned(),
            in_namespace(THEIRS),
            in_namespace(OURS),
        ] {
            let named =
                |request: Outgoing, (name, value): &(&str, &str)| request.header(name, value);
            let request = claim.iter().fold(Outgoing::get(&uri), named);
            let answer = ground.ask(way, &request).await;
            // What a header of the front proxy says is passed over: who asks is who the token says.
            let own = claim[0].0 == "x-remote-user" && uri == in_namespace(OURS);
            let code = answer.code;
            assert!(
                if own {
                    code == 200
                } else {
                    matches!(code, 400 | 403)
                },
                "{request:?}: {code}"
            );
            let nobody = ground.send(way, &request).await;
            assert!(matches!(nobody.code, 400 | 401 | 403), "{}", nobody.text());
        }
    }
}

/// Decisions are kept for seconds only.
pub async fn a_right_that_is_taken_away_is_gone(setup: &Setup, ground: &Ground) {
    let arguments = ["delete", "rolebinding", "reader", "-n", OURS];
    setup.cluster.kubectl(arguments).await.unwrap();
    let request = Outgoing::get(in_namespace(OURS));
    for way in &ground.ways {
        let refused = async || ground.ask(way, &request).await.code == 403;
        setup.until(&format!("{} refuses", way.name), refused).await;
    }
}
