//! Authorization of a request, and of everything else that it turns out to need.

use std::fmt;
use std::sync::Arc;

use apimachinery::error::ApiError;

use super::{Attributes, Authorizer, Decision, Proof, authorize_forwarded};

/// Decides about one request, by the way in which its sender has proven its identity.
#[derive(Clone)]
pub struct Authority {
    authorizer: Arc<dyn Authorizer>,
    proof: Proof,
}

impl Authority {
    /// Returns the authority over a request with this proof.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>, proof: Proof) -> Self {
        Self { authorizer, proof }
    }

    /// Passes if the authorizer allows it.
    ///
    /// # Errors
    /// 403 with the authorizer's reason; 500 when it could not be asked.
    pub async fn require(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let authorizer = self.authorizer.as_ref();
        let decision = match self.proof {
            Proof::FrontProxy => authorize_forwarded(authorizer, attributes).await,
            Proof::Token | Proof::Anonymous => authorizer.authorize(attributes).await,
        };
        match decision {
            Ok(Decision::Allow) => Ok(()),
            Ok(Decision::Deny(reason)) => Err(attributes.forbidden(&reason)),
            Err(error) => Err(ApiError::internal(error)),
        }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}
