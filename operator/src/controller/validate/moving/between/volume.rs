//! The volume of the one server to which reports move.

use super::super::held;
use crate::controller::found::Dereferenced;
use crate::controller::validate::Home;
use crate::controller::workload;
use crate::database::place::Storage;

/// Returns the volume of the server that moves the reports there. Its pod stays as it is once it has
/// the volume, which no pod on another node could get meanwhile.
pub fn of(storage: Option<Storage>, found: &Dereferenced) -> Home {
    let present = found.inside.deployment.as_ref();
    let template = present.and_then(|present| held::template(present, found.now));
    let template = template.filter(|template| workload::has_file(template));
    Home {
        storage,
        template: template.cloned(),
    }
}
