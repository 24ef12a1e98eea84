//! What a request for a resource does: one file a verb, over `registry`, `cache` and `store`.

pub mod options;
