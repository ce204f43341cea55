//! Advice on designs: what queries ask of a table, a sample of it, what the advisor says of both, and trials of what it says.

mod finalists;
mod literals;
mod profile;
mod rows;
mod sample;
mod trial;
mod workload;

use std::sync::Arc;

use freestone_advisor::advice::Existing;
use freestone_advisor::{Advice, AdvisorError, ScanModel, Setting, Workload, advice};
use freestone_store::design::{Design, Preset};
use freestone_store::{Snapshot, StoreError, Table};

pub use profile::{Calibration, calibrate, profile_path};
pub(crate) use profile::{profile, profile_batch};
pub(crate) use rows::{advice_batch, what_if_batch};
pub(crate) use workload::{TableWork, logged_work, of_table, planned_scans, shortened, weighted_statements};

use crate::database::Database;
use crate::error::{Error, Result};
use sample::Sample;

/// What advice is asked for.
#[derive(Debug, Clone)]
pub struct AdviseOptions {
    /// One table; `None`: all that queries read.
    pub table: Option<String>,
    /// Bytes that a table may take, its copies included.
    pub budget: Option<usize>,
    /// Weighted queries as SQL, in place of the log: statements, each with a comment `-- weight: 10` before it if it runs
    /// more often than the others.
    pub workload: Option<String>,
    /// Copies of a table in designs of their own that may be advised, the table included.
    pub max_copies: usize,
    /// Whether finalists are stored as a sample and timed before they are advised.
    pub verify: bool,
}

impl Default for AdviseOptions {
    fn default() -> Self {
        AdviseOptions { table: None, budget: None, workload: None, max_copies: 1, verify: true }
    }
}

/// Rows that row filters are tried on.
const FILTER_ROWS: usize = 8192;

/// A table as the advisor sees it.
pub(crate) struct Judged<'a> {
    table: &'a Arc<Table>,
    work: &'a TableWork,
    sample: Sample,
    model: ScanModel,
    /// Of the sample alone: what trials are compared with.
    sample_model: ScanModel,
    /// Of the tables that foreign keys lead to.
    snapshot: Arc<Snapshot>,
    threads: usize,
    /// The table's copies, also those that queries do not read.
    copies: Vec<Existing>,
}

impl<'a> Judged<'a> {
    /// Reads a sample of the table; its queries' selectivities are found on it where they were not observed.
    /// `asked`: a design besides the table's own whose dimensions are to be known.
    pub fn new(
        database: &Database,
        table: &'a Arc<Table>,
        work: &'a TableWork,
        asked: Option<&Design>,
    ) -> Result<Self> {
        let sample = Sample::of(table, sample::ROWS_MAX)?;
        if sample.rows == 0 {
            return Err(Error::invalid(format!("table {} is empty: there is nothing to judge designs by", table.name))
                .with_hint("load rows first"));
        }
        let threads = database.options().threads.max(1);
        let cache_bytes = database.options().cache_bytes as f64;
        let cached = (cache_bytes / table.bytes().max(1) as f64).min(1.0);
        let profile = Arc::new(profile()?);
        let model_of = |of, setting: Setting| ScanModel::new(Arc::new(of), profile.clone(), setting);
        let (mut of_table, mut of_sample) =
            (sample.statistics(table, table.rows())?, sample.statistics(table, sample.rows as u64)?);
        of_table.look_at(table)?;
        let snapshot = database.store().snapshot()?;
        let names: Vec<&str> = table.schema.columns.iter().map(|column| column.name.as_str()).collect();
        let existing = |copy: &Arc<Table>| {
            let columns = copy.copy_of.as_ref().map_or(vec![], |of| of.columns.clone());
            let made = Existing::new(copy.name.clone(), copy.design.clone(), columns, &names);
            Existing { bytes: copy.bytes() as f64, is_current: copy.is_current(), ..made }
        };
        let copies: Vec<Existing> = snapshot.copies(table).map(existing).collect();
        let designs = [Some(&table.design), asked].into_iter().flatten();
        for path in work.paths(designs.chain(copies.iter().map(|copy| &copy.design))) {
            match of_table.add_path(&|name| snapshot.table(name).cloned(), table, &path) {
                // What was logged before a table or a key was dropped leads nowhere, and nothing can be clustered by it.
                Ok(()) | Err(AdvisorError::Store(StoreError::Invalid(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        of_sample.take_paths(&of_table);
        let model = model_of(of_table, Setting { cached, cache_bytes, ..Setting::hot(threads) });
        let setting = if cached < 1.0 { Setting::cold(threads) } else { Setting::hot(threads) };
        let sample_model = model_of(of_sample, setting);
        Ok(Judged { table, work, sample, model, sample_model, snapshot, threads, copies })
    }

    /// Whether pages come from the medium: then trials are cold.
    fn is_cold(&self) -> bool {
        self.model.setting.cached < 1.0
    }

    fn workload(&self) -> Result<Workload> {
        let statistics = &self.model.statistics;
        let mut workload = self.work.workload(statistics)?;
        workload.queries.iter_mut().for_each(|q| q.paths.retain(|test| statistics.path_column(&test.path).is_some()));
        self.work.with_filters(workload, &self.sample.few(FILTER_ROWS)?)
    }

    /// Advice, measured on the sample if that is wanted.
    pub fn advise(&self, options: &AdviseOptions) -> Result<Advice> {
        let workload = self.workload()?;
        let advisor_options = self.advisor_options(options);
        let mut advice = freestone_advisor::advise(&self.model, &workload, &self.table.design, &advisor_options)?;
        if options.verify {
            finalists::confirm(&mut advice, self, &workload)?;
        }
        if !self.model.profile.is_measured() {
            advice.reason.push_str("; the machine is not calibrated (CALIBRATE), its costs are assumed");
        }
        Ok(advice)
    }

    /// A preset as it is, but for what the current design pins.
    fn plain(&self, preset: Preset) -> Design {
        let Design { encode, medium, .. } = self.table.design.clone();
        Design { encode, medium, ..Design::preset(preset) }
    }

    fn advisor_options(&self, options: &AdviseOptions) -> advice::Options {
        advice::Options {
            table: self.table.name.clone(),
            budget: options.budget.map(|bytes| bytes as f64),
            max_copies: options.max_copies.max(1),
            existing: self.copies.clone(),
            consider: [Preset::Column, Preset::Row, Preset::Pax].map(|preset| self.plain(preset)).to_vec(),
            ..advice::Options::default()
        }
    }

    /// What the queries would cost in one design.
    pub fn what_if(&self, design: &Design) -> Result<WhatIf> {
        let workload = self.workload()?;
        let options = advice::Options { existing: vec![], ..self.advisor_options(&AdviseOptions::default()) };
        let current = &self.table.design;
        let proposal = |design| advice::what_if(&self.model, &workload, current, design, &options);
        let proposals = vec![proposal(current)?, proposal(design)?];
        let measured = finalists::total_ms(&[current, design], self, &workload)?;
        Ok(WhatIf { proposals, measured, sample_rows: self.sample.rows })
    }
}

/// The answer to WHATIF: the current design, and the one asked for.
pub(crate) struct WhatIf {
    pub proposals: Vec<advice::Proposal>,
    /// Milliseconds on the sample, for each.
    pub measured: Vec<f64>,
    pub sample_rows: usize,
}
