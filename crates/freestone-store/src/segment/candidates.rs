//! Why a stored column has its encoding: the plans that the writer weighs for the values of a segment.

use freestone_codec::{Candidate, ColumnPlan, Rows, Scratch};

use super::writer::choose_options;
use super::{CachedPage, Segment};
use crate::cache::PageCache;
use crate::column::{ColumnBuffer, ColumnData};
use crate::design::{Group, plan_name};
use crate::error::{Result, StoreError};
use crate::schema::Column;
use crate::table::Table;

/// A plan that a column of a segment could have.
#[derive(Debug, Clone, PartialEq)]
pub struct WeighedPlan {
    /// The position of the stored column.
    pub column: usize,
    /// The plan's name, as `encoding = '…'` takes it.
    pub plan: String,
    /// Whether the segment is stored with it.
    pub chosen: bool,
    /// The encoded bytes per value: of a sample, or of the whole segment for a plan that was not weighed.
    pub bytes_per_value: f64,
    /// The estimated nanoseconds for decoding a value; `None` for a plan that was not weighed.
    pub decode_ns_per_value: Option<f64>,
    /// What the writer compares, in bytes per value: the size, and the decode time at its price. Less is better.
    pub score: Option<f64>,
}

impl Table {
    /// The plans of every column of a segment, the best first, as the writer weighs them for its rows. Reads all pages of
    /// the segment, and takes the memory of its decoded rows.
    ///
    /// # Errors
    /// A page cannot be read, or is damaged.
    pub fn weighed_plans(&self, segment: usize) -> Result<Vec<WeighedPlan>> {
        self.open_segment(segment)?.weighed_plans(self.cache())
    }
}

impl Segment {
    /// Decodes rows of a page past the cache, and appends them to `buffers`, one per stored column. `positions`: which
    /// rows of the page; `None`: all.
    ///
    /// # Errors
    /// The page cannot be read, or is damaged.
    pub(crate) fn append_page(
        &self,
        cache: &PageCache<CachedPage>,
        (group, page): (usize, usize),
        positions: Option<&[u32]>,
        buffers: &mut [ColumnBuffer],
    ) -> Result<()> {
        let admitted = match self.in_memory(group, page) {
            Some(page) => page,
            None => {
                let bytes = self.read_past_caches(group, page)?;
                self.admit(cache, (group, page), bytes)?
            }
        };
        let view = self.view(group, &admitted);
        let rows = match positions {
            Some(positions) => Rows::Positions(positions),
            None => Rows::Range { start: 0, len: self.page_rows(group, page).len() },
        };
        let columns = self.footer.description.groups[group].columns.iter().enumerate();
        let columns: Vec<(usize, usize)> = columns.map(|(place, column)| (*column as usize, place)).collect();
        let decoded = view.decode(&columns, rows, buffers, &mut Scratch::default());
        decoded.map_err(|e| self.page_error(group, page, e))
    }

    fn weighed_plans(&self, cache: &PageCache<CachedPage>) -> Result<Vec<WeighedPlan>> {
        let description = &self.footer.description;
        let (schema, design) = (&description.schema, &description.design);
        let mut weighed = vec![];
        for (number, group) in description.groups.iter().enumerate() {
            let columns = group.columns.iter().map(|column| *column as usize).collect();
            let group = Group { columns, format: group.format };
            for (at, data) in self.group_values(cache, number)? {
                let mut options = choose_options(schema, design, &group, at);
                options.wanted = None;
                let choice = freestone_codec::choose(&data.values(), data.validity.as_deref(), &options);
                let wrong = |source| StoreError::Encode { column: schema.stored_name(at), source };
                let considered = choice.map_err(wrong)?.considered;
                let score = |c: &Candidate| c.bytes_per_value + c.decode_ns_per_value * options.bytes_per_ns;
                self.describe_plans(at, &considered, score, &mut weighed)?;
            }
        }
        weighed.sort_by_key(|plan| plan.column);
        Ok(weighed)
    }

    /// The values of the columns of a group.
    fn group_values(&self, cache: &PageCache<CachedPage>, group: usize) -> Result<Vec<(usize, ColumnData)>> {
        let columns = self.footer.description.schema.stored_columns();
        let mut buffers: Vec<ColumnBuffer> = columns.iter().map(|c| ColumnBuffer::new(&c.data_type)).collect();
        for page in 0..self.page_count(group) {
            self.append_page(cache, (group, page), None, &mut buffers)?;
        }
        let of_group = &self.footer.description.groups[group].columns;
        let finished = buffers.into_iter().zip(&columns).enumerate().filter(|(at, _)| of_group.contains(&(*at as u32)));
        finished.map(|(at, (buffer, column))| Ok((at, self.column_values(buffer, column)?))).collect()
    }

    /// The values of a column that [`Segment::append_page`] has put into a buffer.
    ///
    /// # Errors
    /// They are no values of the column's type.
    pub(crate) fn column_values(&self, buffer: ColumnBuffer, column: &Column) -> Result<ColumnData> {
        let wrong =
            |e| StoreError::Corrupt { file: self.name().to_owned(), reason: format!("column {}: {e}", column.name) };
        let array = buffer.finish().map_err(wrong)?;
        Ok(ColumnData::from_arrays([&array], &column.data_type))
    }

    /// Appends the candidates of a column, and the plan that it has if that is none of them.
    fn describe_plans(
        &self,
        column: usize,
        candidates: &[Candidate],
        score: impl Fn(&Candidate) -> f64,
        weighed: &mut Vec<WeighedPlan>,
    ) -> Result<()> {
        let described = &self.footer.description.columns[column];
        let wrong = |reason| StoreError::Corrupt { file: self.name().to_owned(), reason };
        let stored: ColumnPlan = described.plan().map_err(|e| wrong(e.to_string()))?;
        weighed.extend(candidates.iter().map(|candidate| WeighedPlan {
            column,
            plan: plan_name(candidate.plan),
            chosen: candidate.plan == stored,
            bytes_per_value: candidate.bytes_per_value,
            decode_ns_per_value: Some(candidate.decode_ns_per_value),
            score: Some(score(candidate)),
        }));
        if !candidates.iter().any(|candidate| candidate.plan == stored) {
            weighed.push(WeighedPlan {
                column,
                plan: plan_name(stored),
                chosen: true,
                bytes_per_value: described.bytes as f64 / self.rows().max(1) as f64,
                decode_ns_per_value: None,
                score: None,
            });
        }
        Ok(())
    }
}
