use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::FieldSet;
use crate::path::{Path, PathElement};

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]".prop_map(PathElement::Field),
        "[a-c<\\n\"]".prop_map(|text| PathElement::value(json!(text))),
        (-2..2_i64).prop_map(|number| PathElement::value(json!(number))),
        (0..2_i64).prop_map(PathElement::Index),
        ("[ab]", 0..2_i64).prop_map(|(name, value)| PathElement::key([(name, json!(value))])),
    ]
}

fn set() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(element(), 1..4).prop_map(Path);
    prop::collection::vec(path, 0..12).prop_map(FieldSet::from_iter)
}

fn is_below(path: &Path, set: &FieldSet) -> bool {
    (1..=path.0.len()).any(|length| set.contains(&path.0[..length]))
}

proptest! {
    #[test]
    fn fields_v1_is_read_back(set in set()) {
        prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set.clone());
        let text: Value = serde_json::from_str(&set.to_json()).unwrap();
        prop_assert_eq!(text, set.to_fields_v1());
    }

    #[test]
    fn paths_make_the_set_again(set in set()) {
        let paths = set.paths();
        prop_assert_eq!(paths.len(), set.len());
        prop_assert_eq!(set.is_empty(), paths.is_empty());
        prop_assert!(paths.iter().all(|path| set.contains(&path.0)));
        prop_assert_eq!(FieldSet::from_iter(paths), set);
    }

    #[test]
    fn membership_follows_the_operation(left in set(), right in set()) {
        for path in left.paths().iter().chain(&right.paths()) {
            let (in_left, in_right) = (left.contains(&path.0), right.contains(&path.0));
            prop_assert_eq!(left.union(&right).contains(&path.0), in_left || in_right);
            prop_assert_eq!(left.intersection(&right).contains(&path.0), in_left && in_right);
            prop_assert_eq!(left.difference(&right).contains(&path.0), in_left && !in_right);
            prop_assert_eq!(
                left.recursive_difference(&right).contains(&path.0),
                in_left && !is_below(path, &right)
            );
        }
    }

    #[test]
    fn laws_hold(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b).difference(&c), a.difference(&b.union(&c)));
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(a.difference(&a), FieldSet::new());
    }

    #[test]
    fn leaves_have_no_member_below(set in set()) {
        let leaves = set.leaves();
        for path in set.paths() {
            let has_children = set
                .paths()
                .iter()
                .any(|other| other.0.len() > path.0.len() && other.0.starts_with(&path.0));
            prop_assert_eq!(leaves.contains(&path.0), !has_children);
        }
    }
}

#[test]
fn the_text_is_in_the_order_of_the_set() {
    let fields = json!({
        "v:10": {}, "v:9": {}, "i:0": {}, "k:{\"a\":1}": {".": {}, "f:a": {}}, "f:x": {"f:y": {}},
    });
    let set = FieldSet::from_fields_v1(&fields).unwrap();
    assert_eq!(
        set.to_json(),
        r#"{"f:x":{"f:y":{}},"k:{\"a\":1}":{".":{},"f:a":{}},"v:9":{},"v:10":{},"i:0":{}}"#
    );
}

#[rstest]
#[case(json!(null), json!({}))]
#[case(json!({"f:a": null}), json!({"f:a": {}}))]
#[case(json!({"f:a": {".": {}}}), json!({"f:a": {}}))]
#[case(json!({"f:a": {"x:later": {}}}), json!({"f:a": {}}))]
#[case(json!({"x:later": {"f:a": {}}}), json!({}))]
#[case(json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {".": {}, "f:b": {}}}))]
fn lenient_reading(#[case] fields: Value, #[case] expected: Value) {
    assert_eq!(
        FieldSet::from_fields_v1(&fields).unwrap().to_fields_v1(),
        expected
    );
}

#[rstest]
#[case(json!([]))]
#[case(json!({"f:a": 1}))]
#[case(json!({"spec": {}}))]
fn unreadable(#[case] fields: Value) {
    assert!(FieldSet::from_fields_v1(&fields).is_err());
}

#[test]
fn the_empty_path_is_no_member() {
    let mut set = FieldSet::new();
    set.insert(&[]);
    assert!(set.is_empty());
    assert!(!set.contains(&[]));
}
