use rstest::rstest;
use serde_json::{Value, json};

use super::VersionedSet;
use super::{MAX_UPDATE_MANAGERS, Managed, Manager, keep_timestamps};
use crate::set::FieldSet;
use crate::testing::at;

fn with(entries: Value) -> Value {
    json!({"metadata": {"managedFields": entries}})
}

fn entry(manager: &str, operation: &str) -> Value {
    json!({
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:a": {}},
    })
}

#[rstest]
#[case(json!([]), json!([{"operation": "Delete"}]), "operation must be `Apply` or `Update`")]
#[case(json!([]), json!([{"operation": "Apply"}]), "apiVersion must not be empty")]
#[case(
    json!([]),
    json!([{"operation": "Apply", "apiVersion": "v1"}]),
    "missing fieldsType in managed fields entry 0"
)]
#[case(
    json!([entry("a", "Apply")]),
    json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}]),
    "invalid fieldsType \"V2\" in managed fields entry 1"
)]
fn invalid_entries(#[case] valid: Value, #[case] invalid: Value, #[case] error: &str) {
    let mut entries = valid.as_array().unwrap().clone();
    entries.extend(invalid.as_array().unwrap().clone());
    let decoded = Managed::decode(&with(Value::Array(entries)));
    assert_eq!(decoded.unwrap_err().to_string(), error);
}

#[test]
fn entries_of_wrong_types_are_none() {
    let wrong = with(json!([{"manager": 1}]));
    assert_eq!(Managed::decode(&wrong), Ok(Managed::default()));
}

#[test]
fn entries_are_ordered_and_keep_seconds() {
    let mut second = entry("b", "Update");
    second["time"] = json!("2026-01-01T12:00:01Z");
    let mut first = entry("z", "Update");
    first["time"] = json!("2026-01-01T12:00:00.9Z");
    let managed = Managed::decode(&with(json!([
        second,
        first,
        entry("c", "Apply"),
        entry("a", "Update")
    ])));
    let entries = managed.unwrap().encode();
    let order: Vec<(&Value, &Value)> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["manager"], &entry["time"]))
        .collect();
    insta::assert_json_snapshot!(order, @r#"
    [
      [
        "c",
        null
      ],
      [
        "a",
        null
      ],
      [
        "z",
        "2026-01-01T12:00:00Z"
      ],
      [
        "b",
        "2026-01-01T12:00:01Z"
      ]
    ]
    "#);
}

#[rstest]
#[case::kept_when_missing(json!({}), 1)]
#[case::kept_when_invalid(with(json!([{"operation": "Delete"}])), 1)]
#[case::kept_when_null(with(json!(null)), 1)]
#[case::reset_by_an_empty_list(with(json!([])), 0)]
#[case::reset_by_an_empty_entry(with(json!([{}])), 0)]
#[case::edited(with(json!([entry("x", "Apply"), entry("y", "Apply")])), 2)]
fn what_an_update_starts_from(#[case] new: Value, #[case] managers: usize) {
    let live = with(json!([entry("a", "Update")]));
    assert_eq!(
        Managed::of_update(&live, &new, false).managers.len(),
        managers
    );
    assert_eq!(Managed::of_update(&live, &new, true).managers.len(), 1);
}

#[rstest]
#[case(Manager::apply("a", ""), "\"a\"")]
#[case(Manager::apply("a", "status"), "\"a\" with subresource \"status\"")]
#[case(Manager::update("a\"b", "v1", ""), "\"a\\\"b\" using v1")]
#[case(
    Manager::update("a", "g/v1", "status"),
    "\"a\" with subresource \"status\" using g/v1"
)]
fn managers_in_messages(#[case] manager: Manager, #[case] expected: &str) {
    assert_eq!(manager.to_string(), expected);
}

fn updaters(count: i64, version: impl Fn(i64) -> &'static str) -> Managed {
    let mut managed = Managed::default();
    for number in 0..count {
        let writer = Manager::update(format!("m{number:02}"), version(number), "");
        let owned = VersionedSet {
            set: FieldSet::from_iter([crate::Path::of_fields(&[&format!("f{number:02}")])]),
            api_version: version(number).to_owned(),
            applied: false,
        };
        managed.managers.insert(writer.clone(), owned);
        managed.times.insert(writer, at(number));
    }
    managed
}

fn names(managed: &Managed) -> Vec<String> {
    managed
        .managers
        .iter()
        .map(|(manager, owned)| {
            format!(
                "{}:{}:{}",
                manager.name(),
                owned.api_version,
                owned.set.len()
            )
        })
        .collect()
}

#[test]
fn the_oldest_updaters_share_an_entry() {
    let mut managed = updaters(12, |_| "v1");
    let before = managed.managers.len();
    managed.cap();
    assert_eq!(before, 12);
    assert_eq!(managed.managers.len(), MAX_UPDATE_MANAGERS);
    assert_eq!(names(&managed)[0], "ancient-changes:v1:3");
    let bucket = Manager::update("ancient-changes", "v1", "");
    assert_eq!(managed.times.get(&bucket), Some(&at(2)));
}

#[test]
fn versions_do_not_share_an_entry() {
    let mut managed = updaters(12, |number| if number % 2 == 0 { "v1" } else { "v2" });
    managed.cap();
    assert_eq!(managed.managers.len(), MAX_UPDATE_MANAGERS);
    assert_eq!(
        names(&managed)[..2],
        [
            "ancient-changes:v1:2".to_owned(),
            "ancient-changes:v2:2".to_owned()
        ]
    );
}

#[test]
fn ten_updaters_and_any_number_of_appliers_stay() {
    let mut managed = updaters(10, |_| "v1");
    for number in 0..20 {
        let owned = VersionedSet {
            set: FieldSet::new(),
            api_version: "v1".to_owned(),
            applied: true,
        };
        managed
            .managers
            .insert(Manager::apply(format!("a{number}"), ""), owned);
    }
    let before = managed.clone();
    managed.cap();
    assert_eq!(managed, before);
}

#[rstest]
#[case::only_times(json!({"time": "2026-01-01T13:00:00Z"}), json!({}), true)]
#[case::other_fields(json!({"fieldsV1": {"f:b": {}}}), json!({}), false)]
#[case::other_object(json!({"time": "2026-01-01T13:00:00Z"}), json!({"spec": 1}), false)]
fn times_alone_are_no_change(
    #[case] entry_change: Value,
    #[case] change: Value,
    #[case] kept: bool,
) {
    let merged = |mut target: Value, change: Value| {
        for (key, value) in change.as_object().unwrap() {
            target[key] = value.clone();
        }
        target
    };
    let before = merged(
        entry("a", "Update"),
        json!({"time": "2026-01-01T12:00:00Z"}),
    );
    let live = with(json!([before]));
    let new = merged(with(json!([merged(before, entry_change)])), change);
    let mut result = new.clone();
    keep_timestamps(&live, &mut result);
    assert_eq!(result, if kept { live } else { new });
}
