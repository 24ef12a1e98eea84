//! Descriptors of a CRD's fields, from its schema: forms and pages of consoles show them.

use serde_json::{Value, json};

/// Fields of the specification that have the shape of a Pod's. What is below them is Kubernetes'.
const KUBERNETES_OWN: [&str; 4] = [
    "affinity",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
];

const UI: &str = "urn:alm:descriptor:com.tectonic.ui";
const KUBERNETES: &str = "urn:alm:descriptor:io.kubernetes";
/// Text on a page of the status.
const TEXT: &str = "urn:alm:descriptor:text";

/// Words of field names that are written in their own way.
const ABBREVIATIONS: [(&str, &str); 9] = [
    ("api", "API"),
    ("apis", "APIs"),
    ("ca", "CA"),
    ("id", "ID"),
    ("pvc", "PVC"),
    ("sql", "SQL"),
    ("tls", "TLS"),
    ("uid", "UID"),
    ("url", "URL"),
];

/// A part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `spec`
    Spec,
    /// `status`
    Status,
}

/// Returns the descriptors of every field of a part, each before those below it. `schema` is that of
/// the object.
pub(super) fn descriptors(schema: &Value, side: Side) -> Vec<Value> {
    let field = match side {
        Side::Spec => "spec",
        Side::Status => "status",
    };
    let mut found = Vec::new();
    walk(&schema["properties"][field], "", side, &mut found);
    found
}

/// Adds the descriptors of the fields below the one at `path`, which has this schema.
fn walk(schema: &Value, path: &str, side: Side, found: &mut Vec<Value>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        found.push(json!({
            "path": below,
            "displayName": display_name(name),
            "description": first_sentence(field["description"].as_str().unwrap_or_default()),
            "x-descriptors": widgets(&below, name, field, side),
        }));
        if !is_kubernetes_own(name, side) {
            walk(field, &below, side, found);
            walk(&field["items"], &format!("{below}[0]"), side, found);
        }
    }
}

/// Returns true for a field of the specification that has the shape of a Pod's.
fn is_kubernetes_own(name: &str, side: Side) -> bool {
    side == Side::Spec && KUBERNETES_OWN.contains(&name)
}

/// Returns how a field is shown.
fn widgets(path: &str, name: &str, field: &Value, side: Side) -> Vec<String> {
    if side == Side::Status {
        return vec![status_widget(name)];
    }
    let mut all = spec_widgets(path, name, field);
    all.extend(group(path));
    all
}

fn status_widget(name: &str) -> String {
    match name {
        "conditions" => format!("{KUBERNETES}.conditions"),
        "phase" => format!("{KUBERNETES}.phase"),
        _ => TEXT.to_owned(),
    }
}

fn spec_widgets(path: &str, name: &str, field: &Value) -> Vec<String> {
    let one = |widget: &str| vec![format!("{UI}:{widget}")];
    if name == "resources" {
        return one("resourceRequirements");
    }
    if is_kubernetes_own(name, Side::Spec) {
        return one("advanced");
    }
    let choices = field["enum"].as_array().into_iter().flatten();
    let choices = choices.filter_map(Value::as_str);
    let choices: Vec<String> = choices
        .map(|choice| format!("{UI}:select:{choice}"))
        .collect();
    if !choices.is_empty() {
        return choices;
    }
    match field["type"].as_str().unwrap_or_default() {
        "boolean" => one("booleanSwitch"),
        "integer" | "number" => one("number"),
        "object" if field["properties"].is_object() => one(&format!("fieldGroup:{path}")),
        "array" if field["items"]["properties"].is_object() => {
            one(&format!("arrayFieldGroup:{path}"))
        }
        "object" | "array" => one("advanced"),
        _ => vec![text_widget(path, name)],
    }
}

/// Returns how a text is shown: as the choice of an object where it is the name of one.
fn text_widget(path: &str, name: &str) -> String {
    if name == "targetNamespace" {
        return format!("{KUBERNETES}:Namespace");
    }
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    let of_secret = parent.ends_with("ecretRef") || parent.ends_with("pullSecrets[0]");
    if name == "name" && of_secret {
        return format!("{KUBERNETES}:Secret");
    }
    format!("{UI}:text")
}

/// Returns the group that a form shows a field in: the field above it.
fn group(path: &str) -> Option<String> {
    let (parent, _) = path.rsplit_once('.')?;
    Some(match parent.strip_suffix("[0]") {
        Some(list) => format!("{UI}:arrayFieldGroup:{list}"),
        None => format!("{UI}:fieldGroup:{parent}"),
    })
}

/// Returns the name of a field for people: `targetNamespace` is "Target Namespace".
fn display_name(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut within_capitals = false;
    for letter in name.chars() {
        let begins = letter.is_uppercase() && !within_capitals;
        within_capitals = letter.is_uppercase();
        match words.last_mut() {
            Some(word) if !begins => word.push(letter),
            _ => words.push(letter.to_string()),
        }
    }
    let titles: Vec<String> = words.iter().map(|word| titled(word)).collect();
    titles.join(" ")
}

fn titled(word: &str) -> String {
    let lower = word.to_lowercase();
    let known = ABBREVIATIONS.iter().find(|(short, _)| *short == lower);
    if let Some((_, written)) = known {
        return (*written).to_owned();
    }
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Returns the first sentence of a description.
fn first_sentence(text: &str) -> String {
    let end = text.find(". ").map_or(text.len(), |dot| dot + 1);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("suspend", "Suspend")]
    #[case("targetNamespace", "Target Namespace")]
    #[case("apis", "APIs")]
    #[case("apiServerCIDRs", "API Server CIDRs")]
    #[case("clusterID", "Cluster ID")]
    #[case("cloudNativePG", "Cloud Native PG")]
    fn fields_are_named_for_people(#[case] field: &str, #[case] expected: &str) {
        assert_eq!(display_name(field), expected);
    }

    #[rstest]
    #[case("", "")]
    #[case("One.", "One.")]
    #[case("Such as `a.b`. More.", "Such as `a.b`.")]
    #[case("Without a point", "Without a point")]
    fn a_description_is_one_sentence(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(first_sentence(text), expected);
    }

    #[rstest]
    #[case("dryRun", json!({"type": "boolean"}), &["booleanSwitch"])]
    #[case("pageSize", json!({"type": "integer"}), &["number"])]
    #[case("mode", json!({"type": "string", "enum": ["A", "B"]}), &["select:A", "select:B"])]
    #[case("pool", json!({"type": "object", "properties": {}}), &["fieldGroup:pool"])]
    #[case("labels", json!({"type": "object"}), &["advanced"])]
    #[case("apis", json!({"type": "array", "items": {"properties": {}}}), &["arrayFieldGroup:apis"])]
    #[case("resources", json!({"type": "object"}), &["resourceRequirements"])]
    #[case("affinity", json!({"type": "object", "properties": {}}), &["advanced"])]
    fn a_field_is_shown_by_its_type(
        #[case] name: &str,
        #[case] field: Value,
        #[case] expected: &[&str],
    ) {
        let expected: Vec<String> = expected
            .iter()
            .map(|widget| format!("{UI}:{widget}"))
            .collect();
        assert_eq!(widgets(name, name, &field, Side::Spec), expected);
    }

    #[test]
    fn a_field_is_in_the_group_of_the_field_above_it() {
        let text = json!({"type": "string"});
        let shown = widgets("a.b", "b", &text, Side::Spec);
        assert_eq!(shown, [format!("{UI}:text"), format!("{UI}:fieldGroup:a")]);
        let shown = widgets("a[0].b", "b", &text, Side::Spec);
        let group = format!("{UI}:arrayFieldGroup:a");
        assert_eq!(shown, [format!("{UI}:text"), group]);
    }

    #[test]
    fn names_of_objects_are_choices() {
        let text = json!({"type": "string"});
        for path in ["external.connectionSecretRef.name", "pullSecrets[0].name"] {
            let shown = widgets(path, "name", &text, Side::Spec);
            assert_eq!(shown[0], format!("{KUBERNETES}:Secret"), "{path}");
        }
        let shown = widgets("targetNamespace", "targetNamespace", &text, Side::Spec);
        assert_eq!(shown, [format!("{KUBERNETES}:Namespace")]);
    }

    /// Only the specification has fields of a Pod's shape.
    #[test]
    fn every_field_below_is_found() {
        let resources = json!({"type": "object", "properties": {"total": {"type": "integer"}}});
        let part = json!({"properties": {
            "list": {"type": "array", "items": {"properties": {"x": {"type": "string"}}}},
            "resources": resources,
        }});
        let schema = json!({"properties": {"spec": part, "status": part}});
        let paths = |side| -> Vec<Value> {
            let found = descriptors(&schema, side).into_iter();
            found.map(|one| one["path"].clone()).collect()
        };
        assert_eq!(paths(Side::Spec), ["list", "list[0].x", "resources"]);
        let status = ["list", "list[0].x", "resources", "resources.total"];
        assert_eq!(paths(Side::Status), status);
    }
}
