//! The operator, which reconciles `ReportsServer` and moves report APIs from etcd to the server.

pub mod apiservice;
pub mod cert_manager;
pub mod certs;
pub mod controller;
mod crd_check;
pub mod database;
pub mod events;
pub mod grant;
pub mod http;
pub mod images;
pub mod installer;
pub mod leader;
pub mod logs;
pub mod manifests;
pub mod metrics;
pub mod migration;
pub mod names;
pub mod operator_condition;
mod refusals;
mod said;
pub mod security;
pub mod spans;
#[cfg(test)]
mod testing;
