//! Lists, their pages, counts and tokens, and rights on single names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use comparison::serving::request::Outgoing;
use serde_json::Value;

use crate::api_support::ALL_REPORTS;
use crate::isolation::ground::{FORMS, Ground, HIDDEN, MINE, OURS, THEIRS, Way, in_namespace};

pub async fn all(ground: &Ground, way: &Way) {
    lists_hold_what_is_ours(ground, way).await;
    pages_and_counts_are_of_ours(ground, way).await;
    forged_tokens_lead_nowhere_else(ground, way).await;
    tokens_of_others_lead_nowhere_else(ground, way).await;
    one_name_is_one_name(ground, way).await;
}

/// Names in a list of ours; there must be nothing else in it.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    let name = |item: &Value| {
        assert_eq!(item["metadata"]["namespace"], OURS);
        item["metadata"]["name"].as_str().unwrap().to_owned()
    };
    items.iter().map(name).collect()
}

/// Lists of what is ours, in every form and with every selector.
async fn lists_hold_what_is_ours(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let all = MINE.len();
    let theirs = &ground.hidden[0];
    let queries = [
        (String::new(), all),
        ("?resourceVersion=0".to_owned(), all),
        (format!("?fieldSelector=metadata.namespace%3D{OURS}"), all),
        (format!("?fieldSelector=metadata.namespace%3D{THEIRS}"), 0),
        (format!("?fieldSelector=metadata.namespace%21%3D{OURS}"), 0),
        (format!("?fieldSelector=metadata.name%3D{theirs}"), 0),
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
            let text = answer.text();
            let found = MINE.iter().filter(|name| text.contains(**name)).count();
            assert_eq!(found, expected, "{query} as {accept}: {text}");
            if plain {
                assert_eq!(names(&answer.json().unwrap()).len(), expected, "{query}");
            }
        }
    }
}

/// The rest of a list is counted within the namespace, and tokens name what was listed.
async fn pages_and_counts_are_of_ours(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let first = Outgoing::get(format!("{ours}?limit=2"));
    let page = ground.ask(way, &first).await.json().unwrap();
    assert_eq!(names(&page), MINE[..2]);
    assert_eq!(page["metadata"]["remainingItemCount"], MINE.len() - 2);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let wire = String::from_utf8(URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    assert!(wire.contains(MINE[1]) && !wire.contains(HIDDEN), "{wire}");
    let next = Outgoing::get(format!("{ours}?limit=2&continue={token}"));
    let rest = ground.ask(way, &next).await.json().unwrap();
    assert_eq!(names(&rest), MINE[2..4]);
    assert_eq!(rest["metadata"]["remainingItemCount"], 1);
}

/// Whatever a token says, it is of the list that it is sent to.
async fn forged_tokens_lead_nowhere_else(ground: &Ground, way: &Way) {
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
        for rv in ["-1", "1"] {
            is_of_ours(ground, way, &token(rv, start)).await;
        }
    }
    // What is to come is waited for, for some seconds.
    let request = Outgoing::get(format!(
        "{}?limit=1&continue={}",
        in_namespace(OURS),
        token("99999999", &past)
    ));
    let answer = ground.ask(way, &request).await;
    assert_eq!(answer.code, 504, "{}", answer.text());
}

fn token(rv: &str, start: &str) -> String {
    let wire = format!(r#"{{"v":"meta.k8s.io/v1","rv":{rv},"start":"{start}"}}"#);
    URL_SAFE_NO_PAD.encode(wire)
}

/// Nor does one that somebody with more rights has got for a list of theirs.
async fn tokens_of_others_lead_nowhere_else(ground: &Ground, way: &Way) {
    for place in [ALL_REPORTS.to_owned(), in_namespace(THEIRS)] {
        for limit in [1, 7] {
            let request = Outgoing::get(format!("{place}?limit={limit}"));
            let page = ground.admin(&request).await.json().unwrap();
            let token = page["metadata"]["continue"].as_str().unwrap();
            is_of_ours(ground, way, token).await;
        }
    }
}

/// A token shows reports of ours or nothing, and does not help where nothing may be listed.
async fn is_of_ours(ground: &Ground, way: &Way, token: &str) {
    for limit in [1, 100] {
        let query = format!("limit={limit}&continue={token}");
        let request = Outgoing::get(format!("{}?{query}", in_namespace(OURS)));
        let answer = ground.ask(way, &request).await;
        match answer.code {
            200 => {
                let list = answer.json().unwrap();
                let shown = names(&list).len() as u64;
                let remaining = list["metadata"]["remainingItemCount"].as_u64();
                assert!(
                    shown + remaining.unwrap_or(0) <= MINE.len() as u64,
                    "{list}"
                );
            }
            400 | 410 => {}
            code => panic!("{request:?}: {code} {}", answer.text()),
        }
        for place in [ALL_REPORTS.to_owned(), in_namespace(THEIRS)] {
            let request = Outgoing::get(format!("{place}?{query}"));
            assert_eq!(ground.ask(way, &request).await.code, 403, "{request:?}");
        }
    }
}

/// Who may see one report by its name sees that one.
async fn one_name_is_one_name(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let own = format!("metadata.name%3D{}", MINE[0]);
    let another = format!("metadata.name%3D{}", MINE[1]);
    for (uri, code) in [
        (format!("{ours}/{}", MINE[0]), 200),
        (format!("{ours}?fieldSelector={own}"), 200),
        (format!("{ours}?fieldSelector={own}%2C{another}"), 200),
        (format!("{ours}?fieldSelector={another}"), 403),
        (format!("{ours}/{}", MINE[1]), 403),
        (ours.clone(), 403),
        (
            format!("{ours}?fieldSelector=metadata.name%21%3D{}", MINE[0]),
            403,
        ),
        (format!("{ours}?labelSelector=app%3D{}", MINE[0]), 403),
        (format!("{ours}?watch=1"), 403),
        (format!("{ours}?watch=1&fieldSelector={another}"), 403),
        (format!("{}/{}", in_namespace(THEIRS), MINE[0]), 403),
    ] {
        let request = Outgoing::get(&uri);
        let answer = ground.ask_with(way, &ground.narrow, &request).await;
        assert_eq!(answer.code, code, "{uri}: {}", answer.text());
        for name in &MINE[1..] {
            let told = answer.code == 200 && answer.text().contains(name);
            assert!(!told, "{uri}: {}", answer.text());
        }
    }
}
