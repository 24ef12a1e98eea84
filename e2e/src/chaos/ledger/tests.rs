use super::*;

fn key() -> Key {
    Key {
        kind: ReportKind::PolicyReport,
        namespace: "n".into(),
        name: "a".into(),
    }
}

fn write(ledger: &Ledger, what: What, fate: Fate) -> Stamp {
    let stamp = ledger.begin(&key(), what, false);
    ledger.end(&key(), stamp, fate, "c".into());
    stamp
}

#[test]
fn the_last_acknowledged_write_is_expected() {
    let ledger = Ledger::default();
    assert_eq!(ledger.expected(&key()), None);
    write(&ledger, What::Create, Fate::Acknowledged);
    let last = write(&ledger, What::Update, Fate::Acknowledged);
    write(&ledger, What::Update, Fate::Refused);
    let present = Expected::Present {
        id: last.id,
        seq: 2,
        content: "c".into(),
    };
    assert_eq!(ledger.expected(&key()), Some(present));
    write(&ledger, What::Delete(2), Fate::Acknowledged);
    assert_eq!(ledger.expected(&key()), Some(Expected::Absent));
    write(&ledger, What::Create, Fate::Doubted);
    assert_eq!(ledger.expected(&key()), Some(Expected::Unknown));
}

#[test]
fn a_reader_must_see_what_was_acknowledged_before_it_began() {
    let ledger = Ledger::default();
    let first = write(&ledger, What::Create, Fate::Acknowledged);
    let floor = ledger.floors(ReportKind::PolicyReport, None)[&key()];
    assert!(ledger.fresh(&key(), floor, Some(first)));
    assert!(!ledger.fresh(&key(), floor, None));
    write(&ledger, What::Delete(1), Fate::Pending);
    assert!(ledger.fresh(&key(), floor, None), "it may be gone by now");
    write(&ledger, What::Delete(1), Fate::Acknowledged);
    let floor = ledger.floors(ReportKind::PolicyReport, Some("n"))[&key()];
    assert!(ledger.fresh(&key(), floor, None));
    assert!(
        !ledger.fresh(&key(), floor, Some(first)),
        "it has come back"
    );
}

#[test]
fn a_name_of_the_server_is_learnt_from_its_answer() {
    let ledger = Ledger::default();
    let stamp = ledger.begin_unnamed();
    assert!(ledger.knows(&key(), stamp));
    ledger.named(stamp, &key(), "c".into(), true);
    assert!(ledger.knows(&key(), stamp));
    let refused = ledger.begin_unnamed();
    ledger.unnamed(refused, Fate::Refused);
    assert!(!ledger.knows(&key(), refused));
}

/// Two clients have made the same number on the two sides, and one of them was kept.
#[test]
fn what_gave_way_does_not_count() {
    let ledger = Ledger::default();
    let write = |what, seq| {
        let stamp = ledger.begin_at(&key(), what, seq, false);
        ledger.end(&key(), stamp, Fate::Acknowledged, seq.to_string());
        stamp
    };
    write(What::Create, 1);
    write(What::Update, 2);
    let kept = write(What::Update, 2);
    write(What::Delete(2), 3);
    assert_eq!(ledger.expected(&key()), Some(Expected::Absent));
    ledger.gave_way(&key(), Some(kept));
    let (id, seq, content) = (kept.id, 2, "2".to_owned());
    let expected = Expected::Present { id, seq, content };
    assert_eq!(ledger.expected(&key()), Some(expected));
    assert_eq!(ledger.acknowledged(), 2);
    ledger.gave_way(&key(), None);
    assert_eq!(ledger.expected(&key()), Some(Expected::Absent));
}
