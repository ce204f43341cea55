//! Aligned columns in a frame.
//!
//! The widths are computed from the first [`BUFFER_ROWS`] rows. Later rows are printed as they arrive, with the same
//! widths, and a wider value moves the frame of its row to the right. A terminal shows at most
//! [`TableLayout::max_rows`] rows, the first and the last ones.
//!
//! A value of several lines takes several lines of its row; `↵` in the margin marks a line break.

use std::collections::VecDeque;
use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{ResultWriter, Sink, cell};
use crate::terminal;

/// The maximum number of rows that are buffered to compute the widths of the columns.
pub const BUFFER_ROWS: usize = 10_000;

/// The minimum width to which a column is reduced so that the table fits the terminal.
const MIN_WIDTH: usize = 8;

/// Names of columns are not cut to less than this width. Rather, columns in the middle are left out.
const READABLE_WIDTH: usize = 24;

#[derive(Debug, Clone, Default)]
pub struct TableLayout {
    /// The number of rows to show, the first and the last half of them. `None`: all.
    pub max_rows: Option<usize>,
    /// The width of the terminal in columns: wide values are truncated, and columns in the middle left out.
    pub max_width: Option<usize>,
    /// The height of the terminal in lines.
    pub screen_rows: Option<usize>,
    /// Whether a last line shows the number of rows.
    pub footer: bool,
}

impl TableLayout {
    /// The layout for the terminal as it is now: its window may have changed.
    pub fn measured(&self) -> TableLayout {
        let size = terminal::size();
        let (max_width, screen_rows) = (size.map(|(columns, _)| columns), size.map(|(_, lines)| lines));
        TableLayout { max_width, screen_rows, ..self.clone() }
    }
}

pub struct TableWriter<'a> {
    sink: &'a mut Sink,
    layout: TableLayout,
    names: Vec<String>,
    is_right: Vec<bool>,
    /// `None` before the first rows are printed.
    frame: Option<Frame>,
    rows: Vec<Vec<String>>,
    /// With `max_rows`, the last batches, which contain the last half of the rows that will be shown.
    tail: VecDeque<RecordBatch>,
    tail_rows: usize,
    total_rows: usize,
}

impl<'a> TableWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink, layout: TableLayout) -> Self {
        let fields = schema.fields();
        TableWriter {
            sink,
            layout,
            names: fields.iter().map(|field| visible(field.name())).collect(),
            is_right: fields.iter().map(|field| cell::is_number(field.data_type())).collect(),
            frame: None,
            rows: Vec::new(),
            tail: VecDeque::new(),
            tail_rows: 0,
            total_rows: 0,
        }
    }

    fn write_capped(&mut self, batch: &RecordBatch, max_rows: usize) -> io::Result<()> {
        let head = (max_rows - self.rows.len()).min(batch.num_rows());
        append_rows(&batch.slice(0, head), &mut self.rows)?;
        let rest = batch.num_rows() - head;
        if rest > 0 {
            self.tail.push_back(batch.slice(head, rest));
            self.tail_rows += rest;
        }
        while self.tail.front().is_some_and(|first| self.tail_rows - first.num_rows() >= max_rows / 2) {
            self.tail_rows -= self.tail.pop_front().map_or(0, |first| first.num_rows());
        }
        Ok(())
    }

    fn finish_capped(&mut self, max_rows: usize) -> io::Result<()> {
        if self.total_rows > max_rows {
            for batch in std::mem::take(&mut self.tail) {
                let last = batch.num_rows().min(max_rows);
                append_rows(&batch.slice(batch.num_rows() - last, last), &mut self.rows)?;
            }
            let last = self.rows.split_off(self.rows.len() - max_rows / 2);
            self.rows.truncate(max_rows - max_rows / 2);
            self.rows.push(vec!["⋮".into(); self.names.len()]);
            self.rows.extend(last);
        }
        self.print_rows()
    }

    /// Prints the buffered rows, after the head of the frame if they are the first, and clears the buffer.
    fn print_rows(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut text = String::new();
        let frame = match self.frame.take() {
            Some(frame) => frame,
            None => {
                let frame = self.choose_frame(&rows);
                frame.append_rule(["┌", "┬", "┐"], &mut text);
                frame.append_row(&self.names, &mut text);
                frame.append_rule(["├", "┼", "┤"], &mut text);
                frame
            }
        };
        for row in &rows {
            frame.append_row(row, &mut text);
        }
        self.frame = Some(frame);
        self.sink.write_all(text.as_bytes())
    }

    fn choose_frame(&self, rows: &[Vec<String>]) -> Frame {
        let mut widths: Vec<usize> = self.names.iter().map(|name| name.width()).collect();
        for row in rows {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = text.split('\n').map(|line| line.width()).max().unwrap_or(0).max(*width);
            }
        }
        if let Some(max_width) = self.layout.max_width {
            let least: Vec<usize> =
                self.names.iter().map(|name| name.width().clamp(MIN_WIDTH, READABLE_WIDTH)).collect();
            fit(&mut widths, &least, max_width.saturating_sub(3 * self.names.len() + 1));
        }
        let excess = if self.layout.max_width.is_some() { Overflow::Cut } else { Overflow::Shown };
        let all: Vec<Option<usize>> = (0..widths.len()).map(Some).collect();
        let shown = match self.layout.max_width {
            Some(max_width) => shown_columns(&widths, max_width).unwrap_or(all),
            None => all,
        };
        let width = |column: &Option<usize>| column.map_or(1, |column| widths[column]);
        let is_right = |column: &Option<usize>| column.is_some_and(|column| self.is_right[column]);
        Frame {
            widths: shown.iter().map(width).collect(),
            is_right: shown.iter().map(is_right).collect(),
            shown,
            excess,
        }
    }

    fn footer(&self) -> String {
        let rows = if self.total_rows == 1 { "row" } else { "rows" };
        let mut text = format!("{} {rows}", grouped(self.total_rows));
        if let Some(max_rows) = self.layout.max_rows.filter(|max_rows| self.total_rows > *max_rows) {
            text.push_str(&format!(" ({max_rows} shown)"));
        }
        let shown = self.frame.as_ref().map_or(self.names.len(), |frame| frame.shown.iter().flatten().count());
        if shown < self.names.len() {
            text.push_str(&format!(", {} columns ({shown} shown)", self.names.len()));
        }
        text + "\n"
    }
}

impl ResultWriter for TableWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.total_rows += batch.num_rows();
        if let Some(max_rows) = self.layout.max_rows {
            return self.write_capped(batch, max_rows);
        }
        append_rows(batch, &mut self.rows)?;
        if self.rows.len() >= BUFFER_ROWS || self.frame.is_some() { self.print_rows() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.layout.max_rows {
            Some(max_rows) => self.finish_capped(max_rows)?,
            None => self.print_rows()?,
        }
        let mut text = String::new();
        if let Some(frame) = &self.frame {
            frame.append_rule(["└", "┴", "┘"], &mut text);
        }
        if self.layout.footer {
            text.push_str(&self.footer());
        }
        self.sink.write_all(text.as_bytes())
    }
}

fn append_rows(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> io::Result<()> {
    let columns = cell::columns(batch)?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        let mut cells = Vec::with_capacity(columns.len());
        for column in &columns {
            text.clear();
            if column.is_null(row) {
                text.push_str("NULL");
            } else {
                column.append(row, &mut text);
            }
            cells.push(visible_lines(&text));
        }
        rows.push(cells);
    }
    Ok(())
}

fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    cell::append_visible(text, &mut line);
    line
}

fn visible_lines(text: &str) -> String {
    match text.contains('\n') {
        true => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        false => visible(text),
    }
}

/// What happens to a line that is wider than its column.
#[derive(Clone, Copy, PartialEq)]
enum Overflow {
    /// It is printed completely and moves the frame to the right.
    Shown,
    Cut,
}

/// The widths and borders with which every row of a table is printed.
struct Frame {
    /// The columns that are shown; `None` stands for columns that are left out.
    shown: Vec<Option<usize>>,
    widths: Vec<usize>,
    is_right: Vec<bool>,
    excess: Overflow,
}

/// A line of a cell.
struct Line<'a> {
    text: &'a str,
    /// Whether the value has a line break here.
    breaks: bool,
}

impl Frame {
    fn append_rule(&self, [left, middle, right]: [&str; 3], text: &mut String) {
        text.push_str(left);
        for (index, width) in self.widths.iter().enumerate() {
            if index > 0 {
                text.push_str(middle);
            }
            text.extend(std::iter::repeat_n('─', width + 2));
        }
        text.push_str(right);
        text.push('\n');
    }

    /// Appends one row, which has as many lines as its highest cell.
    fn append_row(&self, cells: &[String], text: &mut String) {
        let cell = |column: &Option<usize>| column.map_or("…", |column| cells[column].as_str());
        let cells: Vec<Vec<Line<'_>>> = self.shown.iter().map(|column| lines(cell(column))).collect();
        for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            for ((lines, width), is_right) in cells.iter().zip(&self.widths).zip(&self.is_right) {
                let (line, breaks) = lines.get(at).map_or(("", false), |line| (line.text, line.breaks));
                self.append_line(line, *width, *is_right, text);
                text.push(if breaks { '↵' } else { ' ' });
            }
            text.push_str("│\n");
        }
    }

    fn append_line(&self, line: &str, width: usize, is_right: bool, text: &mut String) {
        let line_width = line.width();
        let padding = width.saturating_sub(line_width);
        text.push_str("│ ");
        text.extend(std::iter::repeat_n(' ', if is_right { padding } else { 0 }));
        if self.excess == Overflow::Cut && line_width > width {
            append_cut(line, width, text);
        } else {
            text.push_str(line);
        }
        text.extend(std::iter::repeat_n(' ', if is_right { 0 } else { padding }));
    }
}

/// The lines of a cell. A line break at the end is shown by its mark only, without an empty line.
fn lines(cell: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = cell
        .split_inclusive('\n')
        .map(|part| part.strip_suffix('\n').map_or((part, false), |part| (part, true)))
        .map(|(text, breaks)| Line { text, breaks })
        .collect();
    if lines.is_empty() {
        lines.push(Line { text: "", breaks: false });
    }
    lines
}

/// A line in pieces of at most `width` characters, split after spaces if possible. The later pieces are indented.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat((indent + 4).min(width / 2));
    let mut pieces = vec![];
    let mut rest = line;
    let mut prefix = "";
    while prefix.width() + rest.width() > width {
        let end = fitting(rest, width.saturating_sub(prefix.width()));
        let space = rest[..end].rfind(' ').map(|space| space + 1);
        let end = space.filter(|space| !rest[..*space].trim().is_empty()).unwrap_or(end);
        pieces.push(format!("{prefix}{}", rest[..end].trim_end()));
        rest = &rest[end..];
        prefix = &indent;
    }
    pieces.push(format!("{prefix}{rest}"));
    pieces
}

/// The number of bytes of the longest prefix of `line` whose width is at most `width`, and at least one character.
fn fitting(line: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, character) in line.char_indices() {
        used += character.width().unwrap_or(0);
        if used > width && at > 0 {
            return at;
        }
    }
    line.len()
}

/// Appends `cell`, truncated with an ellipsis or padded to `width`.
fn append_cut(cell: &str, width: usize, text: &mut String) {
    let mut used = 1;
    for character in cell.chars() {
        let character_width = character.width().unwrap_or(0);
        if used + character_width > width {
            break;
        }
        used += character_width;
        text.push(character);
    }
    text.push('…');
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
}

/// Reduces the widest columns until all fit into `room`, or none is wider than its least width.
fn fit(widths: &mut [usize], least: &[usize], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let reducible = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = reducible.max() else { return };
        *widest -= 1;
    }
}

/// The columns that fit a terminal, if not all do: the first and the last ones, with a mark between them.
fn shown_columns(widths: &[usize], max_width: usize) -> Option<Vec<Option<usize>>> {
    let needed = |columns: &[usize]| columns.iter().map(|width| width + 3).sum::<usize>();
    if needed(widths) < max_width {
        return None;
    }
    // The mark, and the last border.
    let room = max_width.saturating_sub(4 + 1);
    let (mut first, mut last, mut used) = (0, widths.len(), 0);
    while first < last {
        let from_start = first <= widths.len() - last;
        let next = if from_start { widths[first] } else { widths[last - 1] } + 3;
        // One column is always shown.
        if used + next > room && first > 0 {
            break;
        }
        used += next;
        if from_start { first += 1 } else { last -= 1 }
    }
    Some((0..first).map(Some).chain([None]).chain((last..widths.len()).map(Some)).collect())
}

/// `1234567` as `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
