//! The meaning of requests and objects of the report APIs, as a kube-apiserver has it. Pure:
//! nothing here does I/O or waits.

pub mod definition;
pub mod discovery;
pub mod document;
pub mod encoding;
pub mod error;
pub mod meta_v1;
pub mod mutation;
pub mod openapi;
pub mod protobuf;
pub mod request_info;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
