//! Applies what clients depend on where the rest is not carried out. A child that is refused, or is
//! somebody else's, does not keep the others from being applied.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, Client};

use super::account;
use super::child::{inside, named, one, present};
use super::error::Error;
use crate::controller::build::{self, Children};
use crate::controller::found::{Part, Unkept};
use crate::controller::validate::{Stage, Validated};

/// The outcome of [`keep`].
#[derive(Debug)]
pub struct Standing {
    /// The control API, where it could be applied.
    pub control_api: Option<APIService>,
    /// The children that could not be applied.
    pub unkept: Vec<Unkept>,
}

impl Standing {
    /// Returns whether all certificates were stored.
    #[must_use]
    pub fn is_certified(&self) -> bool {
        let mut unkept = self.unkept.iter();
        unkept.all(|unkept| unkept.part != Part::Certificates)
    }
}

/// Applies the certificates, the rights of the server, what leads to it, and where the reports have
/// moved, what leads old pods to them. `stored` are the children with the certificates that are
/// in the cluster already: where new ones cannot be stored, nobody is told to trust them.
pub async fn keep(
    client: &Client,
    spec: &Validated,
    children: &Children,
    stored: &Children,
) -> Standing {
    let order = Box::pin(standing_order(client, spec)).await;
    let mut unkept: Vec<Unkept> = order.into_iter().collect();
    let uncertified = Box::pin(certificates(client, children)).await;
    let children = if uncertified.is_empty() {
        children
    } else {
        stored
    };
    unkept.extend(uncertified);
    unkept.extend(Box::pin(rights(client, children)).await);
    let service = &children.service;
    if let Err(error) = one(&inside(client, service), service).await {
        unkept.push(told(Part::Server, &error));
    }
    let control_api = &children.control_api;
    let bundle = control_api
        .spec
        .as_ref()
        .and_then(|spec| spec.ca_bundle.as_ref());
    let control_api = if bundle.is_none_or(|bundle| bundle.0.is_empty()) {
        // Without an authority nobody would trust the server, which runs with the one that it has.
        None
    } else {
        match one(&Api::all(client.clone()), control_api).await {
            Ok(control_api) => Some(control_api),
            Err(error) => {
                unkept.push(told(Part::Server, &error));
                None
            }
        }
    };
    Standing {
        control_api,
        unkept,
    }
}

/// Applies the identity and the rights of the server, without which it refuses every client. An account
/// that is there keeps its annotations. Returns what could not be applied.
async fn rights(client: &Client, children: &Children) -> Vec<Unkept> {
    let mut unkept = Vec::new();
    if let Some(account) = &children.service_account {
        let api = inside(client, account);
        let applied = match present(&api, account).await {
            Ok(None) => named(&api, account).await.map(drop),
            looked => looked.map(drop),
        };
        unkept.extend(applied.err());
    }
    let everywhere = Api::all(client.clone());
    for binding in [&children.auth_delegator, &children.cluster_reader] {
        unkept.extend(named(&everywhere, binding).await.err());
    }
    let (reader, role) = (&children.auth_reader, &children.config_reader);
    unkept.extend(named(&inside(client, reader), reader).await.err());
    unkept.extend(one(&inside(client, role), role).await.err());
    let binding = &children.config_reader_binding;
    unkept.extend(one(&inside(client, binding), binding).await.err());
    let replaced = account::replaced(client, &children.deployment).await;
    unkept.extend(replaced.err());
    let unkept = unkept.iter().map(|error| told(Part::Server, error));
    unkept.collect()
}

/// Applies the order that leads old pods to the reports.
///
/// # Errors
/// If it is refused.
pub async fn order(client: &Client, spec: &Validated) -> Result<(), Error> {
    let Some(order) = build::database_move(spec) else {
        return Ok(());
    };
    one(&inside(client, &order), &order).await.map(drop)
}

/// Applies the order by which the reports have moved. Returns it where it could not be.
async fn standing_order(client: &Client, spec: &Validated) -> Option<Unkept> {
    let between = spec.between.as_ref();
    between.filter(|between| between.stage == Stage::Moved)?;
    let applied = order(client, spec).await;
    applied.err().map(|error| told(Part::Server, &error))
}

/// Applies the certificates. Returns those that could not be.
async fn certificates(client: &Client, children: &Children) -> Vec<Unkept> {
    // A certificate of an authority that is not stored could not be renewed by it.
    if let Err(error) = one(&inside(client, &children.ca), &children.ca).await {
        return vec![told(Part::Certificates, &error)];
    }
    let mut secrets = vec![&children.serving_cert];
    if let Some(managed) = &children.managed {
        secrets.extend([&managed.tls, &managed.client]);
    }
    let mut unkept = Vec::new();
    for secret in secrets {
        if let Err(error) = one(&inside(client, secret), secret).await {
            unkept.push(told(Part::Certificates, &error));
        }
    }
    unkept
}

fn told(part: Part, error: &Error) -> Unkept {
    Unkept {
        part,
        foreign: matches!(error, Error::Foreign { .. }),
        message: error.to_string(),
    }
}
