//! A segment that is open for reading. Its footer is checked once, and its pages are checked when they are read from
//! the medium.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use freestone_codec::{Predicate, Shared, Transform};

use super::footer::{self, Footer, PageEntry, TRAILER, Trailer};
use super::hot_keys::HotKeys;
use super::index::SegmentIndex;
use super::zones::Verdict;
use crate::cache::{Cached, PageCache, PageKey};
use crate::error::{Result, StoreError};
use crate::format::{GroupContext, Layout, PageView};
use crate::media::{Buffer, MediumError, Pending, ReadFile, ReadRequest};
use crate::page::{self, PageHeader};
use crate::schema::kind;

/// An open segment. It is cheap to share and contains no pages.
#[derive(Debug)]
pub struct Segment {
    /// The id of the segment.
    pub id: u64,
    pub(super) name: String,
    pub(super) file: Arc<dyn ReadFile>,
    /// The footer.
    pub footer: Footer,
    pub(super) groups: Vec<Arc<GroupContext>>,
    /// For each column: its group, and its position in the group.
    pub(super) places: Vec<(usize, usize)>,
    /// For each column: its distinct strings, if they were searched for and are few.
    pub(super) texts: Vec<OnceLock<Option<StringList>>>,
    /// The encodings of its columns, if somebody asked for them.
    pub(super) encodings: OnceLock<Arc<[String]>>,
    pub(super) indexes: Vec<SegmentIndex>,
    /// The offset of the segment in its file, in page sizes. It is not 0 for an index, a segment within another's file.
    pub(super) first_page: u32,
    /// The pages of the last groups, if these are not in the file: columns that were added later, and hot rows.
    pub(super) resident: Vec<Vec<Arc<CachedPage>>>,
    /// The keys of hot rows.
    pub(super) hot_keys: Option<Arc<HotKeys>>,
    /// The blocks in persistent memory of which the pages of the first group are made.
    pub(super) blocks: Option<Arc<dyn MadePages>>,
    /// The segment as it is in the file, if this one has the columns of a table that was altered since.
    pub(super) stored: Option<Arc<Segment>>,
}

/// Pages that are made when they are asked for.
pub(super) trait MadePages: std::fmt::Debug + Send + Sync {
    /// A page; `None` if something is damaged, which the segment's file describes.
    fn made(&self, page: usize) -> Option<CachedPage>;

    /// The bytes of what the pages are made of.
    fn bytes(&self) -> u64;

    /// Notes that a page is used.
    fn touch(&self);
}

/// The distinct strings of a column.
pub(super) type StringList = Arc<Vec<Vec<u8>>>;

/// A verified page with its parsed layout.
#[derive(Debug)]
pub struct CachedPage {
    bytes: Buffer,
    header: PageHeader,
    layout: Layout,
}

impl AsRef<[u8]> for CachedPage {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CachedPage {
    pub(super) fn new(bytes: Buffer, header: PageHeader, layout: Layout) -> Self {
        CachedPage { bytes, header, layout }
    }

    /// The fields of the page's header.
    pub(super) fn header(&self) -> &PageHeader {
        &self.header
    }

    /// The page without its header.
    pub(super) fn payload(&self) -> &[u8] {
        page::payload(&self.bytes, &self.header)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The page, ready to be decoded. `key` identifies it in the scratch's cache of decompressed blocks.
    pub(super) fn view<'a>(&'a self, group: &'a GroupContext, key: u64) -> PageView<'a> {
        PageView { group, layout: &self.layout, payload: self.payload(), key }
    }

    /// The range of a column's chunk on the page, by the column's position in its group. The group must store its
    /// columns separately ([`GroupContext::ships_columns`]).
    pub fn chunk_range(&self, place: usize) -> Range<usize> {
        let Layout::Pax(layout) = &self.layout else { unreachable!("columns of other pages are not apart") };
        let (start, chunk) = (page::HEADER, layout.chunk_range(place));
        start + chunk.start..start + chunk.end
    }
}

impl Cached for CachedPage {
    fn page_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn footprint(&self) -> usize {
        self.bytes.footprint() + self.layout.heap_bytes()
    }
}

/// Pages `first ..= last` of a group, by position in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The column group.
    pub group: usize,
    /// The first page.
    pub first: usize,
    /// The last page.
    pub last: usize,
}

impl Segment {
    /// Opens a segment: reads and checks the footer. `name` is the file's, for messages.
    ///
    /// # Errors
    /// The file cannot be read, or trailer or footer are damaged.
    pub fn open(id: u64, name: &str, file: Arc<dyn ReadFile>) -> Result<Segment> {
        Self::open_at(id, name, file, 0)
    }

    /// Opens an index's segment, before which the file has `first_page` page sizes.
    pub(super) fn open_at(id: u64, name: &str, file: Arc<dyn ReadFile>, first_page: u32) -> Result<Segment> {
        let len = file.len()?;
        let corrupt = |reason: String| StoreError::Corrupt { file: name.to_owned(), reason };
        let short = || corrupt(format!("its {len} bytes are fewer than a segment has"));
        let trailer_at = len.checked_sub(TRAILER as u64).ok_or_else(short)?;
        let corrupt = |reason: String| corrupt(format!("at byte {trailer_at}: {reason}"));
        let mut trailer = vec![0; TRAILER];
        file.read_at(trailer_at, &mut trailer)?;
        let Trailer { page_size, index, units, id: stamped } = footer::parse_trailer(&trailer).map_err(corrupt)?;
        if stamped != id && stamped != 0 {
            return Err(corrupt(format!("this is segment {stamped:016x}, put in the place of {id:016x}")));
        }
        if (u64::from(index) + u64::from(units)) * u64::from(page_size) != trailer_at {
            return Err(corrupt("the footer does not stand before the trailer".into()));
        }
        let blob = |index: u32, units: u32| -> Result<Vec<u8>> {
            let end = (u64::from(index) + u64::from(units)) * u64::from(page_size);
            if end > trailer_at {
                return Err(StoreError::page(name, index.into(), "it lies behind the end of the file"));
            }
            let mut bytes = vec![0; units as usize * page_size as usize];
            file.read_at(u64::from(index) * u64::from(page_size), &mut bytes)?;
            let header = page::verify(&bytes, index).map_err(|e| StoreError::page(name, index.into(), e))?;
            Ok(page::payload(&bytes, &header).to_vec())
        };
        let footer = Footer::parse(&blob(index, units)?).map_err(|e| StoreError::page(name, index.into(), e))?;
        let description = &footer.description;
        if description.page_size != page_size || description.groups.iter().any(|group| group.end > index) {
            return Err(corrupt("its pages do not stand before the footer".into()));
        }
        let mut shared = Vec::with_capacity(description.columns.len());
        for (column, described) in description.schema.stored_columns().iter().zip(&description.columns) {
            let plan = described.plan().map_err(corrupt)?;
            shared.push(match described.shared {
                None => None,
                Some(entry) => {
                    let bytes = blob(entry.index, entry.units.into())?;
                    let parsed = Shared::parse(&bytes, kind(&column.data_type), plan.transform);
                    Some(parsed.map_err(|e| StoreError::page(name, entry.index.into(), e))?)
                }
            });
        }
        let mut places = vec![(0, 0); shared.len()];
        let mut groups = Vec::with_capacity(description.groups.len());
        for (at, group) in description.groups.iter().enumerate() {
            let columns: Vec<usize> = group.columns.iter().map(|c| *c as usize).collect();
            columns.iter().enumerate().for_each(|(place, column)| places[*column] = (at, place));
            let types = columns.iter().map(|c| description.schema.stored_type(*c).clone()).collect();
            let shared = columns.iter().map(|c| shared[*c].clone()).collect();
            groups.push(Arc::new(GroupContext::new(group.format, types, shared)));
        }
        let indexes = description.indexes.iter().map(|index| SegmentIndex::new(index.clone(), trailer_at));
        let indexes = indexes.collect::<Result<_, _>>().map_err(corrupt)?;
        Ok(Segment {
            id,
            name: name.to_owned(),
            file,
            footer,
            groups,
            texts: places.iter().map(|_| OnceLock::new()).collect(),
            places,
            encodings: OnceLock::new(),
            indexes,
            first_page,
            resident: vec![],
            hot_keys: None,
            blocks: None,
            stored: None,
        })
    }

    /// The ordered indexes of the rows.
    pub fn indexes(&self) -> &[SegmentIndex] {
        &self.indexes
    }

    pub(super) fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// The segment as it is in the file, with the columns that its table had when it was written.
    pub(crate) fn as_stored(&self) -> &Segment {
        self.stored.as_deref().unwrap_or(self)
    }

    /// A page that is not in the file.
    pub(crate) fn resident(&self, group: usize, page: usize) -> Option<&Arc<CachedPage>> {
        let in_file = self.groups.len() - self.resident.len();
        self.resident.get(group.checked_sub(in_file)?)?.get(page)
    }

    /// A page that is not in the file, made if it is a block's.
    pub(crate) fn in_memory(&self, group: usize, page: usize) -> Option<Arc<CachedPage>> {
        let made = || self.blocks.as_ref().filter(|_| group == 0)?.made(page).map(Arc::new);
        self.resident(group, page).cloned().or_else(made)
    }

    /// The keys of hot rows, if these are some.
    pub(crate) fn hot_keys(&self) -> Option<&HotKeys> {
        self.hot_keys.as_deref()
    }

    /// Whether zones have exactly the aggregates of the values, and not wider bounds.
    pub(crate) fn has_exact_zones(&self) -> bool {
        self.hot_keys.is_none() && self.blocks.is_none()
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of rows, including deleted ones.
    pub fn rows(&self) -> usize {
        self.footer.description.rows as usize
    }

    /// The rows per zone.
    pub fn zone_rows(&self) -> usize {
        self.footer.description.zone_rows as usize
    }

    /// What the aggregates of one of the segment's zones say about a predicate on a column.
    pub fn verdict(&self, zone: usize, column: usize, predicate: &Predicate) -> Verdict {
        let rows = self.zone_rows().min(self.rows() - zone * self.zone_rows());
        self.footer.zones[column].verdict(zone, rows, predicate)
    }

    /// The page size in bytes.
    pub fn page_size(&self) -> usize {
        self.footer.description.page_size as usize
    }

    /// The number of column groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// A column group.
    pub fn group(&self, group: usize) -> &GroupContext {
        &self.groups[group]
    }

    /// The group of a column, and the column's position in it.
    pub fn place(&self, column: usize) -> (usize, usize) {
        self.places[column]
    }

    /// The groups that contain some columns, each once, in order.
    pub fn groups_of(&self, columns: &[usize]) -> Vec<usize> {
        let mut groups: Vec<usize> = columns.iter().map(|column| self.place(*column).0).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The shared dictionary or symbol table of a column.
    pub fn shared(&self, column: usize) -> Option<&Shared> {
        let (group, place) = self.places[column];
        self.groups[group].shared[place].as_ref()
    }

    /// Identifies the shared state of a column, whatever the position of the column in its table is or becomes.
    pub fn shared_key(&self, column: usize) -> u64 {
        let (group, place) = self.places[column];
        let groups = &self.as_stored().footer.description.groups;
        let stored = groups.get(group).and_then(|group| group.columns.get(place)).copied();
        self.id << 16 | u64::from(stored.unwrap_or(u16::MAX.into()))
    }

    /// The segment dictionary of a column whose pages contain codes.
    pub fn dictionary(&self, column: usize) -> Option<&Shared> {
        self.shared(column).filter(|shared| shared.transform() == Transform::Dictionary)
    }

    /// The distinct strings of a column, for which `find` searches once; `None` if they are many.
    ///
    /// # Errors
    /// The error of `find`.
    pub fn texts(
        &self,
        column: usize,
        find: impl FnOnce() -> Result<Option<Vec<Vec<u8>>>>,
    ) -> Result<Option<StringList>> {
        if let Some(known) = self.texts[column].get() {
            return Ok(known.clone());
        }
        let found = find()?.map(Arc::new);
        Ok(self.texts[column].get_or_init(|| found).clone())
    }

    fn directory(&self, group: usize) -> &[PageEntry] {
        &self.footer.pages[group]
    }

    /// The number of pages of a group.
    pub fn page_count(&self, group: usize) -> usize {
        self.directory(group).len()
    }

    /// The rows of a page.
    pub fn page_rows(&self, group: usize, page: usize) -> Range<usize> {
        let directory = self.directory(group);
        let end = directory.get(page + 1).map_or(self.rows(), |next| next.first_row as usize);
        directory[page].first_row as usize..end
    }

    /// The pages with the rows `rows`, which must not be empty.
    pub fn pages_of(&self, group: usize, rows: Range<usize>) -> PageRun {
        let directory = self.directory(group);
        let holding = |row: usize| directory.partition_point(|p| p.first_row as usize <= row) - 1;
        PageRun { group, first: holding(rows.start), last: holding(rows.end - 1) }
    }

    fn request(&self, group: usize, page: usize) -> ReadRequest {
        if self.blocks.is_some() && group == 0 {
            return ReadRequest { offset: page as u64, len: self.page_size() };
        }
        let directory = self.directory(group);
        let end = directory.get(page + 1).map_or(self.footer.description.groups[group].end, |next| next.index);
        let offset = u64::from(directory[page].index) * self.page_size() as u64;
        ReadRequest { offset, len: (end - directory[page].index) as usize * self.page_size() }
    }

    /// The bytes of a page in the file.
    pub fn page_bytes(&self, group: usize, page: usize) -> usize {
        self.request(group, page).len
    }

    fn key(&self, group: usize, page: usize) -> PageKey {
        PageKey { file: self.id, page: self.file_page(self.directory(group)[page].index) }
    }

    /// The position of a page in the file, in page sizes.
    pub(super) fn file_page(&self, index: u32) -> u32 {
        self.first_page.saturating_add(index)
    }

    /// Whether a page is in the cache.
    pub fn is_cached(&self, cache: &PageCache<CachedPage>, group: usize, page: usize) -> bool {
        let is_made = self.blocks.is_some() && group == 0;
        is_made || self.resident(group, page).is_some() || cache.contains(self.key(group, page))
    }

    /// The bytes of all pages of a group in the file.
    pub fn group_bytes(&self, group: usize) -> usize {
        if let Some(blocks) = self.blocks.as_ref().filter(|_| group == 0) {
            return blocks.bytes() as usize;
        }
        let first = self.directory(group).first().map_or(0, |page| page.index);
        (self.footer.description.groups[group].end - first) as usize * self.page_size()
    }

    /// The page, if it is in the cache, or in memory anyway.
    pub fn cached(&self, cache: &PageCache<CachedPage>, group: usize, page: usize) -> Option<Arc<CachedPage>> {
        if let Some(blocks) = &self.blocks {
            blocks.touch();
        }
        let known = self.resident(group, page).cloned().or_else(|| cache.get(self.key(group, page)));
        let made = || self.blocks.as_ref().filter(|_| group == 0)?.made(page);
        known.or_else(|| Some(cache.insert(self.key(group, page), made()?)))
    }

    /// Starts reading `pages` (group, page). Pass the results to [`Segment::admit`].
    pub fn start(&self, pages: &[(usize, usize)]) -> Pending {
        let requests: Vec<_> = pages.iter().map(|(group, page)| self.request(*group, *page)).collect();
        self.file.start(&requests)
    }

    /// Reads a page from where it was written.
    pub(super) fn read_past_caches(&self, group: usize, page: usize) -> Result<Buffer> {
        if let Some(read) = self.file.read_again(self.request(group, page)) {
            return Ok(read?);
        }
        let missing = || self.page_error(group, page, "it was not read".into());
        Ok(self.start(&[(group, page)]).wait().pop().ok_or_else(missing)??)
    }

    /// Verifies a page that was read, and inserts it into the cache.
    ///
    /// # Errors
    /// The page is damaged.
    pub fn admit(
        &self,
        cache: &PageCache<CachedPage>,
        (group, page): (usize, usize),
        bytes: Buffer,
    ) -> Result<Arc<CachedPage>> {
        let index = self.directory(group)[page].index;
        let wrong = |reason: String| StoreError::page(&self.name, self.file_page(index).into(), reason);
        let (header, bytes) = self.verified((group, page), bytes)?;
        let rows = self.page_rows(group, page);
        let expected = (page::kind_of(self.groups[group].format), rows.start as u32, rows.len() as u32, group as u32);
        if (header.kind, header.first_row, header.rows, header.group) != expected {
            return Err(wrong("it is not the page that the directory names".into()));
        }
        let layout = Layout::parse(page::payload(&bytes, &header), header.rows as usize, &self.groups[group])
            .map_err(|reason| self.page_error(group, page, reason))?;
        Ok(cache.insert(self.key(group, page), CachedPage { bytes, header, layout }))
    }

    /// A page that was read, if its checksum is right. One that was kept closer to this process is read once more.
    fn verified(&self, (group, page): (usize, usize), bytes: Buffer) -> Result<(PageHeader, Buffer)> {
        let index = self.directory(group)[page].index;
        let wrong = |reason: String| StoreError::page(&self.name, self.file_page(index).into(), reason);
        let request = self.request(group, page);
        let (header, bytes) = match page::verify(&bytes, index) {
            Ok(header) => (header, bytes),
            Err(reason) => match self.file.read_again(request) {
                None => return Err(wrong(reason)),
                Some(again) => {
                    let again = again?;
                    (page::verify(&again, index).map_err(wrong)?, again)
                }
            },
        };
        self.file.keep(request.offset, &bytes);
        Ok((header, bytes))
    }

    /// A page, ready to be decoded.
    pub fn view<'a>(&'a self, group: usize, page: &'a CachedPage) -> PageView<'a> {
        page.view(&self.groups[group], self.id << 24 ^ u64::from(self.file_page(page.header.index)))
    }

    /// The position in the file of a group's first page, in page sizes.
    pub(super) fn first_page_index(&self, group: usize) -> u32 {
        self.directory(group)[0].index
    }

    /// The error for a page whose content cannot be decoded.
    pub fn page_error(&self, group: usize, page: usize, reason: String) -> StoreError {
        StoreError::page(&self.name, self.file_page(self.directory(group)[page].index).into(), reason)
    }
}

/// The file of a segment whose pages are all in memory.
#[derive(Debug)]
pub(super) struct NoFile;

impl ReadFile for NoFile {
    fn len(&self) -> Result<u64, MediumError> {
        Ok(0)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        Err(past_end(offset, into.len()))
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        Pending::ready(requests.iter().map(|request| Err(past_end(request.offset, request.len))).collect())
    }
}

fn past_end(offset: u64, len: usize) -> MediumError {
    MediumError::PastEnd { file: "hot rows".into(), file_len: 0, offset, len: len as u64 }
}
