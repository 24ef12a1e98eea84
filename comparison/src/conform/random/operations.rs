//! Sequences of operations, as steps of a case.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::objects::{Values, contents, name, odd};
use super::{patches, raw};
use crate::conform::target::Target;

/// Names of the objects in a sequence: few, so that operations meet.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
const MANAGERS: [&str; 3] = ["one", "two", "three"];

/// Returns sequences of steps on objects of a kind. A step that was drawn may be several.
pub fn sequences(target: &Target, length: usize) -> BoxedStrategy<Vec<Vec<Value>>> {
    vec(operation(target), 2..=length)
        .prop_map(number_watches)
        .boxed()
}

/// Numbers the watches of a sequence, as every watch needs a name of its own.
fn number_watches(mut sequence: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let watches = sequence
        .iter_mut()
        .flatten()
        .filter(|step| step["watch"].is_string());
    for (number, step) in watches.enumerate() {
        step["watch"] = json!(format!("w{number}"));
    }
    sequence
}

fn operation(target: &Target) -> BoxedStrategy<Vec<Value>> {
    let contents = contents(&target.schema);
    let single = |step: BoxedStrategy<Value>| step.prop_map(|step| vec![step]).boxed();
    prop_oneof![
        5 => single(create(target, &contents)),
        1 => single(get()),
        2 => single(list()),
        1 => pages(target, &contents),
        4 => single(update(&contents)),
        4 => single(patches::merge(&contents)),
        2 => single(patches::json(target)),
        2 => single(patches::odd(target, &contents)),
        4 => single(apply(target, &contents)),
        2 => single(raw_write(target, &contents)),
        3 => single(delete()),
        1 => single(finalizers()),
        1 => single(delete_collection()),
        1 => single(watch()),
    ]
    .boxed()
}

fn create(target: &Target, contents: &Values) -> BoxedStrategy<Value> {
    let small = Just(target.report("a")).boxed();
    let drawn = contents.clone();
    let body = prop_oneof![1 => small, 3 => drawn];
    let target = target.clone();
    (item(), body, metadata(), options())
        .prop_map(move |(item, body, metadata, query)| {
            let mut step = json!({"do": format!("POST ${{collection}}{query}"),
                "body": object(&target, item, body, metadata)});
            if !query.contains("dryRun") {
                step["save"] = saved(item);
            }
            step
        })
        .boxed()
}

/// Returns the values that are kept of an object that was answered.
fn saved(item: &str) -> Value {
    json!({format!("object-{item}"): "", format!("rv-{item}"): "/metadata/resourceVersion"})
}

fn object(target: &Target, item: &str, mut content: Value, metadata: Value) -> Value {
    if !content.is_object() {
        content = json!({});
    }
    content["apiVersion"] = json!(format!("{}/{}", target.group, target.version));
    content["kind"] = json!(target.kind);
    content["metadata"] = metadata;
    content["metadata"]["name"] = json!(item);
    content
}

/// Returns the metadata beside the name.
pub fn metadata() -> Values {
    let labels = select(vec![
        json!({"in": "yes"}),
        json!({"in": "no", "app": "a"}),
        json!({}),
        json!({"app": "b c"}),
    ]);
    let annotations = (name(), odd());
    (
        option::of(labels),
        option::weighted(0.2, annotations),
        option::weighted(0.1, odd_field()),
    )
        .prop_map(|(labels, annotation, field)| {
            let mut metadata = json!({});
            if let Some(labels) = labels {
                metadata["labels"] = labels;
            }
            if let Some((name, value)) = annotation {
                metadata["annotations"] = json!({name: value});
            }
            if let Some((field, value)) = field {
                metadata[field] = value;
            }
            metadata
        })
        .boxed()
}

/// Returns a field of metadata with a value that it may not have, or that is ignored.
fn odd_field() -> BoxedStrategy<(&'static str, Value)> {
    let field = select(vec![
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
        "unknown",
    ]);
    // The garbage collector cannot find out whether there is such an owner, and leaves it alone.
    let owner = json!([{"apiVersion": "example.org/v1", "kind": "Owner", "name": "a", "uid": "a"}]);
    prop_oneof![
        4 => (field, odd()),
        1 => Just(("ownerReferences", owner)),
    ]
    .boxed()
}

/// Returns parameters of writes.
pub fn options() -> BoxedStrategy<String> {
    let manager = select(MANAGERS.to_vec()).prop_map(|name| format!("?fieldManager={name}"));
    prop_oneof![
        5 => Just(String::new()),
        1 => Just("?dryRun=All".to_owned()),
        1 => Just("?fieldValidation=Strict".to_owned()),
        1 => Just("?fieldValidation=Ignore".to_owned()),
        2 => manager,
    ]
    .boxed()
}

/// Returns one of the names.
pub fn item() -> BoxedStrategy<&'static str> {
    select(NAMES.to_vec()).boxed()
}

fn get() -> BoxedStrategy<Value> {
    let accept = select(vec![
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ]);
    (item(), accept, select(vec!["", "?resourceVersion=0", "?pretty=1"]))
        .prop_map(|(item, accept, query)| {
            json!({"do": format!("GET ${{item {item}}}{query}"), "headers": {"accept": accept}})
        })
        .boxed()
}

fn selector() -> BoxedStrategy<&'static str> {
    select(vec![
        "",
        "labelSelector=in%3Dyes",
        "labelSelector=in!%3Dyes",
        "labelSelector=in",
        "labelSelector=!app",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name!%3Da",
    ])
    .boxed()
}

fn list() -> BoxedStrategy<Value> {
    let version = select(vec![
        "",
        "resourceVersion=0",
        "resourceVersion=${rv-a}",
        "resourceVersion=${rv-a}&resourceVersionMatch=NotOlderThan",
        "resourceVersion=${rv-b}&resourceVersionMatch=Exact",
    ]);
    let limit = select(vec!["", "limit=1", "limit=2"]);
    (selector(), version, limit)
        .prop_map(|(selector, version, limit)| {
            json!({"do": format!("GET ${{collection}}?{selector}&{version}&{limit}")})
        })
        .boxed()
}

/// Returns a page, a write, and the pages that follow.
fn pages(target: &Target, contents: &Values) -> BoxedStrategy<Vec<Value>> {
    (create(target, contents), delete(), any::<bool>())
        .prop_map(|(create, delete, creates)| {
            let next = "GET ${collection}?limit=1&continue=${token}";
            let save = json!({"token": "/metadata/continue"});
            vec![
                json!({"do": "GET ${collection}?limit=1", "save": save}),
                if creates { create } else { delete },
                json!({"do": next, "save": save}),
                json!({"do": next, "save": save}),
            ]
        })
        .boxed()
}

fn update(contents: &Values) -> BoxedStrategy<Value> {
    let version = prop_oneof![
        4 => Just(None),
        1 => Just(Some(json!("${rv-a}"))),
        1 => Just(Some(json!(""))),
        1 => Just(Some(json!("1"))),
    ];
    let change = option::of((contents.clone(), any::<Index>()));
    (item(), version, change, option::of(metadata()), options())
        .prop_map(|(item, version, change, metadata, query)| {
            let mut set = serde_json::Map::new();
            if let Some((content, at)) = change
                && let Some(fields) = content.as_object().filter(|fields| !fields.is_empty())
            {
                let (key, value) = fields.iter().nth(at.index(fields.len())).unzip();
                let pointer = format!("/{}", key.map_or("x", String::as_str).replace('/', "~1"));
                set.insert(pointer, value.cloned().unwrap_or_default());
            }
            if let Some(labels) = metadata.and_then(|metadata| metadata.get("labels").cloned()) {
                set.insert("/metadata/labels".to_owned(), labels);
            }
            if let Some(version) = version {
                set.insert("/metadata/resourceVersion".to_owned(), version);
            }
            let mut step = json!({"do": format!("PUT ${{item {item}}}{query}"),
                "body": format!("${{object-{item}}}"), "set": set});
            if !query.contains("dryRun") {
                step["save"] = saved(item);
            }
            step
        })
        .boxed()
}

fn apply(target: &Target, contents: &Values) -> BoxedStrategy<Value> {
    let target = target.clone();
    let manager = select(MANAGERS.to_vec());
    let force = select(vec!["", "&force=true", "&force=true", "&dryRun=All"]);
    (item(), contents.clone(), metadata(), manager, force)
        .prop_map(move |(item, content, mut metadata, manager, force)| {
            without_nothing(&mut metadata);
            let query = format!("?fieldManager={manager}{force}");
            json!({"do": format!("PATCH ${{item {item}}}{query}"),
                "body": object(&target, item, content, metadata),
                "type": "application/apply-patch+yaml"})
        })
        .boxed()
}

/// Returns a write of a body that no client library would make.
fn raw_write(target: &Target, contents: &Values) -> BoxedStrategy<Value> {
    let whole = |applied: bool| {
        let target = target.clone();
        (item(), contents.clone(), metadata())
            .prop_map(move |(item, content, mut metadata)| {
                if applied {
                    without_nothing(&mut metadata);
                }
                object(&target, item, content, metadata)
            })
            .boxed()
    };
    let create = raw::bytes(whole(false), raw::WAYS)
        .prop_map(|bytes| json!({"do": "POST ${collection}", "bytes": bytes}));
    let change = |method: &'static str, query: &'static str, kind: &'static str| {
        let applied = kind.ends_with("yaml");
        // See the deviation about the version of YAML.
        let ways = if applied { raw::YAML_WAYS } else { raw::WAYS };
        let bytes = raw::bytes(whole(applied), ways);
        (item(), bytes).prop_map(move |(item, bytes)| {
            json!({"do": format!("{method} ${{item {item}}}{query}"), "bytes": bytes, "type": kind})
        })
    };
    prop_oneof![
        3 => create,
        2 => change("PUT", "", "application/json"),
        1 => change("PUT", "?fieldValidation=Strict", "application/json"),
        2 => change("PATCH", "", "application/merge-patch+json"),
        1 => change("PATCH", "?fieldManager=one&force=true", "application/apply-patch+yaml"),
        1 => change("PATCH", "?fieldManager=two&force=1&fieldValidation=Strict",
            "application/apply-patch+yaml"),
    ]
    .boxed()
}

/// Takes away empty values: see the deviation about applying them.
fn without_nothing(metadata: &mut Value) {
    if let Value::Object(fields) = metadata {
        fields.retain(|field, value| {
            !field.starts_with("deletion") && !value.is_null() && *value != json!({})
        });
    }
}

fn delete() -> BoxedStrategy<Value> {
    let body = select(vec![
        json!({}),
        json!({"propagationPolicy": "Background"}),
        json!({"preconditions": {"resourceVersion": "${rv-a}"}}),
        json!({"preconditions": {"resourceVersion": "${rv-b}"}}),
        json!({"preconditions": {"uid": "11111111-1111-4111-8111-111111111111"}}),
        json!({"dryRun": ["All"]}),
        json!({"gracePeriodSeconds": 0}),
    ]);
    (item(), body)
        .prop_map(|(item, body)| json!({"do": format!("DELETE ${{item {item}}}"), "body": body}))
        .boxed()
}

fn finalizers() -> BoxedStrategy<Value> {
    let value = select(vec![
        json!(["example.com/hold"]),
        json!(["example.com/hold", "example.com/more"]),
        Value::Null,
    ]);
    (item(), value)
        .prop_map(|(item, value)| {
            json!({"do": format!("PATCH ${{item {item}}}"),
                "body": {"metadata": {"finalizers": value}},
                "type": "application/merge-patch+json"})
        })
        .boxed()
}

fn delete_collection() -> BoxedStrategy<Value> {
    (selector(), select(vec!["", "&dryRun=All"]))
        .prop_map(
            |(selector, dry)| json!({"do": format!("DELETE ${{collection}}?{selector}{dry}")}),
        )
        .boxed()
}

fn watch() -> BoxedStrategy<Value> {
    let version = select(vec!["${rv-a}", "${rv-b}", "0", ""]);
    let accept = select(vec![
        "application/json",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ]);
    (selector(), version, accept)
        .prop_map(|(selector, version, accept)| {
            let uri = format!("${{collection}}?watch=1&{selector}&resourceVersion={version}");
            json!({"watch": "w", "uri": uri, "headers": {"accept": accept}})
        })
        .boxed()
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::conform::step::Step;
    use crate::conform::target;

    #[test]
    fn nothing_is_applied_as_nothing() {
        let mut metadata = json!({"labels": {}, "deletionTimestamp": 1, "uid": null, "name": ""});
        without_nothing(&mut metadata);
        assert_eq!(metadata, json!({"name": ""}));
    }

    #[test]
    fn every_sequence_is_a_case() {
        let targets = target::targets(&target::crds(true).unwrap());
        let mut runner = TestRunner::deterministic();
        for target in &targets {
            for _ in 0..30 {
                let tree = sequences(target, 12).new_tree(&mut runner).unwrap();
                for step in tree.current().into_iter().flatten() {
                    let text = step.to_string();
                    assert!(Step::parse(step).is_ok(), "{text}");
                }
            }
        }
    }
}
