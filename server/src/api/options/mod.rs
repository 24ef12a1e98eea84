//! Options of requests: query parameters and `DeleteOptions` bodies, read and validated as the
//! kube-apiserver does (`apimachinery/pkg/apis/meta/{v1,internalversion}/validation`).
//!
//! A value that cannot be read is a 400, a value that breaks a rule a 422 about the options kind;
//! unknown parameters are ignored.

mod check;
mod delete;
mod list;
mod param;
mod write;

pub use list::{ListOptions, VersionMatch, get_version};
pub use param::{boolean, int64, parse_uint};
pub use write::WriteKind;

pub use crate::registry::{DeleteOptions, WriteOptions};
