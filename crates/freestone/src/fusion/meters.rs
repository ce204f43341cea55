//! What was measured of the nodes of a fused part.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use freestone_exec::meter::Meter;

/// The meters of nodes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Meters(Vec<(Arc<dyn ExecutionPlan>, Arc<Meter>)>);

impl Meters {
    /// Adds the meter of a node, which was compiled; if it was compiled before, that was forgotten.
    pub fn add(&mut self, plan: &Arc<dyn ExecutionPlan>, meter: Arc<Meter>) {
        self.0.push((plan.clone(), meter));
    }

    /// What was measured of a node.
    pub fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<&Meter> {
        let own = self.0.iter().rev().find(|(node, _)| Arc::ptr_eq(node, plan));
        own.map(|(_, meter)| meter.as_ref())
    }
}
