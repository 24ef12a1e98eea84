//! Custom resource definitions: who may write one is not who may make the server panic.

use std::sync::Arc;

use apimachinery::definition::ResourceDefinition;
use apimachinery::schema::{Encoding, Malformed, Structural, decode};
use apimachinery::table::{IncludeObject, MetaVersion, Printer, RowOptions};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::bodies::conforms;
use crate::parts::{bounded, parts};

/// A definition, then an object of it.
pub fn crd(data: &[u8]) {
    let parts = parts(data);
    let json = |index: usize| decode(parts.get(index)?, Encoding::Json).ok();
    let Some(body) = json(0) else {
        return;
    };
    let Ok(crd) = serde_json::from_value::<CustomResourceDefinition>(body.value) else {
        return;
    };
    let definition = match ResourceDefinition::from_crd(&crd) {
        Ok(definition) => Arc::new(definition),
        Err(error) => return bounded("an error", error.to_string().len(), data),
    };
    for version in definition.served_versions() {
        definition
            .field_manager(&version.name)
            .expect("it is served");
        let Some(object) = json(1) else {
            continue;
        };
        if defaults_fit(&version.schema, object.value.clone()) {
            conforms(&version.schema, object.value.clone(), data);
        }
        if let Ok(printer) = Printer::new(&version.columns) {
            let options = RowOptions {
                include: IncludeObject::None,
                version: MetaVersion::V1,
                now: Timestamp::UNIX_EPOCH,
            };
            let row = printer.row(object.value, &options);
            let columns = version.columns.len() + 1;
            bounded("a row", row.to_string().len() / columns, data);
        }
    }
}

/// Returns whether what a schema fills into an object is of that schema. A kube-apiserver takes no
/// definition with other defaults.
fn defaults_fit(schema: &Structural, mut value: Value) -> bool {
    if schema.coerce(&mut value, Malformed::Refuse).is_err() {
        return true;
    }
    let given = value.clone();
    schema.default_values(&mut value);
    if value == given {
        return true;
    }
    let filled = value.clone();
    let unknown = schema.coerce(&mut value, Malformed::Refuse);
    value == filled && unknown.is_ok_and(|unknown| unknown.is_empty())
}
