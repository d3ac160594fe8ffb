//! Decompression of gzip and zstd files, which are recognized by their first bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError as Broken, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The size of the read buffer in bytes.
const BUFFER: usize = 64 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns the contents of a stream, decompressed if it is compressed. Reads no more than needed to
/// recognize the compression.
pub fn unpack(stream: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut stream = BufReader::with_capacity(BUFFER, stream);
    let is_like = |first: &u8| [GZIP, ZSTD].iter().any(|magic| magic[0] == *first);
    if !stream.fill_buf()?.first().is_some_and(is_like) {
        return Ok(Box::new(stream));
    }
    let mut begun = Vec::new();
    while [GZIP, ZSTD].iter().any(|magic| begun.len() < magic.len() && magic.starts_with(&begun)) {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => begun.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is = |magic: &[u8]| begun == magic;
    let (is_gzip, is_zstd) = (is(GZIP), is(ZSTD));
    let whole = Cursor::new(begun).chain(stream);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(Frames::new(whole))
    } else {
        Box::new(whole)
    })
}

type PackedFile = io::Chain<Cursor<Vec<u8>>, BufReader<Box<dyn Read + Send>>>;

/// A sequence of zstd frames, as `cat a.zst b.zst` produces.
struct Frames {
    source: BufReader<PackedFile>,
    decoder: FrameDecoder,
    is_open: bool,
}

/// The largest window size of a frame that is accepted: that of `zstd --ultra`.
const WINDOW: u64 = 128 << 20;

impl Frames {
    fn new(source: PackedFile) -> Frames {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Frames { source: BufReader::new(source), decoder, is_open: false }
    }

    /// Opens the next frame. Returns false at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(Broken::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(_) => return Err(damaged()),
            }
        }
        Ok(false)
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_open {
                self.is_open = self.next_frame()?;
                if !self.is_open {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, block).map_err(|_| damaged())?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let said = self.decoder.get_checksum_from_data();
            if said.is_some() && said != self.decoder.get_calculated_checksum() {
                return Err(damaged());
            }
            self.is_open = false;
        }
        Ok(0)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the zstd data is damaged or truncated")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A reader that returns one byte at a time, as a slow pipe does.
    struct Slow(Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpack(Box::new(Slow(Cursor::new(bytes))))?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_rest_is_not_touched() {
        let text = "{\"a\": 1}\n".repeat(1000).into_bytes();
        let joined = [text.clone(), text.clone()].concat();
        assert_eq!(unpacked(gzip(&text)).unwrap(), text);
        assert_eq!(unpacked([gzip(&text), gzip(&text)].concat()).unwrap(), joined);
        assert_eq!(unpacked(zstd(&text)).unwrap(), text);
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert_eq!(unpacked([zstd(&text), skipped.to_vec(), zstd(&text)].concat()).unwrap(), joined);
        for plain in [&b""[..], b"\x1f", b"\x28\xb5\x2f", b"{}", b"\x1f{}"] {
            assert_eq!(unpacked(plain.to_vec()).unwrap(), plain);
        }
    }

    #[test]
    fn what_is_cut_off_is_no_end() {
        let text = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>();
        for packed in [gzip(&text), zstd(&text)] {
            for cut in [packed.len() - 1, packed.len() / 2, 6] {
                assert!(unpacked(packed[..cut].to_vec()).is_err(), "{cut} of {}", packed.len());
            }
        }
    }
}
