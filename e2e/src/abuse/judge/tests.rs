use rstest::rstest;

use super::super::child::Child;
use super::super::edit::ValidEdit;
use super::super::seen::Group;
use super::super::told::Said;
use super::*;

const GROUP: &str = "one.example";

fn said(type_: &str, is: &str, message: &str) -> Said {
    Said {
        type_: type_.to_owned(),
        is: is.to_owned(),
        reason: "AsExpected".to_owned(),
        message: message.to_owned(),
    }
}

/// Returns a status that tells that all is well.
fn well_told() -> Told {
    let types = [
        READY,
        DATABASE_READY,
        CERTIFICATES_READY,
        SERVER_AVAILABLE,
        API_SERVICES_REGISTERED,
    ];
    Told {
        current: true,
        conditions: types.map(|type_| said(type_, "True", "")).to_vec(),
        phases: Vec::new(),
        wanted: vec![(GROUP.to_owned(), true)],
    }
}

/// Returns the view of a client when all is well.
fn well_seen() -> Seen {
    Seen {
        groups: vec![Group {
            name: GROUP.to_owned(),
            at_server: Some(true),
            unread: None,
            unwritten: None,
        }],
        control_api: true,
        certificate: true,
    }
}

/// Returns the view of a client when no server is there.
fn gone() -> Seen {
    let mut seen = well_seen();
    seen.control_api = false;
    seen.groups[0].unread = Some("503".to_owned());
    seen.groups[0].unwritten = Some("503".to_owned());
    seen
}

fn with(mut told: Told, type_: &str, is: &str, message: &str) -> Told {
    told.conditions.retain(|said| said.type_ != type_);
    told.conditions.push(said(type_, is, message));
    told
}

/// Returns a status that tells the truth when no server is there, and it comes back.
fn told_gone() -> Told {
    let told = with(well_told(), READY, "False", "Deployment a is scaled to 0");
    let told = with(told, SERVER_AVAILABLE, "False", "");
    with(told, RECONCILING, "True", "")
}

fn untrue(told: &Told, seen: &Seen) -> Vec<String> {
    let found = contradictions(told, seen);
    let type_ = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
    found.iter().map(type_).collect()
}

#[test]
fn what_is_so_and_told_is_no_contradiction() {
    let none: [&str; 0] = [];
    assert_eq!(untrue(&well_told(), &well_seen()), none);
    assert_eq!(untrue(&told_gone(), &gone()), none);
    let refused = with(well_told(), READY, "False", "");
    let refused = with(refused, STALLED, "True", "");
    assert_eq!(untrue(&refused, &well_seen()), none);
}

/// A damage, and the conditions that are untrue then.
type Damaged = (fn(&mut Seen), &'static [&'static str]);

#[test]
fn a_condition_that_is_true_without_being_so_is_found() {
    const ELSEWHERE: &[&str] = &["APIServicesRegistered", "Ready"];
    let cases: [Damaged; 7] = [
        (
            |seen| seen.groups[0].unread = Some("503".to_owned()),
            &["Ready"],
        ),
        (
            |seen| seen.groups[0].unwritten = Some("503".to_owned()),
            &["Ready"],
        ),
        (|seen| seen.control_api = false, &["ServerAvailable"]),
        (|seen| seen.certificate = false, &["CertificatesReady"]),
        (|seen| seen.groups[0].at_server = Some(false), ELSEWHERE),
        (|seen| seen.groups[0].at_server = None, ELSEWHERE),
        (|seen| seen.groups.clear(), ELSEWHERE),
    ];
    for (damage, expected) in cases {
        let mut seen = well_seen();
        damage(&mut seen);
        assert_eq!(untrue(&well_told(), &seen), expected, "{seen:?}");
    }
}

#[rstest]
#[case(READY)]
#[case(SERVER_AVAILABLE)]
#[case(DATABASE_READY)]
#[case(API_SERVICES_REGISTERED)]
fn a_condition_that_is_false_without_being_so_is_found(#[case] type_: &str) {
    let told = with(well_told(), type_, "False", "");
    assert_eq!(untrue(&told, &well_seen()), [type_]);
}

#[test]
fn an_outage_that_nothing_explains_is_found() {
    let mut told = told_gone();
    told.conditions.retain(|said| said.type_ != RECONCILING);
    assert_eq!(untrue(&told, &gone()), [READY]);
    // Nobody is to do anything.
    let ready = told.conditions.iter_mut().find(|said| said.type_ == READY);
    ready.unwrap().reason = reasons::SUSPENDED.to_owned();
    let none: [&str; 0] = [];
    assert_eq!(untrue(&told, &gone()), none);
}

#[rstest]
#[case::served(Expect::Served, well_told())]
#[case::refused(Expect::Refused(&["a", "spec.b"]),
    with(with(well_told(), READY, "False", ""), STALLED, "True", "spec.b: no"))]
#[case::told(Expect::Told(RECONCILING, "True", &["no node"]),
    with(well_told(), RECONCILING, "True", "no node fits"))]
fn an_end_as_expected_is_one(#[case] expect: Expect, #[case] told: Told) {
    assert_eq!(waits_for(&expect, &told, &well_seen()), None);
    assert_eq!(late(&expect, &told, &well_seen()), End::Fine);
    // Whoever is not served is not done.
    assert!(waits_for(&expect, &told, &gone()).is_some());
}

#[test]
fn being_away_has_to_be_told() {
    let away = Expect::Away(&["scaled to 0"]);
    assert_eq!(late(&away, &told_gone(), &gone()), End::Fine);
    for told in [
        well_told(),
        with(told_gone(), READY, "False", "something"),
        with(told_gone(), SERVER_AVAILABLE, "True", ""),
    ] {
        let end = late(&away, &told, &gone());
        assert!(matches!(end, End::Untrue(_)), "{end:?}");
    }
    let end = late(&away, &told_gone(), &well_seen());
    assert!(matches!(end, End::Untrue(_)), "{end:?}");
}

#[test]
fn what_nobody_names_is_untrue() {
    let expect = Expect::Refused(&["spec.b"]);
    let other = with(well_told(), STALLED, "True", "spec.c: no");
    for told in [well_told(), other] {
        let end = late(&expect, &told, &well_seen());
        assert!(matches!(end, End::Untrue(_)), "{end:?}");
    }
    assert_eq!(refused(&expect, "spec.b: no"), End::Fine);
    assert!(matches!(refused(&expect, "no"), End::Untrue(_)));
    assert_eq!(refused(&Expect::Served, "no"), End::Fine);
}

#[test]
fn who_is_not_served_and_not_told_what_to_do_is_stuck() {
    let end = late(&Expect::Served, &told_gone(), &gone());
    assert!(matches!(end, End::Stuck(_)), "{end:?}");
    let remedy = "set spec.suspend";
    let told = with(told_gone(), READY, "False", remedy);
    let end = late(&Expect::Served, &told, &gone());
    assert_eq!(end, End::Told(remedy.to_owned()));
    let mut old = with(told_gone(), READY, "False", remedy);
    old.current = false;
    let end = late(&Expect::Served, &old, &gone());
    assert!(matches!(end, End::Stuck(_)), "{end:?}");
}

#[test]
fn who_is_served_while_something_goes_on_is_neither() {
    let busy = with(well_told(), READY, "False", "being moved");
    let busy = with(busy, RECONCILING, "True", "");
    let end = late(&Expect::Served, &busy, &well_seen());
    assert_eq!(end, End::Busy(busy.summary()));
    let end = endless(end);
    assert!(matches!(end, End::Stuck(_)), "{end:?}");
    assert_eq!(endless(End::Fine), End::Fine);
    let stalled = with(busy, STALLED, "True", "somebody has done something");
    let end = late(&Expect::Served, &stalled, &well_seen());
    assert!(matches!(end, End::Untrue(_)), "{end:?}");
}

#[rstest]
#[case::a_child(Action::Delete(vec![(Child::ServiceAccount, 0)]), true)]
#[case::the_specification(Action::Valid(ValidEdit::LogLevel), false)]
#[case::the_namespace(Action::NamespaceClosed, false)]
fn nobody_is_asked_to_mend_what_the_operator_mends(#[case] action: Action, #[case] stuck: bool) {
    let end = alone(&action, End::Told("set spec.x".to_owned()));
    assert_eq!(matches!(end, End::Stuck(_)), stuck, "{end:?}");
    assert_eq!(alone(&action, End::Fine), End::Fine);
}

#[test]
fn a_contradiction_counts_when_it_lasts_and_once() {
    let (limit, start) = (Duration::from_secs(15), Instant::now());
    let found = |text: &str| BTreeSet::from([text.to_owned()]);
    let mut contradicted = Contradicted::default();
    contradicted.look(found("one"), start, limit);
    assert!(contradicted.is_open());
    contradicted.look(BTreeSet::new(), start + limit, limit);
    contradicted.look(found("one"), start + limit, limit);
    assert!(contradicted.is_open(), "it has begun anew");
    contradicted.look(found("one"), start + limit * 2, limit);
    contradicted.look(found("one"), start + limit * 4, limit);
    assert!(!contradicted.is_open());
    assert_eq!(contradicted.untrue(), found("one"));
}
