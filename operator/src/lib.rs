//! The operator: reconciles `ReportsServer` and moves report APIs from etcd to the server.

pub mod apiservice;
pub mod certs;
pub mod leader;
pub mod migration;
pub mod names;
