//! A table's physical layout as a value: parsed from SQL options, printed as SQL options, resolved per segment.
//!
//! `auto` means columns whose encodings are chosen from samples. It knows no workload and does not guess one: that is the
//! advisor's task.

mod dimension_path;

use std::collections::BTreeMap;
use std::fmt;

use freestone_codec::{ColumnPlan, Encoding, Transform};
use serde::{Deserialize, Serialize};

pub use dimension_path::{DimensionPath, keys_of};

use crate::cluster::BitOrder;
use crate::error::{Result, StoreError};
use crate::schema::{TableSchema, kind, type_name};

/// The smallest page size in bytes. Page sizes are powers of two.
pub const PAGE_SIZE_MIN: u32 = 4 << 10;
/// The default page size in bytes.
pub const PAGE_SIZE_DEFAULT: u32 = 32 << 10;
/// The largest page size in bytes.
pub const PAGE_SIZE_MAX: u32 = 1 << 20;

/// The options of `WITH (…)` and `SET DESIGN (…)`, in the order in which they are printed.
pub const OPTIONS: [&str; 12] = [
    "preset",
    "column_groups",
    "page_format",
    "page_size",
    "sort",
    "cluster",
    "interleave",
    "cluster_missing",
    "rle_levels",
    "encoding",
    "medium",
    "index",
];

/// Earlier names of options, which are still read.
pub const EARLIER_NAMES: [(&str, &str); 5] = [
    ("design", "preset"),
    ("groups", "column_groups"),
    ("page", "page_format"),
    ("levels", "rle_levels"),
    ("encode", "encoding"),
];

/// The current name of an option, in lower case.
pub fn option_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let earlier = EARLIER_NAMES.iter().find(|(earlier, _)| *earlier == name);
    earlier.map_or(name, |(_, current)| (*current).to_owned())
}

/// The largest number of dimensions that a pattern of bits may name before `cluster` is known.
const MAX_DIMENSIONS: usize = 64;

/// Named designs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Chosen from statistics, per segment.
    Auto,
    /// All columns in one group of dense super tuples.
    Row,
    /// Each column in a group of its own.
    Column,
    /// All columns in one group of slotted pages.
    Slotted,
    /// All columns in one group of PAX pages.
    Pax,
}

/// The format of a group's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum PageFormat {
    /// A slot array and a header per tuple: the baseline (Halverson et al. 2006, section 2.1).
    Slotted = 1,
    /// Super tuples: bit-packed, without headers (Halverson et al. 2006, section 2.1; Holloway and DeWitt 2008, section
    /// 5.2).
    Dense = 2,
    /// Mini pages, one per column (Götze, Baumann and Sattler 2018, section IV). A group of one column is a column
    /// store's page.
    Pax = 3,
}

/// The medium of a table's rows. Segments are durable on disk in all cases. `Memory` also holds them in memory while the
/// database is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediumKind {
    /// Segments are read from disk.
    Disk,
    /// Segments are read into memory when they are opened.
    Memory,
    /// Rows are in a pool of persistent memory, where they change in place. Those for which it has no room are on disk.
    Pmem,
}

/// The design that the user set: a value for every dimension of the design space, with defaults where nothing was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Design {
    /// The named design, on which the other options are based.
    pub preset: Preset,
    /// Explicit column groups. Each other column gets a group of its own. If empty, the preset decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<String>>,
    /// The format of the groups' pages. `None`: by the preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageFormat>,
    /// The page size in bytes.
    pub page_size: u32,
    /// The sort columns. If empty, rows stay in order of arrival.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<String>,
    /// The dimensions by whose interleaved bin numbers the rows are ordered, before `sort` (Götze, Baumann and Sattler
    /// 2018).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster: Vec<DimensionPath>,
    /// The order of the dimensions' bits in the key.
    #[serde(default, skip_serializing_if = "BitOrder::is_round_robin")]
    pub interleave: BitOrder,
    /// Whether rows are accepted whose foreign key has no referenced row. They get a bin of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_missing: bool,
    /// The number of leading sort columns that are stored once per run (Halverson et al. 2006, section 2.2).
    #[serde(default)]
    pub levels: u32,
    /// The encodings that the user set, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub encode: BTreeMap<String, PinnedEncoding>,
    /// The medium from which scans read.
    pub medium: MediumKind,
    /// The keys of ordered indexes, each of one or more columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub index: Vec<Vec<String>>,
}

impl Default for Design {
    fn default() -> Self {
        Design::preset(Preset::Auto)
    }
}

impl Design {
    /// The design of a preset, with all other options at their defaults.
    pub fn preset(preset: Preset) -> Self {
        Design {
            preset,
            groups: vec![],
            page: None,
            page_size: PAGE_SIZE_DEFAULT,
            sort: vec![],
            cluster: vec![],
            interleave: BitOrder::RoundRobin,
            cluster_missing: false,
            levels: 0,
            encode: BTreeMap::new(),
            medium: MediumKind::Disk,
            index: vec![],
        }
    }

    /// Parses SQL options, starting from `self` (the defaults, or the design to change). Option names are
    /// case-insensitive. An option may also have its earlier name ([`EARLIER_NAMES`]).
    ///
    /// # Errors
    /// `Invalid`, with a list of the valid options, columns or values, or if one option comes under both of its names.
    pub fn with_options<'a>(
        mut self,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        schema: &TableSchema,
    ) -> Result<Self> {
        let mut seen: Vec<(String, &str)> = vec![];
        for (name, value) in options {
            let current = option_name(name);
            let same = |(known, written): &&(String, &str)| *known == current && !written.eq_ignore_ascii_case(name);
            if let Some((_, written)) = seen.iter().find(same) {
                return Err(StoreError::invalid(format!(
                    "{written} and {name} are two names of one option; set {current} once"
                )));
            }
            self.set(&current, value.trim(), schema)?;
            seen.push((current, name));
        }
        self.validated(schema)
    }

    fn set(&mut self, name: &str, value: &str, schema: &TableSchema) -> Result<()> {
        match name {
            "preset" => self.preset = choice(name, value, &PRESETS)?,
            "column_groups" => self.groups = parse_groups(value, schema)?,
            "page_format" => self.page = Some(choice(name, value, &PAGE_FORMATS)?),
            "page_size" => self.page_size = parse_page_size(value)?,
            "sort" => self.sort = parse_columns(value, schema)?,
            "rle_levels" => {
                self.levels = value.parse().map_err(|_| {
                    StoreError::invalid(format!("rle_levels = '{value}' is not a whole number of sort columns"))
                })?
            }
            "encoding" => self.encode = parse_encodings(value, schema)?,
            "medium" => self.medium = choice(name, value, &MEDIA)?,
            "cluster" => self.cluster = parse_cluster(value, schema)?,
            "interleave" => {
                let wrong = |reason| StoreError::invalid(format!("interleave = '{value}': {reason}"));
                self.interleave = BitOrder::parse(value, MAX_DIMENSIONS).map_err(wrong)?;
            }
            "cluster_missing" => self.cluster_missing = choice(name, value, &CLUSTER_MISSING)?,
            "index" => self.index = parse_index(value, schema)?,
            _ => {
                return Err(StoreError::invalid(format!(
                    "unknown design option {name}; the options are {}",
                    OPTIONS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The columns by which rows are sorted. With levels but without a sort order, these are the columns of the
    /// declared foreign keys: the implicit sort of Halverson et al. 2006, section 2.2.
    pub fn sort_columns(&self, schema: &TableSchema) -> Vec<usize> {
        let implicit = self.sort.is_empty() && self.levels > 0;
        let keys = schema.foreign_keys.iter().flat_map(|k| &k.columns).filter(|_| implicit);
        let mut columns = vec![];
        for name in self.sort.iter().chain(keys) {
            if let Ok(column) = schema.index_of(name)
                && !columns.contains(&column)
            {
                columns.push(column);
            }
        }
        columns
    }

    /// The design of a table whose columns have other names: `name` gives the new one, or `None` if the column is gone.
    /// What depends on such a column is left out.
    pub(crate) fn with_names(&self, name: &dyn Fn(&str) -> Option<String>) -> Design {
        let some = |names: &Vec<String>| names.iter().filter_map(|old| name(old)).collect::<Vec<_>>();
        let all = |names: &Vec<String>| names.iter().map(|old| name(old)).collect::<Option<Vec<_>>>();
        let path = |path: &DimensionPath| {
            let (first, others) = path.names.split_first()?;
            let names = [&[name(first)?], others].concat();
            Some(DimensionPath { names, bits: path.bits })
        };
        let sort: Vec<String> = self.sort.iter().map_while(|old| name(old)).collect();
        let kept: Vec<usize> = (0..self.cluster.len()).filter(|at| path(&self.cluster[*at]).is_some()).collect();
        // Without a sort order, levels would mean another one.
        let levels = if self.sort.is_empty() { self.levels } else { self.levels.min(sort.len() as u32) };
        Design {
            groups: self.groups.iter().map(some).filter(|group| !group.is_empty()).collect(),
            encode: self.encode.iter().filter_map(|(old, encoding)| Some((name(old)?, *encoding))).collect(),
            index: self.index.iter().filter_map(all).collect(),
            cluster: self.cluster.iter().filter_map(path).collect(),
            interleave: if kept.is_empty() { BitOrder::RoundRobin } else { self.interleave.of_dimensions(&kept) },
            sort,
            levels,
            ..self.clone()
        }
    }

    /// Checks the options against a table's columns.
    ///
    /// # Errors
    /// `Invalid`, with the option.
    pub(crate) fn validated(self, schema: &TableSchema) -> Result<Self> {
        let lists = self.groups.iter().chain(&self.index).flatten();
        for column in self.sort.iter().chain(self.encode.keys()).chain(lists) {
            schema.stored_index_of(column)?;
        }
        for (what, columns) in [("sort", &self.sort)].into_iter().chain(self.index.iter().map(|key| ("an index", key)))
        {
            for column in columns {
                schema.ordered_index_of(column, what)?;
            }
        }
        for path in self.cluster.iter().filter_map(|path| path.names.first()) {
            if schema.index_of(path).is_ok() {
                schema.ordered_index_of(path, "cluster")?;
            }
        }
        self.check_interleave()?;
        for (column, encoding) in &self.encode {
            self.check_encoding(column, encoding.0, schema)?;
        }
        let sorted = self.sort_columns(schema).len();
        if self.levels as usize > sorted {
            return Err(StoreError::invalid(format!(
                "rle_levels = {} needs that many sort columns, and sort names {sorted}; without a sort, the columns of declared \
                 foreign keys are taken",
                self.levels
            )));
        }
        if self.levels > 0 && !self.cluster.is_empty() {
            return Err(StoreError::invalid(
                "rle_levels needs rows in the order of sort alone; with cluster, leave rle_levels out",
            ));
        }
        if self.page == Some(PageFormat::Slotted) && (self.levels > 0 || !self.encode.is_empty()) {
            return Err(StoreError::invalid(
                "slotted pages store plain tuples: rle_levels and encoding need page_format = 'dense' or 'pax'",
            ));
        }
        if self.preset == Preset::Slotted && self.page.is_none() && self.levels > 0 {
            return Err(StoreError::invalid("preset = 'slotted' cannot take rle_levels; use preset = 'row'"));
        }
        Ok(self)
    }

    fn check_interleave(&self) -> Result<()> {
        let dimensions = self.cluster.len();
        let wrong = |reason: String| Err(StoreError::invalid(format!("interleave = '{}': {reason}", self.interleave)));
        match &self.interleave {
            BitOrder::RoundRobin => Ok(()),
            _ if dimensions == 0 => wrong("it orders the dimensions of cluster, and the table has none".to_owned()),
            BitOrder::Pattern(pattern) => match pattern.iter().find(|dimension| **dimension >= dimensions) {
                Some(dimension) => wrong(format!("there is no dimension {}, cluster has {dimensions}", dimension + 1)),
                None => Ok(()),
            },
            BitOrder::MajorMinor => Ok(()),
        }
    }

    /// Refuses an encoding that cannot represent the type of a column now, and not at a later INSERT or VACUUM.
    fn check_encoding(&self, column: &str, plan: ColumnPlan, schema: &TableSchema) -> Result<()> {
        let data_type = schema.stored_type(schema.stored_index_of(column)?);
        let plans = freestone_codec::plans(kind(data_type));
        if !plans.contains(&plan) {
            let fitting =
                ENCODINGS.iter().filter(|(_, t, e)| plans.iter().any(|p| p.transform == *t && p.encoding == *e));
            let fitting: Vec<_> = fitting.map(|(name, ..)| *name).collect();
            return Err(StoreError::invalid(format!(
                "encoding = '{column}: {}' is not for columns of type {}; its encodings are {}",
                plan_name(plan),
                type_name(data_type),
                fitting.join(", ")
            )));
        }
        Ok(())
    }

    /// Refuses an encoding of sorted values for a column whose values come in another order.
    ///
    /// # Errors
    /// `Invalid`, with the column and what to do.
    pub fn check_order(&self, schema: &TableSchema) -> Result<()> {
        let first = self.sort_columns(schema).first().filter(|_| self.cluster.is_empty()).copied();
        for (column, encoding) in &self.encode {
            if encoding.0.encoding == Encoding::DeltaLz && first != Some(schema.index_of(column)?) {
                return Err(StoreError::invalid(format!(
                    "encoding = '{column}: delta_lz' takes values that do not decrease: sort the table by {column} first, \
                     or use delta"
                )));
            }
        }
        Ok(())
    }

    /// The options that [`Design::with_options`] parses. Defaults are omitted.
    pub fn to_options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("preset", name_of(self.preset, &PRESETS).to_owned())];
        if !self.groups.is_empty() {
            options.push(("column_groups", quote_lists(&self.groups)));
        }
        if let Some(page) = self.page {
            options.push(("page_format", name_of(page, &PAGE_FORMATS).to_owned()));
        }
        if self.page_size != PAGE_SIZE_DEFAULT {
            options.push(("page_size", format!("{}KiB", self.page_size >> 10)));
        }
        if !self.sort.is_empty() {
            options.push(("sort", quote_list(&self.sort)));
        }
        if !self.cluster.is_empty() {
            let paths: Vec<_> = self.cluster.iter().map(ToString::to_string).collect();
            options.push(("cluster", paths.join(", ")));
        }
        if !self.interleave.is_round_robin() {
            options.push(("interleave", self.interleave.to_string()));
        }
        if self.cluster_missing {
            options.push(("cluster_missing", "null".into()));
        }
        if self.levels > 0 {
            options.push(("rle_levels", self.levels.to_string()));
        }
        if !self.encode.is_empty() {
            let list: Vec<_> = self.encode.iter().map(|(c, e)| format!("{}: {e}", quote(c))).collect();
            options.push(("encoding", list.join(", ")));
        }
        if self.medium != MediumKind::Disk {
            options.push(("medium", name_of(self.medium, &MEDIA).to_owned()));
        }
        match &self.index[..] {
            [] => {}
            [key] => options.push(("index", quote_list(key))),
            keys => options.push(("index", quote_lists(keys))),
        }
        options
    }

    /// The column groups and page formats of a segment. `Auto` means columns, which suit a table that is mostly scanned
    /// if nothing is known of the workload.
    pub fn groups(&self, schema: &TableSchema) -> Vec<Group> {
        let all = || (0..schema.stored_count()).collect::<Vec<_>>();
        let (groups, format) = if self.groups.is_empty() {
            match self.preset {
                Preset::Row => (vec![all()], PageFormat::Dense),
                Preset::Slotted => (vec![all()], PageFormat::Slotted),
                Preset::Pax => (vec![all()], PageFormat::Pax),
                Preset::Column | Preset::Auto => (all().into_iter().map(|c| vec![c]).collect(), PageFormat::Pax),
            }
        } else {
            let mut groups: Vec<Vec<usize>> = self
                .groups
                .iter()
                .map(|g| g.iter().filter_map(|name| schema.stored_index_of(name).ok()).collect())
                .collect();
            let named: Vec<usize> = groups.iter().flatten().copied().collect();
            groups.extend(all().into_iter().filter(|c| !named.contains(c)).map(|c| vec![c]));
            let format = match self.preset {
                Preset::Slotted => PageFormat::Slotted,
                Preset::Pax => PageFormat::Pax,
                _ => PageFormat::Dense,
            };
            (groups, format)
        };
        let format = self.page.unwrap_or(format);
        groups
            .into_iter()
            .map(|columns| {
                // A dense page of one column would be a sequence of packed values, which a PAX page of one column
                // already is.
                let format = if columns.len() == 1 && format == PageFormat::Dense { PageFormat::Pax } else { format };
                Group { columns, format }
            })
            .collect()
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.to_options().iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{name} = '{}'", value.replace('\'', "''"))?;
        }
        Ok(())
    }
}

/// Columns that are stored together, by their positions in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The positions of the columns.
    pub columns: Vec<usize>,
    /// The format of the group's pages.
    pub format: PageFormat,
}

/// An encoding, by the name that `encoding = 'a: rle'` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PinnedEncoding(pub ColumnPlan);

const ENCODINGS: [(&str, Transform, Encoding); 11] = [
    ("plain", Transform::None, Encoding::Plain),
    ("bitpack", Transform::None, Encoding::BitPack),
    ("dictionary", Transform::Dictionary, Encoding::BitPack),
    ("dictionary_rle", Transform::Dictionary, Encoding::Rle),
    ("page_dictionary", Transform::None, Encoding::Dictionary),
    ("delta", Transform::None, Encoding::Delta),
    ("delta_lz", Transform::None, Encoding::DeltaLz),
    ("rle", Transform::None, Encoding::Rle),
    ("fsst", Transform::Fsst, Encoding::Plain),
    ("alp", Transform::None, Encoding::Alp),
    ("block", Transform::None, Encoding::Block),
];

/// The name of a plan in the option `encoding` and in table functions.
pub fn plan_name(plan: ColumnPlan) -> String {
    let known = ENCODINGS.iter().find(|(_, t, e)| *t == plan.transform && *e == plan.encoding);
    known.map_or_else(|| format!("{:?}+{:?}", plan.transform, plan.encoding).to_lowercase(), |(n, ..)| (*n).into())
}

impl fmt::Display for PinnedEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plan_name(self.0))
    }
}

impl From<PinnedEncoding> for String {
    fn from(encoding: PinnedEncoding) -> String {
        encoding.to_string()
    }
}

impl TryFrom<String> for PinnedEncoding {
    type Error = StoreError;

    fn try_from(name: String) -> Result<Self> {
        let found = ENCODINGS.iter().find(|(n, ..)| n.eq_ignore_ascii_case(&name));
        let Some((_, transform, encoding)) = found else {
            let names: Vec<_> = ENCODINGS.iter().map(|(n, ..)| *n).collect();
            return Err(StoreError::invalid(format!(
                "unknown encoding {name}; the encodings are {}",
                names.join(", ")
            )));
        };
        Ok(PinnedEncoding(ColumnPlan { transform: *transform, encoding: *encoding }))
    }
}

const PRESETS: [(&str, Preset); 5] = [
    ("row", Preset::Row),
    ("column", Preset::Column),
    ("slotted", Preset::Slotted),
    ("pax", Preset::Pax),
    ("auto", Preset::Auto),
];
const PAGE_FORMATS: [(&str, PageFormat); 3] =
    [("slotted", PageFormat::Slotted), ("dense", PageFormat::Dense), ("pax", PageFormat::Pax)];
const CLUSTER_MISSING: [(&str, bool); 2] = [("error", false), ("null", true)];
const MEDIA: [(&str, MediumKind); 3] =
    [("disk", MediumKind::Disk), ("memory", MediumKind::Memory), ("pmem", MediumKind::Pmem)];

fn choice<T: Copy>(option: &str, value: &str, table: &[(&str, T)]) -> Result<T> {
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)).map(|(_, v)| *v).ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        StoreError::invalid(format!("{option} = '{value}' is not known; the values are {}", names.join(", ")))
    })
}

fn name_of<T: Copy + PartialEq>(value: T, table: &[(&'static str, T)]) -> &'static str {
    table.iter().find(|(_, v)| *v == value).map(|(name, _)| *name).expect("every value has a name")
}

/// The name of a preset in SQL.
pub fn preset_name(preset: Preset) -> &'static str {
    name_of(preset, &PRESETS)
}

/// The name of a page format in SQL.
pub fn page_format_name(format: PageFormat) -> &'static str {
    name_of(format, &PAGE_FORMATS)
}

fn parse_page_size(value: &str) -> Result<u32> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
    let unit = value[digits.len()..].trim().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        _ => 0,
    };
    let size = digits.parse::<u32>().ok().and_then(|n| n.checked_mul(factor)).unwrap_or(0);
    if !size.is_power_of_two() || !(PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&size) {
        return Err(StoreError::invalid(format!(
            "page_size = '{value}' is not a power of two between 4KiB and 1MiB, such as '32KiB'"
        )));
    }
    Ok(size)
}

/// Parses a comma-separated list of columns. Double quotes preserve commas, parentheses and case.
fn parse_columns(value: &str, schema: &TableSchema) -> Result<Vec<String>> {
    let mut columns: Vec<String> = vec![];
    for item in split_list(value) {
        let name = resolve(&item, schema)?;
        if columns.contains(&name) {
            return Err(StoreError::invalid(format!("column {name} is named twice in '{value}'")));
        }
        columns.push(name);
    }
    Ok(columns)
}

fn parse_cluster(value: &str, schema: &TableSchema) -> Result<Vec<DimensionPath>> {
    let mut paths: Vec<DimensionPath> = vec![];
    for item in split_list(value) {
        let mut path = DimensionPath::parse(&item)?;
        if let Some(first) = path.names.first_mut() {
            *first = resolve(&quote(first), schema).or_else(|_| resolve(first, schema))?;
        }
        if paths.iter().any(|known| known.names == path.names) {
            return Err(StoreError::invalid(format!("cluster = '{value}': {path} is named twice")));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Parses lists of columns: `(a, b), (c)`.
fn parse_lists(option: &str, value: &str, schema: &TableSchema) -> Result<Vec<Vec<String>>> {
    let mut lists = vec![];
    let mut rest = value.trim();
    while !rest.is_empty() {
        let wrong = || StoreError::invalid(format!("{option} = '{value}' is not of the form '(a, b), (c)'"));
        let inner = rest.strip_prefix('(').ok_or_else(wrong)?;
        let end = find_unquoted(inner, ')').ok_or_else(wrong)?;
        let list = parse_columns(&inner[..end], schema)?;
        if list.is_empty() {
            return Err(wrong());
        }
        lists.push(list);
        rest = inner[end + 1..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok(lists)
}

/// Parses the keys of indexes: one, `a, b`, or several, `(a), (b, c)`.
fn parse_index(value: &str, schema: &TableSchema) -> Result<Vec<Vec<String>>> {
    let keys = match value.trim_start().starts_with('(') {
        true => parse_lists("index", value, schema)?,
        false => Vec::from_iter(Some(parse_columns(value, schema)?).filter(|key| !key.is_empty())),
    };
    match keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
        Some((_, key)) => Err(StoreError::invalid(format!("index names the key ({}) twice", quote_list(key)))),
        None => Ok(keys),
    }
}

fn parse_groups(value: &str, schema: &TableSchema) -> Result<Vec<Vec<String>>> {
    let groups = parse_lists("column_groups", value, schema)?;
    let mut seen = std::collections::HashSet::new();
    for name in groups.iter().flatten() {
        if !seen.insert(name.clone()) {
            return Err(StoreError::invalid(format!("column {name} is in two groups; each column has one")));
        }
    }
    Ok(groups)
}

fn parse_encodings(value: &str, schema: &TableSchema) -> Result<BTreeMap<String, PinnedEncoding>> {
    let mut encodings = BTreeMap::new();
    for item in split_list(value) {
        let (column, encoding) = item.rsplit_once(':').ok_or_else(|| {
            StoreError::invalid(format!("encoding = '{value}' is not of the form 'a: rle, b: bitpack'"))
        })?;
        let encoding = PinnedEncoding::try_from(encoding.trim().to_owned())?;
        encodings.insert(resolve(column.trim(), schema)?, encoding);
    }
    Ok(encodings)
}

/// Finds a column by its quoted name, its exact name, or its name without regard to case.
fn resolve(item: &str, schema: &TableSchema) -> Result<String> {
    let item = item.trim();
    if item.starts_with('"') && item.len() > 1 {
        let name = unquote(item);
        if schema.index_of(&name).is_ok() {
            return Ok(name);
        }
        // A field of a struct whose name is in quotes.
        return schema.stored_index_of(item).map(|_| item.to_owned());
    }
    let columns = schema.stored_columns();
    if let Some(column) = columns.iter().find(|c| c.name == item) {
        return Ok(column.name.clone());
    }
    match columns.iter().find(|c| c.name.eq_ignore_ascii_case(item)) {
        Some(column) => Ok(column.name.clone()),
        None => schema.index_of(item).map(|_| item.to_owned()),
    }
}

fn split_list(value: &str) -> Vec<String> {
    let mut items = vec![];
    let mut rest = value;
    while let Some(end) = find_unquoted(rest, ',') {
        items.push(rest[..end].to_owned());
        rest = &rest[end + 1..];
    }
    items.push(rest.to_owned());
    items.retain(|item| !item.trim().is_empty());
    items
}

pub(crate) fn find_unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == wanted && !quoted).then_some(at)
    })
}

/// A name without its double quotes. A name without quotes is returned unchanged.
pub(crate) fn unquote(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(name) => name.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

pub(crate) fn quote(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !name.is_empty() { name.to_owned() } else { quoted(name) }
}

/// A name as a quoted identifier of SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn quote_list(names: &[String]) -> String {
    names.iter().map(|n| quote(n)).collect::<Vec<_>>().join(", ")
}

fn quote_lists(lists: &[Vec<String>]) -> String {
    lists.iter().map(|list| format!("({})", quote_list(list))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::schema::Column;

    fn schema() -> TableSchema {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int32, nullable: true };
        TableSchema { columns: ["a", "b", "c", "Odd, name"].map(column).to_vec(), ..Default::default() }
    }

    fn check(options: &[(&str, &str)], printed: &str) {
        let schema = schema();
        let design = Design::default().with_options(options.iter().copied(), &schema).unwrap();
        assert_eq!(design.to_string(), printed);
        let options = design.to_options();
        let again = Design::default().with_options(options.iter().map(|(n, v)| (*n, v.as_str())), &schema).unwrap();
        assert_eq!(again, design);
        let json = serde_json::to_string(&design).unwrap();
        assert_eq!(serde_json::from_str::<Design>(&json).unwrap(), design);
    }

    fn check_error(options: &[(&str, &str)], part: &str) {
        let error = Design::default().with_options(options.iter().copied(), &schema()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn options_print_and_read_back() {
        check(&[], "preset = 'auto'");
        check(&[("DESIGN", "Row"), ("page_size", "64 KiB")], "preset = 'row', page_size = '64KiB'");
        check(&[("index", "b, A")], "preset = 'auto', index = 'b, a'");
        check(&[("index", "(a), (b, \"Odd, name\")")], "preset = 'auto', index = '(a), (b, \"Odd, name\")'");
        check(&[("index", "(a)"), ("index", "")], "preset = 'auto'");
        check(
            &[("column_groups", "(A, b), (\"Odd, name\")"), ("Page_Format", "pax")],
            "preset = 'auto', column_groups = '(a, b), (\"Odd, name\")', page_format = 'pax'",
        );
        check(
            &[("preset", "column"), ("sort", "a, b"), ("rle_levels", "1"), ("encoding", "c: rle, b: bitpack")],
            "preset = 'column', sort = 'a, b', rle_levels = '1', encoding = 'b: bitpack, c: rle'",
        );
    }

    #[test]
    fn earlier_names_are_read() {
        let values = [("design", "row"), ("groups", "(a, b)"), ("page", "pax"), ("levels", "1"), ("encode", "c: rle")];
        let sort = ("sort", "a");
        let earlier = Design::default().with_options(values.into_iter().chain([sort]), &schema()).unwrap();
        let names = values.map(|(name, value)| (option_name(name), value));
        let names = names.iter().map(|(name, value)| (name.as_str(), *value)).chain([sort]);
        assert_eq!(earlier, Design::default().with_options(names, &schema()).unwrap());
        for (name, current) in EARLIER_NAMES {
            assert!(OPTIONS.contains(&current) && !OPTIONS.contains(&name), "{name}");
            assert!(!earlier.to_options().iter().any(|(printed, _)| *printed == name), "{name}");
        }
        check_error(
            &[("preset", "row"), ("Design", "pax")],
            "preset and Design are two names of one option; set preset once",
        );
        check_error(&[("levels", "1"), ("sort", "a"), ("rle_levels", "1")], "set rle_levels once");
    }

    #[test]
    fn sorted_encodings_need_a_sort() {
        for (options, expected) in [
            (vec![("encode", "b: delta_lz")], false),
            (vec![("encode", "b: delta_lz"), ("sort", "a, b")], false),
            (vec![("encode", "b: delta_lz"), ("sort", "b"), ("cluster", "a")], false),
            (vec![("encode", "b: delta_lz"), ("sort", "b, a")], true),
            (vec![("encode", "b: delta")], true),
        ] {
            let design = Design::default().with_options(options.iter().copied(), &schema()).unwrap();
            assert_eq!(design.check_order(&schema()).is_ok(), expected, "{design}");
        }
    }

    #[test]
    fn errors_list_what_is_valid() {
        check_error(&[("desing", "row")], "the options are preset, column_groups");
        check_error(&[("design", "rows")], "row, column, slotted, pax, auto");
        check_error(&[("sort", "z")], "the columns are a, b, c");
        check_error(&[("index", "(a), (z)")], "the columns are a, b, c");
        check_error(&[("index", "(a), (b), (a)")], "the key (a) twice");
        check_error(&[("index", "(a), b")], "not of the form '(a, b), (c)'");
        check_error(&[("levels", "1")], "sort names 0");
        check_error(&[("page_size", "5KiB")], "power of two");
        check_error(&[("groups", "(a), (a, b)")], "in two groups");
        check_error(&[("encode", "a: zip")], "the encodings are plain");
        check_error(&[("encode", "a: block")], "is not for columns of type int32; its encodings are plain, bitpack");
        check(&[("encode", "b: delta_lz"), ("sort", "b")], "preset = 'auto', sort = 'b', encoding = 'b: delta_lz'");
    }

    #[test]
    fn groups_resolve() {
        let design = Design::default().with_options([("groups", "(c, a)")], &schema()).unwrap();
        let groups: Vec<_> = design.groups(&schema()).into_iter().map(|g| (g.columns, g.format)).collect();
        assert_eq!(groups, [(vec![2, 0], PageFormat::Dense), (vec![1], PageFormat::Pax), (vec![3], PageFormat::Pax)]);
    }
}
