//! The gate of a resource: its requests are served, wait, or are refused.

use std::time::Duration;

use apimachinery::error::ApiError;
use crds::control::GateState;
use storage::cache::Resource;
use storage::model::GateStatus;
use tokio::time::{Instant, timeout_at};

/// Longest time that a request waits for a held gate.
const MAX_HOLD: Duration = Duration::from_secs(30);
/// Seconds after which a refused client may come back.
pub const RETRY_AFTER: u32 = 1;

/// The decision of a gate about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It is served.
    Pass,
    /// It waits.
    Wait,
    /// It is refused.
    Refuse,
}

/// Returns the decision. `reader` is the user of a request that only reads, `None` for one that
/// writes.
#[must_use]
pub fn passage(gate: &GateStatus, reader: Option<&str>) -> Passage {
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

/// Returns the time until which a request that arrives now may wait.
#[must_use]
pub fn patience() -> Instant {
    Instant::now() + MAX_HOLD
}

/// Waits until the gate lets the request pass, at most until its patience ends.
///
/// # Errors
/// 503 with `Retry-After` when the gate is closed; 429 with `Retry-After` when that lasts for too
/// long, and when the gate closes on a request that has waited (`docs/decisions/`).
pub async fn pass(
    resource: &Resource,
    reader: Option<&str>,
    patience: Instant,
) -> Result<(), ApiError> {
    let name = &resource.def().resource;
    let mut gate = resource.gate();
    let waits = passage(&gate.borrow(), reader) == Passage::Wait;
    let settled = gate.wait_for(|gate| passage(gate, reader) != Passage::Wait);
    let decision = match timeout_at(patience, settled).await {
        Ok(Ok(gate)) => passage(&gate, reader),
        // The sender lives as long as the resource that the request holds.
        Ok(Err(_)) => Passage::Refuse,
        Err(_) => Passage::Wait,
    };
    match decision {
        Passage::Pass => Ok(()),
        // Who has waited has only met the moment at which its CRD took over.
        Passage::Refuse if waits => Err(ApiError::too_many_requests(
            format!("{name} is served by its CRD from now on, try again"),
            RETRY_AFTER,
        )),
        Passage::Refuse => Err(ApiError::service_unavailable(
            format!("{name} is not served here (yet), try again"),
            RETRY_AFTER,
        )),
        Passage::Wait => Err(ApiError::too_many_requests(
            format!("{name} is being moved, try again"),
            RETRY_AFTER,
        )),
    }
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
