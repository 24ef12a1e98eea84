//! The copy of one resource that another aggregated API server holds, kept up to date until that
//! server is not asked any more.
//!
//! It is read through the kube-apiserver: lists tell what there is, and one watch at each
//! kube-apiserver tells what changes. A watch shares its connection to the predecessor with the
//! requests of clients of that kube-apiserver, so it tells of their writes also where several
//! replicas of the predecessor do not tell each other. The watches go on when the APIService leads
//! elsewhere, and so tell of the writes that were under way then.

mod copier;
pub mod guard;
mod lists;
mod streams;
pub mod switch;
mod table;

use super::mirror;

/// The resource that is copied, and the means.
#[derive(Clone)]
pub struct Source {
    /// The parts that every copy needs.
    pub common: mirror::Source,
    /// Kind of the objects; the items of a predecessor's lists do not name it.
    pub kind: String,
    /// True when objects live in namespaces.
    pub namespaced: bool,
}

pub use copier::{Copier, CopyError, Drained};
