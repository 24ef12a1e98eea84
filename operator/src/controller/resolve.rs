//! The first two steps of a reconciliation: dereference, validate.

use crds::v1alpha1::ReportsServer;
use kube::ResourceExt;

use super::context::{claims, registered};
use super::validate::{self, Facts, Refusal, Validated};
use super::{Context, Error, dereference, targets};

/// Reads what decides whether the specification is possible, and decides.
pub(super) async fn resolve(
    object: &ReportsServer,
    ctx: &Context,
) -> Result<Result<Validated, Refusal>, Error> {
    // dereference (client required)
    let namespace = dereference::namespace(&ctx.client, &object.spec.target_namespace).await?;
    let cluster_uid = ctx
        .cluster_uid
        .get_or_try_init(|| dereference::cluster_uid(&ctx.client))
        .await?;
    // validate (no client required)
    let groups = ctx.supervisor.status(&object.name_any());
    let facts = Facts {
        namespace,
        claims: &claims(&ctx.objects),
        default_image: &ctx.server_image,
        default_postgres_image: &ctx.postgres_image,
        cluster_uid,
        dropped: &targets::dropped(object, &registered(object, ctx), &groups),
    };
    Ok(validate::validate(object, &facts))
}
