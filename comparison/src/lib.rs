//! The report APIs of the server, compared with those of the CRDs request by request, on one
//! Kubernetes.

pub mod conform;
pub mod serving;
