use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    IncludeObject, JsonPath, MetaVersion, Printer, RowOptions, partial_metadata,
    partial_metadata_list,
};
use crate::table::Column;

#[rstest]
#[case(".a.b", json!("x"))]
#[case("$.a.b", json!("x"))]
#[case(".a['b']", json!("x"))]
#[case(r".labels.k\.io/n", json!("dotted"))]
#[case(r".labels['k\.io/n']", json!("dotted"))]
#[case(".list[0].n", json!(1))]
#[case(".list[-1].n", json!(3))]
#[case(".list[1:].n", json!(2))]
#[case(".list[::2].n", json!(1))]
#[case(".list[*].n", json!(1))]
#[case(".a.*", json!("x"))]
#[case(r#".list[?(@.t=="b")].n"#, json!(2))]
#[case(".list[?(@.n>2)].t", json!("c"))]
#[case(".list[?(@.n>=2)].t", json!("b"))]
#[case(".list[?(@.ok)].t", json!("c"))]
#[case(".list[?(@.t!='a')].t", json!("b"))]
#[case(".list[?(@.ok==true)].t", json!("c"))]
#[case(".zero", json!(0))]
fn paths_are_followed(#[case] path: &str, #[case] expected: Value) {
    let object = json!({
        "a": { "b": "x" },
        "labels": { "k.io/n": "dotted" },
        "list": [{ "n": 1, "t": "a" }, { "n": 2, "t": "b" }, { "n": 3, "t": "c", "ok": true }],
        "zero": 0,
    });
    assert_eq!(
        JsonPath::parse(path).unwrap().first(&object),
        Some(&expected)
    );
}

#[rstest]
fn paths_may_lead_nowhere(
    #[values(
        ".x",
        ".a.x",
        ".a.b.c",
        ".list[9]",
        ".list[-9]",
        ".list[1:0]",
        ".a[0]",
        ".list[?(@.x==1)]",
        ".list[0:0]",
        ".list[?(@.n==\"a\")]",
        ".a[?(@.x)]",
        ".n[0]",
        ".list[::-1]"
    )]
    path: &str,
) {
    let object = json!({ "a": { "b": "x" }, "list": [{ "n": 1 }], "n": null });
    assert_eq!(JsonPath::parse(path).unwrap().first(&object), None);
}

#[rstest]
#[case("a", "a step must begin with '.' or '['")]
#[case("..a", "recursive descent (..) is not supported")]
#[case(".a..b", "recursive descent (..) is not supported")]
#[case(
    ".a['b','c']",
    "a backslash must stand before special characters of a key"
)]
#[case(".a['b", "a key in brackets is not closed")]
#[case(".a[0,1]", "unions are not supported")]
#[case(".a[x]", "an index is not a number")]
#[case(".a[0", "a bracket is not closed")]
#[case(
    ".a['b.c']",
    "a backslash must stand before special characters of a key"
)]
#[case(".a[?(@.x==1)", "a filter is not closed")]
#[case(".a[?(@.x=1)]", "a filter has an unknown operator")]
#[case(
    ".a[?(@.x==y)]",
    "a filter compares with a text, a number, a boolean or a path"
)]
#[case(".a[1:2:3:4]", "a slice has at most three parts")]
#[case(".", "a field name is missing")]
#[case(".a{b}", "a step must begin with '.' or '['")]
fn broken_paths_are_refused(#[case] path: &str, #[case] reason: &str) {
    let expected = format!("{path:?} is not a JSONPath that printer columns support: {reason}");
    assert_eq!(JsonPath::parse(path).unwrap_err().to_string(), expected);
}

fn column(name: &str, type_: &str, json_path: &str) -> Column {
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: json_path.to_owned(),
    }
}

fn options(include: IncludeObject, version: MetaVersion) -> RowOptions {
    RowOptions {
        include,
        version,
        now: "2026-11-21T05:00:00Z".parse::<Timestamp>().unwrap(),
    }
}

#[rstest]
#[case("string", json!("x"), json!("x"))]
#[case("string", json!(1), json!("1"))]
#[case("string", json!(true), json!("true"))]
#[case("string", json!(null), json!("<no value>"))]
#[case("string", json!({ "b": [1], "a": "x" }), json!(r#"{"a":"x","b":[1]}"#))]
#[case("integer", json!(3), json!(3))]
#[case("integer", json!(3.9), json!(3))]
#[case("integer", json!("3"), json!(null))]
#[case("integer", json!(null), json!(null))]
#[case("number", json!(3), json!(3))]
#[case("number", json!(0.5), json!(0.5))]
#[case("boolean", json!(false), json!(false))]
#[case("boolean", json!("false"), json!(null))]
#[case("date", json!("2026-11-21T04:54:57Z"), json!("5m3s"))]
#[case("date", json!("2026-11-21T06:54:57+02:00"), json!("5m3s"))]
#[case("date", json!(""), json!("<unknown>"))]
#[case("date", json!("soon"), json!("<invalid>"))]
#[case("date", json!("2026-11-22T05:00:00Z"), json!("<invalid>"))]
#[case("date", json!(1), json!(null))]
fn cells(#[case] type_: &str, #[case] value: Value, #[case] expected: Value) {
    let printer = Printer::new(&[column("X", type_, ".x")]).unwrap();
    let object = json!({ "metadata": { "name": "n" }, "x": value });
    let row = printer.row(object, &options(IncludeObject::None, MetaVersion::V1));
    assert_eq!(row, json!({ "cells": ["n", expected], "object": null }));
}

#[test]
fn a_missing_value_is_an_empty_cell() {
    let printer = Printer::new(&[column("X", "string", ".x")]).unwrap();
    let row = printer.row(json!({}), &options(IncludeObject::None, MetaVersion::V1));
    assert_eq!(row["cells"], json!(["", null]));
}

#[rstest]
#[case("", IncludeObject::Metadata)]
#[case("Metadata", IncludeObject::Metadata)]
#[case("None", IncludeObject::None)]
#[case("Object", IncludeObject::Object)]
fn rows_carry_what_was_asked_for(
    #[case] parameter: &str,
    #[case] include: IncludeObject,
    #[values(MetaVersion::V1, MetaVersion::V1Beta1)] version: MetaVersion,
) {
    assert_eq!(IncludeObject::parse(parameter), Ok(include));
    let object = json!({ "apiVersion": "g/v1", "kind": "K", "metadata": { "name": "n" }, "x": 1 });
    let row = Printer::new(&[])
        .unwrap()
        .row(object.clone(), &options(include, version));
    let carried = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => object,
        IncludeObject::Metadata => json!({
            "apiVersion": version.api_version(),
            "kind": "PartialObjectMetadata",
            "metadata": { "name": "n" },
        }),
    };
    assert_eq!(row["object"], carried);
}

#[test]
fn an_unknown_include_object_is_refused() {
    let message = "unrecognized includeObject value: \"x\"";
    assert_eq!(IncludeObject::parse("x"), Err(message.to_owned()));
}

#[test]
fn a_table_of_reports() {
    let mut wide = column("Kind", "string", ".scope.kind");
    wide.priority = 1;
    let mut described = column("Pass", "integer", ".summary.pass");
    described.description = "Passed.".to_owned();
    described.format = "int32".to_owned();
    let age = column("Age", "date", ".metadata.creationTimestamp");
    let printer = Printer::new(&[wide, described, age]).unwrap();
    let report = json!({
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": { "name": "r", "namespace": "n", "creationTimestamp": "2026-11-19T05:00:00Z" },
        "scope": { "kind": "Pod" },
        "summary": { "pass": 7 },
    });
    let row = printer.row(report, &options(IncludeObject::Metadata, MetaVersion::V1));
    let metadata = json!({ "resourceVersion": "5", "continue": "" });
    insta::assert_json_snapshot!(printer.table(
        metadata.clone(),
        vec![row.clone()],
        true,
        MetaVersion::V1
    ));
    let later = printer.table(metadata, vec![row], false, MetaVersion::V1Beta1);
    assert_eq!(later["columnDefinitions"], Value::Null);
    assert_eq!(later["apiVersion"], "meta.k8s.io/v1beta1");
}

#[test]
fn lists_can_be_reduced_to_metadata() {
    let objects = [
        json!({ "metadata": { "name": "a" }, "x": 1 }),
        json!({ "x": 1 }),
    ];
    let list = partial_metadata_list(json!({ "resourceVersion": "5" }), objects, MetaVersion::V1);
    assert_eq!(
        list,
        json!({
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadataList",
            "metadata": { "resourceVersion": "5" },
            "items": [
                { "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "a" } },
                { "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {} },
            ],
        })
    );
    assert_eq!(
        partial_metadata(json!(1), MetaVersion::V1)["metadata"],
        json!({})
    );
}

proptest! {
    #[test]
    fn hostile_paths_never_panic(path in r#"[.\[\]a-b'"?@()=!<>:,0-9\-* \\{}$]{0,30}"#) {
        let object = json!({ "a": [{ "b": 1 }, [0, 1], "ab"], "b": { "a": null } });
        if let Ok(path) = JsonPath::parse(&path) {
            let _ = path.first(&object);
        }
    }
}
