//! The gate of a resource: whether its requests are served, wait, or are refused.

use std::time::Duration;

use apimachinery::error::ApiError;
use crds::control::GateState;
use storage::model::GateStatus;
use tokio::time::{Instant, timeout_at};

use super::scope::Scope;
use crate::cluster::Attachments;

/// Longest time that a request waits for a held gate.
const MAX_HOLD: Duration = Duration::from_secs(30);
/// Seconds after which a refused client may come back.
const RETRY_AFTER: u32 = 1;

/// What a gate does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Pass,
    Wait,
    Refuse,
}

/// Decides. `reader` is the user of a request that only reads, `None` for one that writes.
fn passage(gate: &GateStatus, reader: Option<&str>) -> Passage {
    match gate.state {
        GateState::Open => Passage::Pass,
        GateState::Closed => Passage::Refuse,
        // The holder has to look before it opens or closes.
        GateState::Held => match (reader, gate.holder.as_deref()) {
            (Some(user), Some(holder)) if user == holder => Passage::Pass,
            (Some(_), _) if gate.serves_reads() => Passage::Pass,
            _ => Passage::Wait,
        },
    }
}

/// The time until which a request that arrives now may wait.
#[must_use]
pub fn patience() -> Instant {
    Instant::now() + MAX_HOLD
}

/// Waits until the request is served here, as long as its patience lasts: the gate lets it pass and
/// the kube-aggregator sends it here.
///
/// # Errors
/// 503 with `Retry-After` when the gate is closed; 429 with `Retry-After` when that lasts for too
/// long, and when the gate closes on a request that has waited (`docs/decisions/`).
pub async fn admit(attachments: &Attachments, scope: &Scope) -> Result<(), ApiError> {
    pass(scope).await?;
    attached(attachments, scope).await
}

/// Whether the resource is being given back, so that its log is all there is and goes no further.
/// A watch that resumes is served from it whoever waits: its client would go to the CRD with a
/// version from before the last bookmark otherwise, and be told there that this is too old.
#[must_use]
pub fn serves_the_past(scope: &Scope) -> bool {
    let gate = scope.resource.gate();
    let gate = gate.borrow();
    gate.state == GateState::Held && gate.frozen.is_some()
}

/// Whether the request would wait if it was to be admitted now.
#[must_use]
pub fn makes_wait(attachments: &Attachments, scope: &Scope) -> bool {
    let info = &scope.ctx.info;
    match passage(&scope.resource.gate().borrow(), reader(scope)) {
        Passage::Pass => !attachments.is_attached(&info.api_group, &info.version),
        Passage::Wait => true,
        Passage::Refuse => false,
    }
}

fn reader(scope: &Scope) -> Option<&str> {
    let reads = !scope.ctx.info.is_mutating();
    reads.then_some(scope.ctx.user.username.as_str())
}

/// Waits until the gate lets the request pass, as long as its patience lasts.
///
/// # Errors
/// As [`admit`].
pub async fn pass(scope: &Scope) -> Result<(), ApiError> {
    let reader = reader(scope);
    let mut gate = scope.resource.gate();
    let waits = passage(&gate.borrow(), reader) == Passage::Wait;
    let settled = gate.wait_for(|gate| passage(gate, reader) != Passage::Wait);
    let decision = match timeout_at(scope.patience, settled).await {
        Ok(Ok(gate)) => passage(&gate, reader),
        // The sender lives as long as the resource that `scope` holds.
        Ok(Err(_)) => Passage::Refuse,
        Err(_) => Passage::Wait,
    };
    match decision {
        Passage::Pass => Ok(()),
        // Who has waited has only met the moment at which its CRD took over.
        Passage::Refuse if waits => Err(ApiError::too_many_requests(
            format!(
                "{} is served by its CRD from now on, try again",
                scope.name()
            ),
            RETRY_AFTER,
        )),
        Passage::Refuse => Err(ApiError::service_unavailable(
            format!("{} is not served here (yet), try again", scope.name()),
            RETRY_AFTER,
        )),
        Passage::Wait => Err(ApiError::too_many_requests(
            format!("{} is being moved, try again", scope.name()),
            RETRY_AFTER,
        )),
    }
}

/// Waits while the APIService of an open resource leads elsewhere: its CRD may take the same write.
async fn attached(attachments: &Attachments, scope: &Scope) -> Result<(), ApiError> {
    let info = &scope.ctx.info;
    let (group, version) = (info.api_group.as_str(), info.version.as_str());
    if attachments.attached(group, version, scope.patience).await {
        return Ok(());
    }
    Err(ApiError::too_many_requests(
        format!("APIService {version}.{group} does not lead to this server, try again"),
        RETRY_AFTER,
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(GateState::Open, None, Passage::Pass)]
    #[case(GateState::Closed, Some("holder"), Passage::Refuse)]
    #[case(GateState::Held, Some("holder"), Passage::Pass)]
    #[case(GateState::Held, Some("other"), Passage::Wait)]
    #[case(GateState::Held, None, Passage::Wait)]
    fn decisions(
        #[case] state: GateState,
        #[case] reader: Option<&str>,
        #[case] expected: Passage,
    ) {
        let gate = GateStatus {
            state,
            holder: Some("holder".into()),
            ..GateStatus::default()
        };
        assert_eq!(passage(&gate, reader), expected);
    }

    #[test]
    fn nobody_is_the_holder_of_a_gate_without_one() {
        let gate = GateStatus {
            state: GateState::Held,
            ..GateStatus::default()
        };
        assert_eq!(passage(&gate, Some("")), Passage::Wait);
    }

    #[rstest]
    #[case::all_there_is(false, Passage::Pass)]
    #[case::released(true, Passage::Wait)]
    fn reads_pass_a_held_gate_that_was_open_until_it_is_released(
        #[case] released: bool,
        #[case] expected: Passage,
    ) {
        let gate = GateStatus {
            state: GateState::Held,
            frozen: Some(7),
            released,
            ..GateStatus::default()
        };
        assert_eq!(passage(&gate, Some("anybody")), expected);
        assert_eq!(passage(&gate, None), Passage::Wait);
    }
}
