//! The operator: reconciles `ReportsServer` and moves report APIs from etcd to the server.

pub mod leader;
pub mod names;
