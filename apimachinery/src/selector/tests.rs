//! The expected texts were taken from a kube-apiserver 1.36.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;

use super::{FieldSelector, LabelSelector};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[rstest]
#[case("", true)]
#[case("a", true)]
#[case("!a", false)]
#[case("!z", true)]
#[case("z", false)]
#[case("a=1", true)]
#[case("a==1", true)]
#[case("a=2", false)]
#[case("a!=2", true)]
#[case("a!=1", false)]
#[case("z!=1", true)]
#[case("a in (1,2)", true)]
#[case("a in (2)", false)]
#[case("z in (1)", false)]
#[case("a notin (2)", true)]
#[case("a notin (1,2)", false)]
#[case("z notin (1)", true)]
#[case("a>0", true)]
#[case("a>1", false)]
#[case("a<2", true)]
#[case("b<2", false)]
#[case("e=", true)]
#[case("e in ()", true)]
#[case("a=1,b=x", true)]
#[case("a=1,b=y", false)]
#[case(" a = 1 , b in ( x , y ) ", true)]
#[case("in in (in)", true)]
#[case("app.kubernetes.io/name=kyverno", true)]
fn labels_are_selected(#[case] selector: &str, #[case] expected: bool) {
    let labels = labels(&[
        ("a", "1"),
        ("b", "x"),
        ("e", ""),
        ("in", "in"),
        ("app.kubernetes.io/name", "kyverno"),
    ]);
    let parsed = LabelSelector::parse(selector).unwrap();
    assert_eq!(parsed.matches(&labels), expected);
    let pairs: Vec<_> = labels.into_iter().collect();
    assert_eq!(parsed.matches(pairs.as_slice()), expected);
}

#[rstest]
#[case("a=", "a=")]
#[case("b , a", "a,b")]
#[case("a in (c,b,b)", "a in (b,c)")]
#[case("a in ()", "a in ()")]
#[case("a in (b,)", "a in (,b)")]
#[case("!a", "!a")]
#[case("a == b", "a==b")]
#[case("x>5,y<7", "x>5,y<7")]
fn selectors_are_printed_in_order(#[case] selector: &str, #[case] expected: &str) {
    assert_eq!(
        LabelSelector::parse(selector).unwrap().to_string(),
        expected
    );
}

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'";

#[rstest]
#[case(
    "a b",
    "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
)]
#[case("a in", "unable to parse requirement: found '' expected: '('")]
#[case(
    "a in (",
    "unable to parse requirement: found '', expected: ',', ')' or identifier"
)]
#[case(
    "a in (b",
    "unable to parse requirement: found '', expected: ',' or ')'"
)]
#[case(
    "a in (b c)",
    "unable to parse requirement: found 'c', expected: ',' or ')'"
)]
#[case(
    "a in (=)",
    "unable to parse requirement: found '=', expected: ',', ')' or identifier"
)]
#[case("a=b=c", "found '=', expected: ',' or 'end of string'")]
#[case("a=(", "unable to parse requirement: found '(', expected: identifier")]
#[case("!", "unable to parse requirement: found '', expected: identifier")]
#[case("!a=b", "found '=', expected: ',' or 'end of string'")]
#[case("=b", "found '=', expected: !, identifier, or 'end of string'")]
#[case("a,", "found '', expected: identifier after ','")]
#[case("a,,b", "found ',', expected: identifier after ','")]
#[case(
    "a>b",
    "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
)]
fn broken_selectors_are_refused(#[case] selector: &str, #[case] message: &str) {
    assert_eq!(
        LabelSelector::parse(selector).unwrap_err().to_string(),
        message
    );
}

#[test]
fn wrong_keys_and_values_are_refused() {
    let error = LabelSelector::parse("_a").unwrap_err().to_string();
    let expected = format!("unable to parse requirement: <nil>: Invalid value: \"_a\": {KEY_RULE}");
    assert_eq!(error, expected);
    let error = LabelSelector::parse("a=-b").unwrap_err().to_string();
    let expected =
        format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE_RULE})");
    assert_eq!(error, expected);
}

#[rstest]
#[case("a=1", "a", Some("1"))]
#[case("a==1,b", "a", Some("1"))]
#[case("a in (1)", "a", Some("1"))]
#[case("a in (1,2)", "a", None)]
#[case("a!=1", "a", None)]
#[case("a", "a", None)]
#[case("a=1", "b", None)]
fn an_index_can_be_used(#[case] selector: &str, #[case] key: &str, #[case] value: Option<&str>) {
    assert_eq!(LabelSelector::parse(selector).unwrap().equals(key), value);
}

#[rstest]
#[case("", true, Some(true), None, None)]
#[case("metadata.name=a", true, Some(true), Some("a"), None)]
#[case("metadata.name==a", true, Some(true), Some("a"), None)]
#[case("metadata.name=b", true, Some(false), Some("b"), None)]
#[case("metadata.name!=b", true, Some(true), None, None)]
#[case("metadata.name!=a", true, Some(false), None, None)]
#[case(
    "metadata.namespace=n,metadata.name=a",
    true,
    Some(true),
    Some("a"),
    Some("n")
)]
#[case("metadata.namespace=m", true, Some(false), None, Some("m"))]
#[case(",metadata.name=a,", true, Some(true), Some("a"), None)]
#[case(r"metadata.name=a\,b", true, Some(false), Some("a,b"), None)]
#[case(r"metadata.name=\=\\", true, Some(false), Some(r"=\"), None)]
#[case("metadata.name=a", false, Some(true), Some("a"), None)]
fn fields_are_selected(
    #[case] selector: &str,
    #[case] namespaced: bool,
    #[case] matches: Option<bool>,
    #[case] name: Option<&str>,
    #[case] namespace: Option<&str>,
) {
    let parsed = FieldSelector::parse(selector, namespaced).unwrap();
    assert_eq!(Some(parsed.matches("n", "a")), matches);
    assert_eq!(parsed.name(), name);
    assert_eq!(parsed.namespace(), namespace);
    assert_eq!(parsed.is_empty(), selector.is_empty());
}

#[rstest]
#[case("spec.x=1", true, "field label not supported: spec.x")]
#[case(
    "metadata.namespace=n",
    false,
    "field label not supported: metadata.namespace"
)]
#[case(
    "metadata.name",
    true,
    "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
)]
#[case(
    "metadata.name=a=b",
    true,
    "invalid field selector: unescaped character in value: 61"
)]
#[case(
    r"metadata.name=\a",
    true,
    r"invalid field selector: invalid escape sequence: \a"
)]
#[case(
    r"metadata.name=a\",
    true,
    r"invalid field selector: invalid escape sequence: \"
)]
#[case(
    "spec.x=1,zzz",
    true,
    "invalid selector: 'spec.x=1,zzz'; can't understand 'zzz'"
)]
fn broken_field_selectors_are_refused(
    #[case] selector: &str,
    #[case] namespaced: bool,
    #[case] message: &str,
) {
    assert_eq!(
        FieldSelector::parse(selector, namespaced)
            .unwrap_err()
            .to_string(),
        message
    );
}

#[test]
fn one_object_is_selected_by_its_name() {
    let selector = FieldSelector::for_name("a,b");
    assert!(selector.matches("any", "a,b") && !selector.matches("any", "a"));
}

/// Returns a requirement that is right, in one of its spellings.
fn requirement() -> impl Strategy<Value = String> {
    let key = "([a-z]{1,3}\\.io/)?[a-zA-Z][a-z0-9]{0,3}";
    let value = "([a-zA-Z0-9]([-a-z._]{0,2}[a-z0-9])?)?";
    prop_oneof![
        key.prop_map(|key| key),
        key.prop_map(|key| format!("! {key}")),
        (
            key,
            prop::sample::select(vec!["=", "==", "!=", " = "]),
            value
        )
            .prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
        (
            key,
            prop::sample::select(vec!["in", "notin"]),
            prop::collection::vec(value, 1..4)
        )
            .prop_map(|(key, operator, values)| format!(
                "{key} {operator} ({})",
                values.join(" , ")
            )),
        (key, prop::sample::select(vec![">", "<"]), any::<u32>())
            .prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_means_the_same(
        requirements in prop::collection::vec(requirement(), 0..4),
        labels in prop::collection::btree_map("[a-z]{1,2}", "[a-z0-9]{0,2}", 0..4),
    ) {
        let selector = LabelSelector::parse(&requirements.join(",")).unwrap();
        let printed = LabelSelector::parse(&selector.to_string()).unwrap();
        prop_assert_eq!(&printed, &selector);
        prop_assert_eq!(printed.matches(&labels), selector.matches(&labels));
    }

    #[test]
    fn hostile_selectors_never_panic(text in r#"[a-z/._\-=!<>(), \\ü\x00"]{0,40}"#) {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text, true);
    }
}
