//! Requests that are made to cost more than their size, through the server's own pipeline: each
//! has a clear answer, and takes no more time and memory than its size explains.

mod applies;
mod nesting;
mod numbers;
mod patches;
mod queries;
mod target;
mod told;
mod yaml;
