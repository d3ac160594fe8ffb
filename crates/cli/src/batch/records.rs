//! Converts other JSON files to JSON lines: a list of records, LMFlow's `instances`, or records
//! that span several lines. Each record becomes one line.

use std::io::{self, Read};

use rolecall::conversation::{Json, json};

/// The size of the read buffer in bytes, and the maximum number of bytes used to detect the layout
/// of a file.
const CHUNK: usize = 256 << 10;

/// A reader that puts each record on one line.
pub struct Records<R> {
    inner: R,
    cutter: Option<Cutter>,
    chunk: Vec<u8>,
    out: Vec<u8>,
    given: usize,
    has_begun: bool,
    has_ended: bool,
    /// The error that ends the input, reported after the output before it.
    broken: Option<String>,
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
            broken: None,
        }
    }

    /// Reads until the layout of the file is known.
    fn begin(&mut self) -> io::Result<()> {
        let (mut begun, mut teller) = (Vec::new(), Teller::default());
        let layout = loop {
            let read = self.read_chunk()?;
            let bytes = &self.chunk[..read];
            begun.extend_from_slice(bytes);
            match bytes.iter().find_map(|byte| teller.layout(*byte)) {
                Some(layout) => break layout,
                None if read == 0 || begun.len() >= CHUNK => break teller.layout_at_end(),
                None => {}
            }
        };
        self.has_begun = true;
        match layout {
            RecordLayout::Lines => self.out = begun,
            layout => {
                self.cutter = Some(Cutter::new(layout == RecordLayout::Lists));
                self.cut(&begun);
            }
        }
        Ok(())
    }

    fn cut(&mut self, bytes: &[u8]) {
        let Some(cutter) = &mut self.cutter else { return };
        let cut = bytes.iter().try_for_each(|byte| cutter.push(*byte, &mut self.out));
        self.broken = cut.err();
    }

    fn read_chunk(&mut self) -> io::Result<usize> {
        loop {
            match self.inner.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl<R: Read> Read for Records<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() {
            if let Some(why) = self.broken.take() {
                self.has_ended = true;
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if self.has_ended {
                return Ok(0);
            }
            if !self.has_begun {
                self.begin()?;
                continue;
            }
            if self.cutter.is_none() {
                return self.inner.read(buffer);
            }
            self.out.clear();
            self.given = 0;
            let read = self.read_chunk()?;
            if read == 0 {
                self.has_ended = true;
                self.broken = self.cutter.as_ref().and_then(|cutter| cutter.end().err());
            } else {
                let chunk = std::mem::take(&mut self.chunk);
                self.cut(&chunk[..read]);
                self.chunk = chunk;
            }
        }
        let count = buffer.len().min(self.out.len() - self.given);
        buffer[..count].copy_from_slice(&self.out[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// The layout of records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordLayout {
    /// One record per line.
    Lines,
    /// A sequence of JSON values, each on any number of lines.
    Values,
    /// Lists of records.
    Lists,
}

/// Keys that only occur in a record with a whole conversation, never in a message.
const OF_RECORDS: [&[u8]; 8] = [
    b"messages",
    b"conversations",
    b"conversation",
    b"instruction",
    b"prompt",
    b"chosen",
    b"preferred_output",
    b"instances",
];

/// Detects the layout of a file from its beginning. A list of messages counts as one record.
#[derive(Default)]
struct Teller {
    /// Whether the file begins with an object (true) or a list (false).
    is_object: Option<bool>,
    scan: Scan,
    has_line_ended: bool,
    /// Whether a list has a line break before its first record.
    is_spread: bool,
    /// Whether the first record in a list has a role.
    has_role: bool,
    is_record: bool,
}

impl Teller {
    /// Returns the layout, as soon as it is known.
    fn layout(&mut self, byte: u8) -> Option<RecordLayout> {
        let Some(is_object) = self.is_object else {
            return match byte {
                b'{' | b'[' => {
                    self.is_object = Some(byte == b'{');
                    self.scan.push(byte);
                    None
                }
                // The byte order mark.
                0xef | 0xbb | 0xbf => None,
                _ if byte.is_ascii_whitespace() => None,
                _ => Some(RecordLayout::Lines),
            };
        };
        if is_object && self.has_line_ended && byte != b'\n' && byte != b'\r' {
            // A line of JSON lines begins with a record. A continued value is indented, or
            // continues with a key or a closing bracket.
            return Some(if byte == b'{' || byte == b'[' { RecordLayout::Lines } else { RecordLayout::Values });
        }
        let was_in_string = self.scan.in_string;
        if was_in_string && byte == b'\n' {
            // This is not JSON; the error is reported for the line.
            return Some(RecordLayout::Lines);
        }
        self.scan.push(byte);
        if was_in_string {
            return None;
        }
        match (is_object, byte, self.scan.depth) {
            (true, b'[', 2) if self.scan.holds_instances() => Some(RecordLayout::Values),
            (true, b'}', 0) => Some(RecordLayout::Lines),
            (true, b'\n', _) => {
                self.has_line_ended = true;
                None
            }
            (false, b'\n', 1) => {
                self.is_spread = true;
                None
            }
            (false, b':', 2) => {
                self.has_role |= self.scan.last == b"role";
                self.is_record |= OF_RECORDS.contains(&self.scan.last.as_slice());
                None
            }
            // A list of strings or numbers is not a list of records.
            (false, b'"', 1) | (false, b']', 0) => Some(RecordLayout::Lines),
            (false, b'}' | b']', 1) => Some(self.layout_at_end()),
            _ => None,
        }
    }

    /// Returns the layout when the file ends or is too long to decide otherwise.
    fn layout_at_end(&self) -> RecordLayout {
        match self.is_object {
            Some(false) if !self.has_role || self.is_record => RecordLayout::Lists,
            Some(false) if self.is_spread => RecordLayout::Values,
            // A single line without a line break is one record.
            _ => RecordLayout::Lines,
        }
    }
}

/// The scanner's position in a JSON text.
#[derive(Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last string, truncated.
    last: Vec<u8>,
    /// The key of the current value in the outermost object.
    key: Option<Vec<u8>>,
    /// Whether the outermost object has keys that a file of instances does not have.
    has_others: bool,
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
            b':' if self.depth == 1 => {
                self.has_others |= self.last != b"type" && self.last != b"instances";
                self.key = Some(self.last.clone());
            }
            b',' if self.depth == 1 => self.key = None,
            _ => {}
        }
    }

    /// Reports whether the list that opens here holds the instances of a file.
    fn holds_instances(&self) -> bool {
        !self.has_others && self.key.as_deref() == Some(b"instances")
    }
}

struct Cutter {
    scan: Scan,
    place: Container,
    /// Whether top-level lists hold records instead of being records.
    are_lists: bool,
    /// The text written before each record: the beginning of the object with the instances, or
    /// nothing.
    head: Vec<u8>,
    /// The text after the instances, up to the end of their object.
    tail: Vec<u8>,
    /// Whether a record has begun.
    has_begun: bool,
    /// Whether a comma was read that must be followed by a record.
    is_owed: bool,
    /// The number of records cut so far.
    records: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    Between,
    /// Inside a value that is a record, or an object that may hold instances.
    Value,
    /// Between the records of a list at this depth.
    List(u32),
    /// After the instances of an object.
    Behind,
    /// In text that is not valid JSON, up to the end of the line.
    Raw,
}

impl Cutter {
    fn new(are_lists: bool) -> Cutter {
        Cutter {
            scan: Scan::default(),
            place: Container::Between,
            are_lists,
            head: Vec::new(),
            tail: Vec::new(),
            has_begun: false,
            is_owed: false,
            records: 0,
        }
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), String> {
        let was_in_string = self.scan.in_string;
        let is_break = byte == b'\n' || byte == b'\r';
        if is_break && was_in_string && !matches!(self.place, Container::Between | Container::Raw) {
            return Err(self.lost("has a line break inside a string"));
        }
        // A record must not contain line breaks in the output.
        let shown = if is_break { b' ' } else { byte };
        match self.place {
            Container::Between => match byte {
                b'[' if self.are_lists => self.enter(Container::List(1), byte),
                b'{' | b'[' => {
                    self.enter(Container::Value, byte);
                    self.head.push(byte);
                }
                0xef | 0xbb | 0xbf => {}
                _ if byte.is_ascii_whitespace() => {}
                _ => {
                    self.place = Container::Raw;
                    out.push(byte);
                }
            },
            Container::Raw => {
                out.push(byte);
                if byte == b'\n' {
                    self.records += 1;
                    self.place = Container::Between;
                }
            }
            Container::Value => {
                self.head.push(shown);
                self.scan.push(byte);
                if was_in_string || self.scan.in_string {
                } else if byte == b'[' && self.scan.depth == 2 && self.scan.holds_instances() {
                    self.place = Container::List(2);
                } else if self.scan.depth == 0 {
                    self.head.push(b'\n');
                    out.append(&mut self.head);
                    self.records += 1;
                    self.place = Container::Between;
                }
            }
            Container::List(depth) => self.push_of_list(depth, byte, shown, out),
            Container::Behind => {
                self.tail.push(shown);
                self.scan.push(byte);
                if self.scan.depth == 0 {
                    self.close_instances(out);
                    self.place = Container::Between;
                }
            }
        }
        Ok(())
    }

    fn push_of_list(&mut self, depth: u32, byte: u8, shown: u8, out: &mut Vec<u8>) {
        let is_between = self.scan.depth == depth && !self.scan.in_string;
        match byte {
            b',' if is_between && self.has_begun => {
                self.close(depth, out);
                self.is_owed = true;
            }
            b']' if is_between => {
                if self.is_owed && !self.has_begun {
                    // A trailing comma is not valid JSON.
                    self.begin(out);
                    out.push(b',');
                }
                if self.has_begun {
                    self.close(depth, out);
                }
                self.is_owed = false;
                self.scan.push(byte);
                self.place = if depth == 1 { Container::Between } else { Container::Behind };
            }
            _ if is_between && byte.is_ascii_whitespace() => {}
            _ => {
                self.begin(out);
                out.push(shown);
                // A surplus closing brace does not end the list.
                if !(is_between && byte == b'}') {
                    self.scan.push(byte);
                }
            }
        }
    }

    fn enter(&mut self, place: Container, byte: u8) {
        (self.place, self.scan) = (place, Scan::default());
        self.scan.push(byte);
        self.head.clear();
        self.tail.clear();
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
        self.records += 1;
    }

    /// Checks the rest of the object after the instances. If it is invalid, writes the object
    /// without its instances as a record, which is then refused.
    fn close_instances(&mut self, out: &mut Vec<u8>) {
        let rest = [self.head.as_slice(), b"]", &self.tail].concat();
        let parsed = std::str::from_utf8(&rest).ok().and_then(|text| json::parse_unique(text).ok());
        let is_known = |(key, value): (&str, &Json)| match key {
            "instances" => true,
            "type" => rolecall::dataset::KINDS.iter().any(|kind| value.as_str() == Some(kind)),
            _ => false,
        };
        let is_right = parsed.as_ref().and_then(Json::as_object).is_some_and(|object| object.iter().all(is_known));
        if !is_right {
            out.extend_from_slice(&rest);
            out.push(b'\n');
            self.records += 1;
        }
    }

    /// Returns an error if the input ends inside a record or a list.
    fn end(&self) -> Result<(), String> {
        match self.place {
            Container::Between | Container::Raw => Ok(()),
            Container::Behind => Err("the object with the instances is not closed".into()),
            Container::List(_) if !self.has_begun => {
                Err(format!("the list is not closed after record {}", self.records))
            }
            Container::Value | Container::List(_) => Err(self.lost("is incomplete")),
        }
    }

    fn lost(&self, what: &str) -> String {
        format!("record {} {what}; it and everything after it were not read", self.records + 1)
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

    /// Returns the output before the error, and the error.
    fn cut_broken(text: &str) -> (String, String) {
        let (mut records, mut out) = (Records::new(text.as_bytes()), Vec::new());
        let mut buffer = [0; 7];
        let error = loop {
            match records.read(&mut buffer) {
                Ok(0) => panic!("{text}: expected an error"),
                Ok(count) => out.extend_from_slice(&buffer[..count]),
                Err(error) => break error.to_string(),
            }
        };
        (String::from_utf8(out).unwrap(), error)
    }

    #[test]
    fn each_record_of_a_list_is_a_line() {
        for (text, lines) in [
            ("[{\"a\": 1}, {\"b\": [2, \"]\\\",\"]}]", "{\"a\": 1}\n{\"b\": [2, \"]\\\",\"]}\n"),
            ("[\n  {\n    \"a\": 1\n  },\n  {}\n]\n", "{     \"a\": 1   }\n{}\n"),
            ("\u{feff}[{\"a\": 1}]", "{\"a\": 1}\n"),
            ("[{\"a\": 1},]", "{\"a\": 1}\n,\n"),
            ("[{\"a\": 1},,{}]", "{\"a\": 1}\n,{}\n"),
            ("[{\"a\": 1}}, 2]", "{\"a\": 1}}\n2\n"),
            ("[{\"a\": 1}] x\n[{\"b\": 2}]", "{\"a\": 1}\nx\n{\"b\": 2}\n"),
            ("[{\"role\": \"x\", \"messages\": []}]", "{\"role\": \"x\", \"messages\": []}\n"),
            ("[[{\"role\": \"user\"}], []]", "[{\"role\": \"user\"}]\n[]\n"),
        ] {
            assert_eq!(cut(text), lines, "{text}");
        }
    }

    #[test]
    fn what_has_no_end_is_an_error_behind_what_was_read() {
        for (text, lines, error) in [
            ("[{\"a\": 1}, {\"b\"", "{\"a\": 1}\n{\"b\"", "record 2 is incomplete"),
            ("[{\"a\": 1}", "{\"a\": 1}", "record 1 is incomplete"),
            ("[{\"a\": 1},", "{\"a\": 1}\n", "the list is not closed after record 1"),
            ("[{\"a\": [1}, {\"b\": 2}]", "{\"a\": [1}, {\"b\": 2}]", "record 1 is incomplete"),
            (
                "[{\"a\": 1},\n {\"a\": \"x\ny\"}]",
                "{\"a\": 1}\n{\"a\": \"x",
                "record 2 has a line break inside a string",
            ),
            ("{\n \"a\": 1\n}\n{\n \"b\"", "{  \"a\": 1 }\n", "record 2 is incomplete"),
            (
                "{\"instances\": [{\"a\": 1}]",
                "{\"instances\": [{\"a\": 1}]}\n",
                "the object with the instances is not closed",
            ),
            ("{\"instances\": [", "", "the list is not closed after record 0"),
        ] {
            let (read, said) = cut_broken(text);
            assert_eq!(read, lines, "{text}");
            assert!(said.starts_with(error), "{text}: {said}");
        }
    }

    #[test]
    fn each_instance_of_a_file_is_a_line_with_the_files_head() {
        let text = "{\n \"type\": \"conversation\",\n \"instances\": [\n  {\"a\": 1},\n  {\"b\": 2}\n ]}\n";
        let head = "{  \"type\": \"conversation\",  \"instances\": [";
        assert_eq!(cut(text), format!("{head}{{\"a\": 1}}]}}\n{head}{{\"b\": 2}}]}}\n"));
        let right = "{\"instances\": [{\"a\": 1}], \"type\": \"text2text\"}";
        assert_eq!(cut(right), "{\"instances\": [{\"a\": 1}]}\n");
        // Invalid text after the instances becomes a separate line.
        for wrong in
            [", \"instances\": [2]}", ", \"type\": \"no\"}", " \"type\": \"text2text\"}", ", \"messages\": []}"]
        {
            let text = format!("{{\"instances\": [{{\"a\": 1}}]{wrong}");
            assert_eq!(cut(&text), format!("{{\"instances\": [{{\"a\": 1}}]}}\n{{\"instances\": []{wrong}\n"));
        }
    }

    #[test]
    fn a_record_on_several_lines_is_one() {
        assert_eq!(cut("{\n  \"a\": 1\n}\n{\n  \"b\": 2\n}\n"), "{   \"a\": 1 }\n{   \"b\": 2 }\n");
        assert_eq!(cut("{\"messages\": [\n  {\"a\": 1}\n]}"), "{\"messages\": [   {\"a\": 1} ]}\n");
        assert_eq!(cut("[\n  {\n  \"role\": \"user\"\n}]"), "[   {   \"role\": \"user\" }]\n");
    }

    #[test]
    fn lines_stay_as_they_are() {
        for text in [
            "{\"a\": 1}\n{\"b\": 2}\n",
            "{\"a\": \n{\"b\": 2}\n",
            "{\"a\": \"x\n{\"b\": 2}\n",
            "[{\"role\": \"user\", \"content\": \"x\"}]\n[{\"role\": \"user\"}]\n",
            "[{\"content\": {\"role\": 1}, \"role\": \"user\"}]\n",
            "{\"messages\": [], \"instances\": []}\n{\"b\": 2}\n",
            "[]\n[{\"role\": \"user\"}]\n",
            "[{\"role\": \"a\n{\"b\": 2}\n",
            "",
            "\u{feff}",
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
                let count = self.0.len().min(buffer.len()).min(3);
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
