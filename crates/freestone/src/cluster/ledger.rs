//! What the tasks of a stage still have to do, as the server knows it: parts that a task has given back are those of another
//! one.
//!
//! A part that is claimed is planned again, and read from the store by a worker that does not have it in its cache. So a task
//! is asked only when it is late: when it takes longer than the idle worker would have needed for all of it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::provider::Piece;

/// How often an idle worker's claim looks again while the others are being asked.
pub(super) const STEP: Duration = Duration::from_millis(5);
/// A task is late if it takes this multiple of the time that the idle worker would take, and this time more.
const LATE: f64 = 1.3;
const LATE_LEAST: Duration = Duration::from_millis(20);

/// The tasks that run.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    id: u64,
    worker: String,
    began: Instant,
    /// At first, and without those that were given back.
    all_rows: u64,
    rows: u64,
    given: Vec<Piece>,
    turns: usize,
    /// The worker has it. Before, it does not know what it could give.
    is_begun: bool,
    is_asked: bool,
    /// It has nothing to give, or has ended.
    is_over: bool,
    /// It did not say what it gave back, so its rows cannot be used.
    is_lost: bool,
}

/// A worker that has ended its task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Idle {
    pub worker: String,
    /// The time that it took per row of its part.
    pub seconds_per_row: f64,
}

impl Idle {
    fn finds_late(&self, task: &Entry, now: Instant) -> bool {
        let expected = task.all_rows as f64 * self.seconds_per_row * LATE + LATE_LEAST.as_secs_f64();
        now.saturating_duration_since(task.began).as_secs_f64() >= expected
    }
}

/// What an idle worker can do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask this task.
    Ask {
        id: u64,
        worker: String,
        turn: usize,
    },
    /// Another one asks at this moment, a task has not arrived, or none is late.
    Wait,
    Nothing,
}

/// What is known of a task when its rows have ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub given: Vec<Piece>,
    pub is_lost: bool,
}

impl Ledger {
    /// A task begins.
    pub fn begin(&self, id: u64, worker: &str, pieces: &[Piece]) {
        self.0.lock().push(Entry {
            id,
            worker: worker.to_owned(),
            began: Instant::now(),
            all_rows: rows(pieces),
            rows: rows(pieces),
            given: vec![],
            turns: 0,
            is_begun: false,
            is_asked: false,
            is_over: false,
            is_lost: false,
        });
    }

    /// The worker has the task.
    pub fn arrived(&self, id: u64) {
        if let Some(task) = self.0.lock().iter_mut().find(|task| task.id == id) {
            task.is_begun = true;
        }
    }

    /// Whether no task runs.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The task that an idle worker asks next: of those that are late, the one with the most rows.
    pub fn next(&self, idle: &Idle, now: Instant) -> Next {
        let mut tasks = self.0.lock();
        let open = tasks.iter_mut().filter(|task| !task.is_over && task.worker != idle.worker);
        let may_be_asked = |task: &&mut Entry| !task.is_asked && task.is_begun && idle.finds_late(task, now);
        let (free, others): (Vec<_>, Vec<_>) = open.partition(may_be_asked);
        match free.into_iter().max_by_key(|task| task.rows) {
            Some(task) => {
                task.is_asked = true;
                Next::Ask { id: task.id, worker: task.worker.clone(), turn: task.turns }
            }
            None if others.is_empty() => Next::Nothing,
            None => Next::Wait,
        }
    }

    /// What a task said when it was asked; `None` if it did not answer.
    pub fn answered(&self, id: u64, given: Option<&[Piece]>) {
        let mut tasks = self.0.lock();
        let Some(task) = tasks.iter_mut().find(|task| task.id == id) else { return };
        task.is_asked = false;
        match given {
            None => (task.is_lost, task.is_over) = (true, true),
            Some([]) => task.is_over = true,
            Some(given) => {
                task.turns += 1;
                task.rows = task.rows.saturating_sub(rows(given));
                task.given.extend_from_slice(given);
            }
        }
    }

    /// Waits until nobody asks a task whose rows have ended, and says what it gave.
    pub async fn end(&self, id: u64) -> Ended {
        loop {
            {
                let mut tasks = self.0.lock();
                let Some(at) = tasks.iter().position(|task| task.id == id) else {
                    return Ended { given: vec![], is_lost: false };
                };
                tasks[at].is_over = true;
                if !tasks[at].is_asked {
                    let task = tasks.swap_remove(at);
                    return Ended { given: task.given, is_lost: task.is_lost };
                }
            }
            tokio::time::sleep(STEP).await;
        }
    }
}

fn rows(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.rows.len() as u64).sum()
}

/// Parts without others, each of which lies within one of them.
pub(super) fn without(pieces: Vec<Piece>, given: &[Piece]) -> Vec<Piece> {
    let mut left = vec![];
    for Piece { segment, rows } in pieces {
        let is_within =
            |other: &&Piece| other.segment == segment && rows.start <= other.rows.start && other.rows.end <= rows.end;
        let mut cut: Vec<&Piece> = given.iter().filter(is_within).collect();
        cut.sort_unstable_by_key(|piece| piece.rows.start);
        let mut from = rows.start;
        for piece in cut {
            if from < piece.rows.start {
                left.push(Piece { segment, rows: from..piece.rows.start });
            }
            from = piece.rows.end;
        }
        if from < rows.end {
            left.push(Piece { segment, rows: from..rows.end });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(segment: usize, rows: std::ops::Range<u32>) -> Piece {
        Piece { segment, rows }
    }

    #[test]
    fn what_was_given_is_cut_out() {
        let all = vec![piece(0, 0..100), piece(1, 0..50), piece(2, 0..10)];
        let given = [piece(0, 90..100), piece(0, 20..40), piece(2, 0..10), piece(0, 40..60)];
        assert_eq!(without(all.clone(), &given), [piece(0, 0..20), piece(0, 60..90), piece(1, 0..50)]);
        assert_eq!(without(all.clone(), &[]), all);
    }

    #[tokio::test]
    async fn tasks_are_asked_one_at_a_time_and_the_largest_first() {
        let ledger = Ledger::default();
        ledger.begin(1, "a", &[piece(0, 0..100)]);
        ledger.begin(2, "b", &[piece(1, 0..300)]);
        let later = Instant::now() + Duration::from_secs(60);
        let next = |worker: &str| ledger.next(&Idle { worker: worker.to_owned(), seconds_per_row: 0.01 }, later);
        assert_eq!(next("c"), Next::Wait, "none has arrived");
        [1, 2].into_iter().for_each(|id| ledger.arrived(id));
        let ask = |id, worker: &str, turn| Next::Ask { id, worker: worker.to_owned(), turn };
        assert_eq!(next("c"), ask(2, "b", 0));
        assert_eq!(next("d"), ask(1, "a", 0));
        assert_eq!(next("e"), Next::Wait);
        ledger.answered(2, Some(&[piece(1, 100..300)]));
        assert_eq!(next("b"), Next::Wait, "nobody asks itself");
        assert_eq!(next("c"), ask(2, "b", 1));
        ledger.answered(2, Some(&[]));
        ledger.answered(1, None);
        assert_eq!(next("c"), Next::Nothing);
        assert!(!ledger.is_empty());
        assert_eq!(ledger.end(2).await, Ended { given: vec![piece(1, 100..300)], is_lost: false });
        assert_eq!(ledger.end(1).await, Ended { given: vec![], is_lost: true });
        assert!(ledger.is_empty());
    }

    #[test]
    fn only_late_tasks_are_asked() {
        let ledger = Ledger::default();
        ledger.begin(1, "a", &[piece(0, 0..100)]);
        ledger.arrived(1);
        let began = Instant::now();
        // The idle worker would take a second for the task.
        let idle = Idle { worker: "b".to_owned(), seconds_per_row: 0.01 };
        let after = |milliseconds| ledger.next(&idle, began + Duration::from_millis(milliseconds));
        assert_eq!(after(1200), Next::Wait);
        assert_eq!(after(1400), Next::Ask { id: 1, worker: "a".to_owned(), turn: 0 });
        // Giving rows back makes no task later than it was.
        ledger.answered(1, Some(&[piece(0, 50..100)]));
        assert_eq!(after(1200), Next::Wait);
    }
}
