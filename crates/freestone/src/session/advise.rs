//! CALIBRATE, ADVISE and WHATIF in a session.

use freestone_advisor::Advice;
use freestone_store::design::{Design, MediumKind, option_name};

use crate::advise::{AdviceContext, AdviseOptions, TableWork};
use crate::context::Outcome;
use crate::error::{Error, Result};
use crate::profile::{self, Calibration};
use crate::provider::metadata;
use crate::session::Session;
use crate::session::plan_cache::CachedPlan;
use crate::sql::command::WhatIfRequest;
use crate::sql::parameters::Parameters;
use crate::sql::statement::Statement;
use crate::{advise, workload};

impl Session {
    /// Recommends designs for one table, or for all tables that queries read, from the workload log or a workload of
    /// the caller. The best designs are stored as samples and measured. The database does not change.
    ///
    /// # Errors
    /// The table does not exist or is empty, no query reads it, or a query of the workload cannot be planned.
    pub async fn advise(&self, mut options: AdviseOptions) -> Result<Vec<Advice>> {
        let snapshot = self.scope()?.snapshot;
        options.table = options.table.map(|table| self.temp.resolved(&snapshot, &table));
        if let Some(name) = &options.table
            && snapshot.table(name).is_none()
        {
            return Err(Error::not_found("table", name, snapshot.tables().map(|table| table.name.as_str())));
        }
        let works = match &options.workload {
            Some(script) => self.planned_work(script, options.table.as_deref()).await?,
            None => advise::logged_work(&self.database().workload().scans()?, &snapshot, options.table.as_deref()),
        };
        let mut works: Vec<TableWork> = works.into_iter().filter(|work| self.temp.sees(&work.table.name)).collect();
        if let (Some(name), [work]) = (&options.table, works.as_slice()) {
            check_priced(name, &work.table.design)?;
        }
        works.retain(|work| work.table.design.medium != MediumKind::Pmem);
        if works.is_empty() {
            return Err(nothing_to_advise_on(&options));
        }
        self.blocking(move |database| {
            works.iter().map(|work| AdviceContext::new(database, &work.table, work, None)?.advise(&options)).collect()
        })
        .await
    }

    /// The scans of the queries in a script, by table.
    async fn planned_work(&self, script: &str, only: Option<&str>) -> Result<Vec<TableWork>> {
        let mut works = vec![];
        for (statement, weight) in advise::weighted_statements(script)? {
            let located = |error: Error| error.at(&format!("line {} of the workload", statement.line));
            let kept = self.planned_query(&statement).await.map_err(located)?;
            let name = advise::shortened(&statement.text);
            let scans = advise::planned_scans(&name, weight, workload::asked(kept.plan()));
            for (table, scan) in scans.filter(|(table, _)| only.is_none_or(|only| table.name == only)) {
                advise::of_table(&mut works, &table).push(scan);
            }
        }
        Ok(works)
    }

    /// The plan of a query of a workload.
    async fn planned_query(&self, statement: &Statement) -> Result<CachedPlan> {
        let parameters = Parameters { written: Some(statement.written()), ..Parameters::default() };
        if !statement.is_whole_query() {
            self.command(statement).await?;
            return Err(Error::invalid("only SELECT has a place in a workload"));
        }
        Ok(self.planned(&statement.text, &parameters).await?.0)
    }

    /// WHATIF: the time of one query in another design, predicted and measured on a sample.
    pub(crate) async fn what_if(&self, request: WhatIfRequest, parameters: &Parameters) -> Result<Outcome> {
        let WhatIfRequest { table, options } = request;
        let query = parameters.written()?.query()?.0.to_string();
        let name = advise::shortened(&query);
        let (kept, snapshot) = self.planned(&query, parameters).await?;
        let Some(found) = snapshot.table(&table).cloned() else {
            return Err(Error::not_found("table", &table, snapshot.tables().map(|table| table.name.as_str())));
        };
        let start = match options.iter().any(|(name, _)| option_name(name) == "preset") {
            true => Design::default(),
            false => found.design.clone(),
        };
        let given = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let design = start.with_options(given, &found.schema)?;
        design.check_order(&found.schema)?;
        let mut works = vec![];
        for (of, scan) in advise::planned_scans(&name, 1.0, workload::asked(kept.plan())) {
            if of.name == table {
                advise::of_table(&mut works, &of).push(scan);
            }
        }
        let Some(work) = works.pop() else {
            return Err(Error::invalid(format!("the query does not read table {table}"))
                .with_hint("WHATIF asks what a query would cost if a table that it reads were stored otherwise"));
        };
        check_priced(&table, &found.design)?;
        check_priced(&table, &design)?;
        let answer = self
            .blocking(move |database| AdviceContext::new(database, &work.table, &work, Some(&design))?.what_if(&design))
            .await?;
        Ok(Outcome::batch(advise::what_if_batch(&answer)?))
    }

    /// CALIBRATE: measures this machine, and returns the rows of the profile.
    pub(crate) async fn calibrate_here(&self) -> Result<Outcome> {
        self.access().check_files()?;
        let progress = self.progress();
        let profile = self
            .blocking(move |database| {
                let calibration = Calibration { folder: database.folder().map(Into::into), ..Calibration::default() };
                if let Some(progress) = &progress {
                    progress.begin("calibrating", Some(100));
                }
                let result = profile::calibrate(&calibration, &mut |_, share| {
                    if let Some(progress) = &progress {
                        progress.advance((share * 100.0) as u64);
                    }
                });
                if let Some(progress) = &progress {
                    progress.end();
                }
                result
            })
            .await?;
        Ok(Outcome::batch(metadata::profile_batch(&profile)?))
    }
}

fn nothing_to_advise_on(options: &AdviseOptions) -> Error {
    let what = options.table.as_ref().map_or("any table".to_owned(), |table| format!("table {table}"));
    let error = match options.workload {
        Some(_) => Error::invalid(format!("no query of the workload reads {what}")),
        None => Error::invalid(format!("no query on {what} is in the workload log: there is nothing to advise by")),
    };
    error.with_hint("run the queries that matter, or give them as a file: freestone advise DB --workload FILE")
}

/// Refuses a medium whose times the model does not know.
fn check_priced(table: &str, design: &Design) -> Result<()> {
    if design.medium != MediumKind::Pmem {
        return Ok(());
    }
    Err(Error::unsupported(format!("table {table}: times of persistent memory are not predicted"))
        .with_hint("measure the queries with EXPLAIN ANALYZE in both media"))
}
