//! The output of `kubectl get`: objects as rows of a Table, and objects reduced to their metadata.

mod column;
mod duration;
mod jsonpath;
mod jsonpath_parser;
mod metadata;
mod printer;
#[cfg(test)]
mod tests;

pub use column::Column;
pub use duration::human_duration;
pub use jsonpath::JsonPath;
pub use jsonpath_parser::JsonPathError;
pub use metadata::{MetaVersion, partial_metadata, partial_metadata_list};
pub use printer::{IncludeObject, Printer, RowOptions};
