use serde_json::json;

use super::*;

fn body(value: &Value) -> Observed {
    Observed::Answer {
        code: 200,
        headers: HeaderMap::new(),
        body: Document::parse(value.to_string().as_bytes()),
    }
}

fn shown(values: &[Value]) -> Vec<String> {
    let seen: Vec<_> = values.iter().map(body).collect();
    let mut normaliser = Normaliser::new(Timestamp::now(), "g", "own", &["gen-".to_owned()].into());
    for seen in &seen {
        normaliser.learn(seen);
    }
    let shown = seen.iter().map(|seen| normaliser.show(seen, &[]).text);
    shown.collect()
}

fn object(version: &str) -> Value {
    json!({"kind": "A", "metadata": {"name": "a", "resourceVersion": version}})
}

#[test]
fn order_and_equality_of_versions_are_kept() {
    let first = shown(&[object("7"), object("9"), object("7")]);
    assert_eq!(
        first,
        shown(&[object("100"), object("2000"), object("100")])
    );
    assert_ne!(first, shown(&[object("9"), object("7"), object("7")]));
    assert_ne!(first, shown(&[object("7"), object("9"), object("9")]));
}

#[test]
fn a_list_is_placed_between_versions() {
    let list = |version: &str| {
        json!({"kind": "AList", "items": [],
        "metadata": {"resourceVersion": version}})
    };
    let at = |version: &str| shown(&[object("5"), object("8"), list(version)])[2].clone();
    assert_eq!(at("6"), at("7"));
    assert_eq!(at("8"), at("10"));
    assert_ne!(at("7"), at("8"));
}

#[test]
fn the_harness_own_objects_do_not_count() {
    let own = json!({"kind": "A", "metadata": {"name": "own", "resourceVersion": "6"}});
    assert_eq!(
        shown(&[object("5"), object("8"), own])[1],
        shown(&[object("5"), object("8")])[1]
    );
}

#[test]
fn times_of_the_run_only() {
    let at = |time: String| shown(&[json!({"t": time})]).remove(0);
    let now = Timestamp::now();
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert!(at(seconds).contains("<time in s>"));
    assert!(at("2000-01-01T00:00:00Z".to_owned()).contains("2000"));
    let fine = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    assert!(at(fine).contains("<time in s and less>"));
}

#[test]
fn uids_and_made_up_names() {
    let one = json!({"metadata": {"name": "gen-x7k2p",
        "uid": "11111111-0000-4000-8000-000000000000"}});
    let other = json!({"metadata": {"name": "gen-bbbbb",
        "uid": "22222222-0000-4000-8000-000000000000"}});
    assert_eq!(
        shown(std::slice::from_ref(&one)),
        shown(std::slice::from_ref(&other))
    );
    assert_ne!(shown(&[one.clone(), other]), shown(&[one.clone(), one]));
}

#[test]
fn causes_may_come_in_any_order() {
    let status = |a: &str, b: &str| {
        json!({"message": format!("x is invalid: [{a}, {b}]"),
            "details": {"causes": [{"field": a}, {"field": b}]}})
    };
    assert_eq!(shown(&[status("p", "q")]), shown(&[status("q", "p")]));
    assert_ne!(shown(&[status("p", "q")]), shown(&[status("p", "r")]));
}

#[test]
fn owners_may_come_in_any_order_but_have_to_be_there() {
    let object = |entries: Value| json!({"metadata": {"managedFields": entries}});
    let (a, b) = (json!({"manager": "a"}), json!({"manager": "b"}));
    assert_eq!(
        shown(&[object(json!([a, b]))]),
        shown(&[object(json!([b, a]))])
    );
    assert_ne!(
        shown(&[object(json!([a, b]))]),
        shown(&[object(json!([a]))])
    );
}

#[test]
fn only_some_of_an_answer() {
    let mut normaliser = Normaliser::new(Timestamp::now(), "g", "own", &BTreeSet::new());
    let only = ["reason".to_owned(), "/details/kind".to_owned()];
    let seen = body(&json!({"reason": "R", "details": {"kind": "k"}, "message": "m"}));
    let text = normaliser.show(&seen, &only).text;
    assert!(text.contains("\"R\"") && text.contains("\"k\"") && !text.contains("\"m\""));
}

#[test]
fn the_kinds_of_a_version_have_no_order() {
    let list = |names: [&str; 2]| {
        let kinds = names.map(|name| json!({"name": name, "verbs": ["get"]}));
        json!({"kind": "APIResourceList", "resources": kinds})
    };
    assert_eq!(shown(&[list(["a", "b"])]), shown(&[list(["b", "a"])]));
    assert_ne!(shown(&[list(["a", "b"])]), shown(&[list(["a", "a"])]));
}
