//! The rules of OLM v1 for the upgrade of a CRD, with its defaults: what is stored must stay valid,
//! and mean the same. A change that no rule knows is refused, too; only descriptions are free.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Keys of a schema whose number must not fall, nor be there anew.
const UPPER: [&str; 4] = ["maximum", "maxItems", "maxLength", "maxProperties"];
/// Keys of a schema whose number must not rise, nor be there anew.
const LOWER: [&str; 4] = ["minimum", "minItems", "minLength", "minProperties"];
/// Keys of a schema that other rules look at, or none.
const KNOWN: [&str; 8] = [
    "additionalProperties",
    "default",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "type",
];

/// A rule for the upgrade of a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The scope is for ever.
    Scope,
    /// No version goes.
    VersionRemoved,
    /// No field goes.
    FieldRemoved,
    /// The type is for ever.
    Type,
    /// No field becomes necessary.
    Required,
    /// No value of an enumeration goes, and none begins.
    Enum,
    /// A default is for ever, and so is that there is none.
    Default,
    /// No upper bound falls or begins.
    Upper,
    /// No lower bound rises or begins.
    Lower,
    /// Nothing else changes.
    Other,
}

/// A change that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field, after the name of its version.
    pub path: String,
    /// The rule that refuses it.
    pub rule: Rule,
    /// The change.
    pub change: String,
}

/// Returns everything for which a CRD cannot be replaced by a newer one.
pub fn refusals(old: &Value, new: &Value) -> Vec<Refusal> {
    let mut found = Found::default();
    let (old, new) = (&old["spec"], &new["spec"]);
    if old["scope"] != new["scope"] {
        found.add(Rule::Scope, "", &old["scope"], &new["scope"]);
    }
    let newer = versions(new);
    for (name, schema) in versions(old) {
        match newer.get(name) {
            Some(newer) => found.compare(name, schema, newer),
            None => found.add(Rule::VersionRemoved, name, &Value::Null, &Value::Null),
        }
    }
    found.0
}

/// Returns the schemas of a CRD by their versions.
fn versions(spec: &Value) -> BTreeMap<&str, &Value> {
    let versions = spec["versions"].as_array().into_iter().flatten();
    let named = versions.map(|version| {
        let name = version["name"].as_str().unwrap_or_default();
        (name, &version["schema"]["openAPIV3Schema"])
    });
    named.collect()
}

/// The refused changes that were found.
#[derive(Default)]
struct Found(Vec<Refusal>);

impl Found {
    fn add(&mut self, rule: Rule, path: &str, old: &Value, new: &Value) {
        self.0.push(Refusal {
            path: path.to_owned(),
            rule,
            change: format!("{old} -> {new}"),
        });
    }

    /// Compares two schemas of one field, and all fields below it.
    fn compare(&mut self, path: &str, old: &Value, new: &Value) {
        if old["type"] != new["type"] {
            self.add(Rule::Type, path, &old["type"], &new["type"]);
        }
        if old.get("default") != new.get("default") {
            self.add(Rule::Default, path, &old["default"], &new["default"]);
        }
        if !values(&new["required"]).is_subset(&values(&old["required"])) {
            self.add(Rule::Required, path, &old["required"], &new["required"]);
        }
        if narrows_choices(&old["enum"], &new["enum"]) {
            self.add(Rule::Enum, path, &old["enum"], &new["enum"]);
        }
        for key in UPPER {
            if narrows(&old[key], &new[key], |old, new| new < old) {
                self.add(Rule::Upper, path, &old[key], &new[key]);
            }
        }
        for key in LOWER {
            if narrows(&old[key], &new[key], |old, new| new > old) {
                self.add(Rule::Lower, path, &old[key], &new[key]);
            }
        }
        for key in others(old).union(&others(new)) {
            if old.get(*key) != new.get(*key) {
                self.add(Rule::Other, path, &old[*key], &new[*key]);
            }
        }
        self.compare_below(path, old, new);
    }

    fn compare_below(&mut self, path: &str, old: &Value, new: &Value) {
        let newer = below(new);
        for (name, field) in below(old) {
            let path = format!("{path}{name}");
            match newer.get(&name) {
                Some(newer) => self.compare(&path, field, newer),
                None => self.add(Rule::FieldRemoved, &path, &field["type"], &Value::Null),
            }
        }
    }
}

/// Returns the schemas right below one: of its fields, its items and its entries.
fn below(schema: &Value) -> BTreeMap<String, &Value> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, field)| (format!(".{name}"), field));
    let unnamed = [("items", "[]"), ("additionalProperties", "{}")];
    let unnamed = unnamed.into_iter().filter_map(|(key, suffix)| {
        let inner = schema.get(key)?;
        inner.is_object().then(|| (suffix.to_owned(), inner))
    });
    fields.chain(unnamed).collect()
}

/// Returns the texts of a list.
fn values(list: &Value) -> BTreeSet<String> {
    let values = list.as_array().into_iter().flatten();
    values.map(Value::to_string).collect()
}

/// Returns true when an enumeration begins, or lacks a value that it had.
fn narrows_choices(old: &Value, new: &Value) -> bool {
    let begins = old.is_null() && !new.is_null();
    let lacks = !new.is_null() && !values(old).is_subset(&values(new));
    begins || lacks
}

/// Returns true when a bound begins, or is narrower than it was.
fn narrows(old: &Value, new: &Value, narrower: impl Fn(f64, f64) -> bool) -> bool {
    match (old.as_f64(), new.as_f64()) {
        (None, Some(_)) => true,
        (Some(old), Some(new)) => narrower(old, new),
        (_, None) => false,
    }
}

/// Returns the keys of a schema that no rule knows.
fn others(schema: &Value) -> BTreeSet<&str> {
    let keys = schema.as_object().into_iter().flatten();
    let keys = keys.map(|(key, _)| key.as_str());
    let known = |key: &str| [&KNOWN[..], &UPPER[..], &LOWER[..]].concat().contains(&key);
    keys.filter(|key| !known(key)).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Returns a CRD whose field `spec.field` has a schema.
    fn crd(field: &Value) -> Value {
        let spec = json!({"type": "object", "properties": {"field": field}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        json!({"spec": {"scope": "Cluster", "versions": [version]}})
    }

    /// Returns the rules that refuse a change of a field.
    fn refused(old: &Value, new: &Value) -> Vec<Rule> {
        let found = refusals(&crd(old), &crd(new));
        for refusal in &found {
            assert!(refusal.path.starts_with("v1.spec.field"), "{refusal:?}");
        }
        found.iter().map(|refusal| refusal.rule).collect()
    }

    #[rstest]
    #[case::type_(json!({"type": "string"}), json!({"type": "integer"}), Rule::Type)]
    #[case::required(json!({"required": ["a"]}), json!({"required": ["a", "b"]}), Rule::Required)]
    #[case::value_gone(json!({"enum": ["A", "B"]}), json!({"enum": ["A"]}), Rule::Enum)]
    #[case::values_begin(json!({}), json!({"enum": ["A"]}), Rule::Enum)]
    #[case::default_begins(json!({}), json!({"default": 1}), Rule::Default)]
    #[case::default_ends(json!({"default": 1}), json!({}), Rule::Default)]
    #[case::default_differs(json!({"default": 1}), json!({"default": 2}), Rule::Default)]
    #[case::most(json!({"maximum": 2}), json!({"maximum": 1}), Rule::Upper)]
    #[case::most_items(json!({"maxItems": 2}), json!({"maxItems": 1}), Rule::Upper)]
    #[case::most_length(json!({}), json!({"maxLength": 1}), Rule::Upper)]
    #[case::most_entries(json!({}), json!({"maxProperties": 1}), Rule::Upper)]
    #[case::least(json!({"minimum": 1}), json!({"minimum": 2}), Rule::Lower)]
    #[case::least_items(json!({"minItems": 1}), json!({"minItems": 2}), Rule::Lower)]
    #[case::least_length(json!({}), json!({"minLength": 1}), Rule::Lower)]
    #[case::least_entries(json!({}), json!({"minProperties": 1}), Rule::Lower)]
    #[case::pattern(json!({}), json!({"pattern": "^a$"}), Rule::Other)]
    #[case::rule(json!({}), json!({"x-kubernetes-validations": []}), Rule::Other)]
    #[case::list_type(
        json!({"x-kubernetes-list-type": "atomic"}),
        json!({"x-kubernetes-list-type": "map"}),
        Rule::Other
    )]
    #[case::field(json!({"properties": {"a": {}}}), json!({"properties": {}}), Rule::FieldRemoved)]
    #[case::items(json!({"items": {}}), json!({}), Rule::FieldRemoved)]
    #[case::within_items(
        json!({"items": {"properties": {"a": {}}}}),
        json!({"items": {"properties": {}}}),
        Rule::FieldRemoved
    )]
    #[case::within_entries(
        json!({"additionalProperties": {"type": "string"}}),
        json!({"additionalProperties": {"type": "string", "maxLength": 9}}),
        Rule::Upper
    )]
    fn a_change_that_breaks_objects_is_refused(
        #[case] old: Value,
        #[case] new: Value,
        #[case] rule: Rule,
    ) {
        assert_eq!(refused(&old, &new), [rule]);
    }

    #[rstest]
    #[case::nothing(json!({"maximum": 1}), json!({"maximum": 1}))]
    #[case::description(json!({"description": "a"}), json!({"description": "b"}))]
    #[case::new_field(json!({"properties": {}}), json!({"properties": {"a": {"type": "string"}}}))]
    #[case::no_longer_required(json!({"required": ["a"]}), json!({}))]
    #[case::more_values(json!({"enum": ["A"]}), json!({"enum": ["B", "A"]}))]
    #[case::any_value(json!({"enum": ["A"]}), json!({}))]
    #[case::more(json!({"maximum": 1}), json!({"maximum": 2}))]
    #[case::less(json!({"minLength": 2}), json!({"minLength": 1}))]
    #[case::unbounded(json!({"maxItems": 1, "minItems": 1}), json!({}))]
    fn a_change_that_breaks_none_is_accepted(#[case] old: Value, #[case] new: Value) {
        assert_eq!(refused(&old, &new), Vec::<Rule>::new());
    }

    #[test]
    fn scope_and_versions_stay() {
        let old = crd(&json!({}));
        let mut new = old.clone();
        new["spec"]["scope"] = json!("Namespaced");
        new["spec"]["versions"][0]["name"] = json!("v2");
        let found = refusals(&old, &new);
        let rules: Vec<Rule> = found.iter().map(|refusal| refusal.rule).collect();
        assert_eq!(rules, [Rule::Scope, Rule::VersionRemoved]);
        assert_eq!(found[1].path, "v1");
    }
}
