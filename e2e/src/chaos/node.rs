//! stub
/// stub
pub struct NodeDriver;
