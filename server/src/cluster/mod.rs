//! The state that the server learns from the cluster: schemas, namespaces, the groups to serve and
//! the front proxy's CA. Everything is watched; an answer that the watches have not brought yet is
//! asked for.

mod attachments;
mod auth_config;
mod client;
mod crds;
mod definitions;
mod etcd;
mod groups;
mod namespaces;
mod persist;
mod serving;
mod watch_proxy;

pub use attachments::Attachments;
pub use auth_config::{AUTH_CONFIG_MAP, AUTH_NAMESPACE, watch_front_proxy};
pub use client::{ClientError, client};
pub use crds::CrdWatch;
pub use definitions::{DefinitionStore, Effective, Served, effective};
pub use etcd::KubeEtcd;
pub use groups::{
    AUDIT_KEY, ConfigMapRef, Followers, GROUPS_KEY, LOG_LEVEL_KEY, REFUSED_WRITERS_KEY,
    parse_groups, parse_users, watch_groups,
};
pub use namespaces::{NamespaceError, NamespaceLookup, NamespacePhase, Namespaces};
pub use persist::stored_definitions;
pub use serving::EffectiveDefinitions;
pub use watch_proxy::{KubeWatches, WATCH_PROXY, WatchProxy, WatchProxyError};
