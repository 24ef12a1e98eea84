//! Storage of objects: `cache` (serves every read) → `store` (change log and database), with the
//! objects of `model`.

pub mod cache;
pub mod model;
pub mod store;
