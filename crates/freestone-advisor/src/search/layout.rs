//! A design in the form of the search: columns by position, in one canonical form, so that equal designs are equal
//! values.

use std::collections::BTreeMap;

use freestone_store::cluster::{BitOrder, DimensionPath};
use freestone_store::design::{Design, MediumKind, PAGE_SIZE_DEFAULT, PageFormat, PinnedEncoding, Preset};

use crate::cost::CostModel;

/// A partition of the columns, and all other options of a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Each column once. Every group ascends, and groups are in the order of their first columns.
    groups: Vec<Vec<usize>>,
    /// Everything except the groups.
    pub base: Base,
}

/// The options of a design except its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The format of the groups' pages.
    pub page: PageFormat,
    /// In bytes.
    pub page_size: u32,
    /// The sort columns.
    pub sort: Vec<usize>,
    /// The clustering dimensions.
    pub cluster: Vec<DimensionPath>,
    /// The order of their bits.
    pub interleave: BitOrder,
    /// Whether rows without a referenced row are accepted.
    pub cluster_missing: bool,
    /// The number of run-length levels.
    pub levels: u32,
    /// The medium.
    pub medium: MediumKind,
    /// The keys of ordered indexes.
    pub index: Vec<Vec<usize>>,
}

impl Default for Base {
    fn default() -> Self {
        Base {
            page: PageFormat::Dense,
            page_size: PAGE_SIZE_DEFAULT,
            sort: vec![],
            cluster: vec![],
            interleave: BitOrder::RoundRobin,
            cluster_missing: false,
            levels: 0,
            medium: MediumKind::Disk,
            index: vec![],
        }
    }
}

impl Layout {
    /// Brings the groups into the canonical form. Empty groups are removed.
    pub fn new(groups: impl IntoIterator<Item = Vec<usize>>, base: Base) -> Self {
        let mut groups: Vec<Vec<usize>> = groups.into_iter().filter(|g| !g.is_empty()).collect();
        groups.iter_mut().for_each(|g| g.sort_unstable());
        groups.sort_unstable();
        Layout { groups, base }
    }

    /// Each column in a group of its own.
    pub fn apart(columns: usize, base: Base) -> Self {
        Layout::new((0..columns).map(|c| vec![c]), base)
    }

    /// All columns in one group.
    pub fn together(columns: usize, base: Base) -> Self {
        Layout::new([(0..columns).collect()], base)
    }

    /// The column groups.
    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// The same groups with other options.
    pub fn with_base(&self, base: Base) -> Self {
        Layout { groups: self.groups.clone(), base }
    }

    /// Merges two groups.
    pub fn merged(&self, a: usize, b: usize) -> Self {
        let both = self.groups[a].iter().chain(&self.groups[b]).copied().collect();
        let rest = self.groups.iter().enumerate().filter(|(i, _)| *i != a && *i != b).map(|(_, g)| g.clone());
        Layout::new(rest.chain([both]), self.base.clone())
    }

    /// Moves `part` of a group to a group of its own.
    pub fn split(&self, group: usize, part: &[usize]) -> Self {
        let (inside, outside): (Vec<usize>, Vec<usize>) = self.groups[group].iter().partition(|c| part.contains(c));
        let rest = self.groups.iter().enumerate().filter(|(i, _)| *i != group).map(|(_, g)| g.clone());
        Layout::new(rest.chain([inside, outside]), self.base.clone())
    }

    /// Moves one column to another group.
    pub fn shifted(&self, column: usize, to: usize) -> Self {
        let groups = self.groups.iter().enumerate().map(|(i, group)| {
            let mut group: Vec<usize> = group.iter().copied().filter(|c| *c != column).collect();
            if i == to {
                group.push(column);
            }
            group
        });
        Layout::new(groups, self.base.clone())
    }
}

/// Converts positions to the names of a [`Design`], and has the options of a design that the search does not change.
#[derive(Debug, Clone)]
pub struct Names {
    columns: Vec<String>,
    encode: BTreeMap<String, PinnedEncoding>,
}

impl Names {
    /// `encode`: the encodings that the user set.
    pub fn new(model: &dyn CostModel, encode: BTreeMap<String, PinnedEncoding>) -> Self {
        Names { columns: (0..model.columns()).map(|c| model.column_name(c).to_owned()).collect(), encode }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == name)
    }

    /// The shortest design with the meaning of the layout, with presets where possible.
    pub fn design(&self, layout: &Layout) -> Design {
        let base = &layout.base;
        let mut design = Design::preset(Preset::Column);
        if layout.groups.len() == 1 && self.columns.len() > 1 {
            design.preset = match base.page {
                PageFormat::Dense => Preset::Row,
                PageFormat::Pax => Preset::Pax,
                PageFormat::Slotted => Preset::Slotted,
            };
        } else if layout.groups.iter().any(|g| g.len() > 1) {
            design.preset = Preset::Auto;
            let many = layout.groups.iter().filter(|g| g.len() > 1);
            design.groups = many.map(|g| self.of(g)).collect();
            design.page = Some(base.page).filter(|page| *page != PageFormat::Dense);
        } else if base.page == PageFormat::Slotted {
            design.page = Some(PageFormat::Slotted);
        }
        design.page_size = base.page_size;
        design.sort = self.of(&base.sort);
        design.cluster = base.cluster.clone();
        design.interleave = if base.cluster.is_empty() { BitOrder::RoundRobin } else { base.interleave.clone() };
        design.cluster_missing = base.cluster_missing && !base.cluster.is_empty();
        design.levels = base.levels;
        design.medium = base.medium;
        design.index = base.index.iter().map(|key| self.of(key)).collect();
        if base.page != PageFormat::Slotted {
            design.encode = self.encode.clone();
        }
        design
    }

    /// The layout of a design. Names that the table does not have are omitted. Pages of a design without groups are
    /// those of its preset.
    pub fn layout(&self, design: &Design) -> Layout {
        let groups: Vec<Vec<usize>> = if design.groups.is_empty() {
            match design.preset {
                Preset::Row | Preset::Slotted | Preset::Pax => vec![(0..self.columns.len()).collect()],
                Preset::Column | Preset::Auto => vec![],
            }
        } else {
            design.groups.iter().map(|g| g.iter().filter_map(|name| self.position(name)).collect()).collect()
        };
        let named: Vec<usize> = groups.iter().flatten().copied().collect();
        let rest = (0..self.columns.len()).filter(|c| !named.contains(c)).map(|c| vec![c]);
        let base = Base {
            page: design.page.unwrap_or(match design.preset {
                Preset::Slotted => PageFormat::Slotted,
                Preset::Pax => PageFormat::Pax,
                _ => PageFormat::Dense,
            }),
            page_size: design.page_size,
            sort: design.sort.iter().filter_map(|name| self.position(name)).collect(),
            cluster: design.cluster.clone(),
            interleave: design.interleave.clone(),
            cluster_missing: design.cluster_missing,
            // Levels without a sort order follow the foreign keys, which are unknown here.
            levels: design.levels.min(design.sort.len() as u32),
            medium: design.medium,
            index: design.index.iter().map(|key| key.iter().filter_map(|name| self.position(name)).collect()).collect(),
        };
        Layout::new(groups.into_iter().chain(rest), base)
    }

    fn of(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|c| self.columns[*c].clone()).collect()
    }
}
