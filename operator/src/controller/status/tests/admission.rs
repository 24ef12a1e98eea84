//! Policies, webhooks and quotas that have no effect any more.

use super::*;
use crate::migration::Bypass;

#[test]
fn what_has_no_effect_is_named_and_leaves_everything_ready() {
    let object = fixtures::object(spec());
    let status = |bypass: Result<Bypass, Problem>| {
        let mut served = group(MigrationPhase::Completed, ServedBy::Server);
        served.bypass = Some(bypass);
        status_of(&object, &applied(true, true, true), &[served])
    };
    let found = Bypass {
        count: 1,
        named: vec!["ResourceQuota team/reports".to_owned()],
    };
    let unknown = Problem::forbidden(&"cannot list resourcequotas");
    for (bypass, told) in [
        (Ok(found), ("True", reasons::ADMISSION_BYPASSED)),
        (Err(unknown), ("Unknown", reasons::FORBIDDEN)),
    ] {
        let status = status(bypass);
        assert_eq!(condition(&status, types::ADMISSION_BYPASSED), Some(told));
        assert_eq!(
            condition(&status, types::READY),
            Some(("True", reasons::SERVING))
        );
        assert_eq!(condition(&status, types::STALLED), None);
        assert_eq!(kstatus(&status, 3), "Current");
    }
}
