//! Loading: many connections create reports, each of which is made when it is its turn, so that
//! only those under way are in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::Method;

use crate::bodies::{Bodies, base_name};
use crate::book::Book;
use crate::client::{Reply, Request};
use crate::load::Work;
use crate::measure;
use crate::names::namespace;
use crate::target::Target;

/// Connections that create.
const CONNECTIONS: usize = 64;
/// Lines of progress.
const LINES: usize = 20;

/// Creates the reports with these numbers and notes the time.
///
/// # Errors
/// If a request fails.
pub async fn run(
    book: &mut Book,
    target: &Target,
    bodies: &Arc<Bodies>,
    numbers: Range<usize>,
) -> anyhow::Result<()> {
    let filling = Arc::new(Filling {
        target: target.clone(),
        group: target.kind.group(),
        bodies: Arc::clone(bodies),
        next: AtomicUsize::new(numbers.start),
        created: AtomicUsize::new(0),
        numbers,
        begun: Instant::now(),
    });
    let work: Vec<Filler> = (0..CONNECTIONS)
        .map(|_| Filler(Arc::clone(&filling)))
        .collect();
    let (load, _) = measure::load(book, "load", target, work).await?;
    book.add("load time", &target.system(), load.seconds);
    Ok(())
}

/// The reports to create, which the connections share.
struct Filling {
    target: Target,
    group: String,
    bodies: Arc<Bodies>,
    numbers: Range<usize>,
    next: AtomicUsize,
    created: AtomicUsize,
    begun: Instant,
}

/// One of the connections.
struct Filler(Arc<Filling>);

impl Work for Filler {
    fn next(&mut self) -> Option<Request> {
        let filling = &self.0;
        let index = filling.next.fetch_add(1, Ordering::Relaxed);
        if !filling.numbers.contains(&index) {
            return None;
        }
        let space = namespace(index);
        let name = base_name(index);
        let body = filling.bodies.create(&filling.group, &space, &name, index);
        let path = filling.target.collection(&space);
        Some(Request::new(Method::POST, path, body))
    }

    fn answered(&mut self, _reply: &Reply) -> anyhow::Result<()> {
        let filling = &self.0;
        let created = filling.created.fetch_add(1, Ordering::Relaxed) + 1;
        let step = filling.numbers.len().div_ceil(LINES);
        if created.is_multiple_of(step) {
            eprintln!(
                "  {} of {} reports, after {:.0} s",
                filling.numbers.start + created,
                filling.numbers.end,
                filling.begun.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }
}
