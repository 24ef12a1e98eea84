//! The misfortunes of servers and their database, at random.

use std::collections::BTreeMap;
use std::time::Duration;

use pgtest::{Direction, Postgres, Shutdown};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use super::replica::Place;

/// A misfortune that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfortune {
    /// All connections of a server are reset.
    Cut,
    /// Connections of a server are reset in the middle of an answer.
    CutAnswer,
    /// Connections of a server are reset in the middle of a question.
    CutQuestion,
    /// Answers are lost, and the connection after them.
    LoseAnswers,
    /// A server cannot connect.
    Refuse,
    /// The network is slow.
    Delay,
    /// The database ends its sessions.
    Terminate,
    /// The database cancels what it is doing: transactions are rolled back.
    Cancel,
    /// The database ends and recovers.
    Restart,
    /// A server dies, and another is started in its place.
    Kill,
}

/// Those that a network and a database have often.
const COMMON: [Misfortune; 9] = [
    Misfortune::Cut,
    Misfortune::CutAnswer,
    Misfortune::CutQuestion,
    Misfortune::LoseAnswers,
    Misfortune::Refuse,
    Misfortune::Delay,
    Misfortune::Terminate,
    Misfortune::Cancel,
    Misfortune::Kill,
];

/// The number of times that each has struck.
pub type Strikes = BTreeMap<Misfortune, u32>;

/// One misfortune in so many is a restart of the database.
const RARELY: u32 = 30;

/// One of them at random.
pub fn choose() -> Misfortune {
    if rand::rng().random_ratio(1, RARELY) {
        return Misfortune::Restart;
    }
    *COMMON.choose(&mut rand::rng()).unwrap()
}

/// Lets one pass by; all but [`Misfortune::Kill`], which is the caller's to carry out.
pub async fn strike(misfortune: Misfortune, server: &Postgres, place: &Place) {
    let proxy = &place.proxy;
    let bytes = rand::rng().random_range(1..50_000);
    match misfortune {
        Misfortune::Cut => proxy.cut(),
        Misfortune::CutAnswer => proxy.cut_after(Direction::ToClient, bytes),
        Misfortune::CutQuestion => proxy.cut_after(Direction::ToServer, 10 * bytes),
        Misfortune::LoseAnswers => {
            proxy.hold(Direction::ToClient);
            a_moment().await;
            proxy.cut();
            proxy.release();
        }
        Misfortune::Refuse => {
            proxy.refuse(true);
            a_moment().await;
            proxy.refuse(false);
        }
        Misfortune::Delay => {
            proxy.delay(Duration::from_millis(30));
            a_moment().await;
            proxy.delay(Duration::ZERO);
        }
        Misfortune::Terminate => {
            server.terminate_connections().await.unwrap();
        }
        Misfortune::Cancel => {
            let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                WHERE usename = 'reports' AND state = 'active'";
            server.sql(cancel).await.unwrap();
        }
        Misfortune::Restart => server.restart(Shutdown::Immediate).await.unwrap(),
        Misfortune::Kill => {}
    }
}

async fn a_moment() {
    let length = rand::rng().random_range(10..200);
    tokio::time::sleep(Duration::from_millis(length)).await;
}
