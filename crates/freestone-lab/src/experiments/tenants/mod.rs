//! A star schema shared by tenants: the last experiments of Grund et al. 2010 (section 3.4), and what they need of the
//! first ones at every level of isolation.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | levels, neighbours, numbers of tenants and users |
//! | `workload`, `databases` | users that run query flights on one snapshot each; the tenants' databases |
//! | [`levels`] | servers in processes, control groups, containers and virtual machines |
//! | [`burn`], [`probe`], `grouped` | neighbours; the calibrator and allocators at each level; the calibrator with less memory |
//! | `bench`, `points`, `progress`, `interrupt`, `child` | a run, its points, its bar, its end, its processes |
//! | `layouts` | rows and columns at each level |
//! | `overhead`, `consolidation`, `interference`, `view`, `paper` | the three experiments, what their pages share, and the paper's figures |

pub mod options;

#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
pub mod burn;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod consolidation;
#[cfg(target_os = "linux")]
mod databases;
#[cfg(target_os = "linux")]
pub(super) mod grouped;
#[cfg(target_os = "linux")]
mod interference;
#[cfg(target_os = "linux")]
pub(super) mod interrupt;
#[cfg(target_os = "linux")]
mod layouts;
#[cfg(target_os = "linux")]
pub mod levels;
#[cfg(target_os = "linux")]
mod overhead;
#[cfg(target_os = "linux")]
mod paper;
#[cfg(target_os = "linux")]
mod points;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod view;
#[cfg(target_os = "linux")]
mod workload;

use super::Experiment;

/// The experiments start, place and measure processes by means of Linux.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use freestone_report::findings::Part;

    use crate::Notify;
    use crate::error::{LabError, Result};
    use crate::experiments::RunOptions;

    pub fn run(_: &RunOptions, _: Notify<'_>) -> Result<Vec<Part>> {
        Err(LabError::Usage("the experiments with tenants need Linux; this is another system".into()))
    }
}
#[cfg(not(target_os = "linux"))]
use elsewhere as consolidation;
#[cfg(not(target_os = "linux"))]
use elsewhere as interference;
#[cfg(not(target_os = "linux"))]
use elsewhere as overhead;

pub const OVERHEAD: Experiment = Experiment {
    name: "tenants-overhead",
    title: "What isolation costs one tenant",
    shows: "Query flights of 1 to 12 users in a bare process, a control group, a container and a virtual machine; caches, \
            address translation, rows and columns in memory, allocators and time in the kernel at each level.",
    source: "Grund et al. 2010, sections 3.2, 3.3.2 and 3.4.2, Table 1, Figures 1 to 4",
    size: "--scale 1, --users 12, --seconds 5, --repetitions 3, --isolation process,cgroup,container,vm; --short takes two minutes",
    run: overhead::run,
};

pub const CONSOLIDATION: Experiment = Experiment {
    name: "tenants-consolidation",
    title: "Tenants that share a machine",
    shows: "Response times and throughput of 1 to 4 tenants with 2, 1 and half a core each, with few and many users, next to idle \
            and burning slots; one process for all, a process each, and stronger isolation.",
    source: "Grund et al. 2010, section 3.4.3, Table 2, Figure 5",
    size: "--scale 1, --tenants 4, --seconds 5, --repetitions 3, --burn arithmetic; --short takes two minutes",
    run: consolidation::run,
};

pub const INTERFERENCE: Experiment = Experiment {
    name: "tenants-interference",
    title: "A tenant next to one neighbour",
    shows: "A tenant on half of the cores next to nothing, arithmetic, streams, random loads, fresh pages and another tenant; the \
            bytes that it moves, compared with the bandwidth of memory.",
    source: "Grund et al. 2010, section 3.4.3",
    size: "--scale 1, --seconds 5, --repetitions 3, --burn arithmetic,streams,loads,pages; --short takes a minute",
    run: interference::run,
};
