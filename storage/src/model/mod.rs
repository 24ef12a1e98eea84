//! The stored data: resources, keys and objects, as every layer below the handlers knows them.

mod body;
mod key;
mod labels;
mod object;
pub(crate) mod projection;
mod resource;

pub use body::{Body, BodyError, canonical_json};
pub(crate) use body::{Dictionary, Encoded, Samples, frame, packed};
pub use key::{GroupResource, ObjectKey};
pub use labels::Labels;
pub use object::StoredObject;
pub use resource::{GateRefusal, GateStatus, Position, ResourceDef, ResourceId, ResourceRecord};
