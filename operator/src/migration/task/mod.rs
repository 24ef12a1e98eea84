//! The task of an API group, and what wakes it.

pub mod attention;
pub mod changes;
pub mod group;
pub mod keeper;
pub mod live;
pub mod looks;
mod publish;
pub mod refused;
pub mod supervisor;
