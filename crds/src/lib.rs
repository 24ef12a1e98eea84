//! Types that the operator, the server and their tests share.

pub mod control;
