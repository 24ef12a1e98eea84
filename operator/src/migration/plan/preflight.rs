//! Step 1: the check whether a group can be taken at all. Pure.

use crds::names::ANNOTATION_ACCEPT_BYPASS;
use crds::v1alpha1::reasons;

use super::target::GroupTarget;
use crate::apiservice::{Holder, name};
use crate::migration::observe::state::Observed;
use crate::migration::report::status::Problem;

/// Returns the first thing that keeps the group from being taken, if any; first what a user has to
/// change, then what only needs time.
#[must_use]
pub fn refusal(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    foreign(o, target)
        .or_else(|| mixed(o, target))
        .or_else(|| unsuitable_crd(o))
        .or_else(|| uncovered(o, target))
        .or_else(|| rights(o))
        .or_else(|| not_ready(o, target))
        .or_else(|| bypass(o, target))
}

/// Returns the reason why the versions of a served group that are not ours cannot be led to the
/// server, if they cannot.
#[must_use]
pub fn refused_versions(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    foreign(o, target).or_else(|| uncovered(o, target))
}

fn stalled(reason: &'static str, message: String) -> Problem {
    Problem {
        reason,
        message,
        stalled: true,
    }
}

fn waiting(reason: &'static str, message: String) -> Problem {
    Problem {
        reason,
        message,
        stalled: false,
    }
}

fn foreign(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    o.versions.iter().find_map(|v| {
        let api_service = name(&target.group, &v.name);
        match &v.holder {
            Holder::Foreign(service) if may_take_over(o, service) => None,
            Holder::Foreign(service) if v.is_led_away_to(service) && o.is_ahead_of_etcd() => {
                Some(led_away(&api_service, service))
            }
            // Its Service was taken away: it is taken back with what etcd has got since.
            Holder::Unmanaged if v.is_claimed() && o.is_ahead_of_etcd() => None,
            Holder::Foreign(service) => Some(stalled(
                reasons::FOREIGN_API_SERVICE,
                format!(
                    "APIService {api_service} points to the Service {service} of another server; \
                     name it in spec.apis[].from.server to take the group over from it, or delete \
                     the APIService once nothing needs that server; its CRD serves the API again"
                ),
            )),
            Holder::Unmanaged => Some(stalled(
                reasons::FOREIGN_API_SERVICE,
                format!(
                    "APIService {api_service} is Local but no longer managed by the \
                     kube-apiserver; `kubectl delete apiservice {api_service}` makes the \
                     kube-apiserver create it again"
                ),
            )),
            Holder::Absent | Holder::Crd | Holder::Ours => None,
        }
    })
}

/// Returns the problem of an APIService that somebody has led from our server to another Service.
fn led_away(api_service: &str, service: &str) -> Problem {
    stalled(
        reasons::FOREIGN_API_SERVICE,
        format!(
            "APIService {api_service} was led away from the server to the Service {service}; the \
             operator leads it back while the server is ready, three times in ten minutes at most: \
             stop whoever changes it (kubectl get apiservice {api_service} -o yaml \
             --show-managed-fields), or set owner: CRD before another server takes the group over"
        ),
    )
}

/// Returns whether the group may be taken over from `service`: the user has named it, and our
/// server has taken no writes that it does not know.
fn may_take_over(o: &Observed, service: &str) -> bool {
    o.predecessor.as_deref() == Some(service) && !o.is_ahead_of_etcd()
}

/// Returns the problem of a group that a predecessor serves only in part. Its reports have to be
/// the predecessor's as a whole: what etcd has beside it would have to be merged.
fn mixed(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    let predecessor = o.predecessor.as_deref()?;
    let of_crd = o.versions.iter().find(|v| v.holder == Holder::Crd)?;
    let (group, version) = (&target.group, &of_crd.name);
    Some(stalled(
        reasons::PREFLIGHT_FAILED,
        format!(
            "{group}/{version} is served from etcd while {predecessor} serves another version of \
             the group, so both have reports of their own; stop serving {version} in the CRDs, or \
             give the group back to them before it is moved"
        ),
    ))
}

fn unsuitable_crd(o: &Observed) -> Option<Problem> {
    o.crds().find_map(|(_, crd)| {
        let name = crd.name();
        if crd.object.metadata.deletion_timestamp.is_some() {
            return Some(waiting(
                reasons::PREFLIGHT_FAILED,
                format!("CRD {name} is being deleted"),
            ));
        }
        if crd.converts_by_webhook() {
            return Some(stalled(
                reasons::WEBHOOK_CONVERSION,
                format!(
                    "CRD {name} converts between its versions by a webhook, which the server \
                     cannot do; only spec.conversion.strategy None is supported"
                ),
            ));
        }
        if !crd.is_established() {
            return Some(waiting(
                reasons::PREFLIGHT_FAILED,
                format!("CRD {name} is not established yet; see its conditions"),
            ));
        }
        if crd.read_version().is_none() {
            return Some(stalled(
                reasons::UNSUPPORTED_VERSION,
                format!("CRD {name} serves no version, so its objects cannot be read"),
            ));
        }
        None
    })
}

/// Returns the problem of a version that the server does not cover. An APIService takes a whole
/// version of a group, so everything in it must be ours to serve.
fn uncovered(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    if let Some(stranger) = o.strangers.first() {
        return Some(stalled(
            reasons::UNSUPPORTED_VERSION,
            format!(
                "{stranger} is in a version of {} that would be switched, but the server does \
                 not serve it",
                target.group
            ),
        ));
    }
    o.crds().find_map(|(resource, crd)| {
        let served = &resource.stored.status.versions;
        let missing = crd.served().find(|v| !served.iter().any(|s| s == v))?;
        Some(waiting(
            reasons::UNSUPPORTED_VERSION,
            format!(
                "CRD {} serves {missing}, the server serves {} only; wait until the server has \
                 read the CRD, or check its log",
                crd.name(),
                served.join(", ")
            ),
        ))
    })
}

fn rights(o: &Observed) -> Option<Problem> {
    (!o.missing_rights.is_empty()).then(|| {
        let rules: Vec<String> = o.missing_rules.iter().map(ToString::to_string).collect();
        stalled(
            reasons::FORBIDDEN,
            format!(
                "the operator lacks rights: {}; grant them to its ServiceAccount by the rules {}",
                o.missing_rights.join("; "),
                rules.join("; ")
            ),
        )
    })
}

fn not_ready(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    if !target.server_ready {
        return Some(waiting(
            reasons::DEPENDENCY_NOT_READY,
            "waiting for the server's Deployment to be ready".to_owned(),
        ));
    }
    if !target.control_available || !o.control_available {
        return Some(waiting(
            reasons::CONTROL_API_UNAVAILABLE,
            "waiting for the control API to be Available through the kube-apiserver".to_owned(),
        ));
    }
    if o.resources.is_empty() {
        return Some(waiting(
            reasons::DEPENDENCY_NOT_READY,
            format!(
                "waiting for the server to know the resources of {}",
                target.group
            ),
        ));
    }
    if o.has_crds() {
        let absent = o.versions.iter().find(|v| v.holder == Holder::Absent)?;
        return Some(waiting(
            reasons::PREFLIGHT_FAILED,
            format!(
                "waiting for the kube-apiserver to create APIService {}",
                name(&target.group, &absent.name)
            ),
        ));
    }
    None
}

/// Returns the problem of a group whose switch would end the effect of something, where the user
/// requires that it has one. A group that the server has served, in part or a moment ago, is not
/// kept from it: clients would be served by nobody, or from two sides.
fn bypass(o: &Observed, target: &GroupTarget) -> Option<Problem> {
    if !target.settings.require_admission || o.any_ours() || o.is_ahead_of_etcd() {
        return None;
    }
    let group = &target.group;
    let field = "spec.migration.requireAdmission is true";
    match &o.bypass {
        Some(Ok(bypass)) if bypass.is_empty() => None,
        Some(Ok(bypass)) => Some(stalled(
            reasons::ADMISSION_BYPASSED,
            format!(
                "{bypass} would have no effect on reports of {group} once the server answers for \
                 them, and {field}; exclude {group} from their rules, or delete them, or annotate \
                 those that reports do not need with {ANNOTATION_ACCEPT_BYPASS}=true; or set \
                 requireAdmission: false"
            ),
        )),
        Some(Err(problem)) => Some(Problem {
            message: format!("{}; {field}", problem.message),
            ..problem.clone()
        }),
        None => Some(waiting(
            reasons::PREFLIGHT_FAILED,
            format!("the policies, webhooks and quotas for {group} are not known yet; {field}"),
        )),
    }
}
