//! Advice on designs: the queries of a table, a sample of its rows, the advisor's predictions for both, and
//! measurements of them.

mod finalists;
mod literals;
mod rows;
mod sample;
mod trial;
mod workload;

use std::sync::Arc;

use freestone_advisor::advice::Existing;
use freestone_advisor::{Advice, AdvisorError, ScanModel, Setting, Workload, advice};
use freestone_store::design::{Design, Preset};
use freestone_store::{Snapshot, StoreError, Table};

pub(crate) use rows::{advice_batch, what_if_batch};
pub(crate) use workload::{TableWork, logged_work, of_table, planned_scans, shortened, weighted_statements};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::profile;
use sample::Sample;

/// The options of advice.
#[derive(Debug, Clone)]
pub struct AdviseOptions {
    /// One table; `None`: all tables in the workload.
    pub table: Option<String>,
    /// The maximum bytes of a table, with its copies.
    pub budget: Option<usize>,
    /// Weighted queries as SQL, in place of the log: statements, each with a comment `-- weight: 10` before it if it
    /// runs more often than the others.
    pub workload: Option<String>,
    /// The maximum number of copies of a table in designs of their own, the table included; 1 for none.
    pub max_copies: usize,
    /// Whether the finalists are stored as samples and measured.
    pub verify: bool,
}

/// The table and a copy.
pub(crate) const COPIES: usize = 2;

impl Default for AdviseOptions {
    fn default() -> Self {
        AdviseOptions { table: None, budget: None, workload: None, max_copies: COPIES, verify: true }
    }
}

/// The number of rows for testing row filters.
const FILTER_ROWS: usize = 8192;

/// A table with the data that the advisor needs.
pub(crate) struct AdviceContext<'a> {
    table: &'a Arc<Table>,
    work: &'a TableWork,
    sample: Sample,
    model: ScanModel,
    /// The model of the sample, for comparison with measurements.
    sample_model: ScanModel,
    /// The snapshot with the tables that foreign keys refer to.
    snapshot: Arc<Snapshot>,
    threads: usize,
    /// The table's copies, including those that queries do not read.
    copies: Vec<Existing>,
}

impl<'a> AdviceContext<'a> {
    /// Reads a sample of the table. Selectivities of queries that were not observed are measured on it. The dimensions
    /// of the design `asked` are also included.
    ///
    /// # Errors
    ///
    /// The table or a referenced table cannot be read.
    pub fn new(
        database: &Database,
        table: &'a Arc<Table>,
        work: &'a TableWork,
        asked: Option<&Design>,
    ) -> Result<Self> {
        let sample = Sample::of(table, sample::ROWS_MAX)?;
        if sample.rows == 0 {
            return Err(Error::invalid(format!(
                "table {} is empty: there are no rows to compare designs with",
                table.name
            ))
            .with_hint("load rows first"));
        }
        let threads = database.options().threads.max(1);
        let cache_bytes = database.options().cache_bytes as f64;
        let cached = (cache_bytes / table.bytes().max(1) as f64).min(1.0);
        let profile = Arc::new(profile::profile()?);
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
                // Dimensions from the log may refer to a dropped table or key. The table cannot be clustered by them.
                Ok(()) | Err(AdvisorError::Store(StoreError::Invalid(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        of_sample.take_paths(&of_table);
        let model = model_of(of_table, Setting { cached, cache_bytes, ..Setting::hot(threads) });
        let setting = if cached < 1.0 { Setting::cold(threads) } else { Setting::hot(threads) };
        let sample_model = model_of(of_sample, setting);
        Ok(AdviceContext { table, work, sample, model, sample_model, snapshot, threads, copies })
    }

    /// Whether pages are read from the medium. Then measurements are cold.
    fn is_cold(&self) -> bool {
        self.model.setting.cached < 1.0
    }

    fn workload(&self) -> Result<Workload> {
        let statistics = &self.model.statistics;
        let mut workload = self.work.workload(statistics)?;
        workload.queries.iter_mut().for_each(|q| q.paths.retain(|test| statistics.path_column(&test.path).is_some()));
        self.work.with_filters(workload, &self.sample.few(FILTER_ROWS)?)
    }

    /// Advice, with measurements on the sample if they are requested.
    ///
    /// # Errors
    ///
    /// A prediction or measurement fails.
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

    /// A preset, with the options `encoding` and `medium` of the current design.
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

    /// The costs of the queries in one design.
    ///
    /// # Errors
    ///
    /// The design is invalid, or a prediction or measurement fails.
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

/// The result of WHATIF: the current design and the requested one.
pub(crate) struct WhatIf {
    pub proposals: Vec<advice::Proposal>,
    /// Milliseconds on the sample, for each design.
    pub measured: Vec<f64>,
    pub sample_rows: usize,
}
