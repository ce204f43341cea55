//! What another process may claim of a scan that runs: morsels that no thread has begun.

use std::sync::Arc;

use freestone_store::scan::{Morsel, MorselQueue};
use parking_lot::Mutex;

use super::Piece;

/// The share of a scan's morsels that must be left, one in this number, and their least number, so that a claim is worth another
/// start of the plan.
const LEFT_SHARE: usize = 4;
const LEFT_LEAST: usize = 4;

/// The morsels of a scan, and those that were given back. A plan that begins again, because its memory did not suffice,
/// reads none of the latter.
#[derive(Debug)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Before the scan begins: what it will read.
    waiting: Vec<Piece>,
    queue: Option<Arc<MorselQueue>>,
    /// The plan has begun again. Of several queues, none says what was begun.
    is_closed: bool,
    /// What each claim got.
    given: Vec<Vec<Piece>>,
}

impl State {
    fn kept(&self, mut morsels: Vec<Morsel>) -> Vec<Morsel> {
        morsels.retain(|morsel| !self.given.iter().flatten().any(|piece| piece.has(morsel)));
        morsels
    }

    fn next_given(&mut self) -> Vec<Piece> {
        match &self.queue {
            _ if self.is_closed => vec![],
            None if self.waiting.len() < LEFT_LEAST => vec![],
            None => self.waiting.split_off(self.waiting.len().div_ceil(2)),
            Some(queue) => {
                let least = queue.morsels().len().div_ceil(LEFT_SHARE).max(LEFT_LEAST);
                let given = queue.give_back(least).into_iter();
                given.map(|morsel| Piece { segment: morsel.segment, rows: morsel.rows }).collect()
            }
        }
    }
}

impl Claims {
    /// For a scan of these parts, which has not begun.
    pub fn new(pieces: &[Piece]) -> Claims {
        let waiting = pieces.to_vec();
        Claims(Mutex::new(State { waiting, queue: None, is_closed: false, given: vec![] }))
    }

    /// The queue of these morsels, without those that were given back.
    pub fn queue(&self, morsels: Vec<Morsel>, threads: usize) -> Arc<MorselQueue> {
        let mut state = self.0.lock();
        let queue = Arc::new(MorselQueue::new(state.kept(morsels), threads));
        state.is_closed |= state.queue.is_some();
        state.queue.get_or_insert(queue.clone());
        queue
    }

    /// These morsels without those that were given back. Nothing is given back from now on.
    pub fn closed(&self, morsels: Vec<Morsel>) -> Vec<Morsel> {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.kept(morsels)
    }

    /// Gives half of the morsels back that nobody has begun. `turn`: the number of this claim. Whoever did not hear the answer
    /// asks again with the same number.
    pub fn give_back(&self, turn: usize) -> Vec<Piece> {
        let mut state = self.0.lock();
        if let Some(given) = state.given.get(turn) {
            return given.clone();
        }
        // A number too high is of a server that counts otherwise.
        if turn > state.given.len() {
            return vec![];
        }
        let given = state.next_given();
        state.given.push(given.clone());
        given
    }
}

#[cfg(test)]
mod tests {
    use freestone_store::scan::Morsels;

    use super::*;

    fn morsels(count: usize) -> Vec<Morsel> {
        (0..count).map(|segment| Morsel::new(segment, 0..10)).collect()
    }

    fn segments(pieces: &[Piece]) -> Vec<usize> {
        pieces.iter().map(|piece| piece.segment).collect()
    }

    #[test]
    fn what_is_given_back_is_read_by_nobody_here() {
        let pieces: Vec<Piece> = (0..18).map(|segment| Piece { segment, rows: 0..10 }).collect();
        let claims = Claims::new(&pieces);
        assert!(claims.give_back(1).is_empty(), "a claim is missing");
        assert_eq!(segments(&claims.give_back(0)), (9..18).collect::<Vec<_>>(), "before the scan begins");
        let queue = claims.queue(morsels(18), 1);
        assert_eq!(segments(&claims.give_back(1)), [5, 6, 7, 8]);
        assert_eq!(segments(&claims.give_back(1)), [5, 6, 7, 8], "the same claim again");
        assert_eq!(segments(&claims.give_back(2)), [3, 4]);
        assert!(claims.give_back(3).is_empty(), "too little is left");
        let mut own = Morsels::new(queue);
        let taken: Vec<usize> = std::iter::from_fn(|| own.take().map(|(morsel, _)| morsel.segment)).collect();
        assert_eq!(taken, [0, 1, 2]);
        // The plan begins again.
        let again = claims.queue(morsels(18), 1);
        assert_eq!(again.morsels().iter().map(|morsel| morsel.segment).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(claims.give_back(4).is_empty());
        assert_eq!(claims.closed(morsels(5)).len(), 3);
    }

    #[test]
    fn little_is_not_given_back() {
        let claims = Claims::new(&[]);
        let mut own = Morsels::new(claims.queue(morsels(40), 1));
        (0..31).for_each(|_| drop(own.take()));
        assert!(claims.give_back(0).is_empty());
    }
}
