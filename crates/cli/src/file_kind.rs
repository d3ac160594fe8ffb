//! Files that hold no UTF-8 text: their kinds, which are told apart by their content.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

/// The number of bytes at the beginning of a file that are looked at.
const LOOKED_AT: usize = 512;

/// A kind of file that no command reads as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// The name, with its article.
    pub name: &'static str,
    /// What to do with such a file.
    pub help: &'static str,
}

/// The bytes that a kind of file has at this offset.
struct Magic {
    offset: usize,
    bytes: &'static [u8],
    kind: FileKind,
}

const TABLE: &str =
    "read it in Python with `rolecall.data.encode`, which takes Arrow tables, or write it as JSON lines";
const UNPACK: &str = "unpack it first";
const DECOMPRESS: &str = "decompress it first; files of gzip and zstd are decompressed here";
const TEXT: &str = "pass a file of JSON text";

const fn magic(bytes: &'static [u8], name: &'static str, help: &'static str) -> Magic {
    Magic { offset: 0, bytes, kind: FileKind { name, help } }
}

/// The kinds, those with the longest bytes first where several apply.
const MAGICS: &[Magic] = &[
    magic(b"PAR1", "a Parquet file", TABLE),
    magic(b"ARROW1", "an Arrow file", TABLE),
    magic(b"\xff\xff\xff\xff", "an Arrow stream", TABLE),
    magic(b"Obj\x01", "an Avro file", TABLE),
    magic(b"ORC", "an ORC file", TABLE),
    magic(b"\xfd7zXZ\0", "a file compressed with xz", DECOMPRESS),
    magic(b"BZh", "a file compressed with bzip2", DECOMPRESS),
    magic(b"\x04\x22\x4d\x18", "a file compressed with lz4", DECOMPRESS),
    magic(b"\xff\x06\0\0sNaPpY", "a file compressed with Snappy", DECOMPRESS),
    magic(b"\x5d\0\0", "a file compressed with lzma", DECOMPRESS),
    magic(b"LZIP", "a file compressed with lzip", DECOMPRESS),
    magic(b"PK\x03\x04", "a ZIP archive", UNPACK),
    magic(b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    magic(b"Rar!\x1a\x07", "a RAR archive", UNPACK),
    Magic { offset: 257, bytes: b"ustar", kind: FileKind { name: "a tar archive", help: UNPACK } },
    magic(b"SQLite format 3\0", "an SQLite database", "write its rows as JSON lines"),
    magic(b"\x89HDF\r\n\x1a\n", "an HDF5 file", "write its rows as JSON lines"),
    magic(b"\x93NUMPY", "a NumPy array", "write its rows as JSON lines"),
    magic(b"\x80\x02", "a Python pickle", "write its values as JSON"),
    magic(b"\x80\x03", "a Python pickle", "write its values as JSON"),
    magic(b"\x80\x04", "a Python pickle", "write its values as JSON"),
    magic(b"\x80\x05", "a Python pickle", "write its values as JSON"),
    magic(b"GGUF", "a GGUF file", "pass it as the model, with `--model`"),
    magic(b"\x7fELF", "a program (ELF)", TEXT),
    magic(b"MZ", "a program (PE)", TEXT),
    magic(b"\xcf\xfa\xed\xfe", "a program (Mach-O)", TEXT),
    magic(b"\xca\xfe\xba\xbe", "a program", TEXT),
    magic(b"%PDF-", "a PDF document", TEXT),
    magic(b"\x89PNG\r\n\x1a\n", "a PNG image", TEXT),
    magic(b"\xff\xd8\xff", "a JPEG image", TEXT),
    magic(b"GIF8", "a GIF image", TEXT),
    magic(b"RIFF", "an audio, image or video file", TEXT),
];

const UTF16: &str = "convert it to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`";
const UTF16_LE: &str = "convert it to UTF-8, for example with `iconv -f UTF-16LE -t UTF-8`";
const UTF16_BE: &str = "convert it to UTF-8, for example with `iconv -f UTF-16BE -t UTF-8`";
const UTF32: &str = "convert it to UTF-8, for example with `iconv -f UTF-32 -t UTF-8`";
const UNKNOWN: FileKind = FileKind { name: "binary data of an unknown kind", help: TEXT };

/// The control characters that texts contain: white space, backspace and escape.
const ORDINARY: [u8; 7] = [b'\t', b'\n', b'\r', 0x08, 0x0b, 0x0c, 0x1b];

impl FileKind {
    /// Returns the kind of a file that begins with these bytes, or `None` if they may be UTF-8 text.
    pub fn of(begin: &[u8]) -> Option<FileKind> {
        if let Some((name, help)) = wide_text(begin) {
            return Some(FileKind { name, help });
        }
        // The letters at the beginning of some kinds could begin a text, too.
        let is_utf8 = std::str::from_utf8(begin).map_or_else(|error| error.error_len().is_none(), |_| true);
        let is_steered = begin.iter().any(|byte| byte.is_ascii_control() && !ORDINARY.contains(byte));
        if is_utf8 && !is_steered {
            return None;
        }
        let known = MAGICS.iter().find(|magic| begin.get(magic.offset..).is_some_and(|at| at.starts_with(magic.bytes)));
        // A line of JSON that is broken is an error of the line. So is one in another encoding.
        let is_json = matches!(begin.trim_ascii_start(), [b'{' | b'[', ..]);
        let is_binary = !is_json && is_steered && (!is_utf8 || begin.contains(&0));
        known.map(|magic| magic.kind).or(is_binary.then_some(UNKNOWN))
    }
}

/// Returns the encoding of text in units of two or four bytes: by its byte order mark, or by the zeros
/// beside the ASCII characters with which JSON begins.
fn wide_text(begin: &[u8]) -> Option<(&'static str, &'static str)> {
    const WIDE_32: &str = "UTF-32 text";
    const WIDE_16: &str = "UTF-16 text";
    let is_ascii = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    Some(match *begin {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => (WIDE_32, UTF32),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => (WIDE_16, UTF16),
        [first, 0, 0, 0, ..] | [0, 0, 0, first, ..] if is_ascii(first) => (WIDE_32, UTF32),
        [first, 0, second, 0, ..] if is_ascii(first) && is_ascii(second) => (WIDE_16, UTF16_LE),
        [0, first, 0, second, ..] if is_ascii(first) && is_ascii(second) => (WIDE_16, UTF16_BE),
        _ => return None,
    })
}

/// Returns the stream if it may be UTF-8 text, and otherwise an error that holds its kind.
pub fn check(stream: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    // What has arrived is enough: nobody sends the beginning of such a file in two pieces, and a text
    // must not wait for more.
    let begin = stream.fill_buf()?;
    match FileKind::of(&begin[..begin.len().min(LOOKED_AT)]) {
        Some(kind) => Err(io::Error::new(io::ErrorKind::InvalidData, kind)),
        None => Ok(Box::new(stream)),
    }
}

/// Returns the kind that is the reason of an error.
pub fn of_error(error: &io::Error) -> Option<FileKind> {
    error.get_ref()?.downcast_ref::<FileKind>().copied()
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected UTF-8 text, found {}", self.name)
    }
}

impl std::error::Error for FileKind {}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(begin: &[u8]) -> Option<&'static str> {
        FileKind::of(begin).map(|kind| kind.name)
    }

    #[test]
    fn text_is_text_whatever_it_begins_with() {
        for text in ["", "{", "{}", "[]\n", "PAR1", "MZ", "%PDF-1.7", "BZh9", "\u{feff}{}", "你好", "\u{1}", "GGUF "]
        {
            assert_eq!(name(text.as_bytes()), None, "{text:?}");
        }
        // A character that is cut is no error, and one broken line is the line's error.
        assert_eq!(name(&"你".as_bytes()[..2]), None);
        assert_eq!(name(b"{\"a\": \"\xff\"}\n"), None);
        assert_eq!(name(b"{\"a\": \"\0\"}\n"), None);
        assert_eq!(name(b"\xc4\xe3\xba\xc3"), None);
    }

    #[test]
    fn other_files_are_known_by_their_content() {
        let utf16 = |text: &str, to: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to).collect::<Vec<u8>>();
        for text in ["{\"a\": \"你\"}", "\u{feff}{}", " [1]", "\u{feff}你好"] {
            assert_eq!(name(&utf16(text, u16::to_le_bytes)), Some("UTF-16 text"), "{text}");
            assert_eq!(name(&utf16(text, u16::to_be_bytes)), Some("UTF-16 text"), "{text}");
        }
        assert_eq!(name(b"PAR1\x15\x04\x15\x80"), Some("a Parquet file"));
        assert_eq!(name(b"\xfd7zXZ\0\0\x04"), Some("a file compressed with xz"));
        assert_eq!(name(b"\x7fELF\x02\x01\x01\0"), Some("a program (ELF)"));
        assert_eq!(name(b"\x01\x02\0\x03"), Some("binary data of an unknown kind"));
        let mut tar = b"chats.jsonl".to_vec();
        tar.resize(257, 0);
        tar.extend_from_slice(b"ustar\0");
        assert_eq!(name(&tar), Some("a tar archive"));
    }
}
