//! The paths of a resource and their operations.

use serde_json::{Map, Value, json};

use super::{Resource, parameters, reference};
use crate::meta_v1::META;

/// One operation, as the builder of the kube-apiserver names it.
struct Operation {
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// First word of the operation's id.
    verb: &'static str,
    /// The object of the verb, where it is not an object of the resource; written before the scope
    /// in the id.
    noun: &'static str,
    /// Statuses besides 200 and 401.
    statuses: &'static [(&'static str, &'static str)],
    body: Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Object,
    DeleteOptions,
    Patch,
}

const COLLECTION: [Operation; 3] = [
    Operation {
        method: "get",
        action: "list",
        verb: "list",
        noun: "",
        statuses: &[],
        body: Body::None,
    },
    Operation {
        method: "post",
        action: "post",
        verb: "create",
        noun: "",
        statuses: &[("201", "Created"), ("202", "Accepted")],
        body: Body::Object,
    },
    Operation {
        method: "delete",
        action: "deletecollection",
        verb: "delete",
        noun: "Collection",
        statuses: &[],
        body: Body::None,
    },
];

const NAMED: [Operation; 4] = [
    Operation {
        method: "get",
        action: "get",
        verb: "read",
        noun: "",
        statuses: &[],
        body: Body::None,
    },
    Operation {
        method: "put",
        action: "put",
        verb: "replace",
        noun: "",
        statuses: &[("201", "Created")],
        body: Body::Object,
    },
    Operation {
        method: "delete",
        action: "delete",
        verb: "delete",
        noun: "",
        statuses: &[("202", "Accepted")],
        body: Body::DeleteOptions,
    },
    Operation {
        method: "patch",
        action: "patch",
        verb: "patch",
        noun: "",
        statuses: &[],
        body: Body::Patch,
    },
];

/// Patches that custom resources take. Strategic merge patches are none of them: `kubectl apply`
/// would send them if they were listed here.
const PATCHES: [&str; 3] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];

/// Returns all paths of a resource, and no others: those that the kube-apiserver publishes for a
/// CRD.
pub(super) fn paths(resource: &Resource<'_>) -> Map<String, Value> {
    let definition = resource.definition;
    let version = format!("/apis/{}/{}", definition.group, resource.version.name);
    let everywhere = format!("{version}/{}", definition.plural);
    let mut paths = Map::new();
    let mut parents = Vec::new();
    let mut root = everywhere.clone();
    if definition.namespaced {
        root = format!("{version}/namespaces/{{namespace}}/{}", definition.plural);
        let description = "object name and auth scope, such as for teams and projects";
        parents.push(parameters::path("namespace", description));
        paths.insert(everywhere, all_namespaces(resource));
    }
    paths.insert(root.clone(), item(resource, &COLLECTION, parents.clone()));
    let name = parameters::path("name", &format!("name of the {}", definition.kind));
    parents.insert(0, name);
    paths.insert(format!("{root}/{{name}}"), item(resource, &NAMED, parents));
    paths
}

/// Returns the list over all namespaces. Its parameters are at the path, since it is the only
/// operation.
fn all_namespaces(resource: &Resource<'_>) -> Value {
    let list = &COLLECTION[0];
    let mut shared = parameters::query(list.action);
    shared.push(parameters::pretty());
    shared.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({ "get": operation(resource, list, "", "ForAllNamespaces"), "parameters": shared })
}

fn item(resource: &Resource<'_>, operations: &[Operation], mut shared: Vec<Value>) -> Value {
    let scope = if resource.definition.namespaced {
        "Namespaced"
    } else {
        ""
    };
    shared.push(parameters::pretty());
    let mut item = Map::new();
    for kind in operations {
        let mut operation = operation(resource, kind, scope, "");
        operation["parameters"] = parameters::query(kind.action).into();
        item.insert(kind.method.to_owned(), operation);
    }
    item.insert("parameters".to_owned(), Value::Array(shared));
    Value::Object(item)
}

fn operation(resource: &Resource<'_>, kind: &Operation, scope: &str, suffix: &str) -> Value {
    let definition = resource.definition;
    let group = definition.group.trim_end_matches(".k8s.io");
    let version = &resource.version.name;
    let mut operation = json!({
        "tags": [format!("{}_{}", identifier(group, false), identifier(version, false))],
        "description": description(kind, &definition.kind),
        "operationId": format!(
            "{}{}{}{}{scope}{}{suffix}",
            kind.verb,
            identifier(group, true),
            identifier(version, true),
            kind.noun,
            definition.kind,
        ),
        "responses": responses(resource, kind),
        "x-kubernetes-action": kind.action,
        "x-kubernetes-group-version-kind": resource.gvk(&definition.kind),
    });
    if let Some(body) = request_body(resource, kind.body) {
        operation["requestBody"] = body;
    }
    operation
}

fn description(operation: &Operation, kind: &str) -> String {
    let article = match kind.chars().next() {
        Some('A' | 'E' | 'I' | 'O' | 'U') => "an",
        _ => "a",
    };
    match operation.action {
        "list" => format!("list objects of kind {kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        "patch" => format!("partially update the specified {kind}"),
        "get" | "put" => format!("{} the specified {kind}", operation.verb),
        _ => format!("{} {article} {kind}", operation.verb),
    }
}

fn request_body(resource: &Resource<'_>, body: Body) -> Option<Value> {
    let object = resource.model(&resource.definition.kind);
    let content = match body {
        Body::None => return None,
        Body::Object => content(&object),
        Body::DeleteOptions => {
            return Some(json!({ "content": content(&format!("{META}.DeleteOptions")) }));
        }
        Body::Patch => {
            let schema = reference(&format!("{META}.Patch"));
            PATCHES
                .iter()
                .map(|media| ((*media).to_owned(), json!({ "schema": schema })))
                .collect()
        }
    };
    Some(json!({ "content": content, "required": true }))
}

fn responses(resource: &Resource<'_>, operation: &Operation) -> Value {
    let definition = resource.definition;
    let model = match operation.action {
        "list" => resource.model(&definition.list_kind),
        "delete" | "deletecollection" => format!("{META}.Status"),
        _ => resource.model(&definition.kind),
    };
    let mut responses = Map::new();
    for (status, text) in [("200", "OK")].iter().chain(operation.statuses) {
        let response = json!({ "description": text, "content": content(&model) });
        responses.insert((*status).to_owned(), response);
    }
    responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
    Value::Object(responses)
}

fn content(model: &str) -> Map<String, Value> {
    ["application/json", "application/yaml"]
        .into_iter()
        .map(|media| (media.to_owned(), json!({ "schema": reference(model) })))
        .collect()
}

/// Returns a name as a part of an operation's id: `wgpolicyk8s.io` becomes `Wgpolicyk8sIo`.
fn identifier(name: &str, mut capitalize: bool) -> String {
    let mut identifier = String::new();
    for (index, c) in name.char_indices() {
        if c.is_alphabetic() || c == '_' || (index != 0 && c.is_numeric()) {
            if std::mem::take(&mut capitalize) {
                identifier.extend(c.to_uppercase());
            } else {
                identifier.push(c);
            }
        } else {
            capitalize = true;
        }
    }
    identifier
}
