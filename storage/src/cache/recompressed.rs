//! An object whose body is compressed anew.

use std::sync::Arc;

use crate::model::{BodyError, Dictionary, StoredObject};

/// An object as it was, and as it is compressed anew.
#[derive(Debug)]
pub(crate) struct Recompressed {
    pub(super) before: Arc<StoredObject>,
    pub(super) after: Arc<StoredObject>,
}

impl Recompressed {
    /// Compresses `object` with `dictionary`.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn new(object: Arc<StoredObject>, dictionary: &Dictionary) -> Result<Self, BodyError> {
        let after = Arc::new(object.with_body(object.body.recompress(dictionary)?));
        Ok(Self {
            before: object,
            after,
        })
    }
}
