//! `DeleteOptions`, in JSON, YAML and protobuf.

use apimachinery::protobuf;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use reports_server::api::options::DeleteOptions;
use serde_json::{Value, json};

use crate::parts::refused;
use crate::server::context;

const TYPES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// A body in each encoding, and a document in protobuf that is made of it.
pub fn delete_options(data: &[u8]) {
    let mut ctx = context(
        "DELETE",
        "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports/a",
    );
    for type_ in TYPES {
        ctx.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(type_));
        match DeleteOptions::read(&ctx, data) {
            Ok(options) => assert!(options.propagation.is_some() || !options.accepted_when_waiting),
            Err(error) => refused(&error, &[400, 422], data),
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        written_and_read(text);
    }
}

/// Options with the lines of a text as their values come through protobuf as they are.
fn written_and_read(text: &str) {
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default();
    let (version, kind, uid, rv, policy) = (line(), line(), line(), line(), line());
    let (seconds, orphan) = (line().parse::<i64>().ok(), line() == "true");
    let dry_run: Vec<&str> = lines.collect();

    let mut raw = Vec::new();
    if let Some(seconds) = seconds {
        varint(&mut raw, 1 << 3);
        varint(&mut raw, seconds.cast_unsigned());
    }
    let preconditions = [field(1, uid.as_bytes()), field(2, rv.as_bytes())].concat();
    raw.extend(field(2, &preconditions));
    varint(&mut raw, 3 << 3);
    varint(&mut raw, u64::from(orphan));
    raw.extend(field(4, policy.as_bytes()));
    for value in &dry_run {
        raw.extend(field(5, value.as_bytes()));
    }
    let type_meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    let document = [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &raw)].concat();

    let mut expected = json!({"orphanDependents": orphan, "propagationPolicy": policy});
    expected["preconditions"] = texts(&[("uid", uid), ("resourceVersion", rv)]);
    for (name, text) in [("apiVersion", version), ("kind", kind)] {
        if !text.is_empty() {
            expected[name] = json!(text);
        }
    }
    if let Some(seconds) = seconds {
        expected["gracePeriodSeconds"] = json!(seconds);
    }
    if !dry_run.is_empty() {
        expected["dryRun"] = json!(dry_run);
    }
    assert_eq!(protobuf::delete_options(&document), Some(expected));
    // Cut anywhere it is refused or read, but never misread as more than there is.
    for end in 0..document.len().min(64) {
        let _ = protobuf::delete_options(&document[..end]);
    }
}

fn texts(fields: &[(&str, &str)]) -> Value {
    let given = fields.iter().filter(|(_, text)| !text.is_empty());
    given
        .map(|(name, text)| ((*name).to_owned(), json!(text)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, number << 3 | 2);
    varint(&mut out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}
