//! Lines as messages: every byte string between newlines is a body.
//!
//! A carriage return is kept, empty lines count, and the last line counts with or without its
//! newline. Lines are numbered from 1. A line that is longer than the queue takes must end the
//! command before anything was sent, so an input is looked through once before it is read for
//! good: a file by reading it twice, a pipe by writing it to a file without a name first. Only
//! where the user asks for it, or types the lines, are they passed on as they come. Memory is
//! bounded by one line of legal length. What this file does not do: it sends nothing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

use bytes::Bytes;
use thiserror::Error;

/// Why there are no more lines.
#[derive(Debug, Error)]
pub(crate) enum LineError {
    /// The line is longer than the queue takes.
    #[error("line {number} has more than the {limit} bytes that the queue takes")]
    TooLong {
        /// Which line.
        number: u64,
        /// What would fit.
        limit: usize,
    },
    /// The input cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// All of it but the newline.
    pub(crate) body: Bytes,
}

/// Lines of a reader, one after the other.
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of this reader, none of them longer than `limit`.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, number: 0 }
    }

    /// The next line, or `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line>, LineError> {
        let mut body = Vec::new();
        // One byte more than fits, for the newline: so a line that is too long is never held whole.
        let bound = self.limit as u64 + 1;
        if self.reader.by_ref().take(bound).read_until(b'\n', &mut body)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if body.last() == Some(&b'\n') {
            body.pop();
        }
        if body.len() > self.limit {
            return Err(LineError::TooLong { number: self.number, limit: self.limit });
        }
        Ok(Some(Line { number: self.number, body: body.into() }))
    }
}

/// An input that was looked through, or that is passed on as it comes.
pub(crate) struct Input {
    /// Its lines.
    pub(crate) lines: Lines<Box<dyn BufRead>>,
    /// How many there are, if that is known.
    pub(crate) count: Option<u64>,
}

/// Whether lines may be sent before all of them were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// All are looked through before the first is handed on.
    WholeFirst,
    /// Each is handed on as it comes.
    AsItComes,
}

/// Opens a file for its lines.
pub(crate) fn open_file(path: &Path, limit: usize, pace: Pace) -> Result<Input, LineError> {
    open(File::open(path)?, limit, pace)
}

/// Opens the standard input for its lines. What a person types comes line by line in any case.
pub(crate) fn open_stdin(limit: usize, pace: Pace) -> Result<Input, LineError> {
    let stdin = io::stdin();
    let typed = stdin.is_terminal();
    let file = File::from(stdin.as_fd().try_clone_to_owned()?);
    open(file, limit, if typed { Pace::AsItComes } else { pace })
}

fn open(mut file: File, limit: usize, pace: Pace) -> Result<Input, LineError> {
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    if pace == Pace::AsItComes {
        return Ok(Input { lines: lines_of(file, limit), count: None });
    }
    if !kind.is_file() {
        return spool(file, limit);
    }
    let start = file.stream_position()?;
    let mut seen = Lines::new(BufReader::new(&file), limit);
    while seen.next_line()?.is_some() {}
    let count = seen.number;
    file.seek(SeekFrom::Start(start))?;
    Ok(Input { lines: lines_of(file, limit), count: Some(count) })
}

/// Copies a pipe to a file that vanishes with this process, and looks at each line on the way.
fn spool(source: File, limit: usize) -> Result<Input, LineError> {
    let mut copy = io::BufWriter::new(tempfile::tempfile()?);
    let mut seen = Lines::new(BufReader::new(source), limit);
    while let Some(line) = seen.next_line()? {
        copy.write_all(&line.body)?;
        copy.write_all(b"\n")?;
    }
    let mut copy = copy.into_inner().map_err(io::IntoInnerError::into_error)?;
    copy.seek(SeekFrom::Start(0))?;
    Ok(Input { lines: lines_of(copy, limit), count: Some(seen.number) })
}

fn lines_of(file: File, limit: usize) -> Lines<Box<dyn BufRead>> {
    Lines::new(Box::new(BufReader::with_capacity(READ_SIZE, file)), limit)
}

/// Few enough system calls for long files, little enough to be no burden.
const READ_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], limit: usize) -> Result<Vec<Bytes>, LineError> {
        let mut lines = Lines::new(text, limit);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            assert_eq!(line.number, all.len() as u64 + 1);
            all.push(line.body);
        }
        Ok(all)
    }

    #[test]
    fn every_byte_string_between_newlines_is_a_body() {
        let cases: [(&[u8], &[&[u8]]); 7] = [
            (b"", &[]),
            (b"\n", &[b""]),
            (b"a", &[b"a"]),
            (b"a\n", &[b"a"]),
            (b"a\r\n\nb", &[b"a\r", b"", b"b"]),
            (b"\n\n", &[b"", b""]),
            (b"\xff\x00\n", &[b"\xff\x00"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(lines(text, 10).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(lines(b"abc\nabc", 3).unwrap().len(), 2);
        let refused = lines(b"abc\nabcd\n", 3);
        assert!(matches!(refused, Err(LineError::TooLong { number: 2, limit: 3 })));
        assert!(lines(b"abcd", 3).is_err());
    }

    #[test]
    fn a_file_with_a_long_line_is_refused_before_its_first_line_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        std::fs::write(&path, "ok\ntoo long\n").unwrap();
        assert!(open_file(&path, 3, Pace::WholeFirst).is_err());
        let mut input = open_file(&path, 8, Pace::WholeFirst).unwrap();
        assert_eq!(input.count, Some(2));
        assert_eq!(input.lines.next_line().unwrap().unwrap().body, "ok");
        assert!(open_file(dir.path(), 8, Pace::WholeFirst).is_err());
    }

    #[test]
    fn a_pipe_is_seen_whole_before_its_first_line_is_read() {
        let pipe = |text: &'static [u8]| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(text).unwrap();
            File::from(std::os::fd::OwnedFd::from(reader))
        };
        let mut input = open(pipe(b"a\n\nlast"), 4, Pace::WholeFirst).unwrap();
        assert_eq!(input.count, Some(3));
        let mut bodies = Vec::new();
        while let Some(line) = input.lines.next_line().unwrap() {
            bodies.push(line.body);
        }
        assert_eq!(bodies, ["a", "", "last"]);
        assert!(open(pipe(b"a\ntoo long"), 4, Pace::WholeFirst).is_err());
    }
}
