//! Which worker reads which parts of a table.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998): each worker has a number for each part, and the part goes to the worker
//! with the greatest one. So a worker that comes or goes moves only its own share, and what a worker has in its cache stays
//! of use. No worker gets more than a bounded part of all rows (Mirrokni, Thorup and Zadimoghaddam, 2018): who is full is
//! passed over.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use freestone_store::Table;

use crate::provider::Piece;

/// The rows of a worker are at most this multiple of an equal share, unless a single part has more.
const LOAD_MAX: f64 = 1.15;

/// The parts of each worker. Those of one worker are in the order of the table.
pub(crate) fn assigned(table: &Table, pieces: &[Piece], workers: &[String]) -> Vec<(String, Vec<Piece>)> {
    // A part by what it is, so that it stays where it is when the table gets others.
    let part = |piece: &Piece| {
        let segment = table.segments.get(piece.segment).map(|entry| entry.id);
        Part { number: hash(&(segment, piece.rows.start)), rows: piece.rows.len() as u64 }
    };
    let parts: Vec<Part> = pieces.iter().map(part).collect();
    let mut shares = vec![vec![]; workers.len()];
    for (piece, worker) in pieces.iter().zip(placed(&parts, workers)) {
        if let Some(share) = shares.get_mut(worker) {
            share.push(piece.clone());
        }
    }
    workers.iter().cloned().zip(shares).collect()
}

#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    rows: u64,
}

/// The worker of each part.
fn placed(parts: &[Part], workers: &[String]) -> Vec<usize> {
    let all: u64 = parts.iter().map(|part| part.rows).sum();
    let most = (all as f64 / workers.len().max(1) as f64 * LOAD_MAX).ceil() as u64;
    let mut loads = vec![0; workers.len()];
    let mut found = vec![0; parts.len()];
    // Large parts first: small ones fill what is left.
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| (Reverse(parts[*at].rows), parts[*at].number));
    for at in order {
        let part = parts[at];
        let weight = |worker: &usize| hash(&(&workers[*worker], part.number));
        let fitting = (0..workers.len()).filter(|worker| loads[*worker] + part.rows <= most).max_by_key(weight);
        let least = || (0..workers.len()).min_by_key(|worker| (loads[*worker], Reverse(weight(worker))));
        let Some(worker) = fitting.or_else(least) else { break };
        loads[worker] += part.rows;
        found[at] = worker;
    }
    found
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("10.0.0.{at}:5578")).collect()
    }

    fn parts(count: u64) -> Vec<Part> {
        (0..count).map(|at| Part { number: hash(&at), rows: 1 << 20 }).collect()
    }

    #[test]
    fn no_worker_has_much_more_than_its_share() {
        for (parts_count, workers_count) in [(1, 3), (8, 3), (60, 8), (1000, 7)] {
            let found = placed(&parts(parts_count), &workers(workers_count));
            let most = (0..workers_count).map(|w| found.iter().filter(|f| **f == w).count()).max().unwrap_or(0);
            let share = parts_count as f64 / workers_count as f64 * LOAD_MAX;
            assert!(most as f64 <= share.ceil().max(1.0), "{parts_count} parts, {workers_count} workers: {most}");
        }
        assert!(placed(&parts(5), &[]).iter().all(|worker| *worker == 0));
    }

    #[test]
    fn a_new_worker_moves_little_more_than_its_share() {
        let parts = parts(900);
        let (before, after) = (placed(&parts, &workers(8)), placed(&parts, &workers(9)));
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(moved < 900 * 2 / 9, "{moved} of 900 parts moved");
    }
}
