//! Files of JSON that are no JSON lines: a list of records, LMFlow's `instances`, records on several lines. Each record becomes a line.

use std::io::{self, Read};

/// Bytes that are read at once, and in which the shape of a file is told.
const CHUNK: usize = 256 << 10;

/// A stream in which each record is a line.
pub struct Records<R> {
    inner: R,
    cutter: Option<Cutter>,
    chunk: Vec<u8>,
    out: Vec<u8>,
    given: usize,
    has_begun: bool,
    has_ended: bool,
}

impl<R: Read> Records<R> {
    pub fn new(inner: R) -> Records<R> {
        Records {
            inner,
            cutter: None,
            chunk: vec![0; CHUNK],
            out: Vec::new(),
            given: 0,
            has_begun: false,
            has_ended: false,
        }
    }
}

impl<R: Read> Records<R> {
    /// Reads as much as tells what kind of file it is.
    fn begin(&mut self) -> io::Result<()> {
        let (mut begun, mut teller) = (Vec::new(), Teller::default());
        let are_lines = loop {
            let read = match self.inner.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let bytes = &self.chunk[..read];
            begun.extend_from_slice(bytes);
            match bytes.iter().find_map(|byte| teller.are_lines(*byte)) {
                Some(are_lines) => break are_lines,
                // One line without an end is a line, whatever it holds; a list is none.
                None if read == 0 || begun.len() >= CHUNK => break teller.is_object != Some(false),
                None => {}
            }
        };
        self.has_begun = true;
        if are_lines {
            self.out = begun;
        } else {
            let mut cutter = Cutter::default();
            begun.iter().for_each(|byte| cutter.push(*byte, &mut self.out));
            self.cutter = Some(cutter);
        }
        Ok(())
    }
}

impl<R: Read> Read for Records<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() {
            if self.has_ended {
                return Ok(0);
            }
            if self.has_begun && self.cutter.is_none() {
                return self.inner.read(buffer);
            }
            if !self.has_begun {
                self.begin()?;
                continue;
            }
            self.out.clear();
            self.given = 0;
            let read = match self.inner.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if let Some(cutter) = &mut self.cutter {
                match read {
                    0 => cutter.end(&mut self.out),
                    _ => self.chunk[..read].iter().for_each(|byte| cutter.push(*byte, &mut self.out)),
                }
            }
            self.has_ended = read == 0;
        }
        let count = buffer.len().min(self.out.len() - self.given);
        buffer[..count].copy_from_slice(&self.out[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// Tells what kind of file it is by how it begins. A list of messages is a record itself.
#[derive(Default)]
struct Teller {
    /// Whether it begins with an object, or else with a list.
    is_object: Option<bool>,
    scan: Scan,
    has_line_ended: bool,
}

impl Teller {
    /// Whether there is a record a line, as soon as that is known.
    fn are_lines(&mut self, byte: u8) -> Option<bool> {
        let Some(is_object) = self.is_object else {
            return match byte {
                b'{' | b'[' => {
                    self.is_object = Some(byte == b'{');
                    self.scan.push(byte);
                    None
                }
                // A byte order mark.
                0xef | 0xbb | 0xbf => None,
                _ if byte.is_ascii_whitespace() => None,
                _ => Some(true),
            };
        };
        let was_in_string = self.scan.in_string;
        if is_object && self.has_line_ended && !byte.is_ascii_whitespace() {
            // The second line of an object on several lines begins with a key.
            return Some(byte != b'"');
        }
        self.scan.push(byte);
        if was_in_string {
            return None;
        }
        match (is_object, byte, self.scan.depth) {
            (true, b'[', 2) if self.scan.key.as_deref() == Some(b"instances") => Some(false),
            (true, b'}', 0) => Some(true),
            (true, b'\n', _) => {
                self.has_line_ended = true;
                None
            }
            // A list of texts or numbers is no list of records, and one of messages is one record.
            (false, b'"', 1) => Some(true),
            (false, b':', 2) if self.scan.last == b"role" => Some(true),
            (false, b'}' | b']', 0 | 1) => Some(false),
            _ => None,
        }
    }
}

/// Where a byte stands in JSON.
#[derive(Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last string.
    last: Vec<u8>,
    /// The key of the outermost object that stands before the value here.
    key: Option<Vec<u8>>,
}

impl Scan {
    fn push(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                // Keys are short.
                _ if self.last.len() < 32 => self.last.push(byte),
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.last.clear();
            }
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.key = Some(self.last.clone()),
            b',' if self.depth == 1 => self.key = None,
            _ => {}
        }
    }
}

#[derive(Default)]
struct Cutter {
    scan: Scan,
    place: Place,
    /// What stands before each record: nothing, or the head of the object that holds them.
    head: Vec<u8>,
    /// Whether a record has begun.
    has_begun: bool,
    /// Whether a comma asks for a record.
    is_owed: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    Between,
    /// In an object that may hold instances.
    Object,
    /// Among the records of a list, which are so deep.
    List(u32),
    /// Behind the instances of an object.
    Behind,
    /// In what is no JSON here, up to the end of the line.
    Raw,
}

impl Cutter {
    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        let was_in_string = self.scan.in_string;
        // A line break is none of a record's; in a string it is wrong, and stays so.
        let shown = match byte {
            b'\n' | b'\r' if was_in_string => 0x1f,
            b'\n' | b'\r' => b' ',
            other => other,
        };
        match self.place {
            Place::Between => match byte {
                b'[' => self.enter(Place::List(1), byte),
                b'{' => {
                    self.enter(Place::Object, byte);
                    self.head.push(byte);
                }
                0xef | 0xbb | 0xbf => {}
                _ if byte.is_ascii_whitespace() => {}
                _ => {
                    self.place = Place::Raw;
                    out.push(byte);
                }
            },
            Place::Raw => {
                out.push(byte);
                if byte == b'\n' {
                    self.place = Place::Between;
                }
            }
            Place::Object => {
                self.head.push(shown);
                self.scan.push(byte);
                if self.scan.in_string || was_in_string {
                } else if byte == b'[' && self.scan.depth == 2 && self.scan.key.as_deref() == Some(b"instances") {
                    self.place = Place::List(2);
                } else if self.scan.depth == 0 {
                    self.head.push(b'\n');
                    out.append(&mut self.head);
                    self.place = Place::Between;
                }
            }
            Place::List(depth) => {
                let is_between = self.scan.depth == depth && !was_in_string;
                match byte {
                    b',' if is_between && self.has_begun => {
                        self.close(depth, out);
                        self.is_owed = true;
                    }
                    b']' if is_between => {
                        if self.is_owed && !self.has_begun {
                            // A comma with nothing behind it is no JSON.
                            self.begin(out);
                            out.push(b',');
                        }
                        if self.has_begun {
                            self.close(depth, out);
                        }
                        self.is_owed = false;
                        self.scan.push(byte);
                        self.place = if depth == 1 { Place::Between } else { Place::Behind };
                        self.head.clear();
                    }
                    _ if is_between && byte.is_ascii_whitespace() => {}
                    _ => {
                        self.begin(out);
                        out.push(shown);
                        // What closes more than it has opened is no end of the list.
                        if !(is_between && byte == b'}') {
                            self.scan.push(byte);
                        }
                    }
                }
            }
            Place::Behind => {
                self.scan.push(byte);
                if self.scan.depth == 0 {
                    self.place = Place::Between;
                }
            }
        }
    }

    fn enter(&mut self, place: Place, byte: u8) {
        (self.place, self.scan) = (place, Scan::default());
        self.scan.push(byte);
        self.head.clear();
        self.is_owed = false;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(&self.head);
        }
    }

    fn close(&mut self, depth: u32, out: &mut Vec<u8>) {
        if depth == 2 {
            out.extend_from_slice(b"]}");
        }
        out.push(b'\n');
        self.has_begun = false;
    }

    /// What has no end is a record that ends too early.
    fn end(&mut self, out: &mut Vec<u8>) {
        match self.place {
            Place::Between | Place::Raw => {}
            Place::Object => out.append(&mut self.head),
            Place::List(_) if self.has_begun => {}
            Place::List(1) => out.push(b'['),
            Place::List(_) => out.append(&mut self.head),
            // The instances are there; what is missing is the end of their file.
            Place::Behind => out.push(b'{'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> String {
        let mut out = String::new();
        Records::new(text.as_bytes()).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn each_record_of_a_list_is_a_line() {
        for (text, lines) in [
            ("[{\"a\": 1}, {\"b\": [2, \"]\\\",\"]}]", "{\"a\": 1}\n{\"b\": [2, \"]\\\",\"]}\n"),
            ("[\n  {\n    \"a\": 1\n  },\n  {}\n]\n", "{     \"a\": 1   }\n{}\n"),
            ("\u{feff}[{\"a\": 1}]", "{\"a\": 1}\n"),
            ("[]", ""),
            ("[{\"a\": 1},]", "{\"a\": 1}\n,\n"),
            ("[{\"a\": 1},,{}]", "{\"a\": 1}\n,{}\n"),
            ("[{\"a\": 1}, {\"b\"", "{\"a\": 1}\n{\"b\""),
            ("[{\"a\": \"x\ny\"}]", "{\"a\": \"x\u{1f}y\"}\n"),
            ("[{\"a\": 1}}, 2]", "{\"a\": 1}}\n2\n"),
            ("[{\"a\": 1}] x\n[{\"b\": 2}]", "{\"a\": 1}\nx\n{\"b\": 2}\n"),
            ("[{\"a\": 1}", "{\"a\": 1}"),
            ("[{\"a\": 1},", "{\"a\": 1}\n["),
        ] {
            assert_eq!(cut(text), lines, "{text}");
        }
    }

    #[test]
    fn each_instance_of_a_file_is_a_line_with_the_files_head() {
        let text =
            "{\n \"type\": \"conversation\",\n \"instances\": [\n  {\"a\": 1},\n  {\"b\": 2}\n ],\n \"z\": [3]}\n";
        let head = "{  \"type\": \"conversation\",  \"instances\": [";
        assert_eq!(cut(text), format!("{head}{{\"a\": 1}}]}}\n{head}{{\"b\": 2}}]}}\n"));
        assert_eq!(cut("{\"instances\": [{\"a\": 1}]}"), "{\"instances\": [{\"a\": 1}]}\n");
        assert_eq!(cut("{\"instances\": [{\"a\": 1}"), "{\"instances\": [{\"a\": 1}");
        assert_eq!(cut("{\"instances\": ["), "{\"instances\": [");
    }

    #[test]
    fn a_record_on_several_lines_is_one() {
        assert_eq!(cut("{\n  \"a\": 1\n}\n{\n  \"b\": 2\n}\n"), "{   \"a\": 1 }\n{   \"b\": 2 }\n");
    }

    #[test]
    fn lines_stay_as_they_are() {
        for text in [
            "{\"a\": 1}\n{\"b\": 2}\n",
            "{\"a\": \n{\"b\": 2}\n",
            "[{\"role\": \"user\", \"content\": \"x\"}]\n[{\"role\": \"user\"}]\n",
            "[{\"content\": {\"role\": 1}, \"role\": \"user\"}]\n",
            "",
            "\n\n{\"a\": 1}\r\n",
            "no json\n[{\"a\": 1}]\n",
            "{\"a\": \"long",
        ] {
            assert_eq!(cut(text), text);
        }
    }

    #[test]
    fn the_cut_does_not_depend_on_the_chunks() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(buffer.len()).min(40);
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let text = format!("[{}]", ["{\"a\": [1, {\"b\": \"x, [y\"}]}"; 50].join(", "));
        let mut out = String::new();
        Records::new(Slow(text.as_bytes())).read_to_string(&mut out).unwrap();
        assert_eq!(out, cut(&text));
        assert_eq!(out.lines().count(), 50);
    }
}
