//! The parameters of operations.

use serde_json::{Value, json};

/// Name, type and meaning of a query parameter.
type Query = (&'static str, &'static str, &'static str);

const DRY_RUN: Query = (
    "dryRun",
    "string",
    "When All, everything is done but the last step: nothing is stored. No other value is allowed.",
);
const FIELD_MANAGER: Query = (
    "fieldManager",
    "string",
    "Name under which the changed fields are managed; at most 128 printable characters. Without it \
     the name is taken from the user agent. Required for apply patches.",
);
const FIELD_VALIDATION: Query = (
    "fieldValidation",
    "string",
    "What becomes of unknown and duplicate fields. Ignore: they are dropped. Warn, the default: \
     they are dropped with a warning for each. Strict: the request is refused.",
);
const FORCE: Query = (
    "force",
    "boolean",
    "Whether an apply patch takes over fields that other managers own. Only for apply patches.",
);
const RESOURCE_VERSION: Query = (
    "resourceVersion",
    "string",
    "Bounds the resource versions that may answer the request. More info: \
     https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions",
);

const LIST: [Query; 10] = [
    (
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch may carry events of type BOOKMARK, which tell how far it has come. Without \
         meaning for lists.",
    ),
    (
        "continue",
        "string",
        "Token of a former page, which asks for the next one with otherwise equal parameters. A \
         token that is too old is answered with 410 and a new token, which goes on inconsistently.",
    ),
    (
        "fieldSelector",
        "string",
        "Restricts the objects by their fields. Without it all are returned.",
    ),
    (
        "labelSelector",
        "string",
        "Restricts the objects by their labels. Without it all are returned.",
    ),
    (
        "limit",
        "integer",
        "Most objects in an answer. If there are more, the list's continue field holds the token of \
         the next page; all pages show the state at the time of the first.",
    ),
    RESOURCE_VERSION,
    (
        "resourceVersionMatch",
        "string",
        "How resourceVersion bounds a list: Exact or NotOlderThan. More info: \
         https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Whether a watch begins with an event for each object there is, and then a bookmark with the \
         annotation k8s.io/initial-events-end. Requires resourceVersionMatch=NotOlderThan.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "Ends the call after this time, whatever happens on it.",
    ),
    (
        "watch",
        "boolean",
        "Asks for the stream of changes since resourceVersion, not for the list.",
    ),
];

const DELETE: [Query; 5] = [
    DRY_RUN,
    (
        "gracePeriodSeconds",
        "integer",
        "Time before the object is deleted. Without meaning for custom resources.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read may be deleted regardless.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated: use propagationPolicy. Whether the object's dependents are left without owner.",
    ),
    (
        "propagationPolicy",
        "string",
        "What becomes of the object's dependents: Orphan, Background or Foreground.",
    ),
];

/// Returns the query parameters of an operation, by its `x-kubernetes-action`.
pub(super) fn query(action: &str) -> Vec<Value> {
    let parameters: &[Query] = match action {
        "get" => &[RESOURCE_VERSION],
        "list" | "deletecollection" => &LIST,
        "post" | "put" => &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
        "patch" => &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE],
        "delete" => &DELETE,
        _ => &[],
    };
    parameters
        .iter()
        .map(|(name, type_, description)| parameter(name, "query", type_, description))
        .collect()
}

/// Returns the parameter of all operations.
pub(super) fn pretty() -> Value {
    let description = "If 'true', the output is indented. Without it, it is for user agents that are \
                       browsers or command line tools (curl and wget).";
    parameter("pretty", "query", "string", description)
}

/// Returns a parameter of the path.
pub(super) fn path(name: &str, description: &str) -> Value {
    let mut parameter = parameter(name, "path", "string", description);
    parameter["required"] = true.into();
    parameter
}

fn parameter(name: &str, place: &str, type_: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": place,
        "description": description,
        "schema": { "type": type_, "uniqueItems": true },
    })
}
