use super::*;

const KIND: ReportKind = ReportKind::PolicyReport;

struct Ground {
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
    observer: Observer,
}

impl Ground {
    fn new(source: Source) -> Self {
        let (ledger, tally) = (Arc::new(Ledger::default()), Arc::new(Tally::default()));
        let nature = Nature {
            name: "w".into(),
            kind: KIND,
            selected: false,
            bookmarks: true,
            source,
            apiserver: 0,
        };
        let observer = Observer::new(nature, Arc::clone(&ledger), Arc::clone(&tally));
        observer.begun(5);
        Self {
            ledger,
            tally,
            observer,
        }
    }

    fn write(&self, name: &str, what: What) -> Stamp {
        let stamp = self.ledger.begin(&key(name), what, false);
        self.ledger
            .end(&key(name), stamp, Fate::Acknowledged, String::new());
        stamp
    }

    fn see(&self, type_: EventType, name: &str, version: u64, stamp: Stamp) {
        let seen = Seen {
            key: key(name),
            version,
            stamp: Some(stamp),
        };
        self.observer.event(type_, &seen);
    }

    fn flaws(&self) -> [u64; 4] {
        [
            Flaw::Missed,
            Flaw::Duplicated,
            Flaw::OutOfOrder,
            Flaw::Phantom,
        ]
        .map(|flaw| self.tally.flaws(flaw))
    }
}

fn key(name: &str) -> Key {
    Key {
        kind: KIND,
        namespace: "n".into(),
        name: name.into(),
    }
}

#[test]
fn a_life_seen_once_and_in_order_is_clean() {
    let ground = Ground::new(Source::RetryWatcher);
    let created = ground.write("a", What::Create);
    ground.see(EventType::Added, "a", 6, created);
    let updated = ground.write("a", What::Update);
    ground.see(EventType::Modified, "a", 8, updated);
    ground.write("a", What::Delete(2));
    ground.see(EventType::Deleted, "a", 9, updated);
    let again = ground.write("a", What::Create);
    ground.see(EventType::Added, "a", 10, again);
    ground.observer.settle();
    assert!(ground.observer.settled());
    assert_eq!(ground.tally.all_flaws(), 0, "{:?}", ground.tally.examples());
}

#[test]
fn what_is_written_back_to_etcd_must_not_be_seen() {
    let ground = Ground::new(Source::RetryWatcher);
    let created = ground.write("a", What::Create);
    ground.see(EventType::Added, "a", 6, created);
    ground.see(EventType::Added, "a", 20, created);
    assert_eq!(ground.flaws(), [0, 1, 0, 0]);
    ground.see(EventType::Deleted, "a", 21, created);
    assert_eq!(ground.flaws(), [0, 1, 0, 1], "it lives on");
}

#[test]
fn an_informer_that_lists_again_is_told_the_new_version_of_what_is_written_back() {
    let ground = Ground::new(Source::Informer);
    let one = ground.write("a", What::Create);
    ground.see(EventType::Added, "a", 10, one);
    ground.tally.go(|moment| moment.disturbed = true);
    ground.observer.expired("listed again");
    ground.see(EventType::Modified, "a", 20, one);
    assert_eq!(ground.flaws(), [0, 0, 0, 0]);
    // A watch never tells it, and the list only once.
    ground.observer.settle();
    ground.see(EventType::Modified, "a", 30, one);
    assert_eq!(ground.flaws(), [0, 1, 0, 0]);
}

#[test]
fn only_of_a_write_that_the_server_took_over_may_etcd_have_a_lower_version() {
    for (merged, flaws) in [(true, 0), (false, 1)] {
        let ground = Ground::new(Source::Informer);
        let one = ground.write("a", What::Create);
        ground.see(EventType::Added, "a", 10_055, one);
        ground.tally.go(|moment| moment.disturbed = true);
        if merged {
            ground.tally.merged([key("a")].into());
        }
        ground.observer.expired("listed again");
        ground.see(EventType::Modified, "a", 20, one);
        assert_eq!(ground.flaws(), [0, 0, flaws, 0]);
    }
    // Another state is another matter.
    let ground = Ground::new(Source::Informer);
    let one = ground.write("a", What::Create);
    let two = ground.write("a", What::Update);
    ground.see(EventType::Added, "a", 10_055, one);
    ground.tally.go(|moment| moment.disturbed = true);
    ground.tally.merged([key("a")].into());
    ground.observer.expired("listed again");
    ground.see(EventType::Modified, "a", 20, two);
    assert_eq!(ground.flaws(), [0, 0, 1, 0]);
}

#[test]
fn what_is_older_or_nobody_wrote_is_found() {
    let ground = Ground::new(Source::RetryWatcher);
    let created = ground.write("a", What::Create);
    let updated = ground.write("a", What::Update);
    ground.see(EventType::Added, "a", 7, updated);
    ground.see(EventType::Modified, "a", 8, created);
    assert_eq!(ground.flaws(), [0, 0, 1, 0]);
    ground.see(EventType::Added, "x", 9, Stamp { seq: 1, id: 999 });
    assert_eq!(ground.flaws(), [0, 0, 1, 1]);
    ground.see(EventType::Modified, "a", 8, updated);
    assert_eq!(ground.flaws(), [0, 1, 2, 1], "the version went back, too");
}

#[test]
fn what_was_not_seen_is_counted_once() {
    let ground = Ground::new(Source::RetryWatcher);
    ground.write("a", What::Create);
    assert!(!ground.observer.settled());
    ground.observer.settle();
    ground.observer.settle();
    assert_eq!(ground.flaws(), [1, 0, 0, 0]);
    assert!(ground.observer.settled(), "it is not waited for again");
}

#[test]
fn a_list_shows_what_went_before_it() {
    let ground = Ground::new(Source::RetryWatcher);
    let created = ground.write("a", What::Create);
    ground.write("b", What::Create);
    ground.write("b", What::Delete(1));
    ground.observer.expired("410");
    ground.observer.listed(Seen {
        key: key("a"),
        version: 9,
        stamp: Some(created),
    });
    ground.observer.begun(9);
    ground.observer.settle();
    assert!(ground.observer.settled());
    assert_eq!(ground.flaws(), [0; 4]);
    assert_eq!(ground.tally.flaws(Flaw::RetryWatcherDead), 1);
}

#[test]
fn an_informer_may_pass_over_what_is_gone_again() {
    let ground = Ground::new(Source::Informer);
    ground.write("a", What::Create);
    let last = ground.write("a", What::Update);
    ground.write("b", What::Create);
    ground.write("b", What::Delete(1));
    ground.see(EventType::Added, "a", 7, last);
    ground.observer.settle();
    assert_eq!(ground.flaws(), [0; 4]);
    ground.see(EventType::Modified, "a", 9, last);
    assert_eq!(ground.flaws(), [0, 1, 0, 0]);
}

#[test]
fn a_place_from_before_a_restart_expires_whenever_it_is_used_again() {
    let ground = Ground::new(Source::RetryWatcher);
    ground.tally.starting(Some(1));
    ground.observer.expired("410");
    assert_eq!(ground.tally.all_flaws(), 1, "another kube-apiserver");
    ground.tally.starting(Some(0));
    ground.tally.go(|moment| moment.round += 1);
    ground.observer.expired("410");
    assert_eq!(ground.tally.noted(Note::ExpiredAfterRestart), 1);
    ground.observer.begun(20);
    ground.observer.expired("410");
    assert_eq!(ground.tally.all_flaws(), 2, "the place is a new one");
}

#[test]
fn a_watcher_without_bookmarks_may_expire() {
    let mut ground = Ground::new(Source::RetryWatcher);
    ground.observer.nature.bookmarks = false;
    ground.observer.expired("410");
    assert_eq!(ground.tally.all_flaws(), 0);
    assert_eq!(ground.tally.noted(Note::ExpiredWithoutBookmarks), 1);
}

#[test]
fn a_list_may_come_before_or_after_what_is_deleted_meanwhile() {
    let ground = Ground::new(Source::Watch);
    ground.write("before", What::Create);
    ground.write("before", What::Delete(1));
    ground.observer.asks();
    let meanwhile = ground.write("a", What::Create);
    ground.write("a", What::Delete(1));
    ground.observer.begun(6);
    ground.see(EventType::Added, "a", 7, meanwhile);
    ground.see(EventType::Deleted, "a", 8, meanwhile);
    assert_eq!(ground.flaws(), [0; 4]);
    // Once.
    ground.see(EventType::Added, "a", 9, meanwhile);
    assert_eq!(ground.flaws()[1], 1);
    ground.observer.settle();
    assert_eq!(ground.flaws()[0], 0);
}

#[test]
fn what_was_deleted_before_a_list_does_not_come_after_it() {
    let ground = Ground::new(Source::Watch);
    let old = ground.write("a", What::Create);
    ground.write("a", What::Delete(1));
    ground.observer.asks();
    ground.observer.begun(6);
    ground.see(EventType::Added, "a", 7, old);
    assert_eq!(ground.flaws()[1], 1);
}
