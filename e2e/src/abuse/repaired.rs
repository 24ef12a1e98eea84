//! A look at children: the operator has repaired what hands did to them, or not yet.

use kube::ResourceExt as _;
use serde_json::json;

use super::AbuseError;
use super::hand::Hand;
use crate::request::RequestError;

impl Hand<'_> {
    /// Returns the children that are not yet as they were before the last action, in words.
    ///
    /// # Errors
    /// If the kube-apiserver does not answer.
    pub async fn unrepaired(&self) -> Result<Vec<String>, AbuseError> {
        let mut left = Vec::new();
        for original in &self.originals {
            let (child, before) = (original.child, &original.object);
            let name = before.name_any();
            let children = self.children(child, before.namespace().as_deref());
            let now = children.get_opt(&name).await;
            let now = now.map_err(RequestError::of("read a child"))?;
            let harmed = match (&now, original.harm) {
                (None, _) => Some("missing".to_owned()),
                (Some(now), Some(harm)) => child
                    .is_harmed(harm, &json!(before), &json!(now))
                    .then(|| format!("{harm:?}")),
                (Some(_), None) => None,
            };
            let said = harmed.map(|harmed| format!("{} {name} is {harmed}", child.kind()));
            left.extend(said);
        }
        Ok(left)
    }
}
