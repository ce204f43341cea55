//! Reading records from a log file.

use std::sync::Arc;

use crate::media::{MediumError, ReadFile};

use super::LogError;
use super::record::{HEADER_LEN, Header, RECORD_HEADER_LEN, RecordHeader, has_record_from};

/// One commit, or the folded state of all commits up to its sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The number of the commit.
    pub sequence: u64,
    /// The content, which the log does not interpret.
    pub body: Vec<u8>,
    /// The body is a folded state, as passed to a checkpoint. It replaces everything before.
    pub is_base: bool,
}

/// A log file open for reading.
#[derive(Debug)]
pub struct LogFile {
    pub name: String,
    pub file: Arc<dyn ReadFile>,
    pub header: Header,
}

/// The next element of a log.
#[derive(Debug)]
pub enum Step {
    Record {
        record: Record,
        /// The start of the next record.
        end: u64,
    },
    /// No record, and the reason.
    Nothing(&'static str),
}

/// The position of a scan: the next byte, and the previous sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub offset: u64,
    /// `None` before the base record, whose sequence is arbitrary.
    pub last_sequence: Option<u64>,
}

/// Bytes per read, so that one read gives many small records.
const WINDOW: usize = 256 << 10;

impl LogFile {
    pub fn open(name: String, file: Arc<dyn ReadFile>, generation: u64) -> Result<LogFile, LogError> {
        if file.len()? < HEADER_LEN as u64 {
            return Err(LogError::damaged(&name, 0, "the file is shorter than a log header"));
        }
        let mut bytes = [0; HEADER_LEN];
        file.read_at(0, &mut bytes)?;
        let header = Header::decode(&bytes).map_err(|defect| LogError::defect(&name, 0, defect))?;
        if header.generation != generation {
            return Err(LogError::damaged(&name, 16, "the header is of another generation than the file's name"));
        }
        Ok(LogFile { name, file, header })
    }

    /// Checks that this is the log of a database.
    ///
    /// # Errors
    /// It is that of another one.
    pub fn check_database(&self, database: u128) -> Result<(), LogError> {
        if self.header.database == database {
            return Ok(());
        }
        Err(LogError::damaged(&self.name, 24, "the log is of another database than CURRENT"))
    }

    /// The position of the first record.
    pub fn start(&self) -> Position {
        Position { offset: HEADER_LEN as u64, last_sequence: (!self.header.has_base).then_some(0) }
    }

    /// Reads the records in the committed part of the log. Anything else there is damage.
    ///
    /// # Errors
    /// The part is damaged or cannot be read.
    pub fn read_committed(&self, position: &mut Position, committed_len: u64) -> Result<Vec<Record>, LogError> {
        let file_len = self.file.len()?;
        if file_len < committed_len {
            return Err(LogError::damaged(&self.name, file_len, "the file is shorter than what was committed"));
        }
        let mut records = Vec::new();
        match self.read_valid(position, committed_len, |record| records.push(record))? {
            None => Ok(records),
            Some(reason) => Err(LogError::damaged(&self.name, position.offset, reason)),
        }
    }

    /// Reads the records after the committed part, up to `len`. They end at the first invalid one, an append that a
    /// power loss interrupted. A valid record after that one is damage.
    ///
    /// # Errors
    /// The part is damaged or cannot be read.
    pub fn read_tail(&self, position: &mut Position, len: u64) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        if let Some(reason) = self.read_valid(position, len, |record| records.push(record))? {
            let next = position.last_sequence.unwrap_or(0).saturating_add(1);
            if self.has_record_behind(position.offset, len, next)? {
                return Err(LogError::damaged(&self.name, position.offset, reason));
            }
        }
        Ok(records)
    }

    /// The end of the sound records from the start of the log.
    pub fn sound_end(&self, len: u64) -> Result<Position, LogError> {
        let mut position = self.start();
        self.read_valid(&mut position, len, drop)?;
        Ok(position)
    }

    /// Reads records up to `end`, or up to the first invalid one. In that case it returns the reason, and `position` is
    /// the start of that record.
    fn read_valid(
        &self,
        position: &mut Position,
        end: u64,
        mut take: impl FnMut(Record),
    ) -> Result<Option<&'static str>, MediumError> {
        let mut window = Window::new(&self.file, end);
        while position.offset < end {
            match self.step(&mut window, *position)? {
                Step::Record { record, end } => {
                    *position = Position { offset: end, last_sequence: Some(record.sequence) };
                    take(record);
                }
                Step::Nothing(reason) => return Ok(Some(reason)),
            }
        }
        Ok(None)
    }

    /// Whether a valid record with a later sequence starts anywhere after `offset`.
    pub fn has_record_behind(&self, offset: u64, len: u64, sequence: u64) -> Result<bool, MediumError> {
        let rest = read_bytes(&self.file, offset, len)?;
        Ok(has_record_from(rest.get(8..).unwrap_or(&[]), self.header.generation, sequence))
    }

    fn step(&self, window: &mut Window<'_>, position: Position) -> Result<Step, MediumError> {
        let Some(bytes) = window.bytes(position.offset, RECORD_HEADER_LEN)? else {
            return Ok(Step::Nothing("the file ends within the header of a record"));
        };
        let Some(bytes) = bytes.first_chunk() else { return Ok(Step::Nothing("the file ends within a record")) };
        let header = match RecordHeader::decode(bytes, self.header.generation) {
            Ok(header) => header,
            Err(reason) => return Ok(Step::Nothing(reason)),
        };
        if position.last_sequence.is_some_and(|last| header.sequence != last.wrapping_add(1)) {
            return Ok(Step::Nothing("the sequence of a record does not follow the one before"));
        }
        let end = position.offset + header.record_len();
        if end > window.end {
            return Ok(Step::Nothing("the file ends within a record"));
        }
        let body_at = position.offset + RECORD_HEADER_LEN as u64;
        let Some(body) = window.bytes(body_at, header.body_len as usize)? else {
            return Ok(Step::Nothing("the file ends within a record"));
        };
        if !header.body_matches(body) {
            return Ok(Step::Nothing("the checksum of a record's body does not match"));
        }
        let record =
            Record { sequence: header.sequence, body: body.to_vec(), is_base: position.last_sequence.is_none() };
        Ok(Step::Record { record, end })
    }
}

/// The bytes of a file from `offset` to `end`, or to the end of the file if that is smaller.
pub fn read_bytes(file: &Arc<dyn ReadFile>, offset: u64, end: u64) -> Result<Vec<u8>, MediumError> {
    let end = end.min(file.len()?);
    let mut bytes = vec![0; end.saturating_sub(offset) as usize];
    file.read_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// A part of a file in memory, which moves forward.
struct Window<'a> {
    file: &'a Arc<dyn ReadFile>,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    fn new(file: &'a Arc<dyn ReadFile>, end: u64) -> Window<'a> {
        Window { file, end, start: 0, bytes: Vec::new() }
    }

    /// Bytes of the file. `None` if they exceed the window's part.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>, MediumError> {
        let Some(wanted_end) = offset.checked_add(len as u64).filter(|end| *end <= self.end) else { return Ok(None) };
        if offset < self.start || wanted_end > self.start + self.bytes.len() as u64 {
            let read = (len.max(WINDOW) as u64).min(self.end - offset);
            self.bytes.resize(read as usize, 0);
            self.start = offset;
            self.file.read_at(offset, &mut self.bytes)?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + len))
    }
}
