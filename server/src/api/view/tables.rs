//! Tables: objects as rows of columns, for people.

use apimachinery::definition::VersionDefinition;
use apimachinery::error::ApiError;
use apimachinery::request_info::Query;
use apimachinery::schema::FieldError;
use apimachinery::table::{self, IncludeObject, Printer, RowOptions};
use serde_json::Value;

use crate::http::negotiation::MetaVersion;

/// The columns and the form of the rows of one request.
#[derive(Debug)]
pub(super) struct TableView {
    printer: Printer,
    include: IncludeObject,
    pub(super) version: table::MetaVersion,
}

pub(super) fn meta_version(version: MetaVersion) -> table::MetaVersion {
    match version {
        MetaVersion::V1 => table::MetaVersion::V1,
        MetaVersion::V1Beta1 => table::MetaVersion::V1Beta1,
    }
}

impl TableView {
    pub(super) fn new(
        version: &VersionDefinition,
        query: &Query,
        meta: MetaVersion,
    ) -> Result<Self, ApiError> {
        let text = query.get("includeObject").unwrap_or_default();
        let include = IncludeObject::parse(text).map_err(|_| {
            let error = FieldError::invalid(
                "includeObject",
                text,
                "must be 'Metadata', 'Object', 'None', or empty",
            );
            ApiError::bad_request(format!("Unable to convert to Table as requested: {error}"))
        })?;
        let printer = Printer::new(&version.columns).map_err(ApiError::internal)?;
        Ok(Self {
            printer,
            include,
            version: meta_version(meta),
        })
    }

    pub(super) fn row(&self, object: Value) -> Value {
        let options = RowOptions {
            include: self.include,
            version: self.version,
            now: jiff::Timestamp::now(),
        };
        self.printer.row(object, &options)
    }

    pub(super) fn table(&self, metadata: Value, rows: Vec<Value>, headers: bool) -> Value {
        self.printer.table(metadata, rows, headers, self.version)
    }
}
