use rstest::rstest;
use serde_json::json;

use super::{Path, PathElement, PathElementError};

#[rstest]
#[case(PathElement::field("spec"), "f:spec", ".spec")]
#[case(PathElement::field("a/b.c"), "f:a/b.c", ".a/b.c")]
#[case(PathElement::Index(3), "i:3", "[3]")]
#[case(PathElement::value(json!("a<b")), r#"v:"a\u003cb""#, r#"[="a<b"]"#)]
#[case(PathElement::value(json!(1_000_000.0)), "v:1000000", "[=1e+06]")]
#[case(PathElement::value(json!(true)), "v:true", "[=true]")]
#[case(
    PathElement::key([("protocol".to_owned(), json!("TCP")), ("port".to_owned(), json!(80))]),
    r#"k:{"port":80,"protocol":"TCP"}"#,
    r#"[port=80,protocol="TCP"]"#
)]
fn elements_are_written_and_read(
    #[case] element: PathElement,
    #[case] encoded: &str,
    #[case] printed: &str,
) {
    assert_eq!(element.encode(), encoded);
    assert_eq!(element.to_string(), printed);
    assert_eq!(PathElement::decode(encoded), Ok(Some(element)));
}

#[rstest]
#[case("x", Some(PathElementError::TooShort))]
#[case("é", Some(PathElementError::MissingColon("é".to_owned())))]
#[case("fspec", Some(PathElementError::MissingColon("fspec".to_owned())))]
#[case("x:later", None)]
fn unreadable_elements(#[case] text: &str, #[case] error: Option<PathElementError>) {
    let decoded = PathElement::decode(text);
    assert_eq!(decoded, error.map_or(Ok(None), Err));
}

#[rstest]
#[case("v:", "value")]
#[case("v:{", "value")]
#[case("k:[]", "key")]
#[case("i:x", "index")]
fn invalid_elements(#[case] text: &str, #[case] kind: &str) {
    let error = PathElement::decode(text).unwrap_err().to_string();
    assert_eq!(error, format!("invalid {kind} in path element {text:?}"));
}

#[test]
fn elements_are_ordered_by_kind_and_value() {
    let sorted = [
        PathElement::field("z"),
        PathElement::key([("a".to_owned(), json!(9))]),
        PathElement::key([("a".to_owned(), json!(10.0))]),
        PathElement::key([("a".to_owned(), json!(10)), ("b".to_owned(), json!(""))]),
        PathElement::value(json!(2)),
        PathElement::value(json!("1")),
        PathElement::value(json!(false)),
        PathElement::value(json!(null)),
        PathElement::Index(0),
        PathElement::Index(10),
    ];
    assert!(sorted.is_sorted());
}

#[test]
fn one_is_one_point_zero() {
    assert_eq!(PathElement::value(json!(1)), PathElement::value(json!(1.0)));
}

#[test]
fn paths_are_printed_without_separators() {
    let path = Path(vec![
        PathElement::field("spec"),
        PathElement::field("ports"),
        PathElement::key([("port".to_owned(), json!(80))]),
        PathElement::field("name"),
    ]);
    assert_eq!(path.to_string(), ".spec.ports[port=80].name");
}
