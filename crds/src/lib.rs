//! Types that the operator, the server and their tests share.

pub mod catalog;
pub mod control;
pub mod names;
pub mod publish;
pub mod v1alpha1;
