//! The catalog says the same as the vendors' CRDs: every field's type, format, enum, bounds,
//! requiredness and extensions, the names, scope, categories, versions and printer columns.
//! Descriptions are not compared: ours are our own words.
//!
//! The vendors' CRDs are other people's text and not in the repository. They are looked for in
//! `$REPORTS_DATA/crds`, else beside the workspace in `../shared/data/crds`.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crds::catalog;
use serde_json::{Value, json};

/// Returns the folder of the vendors' CRDs, or `None` on a machine without them. In CI they must be
/// there.
fn vendor_crds() -> Option<PathBuf> {
    let data = std::env::var_os("REPORTS_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("crds");
    if folder.is_dir() {
        return Some(folder);
    }
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        !ci,
        "{} is absent; in CI the comparison must run",
        folder.display()
    );
    println!("skipped: {} is absent", folder.display());
    None
}

fn vendors() -> Option<BTreeMap<String, Value>> {
    let mut crds = BTreeMap::new();
    for entry in std::fs::read_dir(vendor_crds()?).unwrap() {
        let path = entry.unwrap().path();
        let crd: Value = serde_yaml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        crds.insert(crd["metadata"]["name"].as_str().unwrap().to_owned(), crd);
    }
    assert!(crds.len() >= 6, "only {} CRDs found", crds.len());
    Some(crds)
}

/// The parts of a CRD that have an effect, in one form.
fn facts(crd: &Value) -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::new();
    let spec = &crd["spec"];
    for key in [
        "group",
        "scope",
        "names",
        "conversion",
        "preserveUnknownFields",
    ] {
        flatten(&spec[key], key, &mut facts);
    }
    for version in spec["versions"].as_array().unwrap() {
        let name = version["name"].as_str().unwrap();
        for (key, value) in version.as_object().unwrap() {
            let path = format!("{name}.{key}");
            match key.as_str() {
                "schema" => schema_facts(&value["openAPIV3Schema"], name, &mut facts),
                _ => flatten(value, &path, &mut facts),
            }
        }
    }
    facts
}

/// Facts of a schema, one for each keyword of each field; lists whose order means nothing sorted.
fn schema_facts(schema: &Value, path: &str, facts: &mut BTreeMap<String, Value>) {
    for (keyword, value) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "description" => {}
            "properties" => {
                for (field, child) in value.as_object().unwrap() {
                    schema_facts(child, &format!("{path}.{field}"), facts);
                }
            }
            "items" => schema_facts(value, &format!("{path}[]"), facts),
            "additionalProperties" if value.is_object() => {
                schema_facts(value, &format!("{path}{{}}"), facts);
            }
            "required" | "enum" => {
                let mut values: Vec<String> = value
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                values.sort();
                facts.insert(format!("{path} {keyword}"), json!(values));
            }
            _ => {
                facts.insert(format!("{path} {keyword}"), value.clone());
            }
        }
    }
}

fn flatten(value: &Value, path: &str, facts: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, child) in map {
                flatten(child, &format!("{path}.{key}"), facts);
            }
        }
        // The order of columns and short names is what a user sees, so the index is in the path.
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                flatten(child, &format!("{path}[{index}]"), facts);
            }
        }
        scalar => {
            facts.insert(path.to_owned(), scalar.clone());
        }
    }
}

/// One line for each difference.
fn differences(ours: &BTreeMap<String, Value>, theirs: &BTreeMap<String, Value>) -> Vec<String> {
    let absent = json!("(absent)");
    let paths: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let side = |facts: &BTreeMap<String, Value>, path| facts.get(path).unwrap_or(&absent).clone();
    paths
        .into_iter()
        .map(|path| (path, side(ours, path), side(theirs, path)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(path, ours, theirs)| format!("{path}: ours {ours}, theirs {theirs}"))
        .collect()
}

fn our_crd(name: &str) -> Option<Value> {
    catalog::resources()
        .iter()
        .map(|resource| serde_json::to_value(catalog::to_crd(resource).unwrap()).unwrap())
        .find(|crd| crd["metadata"]["name"] == name)
}

#[test]
fn the_catalog_says_what_the_vendors_crds_say() {
    let Some(vendors) = vendors() else { return };
    let mut found = Vec::new();
    for (name, theirs) in &vendors {
        let ours = our_crd(name).unwrap_or_else(|| panic!("{name} is not in the catalog"));
        let of_crd = differences(&facts(&ours), &facts(theirs));
        found.extend(of_crd.into_iter().map(|line| format!("{name}: {line}")));
    }
    assert!(
        found.is_empty(),
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The comparison sees a change of every sort that it promises to see.
#[test]
fn the_comparison_sees_every_sort_of_change() {
    let ours = our_crd("policyreports.wgpolicyk8s.io").unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let result = format!("{schema}/results/items");
    let column = "/spec/versions/0/additionalPrinterColumns/0";
    let changes: Vec<(String, &str, Value)> = vec![
        (
            format!("{schema}/summary/properties/pass"),
            "type",
            json!("string"),
        ),
        (
            format!("{schema}/summary/properties/pass"),
            "nullable",
            json!(true),
        ),
        (
            format!("{schema}/summary/properties/pass"),
            "minimum",
            json!(0),
        ),
        (
            format!("{result}/properties/timestamp/properties/nanos"),
            "format",
            json!("int64"),
        ),
        (
            format!("{result}/properties/result"),
            "enum",
            json!(["pass"]),
        ),
        (format!("{result}/properties/rule"), "maxLength", json!(10)),
        (result.clone(), "required", json!([])),
        (
            format!("{schema}/results"),
            "x-kubernetes-list-type",
            json!("atomic"),
        ),
        (
            format!("{schema}/scope"),
            "x-kubernetes-map-type",
            json!("granular"),
        ),
        (
            format!("{schema}/scope/properties"),
            "extra",
            json!({"type": "string"}),
        ),
        (column.into(), "priority", json!(1)),
        (column.into(), "name", json!("K")),
        (column.into(), "jsonPath", json!(".scope")),
        ("/spec/names".into(), "shortNames", json!(["polr", "pr"])),
        ("/spec/names".into(), "categories", json!(["kyverno"])),
        ("/spec".into(), "scope", json!("Cluster")),
        ("/spec/versions/0".into(), "served", json!(false)),
    ];
    for (pointer, key, value) in changes {
        let mut edited = ours.clone();
        edited
            .pointer_mut(&pointer)
            .unwrap_or_else(|| panic!("no {pointer}"))[key] = value;
        let seen = differences(&facts(&ours), &facts(&edited));
        assert!(
            !seen.is_empty(),
            "a change of {key} at {pointer} went unseen"
        );
    }
    let mut described = ours.clone();
    described.pointer_mut(&format!("{schema}/scope")).unwrap()["description"] = json!("x");
    assert!(differences(&facts(&ours), &facts(&described)).is_empty());
}
