//! The decision about a row. Pure.

use crds::control::StoredResourceStatus;
use serde_json::{Map, Value, json};

use super::MARK;
use super::known::{Known, Namespaces};
use crate::migration::cluster::pages::Key;

/// A row of a table of kyverno/reports-server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The columns `namespace` (empty where the table has none) and `name`.
    pub key: Key,
    /// The column `report` as text; none where it is too large for the server.
    pub report: Option<String>,
    /// Length of that text, in bytes.
    pub bytes: i64,
}

/// A table, and the kind of the reports in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// API group.
    pub group: String,
    /// Plural name, which is also the name of the table.
    pub plural: String,
    /// Kind.
    pub kind: String,
    /// Versions that the server serves, preferred first.
    pub versions: Vec<String>,
    /// True when objects live in namespaces.
    pub namespaced: bool,
}

impl Table {
    /// Returns the table of a stored resource.
    #[must_use]
    pub fn of(group: &str, stored: &StoredResourceStatus) -> Self {
        Self {
            group: group.to_owned(),
            plural: stored.resource.clone(),
            kind: stored.kind.clone(),
            versions: stored.versions.clone(),
            namespaced: stored.namespaced,
        }
    }

    /// Returns the `apiVersion` with which an object is imported, for its own one. Reports are
    /// stored without one where a client has sent none.
    fn api_version(&self, own: &str) -> Result<String, Unusable> {
        let Self {
            group, versions, ..
        } = self;
        let (of, version) = own.split_once('/').unwrap_or((own, ""));
        match versions.iter().find(|served| *served == version) {
            Some(served) if of == group => Ok(format!("{group}/{served}")),
            _ if own.is_empty() => {
                let preferred = versions.first().map(String::as_str).unwrap_or_default();
                Ok(format!("{group}/{preferred}"))
            }
            _ => Err(Unusable::Kind(own.to_owned())),
        }
    }
}

/// The reason why a row is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The server takes no object of this size.
    #[error("it has {0} bytes, which is more than the server takes")]
    TooLarge(i64),
    /// It is not JSON, or no object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// It has another kind or version.
    #[error("it is of {0:?}")]
    Kind(String),
    /// It has another name or namespace than its row.
    #[error("it says {found:?} in metadata.{field}")]
    Misplaced {
        /// The field, which is one of the two.
        field: &'static str,
        /// The value of the field.
        found: String,
    },
    /// A part of the metadata is missing.
    #[error("it has no metadata.{0}")]
    Missing(&'static str),
}

/// The decision about a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It is imported, as this object.
    Import(Value),
    /// An earlier attempt has imported it.
    Imported,
    /// The server has a report of this name, or has deleted one.
    Present,
    /// The namespace does not exist.
    NoNamespace,
    /// It is no report.
    Unusable(Unusable),
}

/// Decides on a row.
#[must_use]
pub fn fate(row: &Row, table: &Table, known: &Known, namespaces: &Namespaces) -> Fate {
    if known.imported.contains(&row.key) {
        return Fate::Imported;
    }
    if known.stored.contains(&row.key) {
        return Fate::Present;
    }
    match object(row, table) {
        Err(why) => Fate::Unusable(why),
        Ok(_) if table.namespaced && !namespaces.has(&row.key.namespace) => Fate::NoNamespace,
        Ok(object) => Fate::Import(object),
    }
}

/// Returns the object of a row for the server: everything of its own, and the version by which the
/// import is known again.
fn object(row: &Row, table: &Table) -> Result<Value, Unusable> {
    let text = row.report.as_ref().ok_or(Unusable::TooLarge(row.bytes))?;
    let Ok(Value::Object(mut object)) = serde_json::from_str(text) else {
        return Err(Unusable::NotAnObject);
    };
    let own_kind = text_of(&object, "kind");
    if !own_kind.is_empty() && own_kind != table.kind {
        return Err(Unusable::Kind(own_kind.to_owned()));
    }
    let api_version = table.api_version(text_of(&object, "apiVersion"))?;
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or(Unusable::Missing("name"))?;
    for (field, column) in [("name", &row.key.name), ("namespace", &row.key.namespace)] {
        let found = text_of(metadata, field);
        if found != column {
            let found = found.to_owned();
            return Err(Unusable::Misplaced { field, found });
        }
    }
    for field in ["uid", "creationTimestamp"] {
        if text_of(metadata, field).is_empty() {
            return Err(Unusable::Missing(field));
        }
    }
    metadata.insert("resourceVersion".to_owned(), json!(MARK.to_string()));
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(table.kind.clone()));
    Ok(Value::Object(object))
}

fn text_of<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let text = object.get(field).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn table(namespaced: bool) -> Table {
        Table {
            group: "wgpolicyk8s.io".to_owned(),
            plural: "policyreports".to_owned(),
            kind: "PolicyReport".to_owned(),
            versions: vec!["v1alpha2".to_owned(), "v1beta1".to_owned()],
            namespaced,
        }
    }

    fn row(report: &Value) -> Row {
        Row {
            key: Key {
                namespace: "team".to_owned(),
                name: "a".to_owned(),
            },
            report: Some(report.to_string()),
            bytes: 7,
        }
    }

    fn report() -> Value {
        json!({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
            "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "77",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"l": "1"},
                "annotations": {"a": "2"}, "ownerReferences": [{"uid": "o"}]},
            "results": [{"result": "pass"}], "unknown": {"field": 1}})
    }

    fn decide(row: &Row) -> Fate {
        fate(
            row,
            &table(true),
            &Known::default(),
            &Namespaces::of(&["team"]),
        )
    }

    #[test]
    fn all_of_a_report_is_kept_but_its_version() {
        let mut wanted = report();
        wanted["metadata"]["resourceVersion"] = json!("1");
        assert_eq!(decide(&row(&report())), Fate::Import(wanted));
    }

    #[test]
    fn a_report_without_kind_and_version_gets_the_servers_preferred_ones() {
        let mut bare = report();
        bare.as_object_mut()
            .unwrap()
            .retain(|name, _| name != "kind" && name != "apiVersion");
        let Fate::Import(object) = decide(&row(&bare)) else {
            panic!("it is a report");
        };
        assert_eq!(object["apiVersion"], "wgpolicyk8s.io/v1alpha2");
        assert_eq!(object["kind"], "PolicyReport");
        let mut other = report();
        other["apiVersion"] = json!("wgpolicyk8s.io/v1beta1");
        let Fate::Import(object) = decide(&row(&other)) else {
            panic!("the server serves that version");
        };
        assert_eq!(object["apiVersion"], "wgpolicyk8s.io/v1beta1");
    }

    #[rstest]
    #[case::number(json!(7), Unusable::NotAnObject)]
    #[case::list(json!([]), Unusable::NotAnObject)]
    #[case::no_metadata(json!({}), Unusable::Missing("name"))]
    #[case::other_group(json!({"apiVersion": "a.b/v1alpha2"}), Unusable::Kind("a.b/v1alpha2".into()))]
    #[case::other_version(json!({"apiVersion": "wgpolicyk8s.io/v9"}), Unusable::Kind("wgpolicyk8s.io/v9".into()))]
    #[case::other_kind(json!({"kind": "Pod"}), Unusable::Kind("Pod".into()))]
    #[case::other_name(json!({"metadata": {"name": "b"}}), Unusable::Misplaced { field: "name", found: "b".into() })]
    #[case::no_namespace(json!({"metadata": {"name": "a"}}), Unusable::Misplaced { field: "namespace", found: String::new() })]
    #[case::no_uid(json!({"metadata": {"name": "a", "namespace": "team"}}), Unusable::Missing("uid"))]
    #[case::no_age(json!({"metadata": {"name": "a", "namespace": "team", "uid": "u", "creationTimestamp": null}}), Unusable::Missing("creationTimestamp"))]
    fn what_is_no_report_is_named(#[case] report: Value, #[case] why: Unusable) {
        assert_eq!(decide(&row(&report)), Fate::Unusable(why));
    }

    #[test]
    fn a_report_that_is_too_large_was_not_even_read() {
        let large = Row {
            report: None,
            bytes: 5_000_000,
            ..row(&report())
        };
        assert_eq!(
            decide(&large),
            Fate::Unusable(Unusable::TooLarge(5_000_000))
        );
    }

    #[test]
    fn what_the_server_knows_stays_and_what_was_imported_is_not_imported_again() {
        let row = row(&report());
        let there = Namespaces::of(&["team"]);
        let item = |version: &str| crds::control::DigestItem {
            namespace: "team".to_owned(),
            name: "a".to_owned(),
            resource_version: version.to_owned(),
            ..crds::control::DigestItem::default()
        };
        let fate = |marks, objects| fate(&row, &table(true), &Known::of(marks, objects), &there);
        assert_eq!(fate(vec![], vec![item("500")]), Fate::Present);
        // Copied from etcd, and deleted since.
        assert_eq!(fate(vec![item("12")], vec![]), Fate::Present);
        assert_eq!(fate(vec![item("1")], vec![item("500")]), Fate::Imported);
        // Imported by an attempt that was cut off, and deleted since.
        assert_eq!(fate(vec![item("1")], vec![]), Fate::Imported);
    }

    #[test]
    fn a_report_needs_its_namespace_where_its_kind_has_them() {
        let none = Namespaces::default();
        let known = Known::default();
        let row = row(&report());
        assert_eq!(fate(&row, &table(true), &known, &none), Fate::NoNamespace);
        let mut of_cluster = report();
        of_cluster["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        let row = Row {
            key: Key {
                namespace: String::new(),
                name: "a".to_owned(),
            },
            report: Some(of_cluster.to_string()),
            bytes: 7,
        };
        let fate = fate(&row, &table(false), &known, &none);
        assert!(matches!(fate, Fate::Import(_)), "{fate:?}");
    }
}
