//! Gzip files: members one after the other, as several programs write them, with zeros between or after them, which
//! tapes and block devices add.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

/// The text of all members of a gzip file.
pub(super) struct GzipMembers<R: Read>(Member<R>);

enum Member<R: Read> {
    Open(Box<GzDecoder<BufReader<R>>>),
    /// Between two members, or after the last one.
    Between(BufReader<R>),
    Ended,
}

impl<R: Read> GzipMembers<R> {
    pub fn new(file: R) -> Self {
        Self(Member::Open(Box::new(GzDecoder::new(BufReader::new(file)))))
    }
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            self.0 = match std::mem::replace(&mut self.0, Member::Ended) {
                Member::Open(mut decoder) => match decoder.read(into)? {
                    0 => Member::Between(decoder.into_inner()),
                    read => {
                        self.0 = Member::Open(decoder);
                        return Ok(read);
                    }
                },
                Member::Between(mut rest) => match skip_zeros(&mut rest)? {
                    true => Member::Open(Box::new(GzDecoder::new(rest))),
                    false => return Ok(0),
                },
                Member::Ended => return Ok(0),
            };
        }
    }
}

/// Skips bytes that are zero. False at the end of the file.
fn skip_zeros(rest: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = rest.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let is_data = zeros < bytes.len();
        rest.consume(zeros);
        if is_data {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &str) -> Vec<u8> {
        let mut out = GzEncoder::new(vec![], Compression::fast());
        out.write_all(text.as_bytes()).expect("bytes");
        out.finish().expect("bytes")
    }

    fn check(parts: &[&[u8]], expected: Option<&str>) {
        let file = parts.concat();
        let mut text = String::new();
        let read = GzipMembers::new(file.as_slice()).read_to_string(&mut text);
        assert_eq!(read.ok().map(|_| text.as_str()), expected);
    }

    #[test]
    fn members_follow_each_other() {
        let (a, b, none) = (&member("a")[..], &member("b")[..], &member("")[..]);
        check(&[a], Some("a"));
        check(&[a, b], Some("ab"));
        check(&[none, a, none, b], Some("ab"));
        check(&[a, &[0; 20_000]], Some("a"));
        check(&[a, &[0; 511], b, &[0]], Some("ab"));
        check(&[a, b"text"], None);
        check(&[&a[..a.len() - 1]], None);
        check(&[a, &b[..7]], None);
    }
}
