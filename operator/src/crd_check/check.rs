//! The watch of the CRD: each event changes what is known, and a change is told.

use std::sync::Arc;

use crds::v1alpha1::ReportsServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::installed::{Installed, absent};
use super::schema;
use crate::metrics::Metrics;

/// An event of the watch.
type Seen = watcher::Result<Event<CustomResourceDefinition>>;

/// Returns the selection of the one CRD.
#[must_use]
pub fn selected() -> watcher::Config {
    let name = ReportsServer::crd_name();
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// The examination of the CRD, as the events of a watch tell of it.
pub struct Check {
    /// The operator's own schema.
    pub(super) own: Value,
    installed: watch::Sender<Arc<Installed>>,
    /// True when the list with which the watch begins has it.
    is_listed: bool,
    metrics: Metrics,
}

impl Check {
    /// Returns an examination, and where to read what it has found.
    #[must_use]
    pub fn new(metrics: Metrics) -> (Self, watch::Receiver<Arc<Installed>>) {
        // A test shows that there is one.
        let own = crds::v1alpha1::reports_server_crd().ok();
        let own = own.as_ref().and_then(schema::of).unwrap_or_default();
        let (installed, found) = watch::channel(Arc::default());
        let check = Self {
            own,
            installed,
            is_listed: false,
            metrics,
        };
        (check, found)
    }

    /// Notes an event. What has changed is told before anybody can read it.
    pub fn note(&mut self, event: &Seen) {
        let found = match event {
            Ok(Event::Init) => {
                self.is_listed = false;
                return;
            }
            Ok(Event::InitApply(crd) | Event::Apply(crd)) => {
                self.is_listed = true;
                Installed::of(&self.own, crd)
            }
            Ok(Event::InitDone) if self.is_listed => return,
            Ok(Event::InitDone | Event::Delete(_)) => Installed::Absent,
            // What was seen holds until something newer is.
            Err(_) if self.installed.borrow().is_known() => return,
            Err(_) => Installed::Unreadable,
        };
        if **self.installed.borrow() == found {
            return;
        }
        self.tell(&found);
        self.installed.send_replace(Arc::new(found));
    }

    fn tell(&self, found: &Installed) {
        self.metrics.crd_lacks(found.lacks());
        if let Some(complaint) = found.complaint() {
            warn!("{complaint}");
        } else if found.is_absent() {
            error!("{}", absent());
        } else if *found == Installed::Complete {
            info!("the CRD has all that this release needs");
        }
    }
}
