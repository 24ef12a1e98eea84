//! Training a dictionary from stored objects, and telling if it is worth it.

use std::sync::Arc;

use crate::cache::Bodies;
use crate::model::{BodyError, Dictionary, Samples, StoredObject};

/// Bytes of text that are trained with: some hundred times the dictionary.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Most objects that are trained with.
const SAMPLE_OBJECTS: u64 = 4000;
/// One in so many of them is not trained with, but shows what the dictionary does to others.
const HELD_OUT: usize = 5;
/// Numerator and denominator of the part of the present size that a dictionary has to come below.
const GAIN: (usize, usize) = (9, 10);

/// Returns some of `objects` to train with, evenly spread; `all` are the figures of all of them.
pub(super) fn select<'a>(
    objects: impl Iterator<Item = &'a Arc<StoredObject>>,
    all: Bodies,
) -> Vec<Arc<StoredObject>> {
    let by_bytes = all.json_bytes.div_ceil(SAMPLE_BYTES);
    let by_objects = all.count.div_ceil(SAMPLE_OBJECTS);
    let every = usize::try_from(by_bytes.max(by_objects).max(1)).unwrap_or(usize::MAX);
    let mut bytes = 0;
    objects
        .step_by(every)
        // Those that are met may be large ones, or all of the objects larger than they were.
        .take_while(|object| {
            bytes += object.body.json_len() as u64;
            bytes <= 2 * SAMPLE_BYTES
        })
        .cloned()
        .collect()
}

/// Returns a dictionary trained with some of `objects`, if it makes the others clearly smaller than
/// they are.
///
/// # Errors
/// If the objects are too few or too uniform.
pub(super) fn train(
    objects: &[Arc<StoredObject>],
    generation: u64,
) -> Result<Option<Dictionary>, BodyError> {
    let (samples, held_out) = split(objects)?;
    let dictionary = Dictionary::train(&samples, generation)?;
    Ok(gains(&held_out, &dictionary)?.then_some(dictionary))
}

/// Returns the texts to train with, and the objects that are held out.
fn split(objects: &[Arc<StoredObject>]) -> Result<(Samples, Vec<&Arc<StoredObject>>), BodyError> {
    let mut samples = Samples::default();
    let mut held_out = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        if number.is_multiple_of(HELD_OUT) {
            held_out.push(object);
        } else {
            samples.add(&object.body)?;
        }
    }
    Ok((samples, held_out))
}

/// Returns whether most of the objects are clearly smaller with `dictionary`, and all together not
/// larger. Each counts the same, so that a few large ones do not decide for all.
fn gains(objects: &[&Arc<StoredObject>], dictionary: &Dictionary) -> Result<bool, BodyError> {
    let (mut before, mut after, mut smaller) = (0, 0, 0);
    for object in objects {
        let then = object.body.compressed_len();
        let now = object.body.recompress(dictionary)?.compressed_len();
        before += then;
        after += now;
        smaller += usize::from(now * GAIN.1 < then * GAIN.0);
    }
    Ok(2 * smaller > objects.len() && after <= before)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testreports::{Input, Owner, ReportKind};
    use uuid::Uuid;

    use super::*;
    use crate::model::{Encoded, ObjectKey};

    type Objects = Vec<Arc<StoredObject>>;

    /// Most bytes that a recorded report takes in memory, as [`StoredObject::memory`] counts them,
    /// with a dictionary that was trained with other reports.
    const BYTES_A_REPORT: usize = 960;

    /// Returns the uid of object `number`: texts that no dictionary knows.
    fn uid(number: usize) -> String {
        let number = number as u128 + 1;
        Uuid::from_u128(number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)).to_string()
    }

    /// Returns a report as the server stores it: with the metadata that clients do not send.
    fn stored(mut report: Value, number: usize) -> Arc<StoredObject> {
        let (name, owner) = (uid(3 * number), uid(3 * number + 1));
        let owners = json!({".": {}, (format!("k:{{\"uid\":\"{owner}\"}}")): {}});
        let fields = json!({"f:metadata": {"f:labels": {".": {},
            "f:app.kubernetes.io/managed-by": {}}, "f:ownerReferences": owners},
            "f:results": {}, "f:scope": {}, "f:summary": {".": {}, "f:error": {}, "f:fail": {},
            "f:pass": {}, "f:skip": {}, "f:warn": {}}});
        let time = format!("2026-11-21T08:{:02}:{:02}Z", number / 60 % 60, number % 60);
        let metadata = &mut report["metadata"];
        metadata["name"] = json!(name);
        metadata["uid"] = json!(uid(3 * number + 2));
        metadata["creationTimestamp"] = json!(time);
        metadata["generation"] = json!(number % 7);
        metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
            "name": format!("app-{number}"), "uid": owner}]);
        metadata["managedFields"] = json!([{"apiVersion": "wgpolicyk8s.io/v1alpha2",
            "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "reports-controller",
            "operation": "Update", "time": time}]);
        let encoded = Encoded::from_value(&report, Dictionary::built_in()).unwrap();
        Arc::new(encoded.into_object(ObjectKey::new("team", &name), number as u64, false))
    }

    /// Returns every report of a kind once.
    fn reports(input: &Input) -> Objects {
        let corpus = input.corpus().unwrap();
        let owner = Owner {
            namespace: "team".into(),
            uid: "u".into(),
        };
        let kind = ReportKind::PolicyReport;
        (0..corpus.templates(kind).len())
            .map(|number| stored(corpus.report(kind, number, &owner), number))
            .collect()
    }

    fn memory(objects: &[Arc<StoredObject>]) -> usize {
        let all: usize = objects.iter().map(|object| object.memory()).sum();
        all / objects.len()
    }

    /// Returns the objects compressed with a dictionary that was trained with `others`.
    fn compressed(objects: &[Arc<StoredObject>], others: &[Arc<StoredObject>]) -> Objects {
        let (samples, _) = split(others).unwrap();
        let dictionary = Dictionary::train(&samples, 1).unwrap();
        let compress = |object: &Arc<StoredObject>| {
            let body = object.body.recompress(&dictionary).unwrap();
            Arc::new(object.with_body(body))
        };
        objects.iter().map(compress).collect()
    }

    /// Returns every second of the objects, and the others.
    fn halves(objects: &[Arc<StoredObject>]) -> (Objects, Objects) {
        let every_second = |first: usize| objects.iter().skip(first).step_by(2).cloned().collect();
        (every_second(0), every_second(1))
    }

    #[test]
    fn a_recorded_report_takes_few_bytes() {
        let input = Input::detect();
        if matches!(input, Input::Generated { .. }) {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no reports");
            eprintln!("skipped: there are no recorded reports");
            return;
        }
        let (objects, others) = halves(&reports(&input));
        let before = memory(&objects);
        let after = memory(&compressed(&objects, &others));
        println!("{before} bytes a report with the dictionary that is compiled in, now {after}");
        assert!(after <= BYTES_A_REPORT, "{after} bytes, before {before}");
    }

    #[test]
    fn generated_reports_get_smaller_and_keep_their_texts() {
        let (objects, others) = halves(&reports(&Input::Generated { seed: 1 }));
        let smaller = compressed(&objects, &others);
        for (before, after) in objects.iter().zip(&smaller) {
            assert_eq!(before.json().unwrap(), after.json().unwrap());
        }
        assert!(memory(&smaller) < memory(&objects));
    }

    #[test]
    fn a_dictionary_that_gains_nothing_is_not_taken() {
        let all = reports(&Input::Generated { seed: 1 });
        let smaller = compressed(&all, &all);
        assert!(train(&smaller, 2).unwrap().is_none());
    }

    /// Returns objects of some 1 MiB.
    fn large_objects(count: u64) -> Objects {
        let object = |number: u64| {
            let object = json!({"metadata": {"name": "n"}, "spec": "x".repeat(1 << 20)});
            let encoded = Encoded::from_value(&object, Dictionary::built_in()).unwrap();
            Arc::new(encoded.into_object(ObjectKey::new("", "n"), number, false))
        };
        (0..count).map(object).collect()
    }

    fn places(objects: &[Arc<StoredObject>]) -> Vec<u64> {
        objects.iter().map(|object| object.rv).collect()
    }

    #[test]
    fn objects_are_selected_all_over() {
        let objects = large_objects(23);
        let all = Bodies {
            count: 23,
            json_bytes: 3 * SAMPLE_BYTES,
            ..Bodies::default()
        };
        let selected = select(objects.iter(), all);
        assert_eq!(places(&selected), [0, 3, 6, 9, 12, 15, 18, 21]);
        let many = Bodies {
            count: 11 * SAMPLE_OBJECTS,
            ..Bodies::default()
        };
        assert_eq!(places(&select(objects.iter(), many)), [0, 11, 22]);
    }

    #[test]
    fn the_text_to_train_with_is_bounded() {
        let objects = large_objects(23);
        let selected = select(objects.iter(), Bodies::default());
        assert_eq!(selected.len(), 15);
    }

    #[test]
    fn nothing_is_trained_with_too_few_objects() {
        assert!(train(&[], 1).is_err());
        let few = reports(&Input::Generated { seed: 1 });
        assert!(train(&few[..3], 1).is_err());
    }
}
