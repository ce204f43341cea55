//! Who holds snapshots for long: the files that these need cannot be removed.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Something that may hold a snapshot for longer than it is allowed to.
pub(crate) trait HoldsSnapshot: Send + Sync {
    /// Lets go of the snapshot if it is held for too long.
    fn let_go(&self);
}

/// All holders of one database.
#[derive(Default)]
pub(crate) struct Holders(Mutex<Vec<Weak<dyn HoldsSnapshot>>>);

impl Holders {
    pub fn add(&self, holder: &Arc<impl HoldsSnapshot + 'static>) {
        let holder: Arc<dyn HoldsSnapshot> = holder.clone();
        let mut holders = self.0.lock();
        holders.retain(|known| known.strong_count() > 0);
        holders.push(Arc::downgrade(&holder));
    }

    /// Lets those go that hold a snapshot for too long.
    pub fn let_go(&self) {
        let holders: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.let_go());
    }
}
