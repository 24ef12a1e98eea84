//! The garbage collector, which looks for new kinds every half minute: cases about owners begin
//! when it knows all of them.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use kube::Client;
use serde_json::json;

use super::ConformError;
use super::run::make_namespace;
use super::target::Target;
use crate::serving::ServingError;
use crate::serving::request::{self, Answer, Outgoing};

const NAMESPACE: &str = "conform-collector";
/// Longest time to wait, which is many of its rounds: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(5);

/// Waits until the garbage collector deletes the dependents of an owner of each kind.
///
/// # Errors
/// If it does not within five minutes.
pub(super) async fn follows(client: &Client, targets: &[Target]) -> Result<(), ConformError> {
    make_namespace(client, NAMESPACE).await?;
    try_join_all(targets.iter().map(|target| follows_kind(client, target))).await?;
    Ok(())
}

async fn follows_kind(client: &Client, target: &Target) -> Result<(), ServingError> {
    let collection = target.collection(NAMESPACE);
    let create = Outgoing::new("POST", &collection);
    let owner = create.clone().json(&target.report("collector-owner"));
    let owner = good(request::send(client, &owner).await?)?.json()?;
    let mut dependent = target.report("collector-dependent");
    dependent["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"],
        "kind": owner["kind"], "name": "collector-owner", "uid": owner["metadata"]["uid"]}]);
    good(request::send(client, &create.json(&dependent)).await?)?;
    let delete = Outgoing::new("DELETE", format!("{collection}/collector-owner"));
    good(request::send(client, &delete).await?)?;
    let get = Outgoing::get(format!("{collection}/collector-dependent"));
    let deadline = Instant::now() + PATIENCE;
    while request::send(client, &get).await?.code != 404 {
        if Instant::now() > deadline {
            return Err(ServingError::NotYet {
                what: format!("the garbage collector follows {}", target.name()),
                patience: PATIENCE,
                last: "the log of the kube-controller-manager says why".to_owned(),
            });
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

fn good(answer: Answer) -> Result<Answer, ServingError> {
    if matches!(answer.code, 200 | 201) {
        return Ok(answer);
    }
    Err(ServingError::Body(format!(
        "{} {}",
        answer.code,
        answer.text()
    )))
}
