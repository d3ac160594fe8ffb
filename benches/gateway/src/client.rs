//! A client that costs little: one connection, HTTP/1.1, and only what is needed of the answer.

use std::io;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

/// A connection.
pub struct Client {
    stream: TcpStream,
    /// What was received.
    buffer: Vec<u8>,
    /// The body of the last answer.
    pub body: Vec<u8>,
}

/// What is known of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: u16,
    /// When the first id or the first text was there.
    pub first: Option<Instant>,
    /// When the last byte was there.
    pub end: Instant,
}

/// How a body ends.
#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
}

impl Client {
    /// Connects to an address, `host:port`.
    pub async fn open(address: &str) -> io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::new(), body: Vec::new() })
    }

    /// Sends a request, and reads the whole answer.
    pub async fn send(&mut self, request: &[u8]) -> Outcome<Answer> {
        self.buffer.clear();
        self.body.clear();
        self.stream.write_all(request).await?;
        let head = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let text = String::from_utf8_lossy(self.buffer.get(..head).unwrap_or_default()).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("expected a status")?;
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = match length {
            Some(length) => Length::Known(length.trim().parse()?),
            None => Length::Chunked,
        };
        self.buffer.drain(..head);
        let first = match length {
            Length::Known(length) => {
                while self.buffer.len() < length {
                    self.more().await?;
                }
                self.body.extend_from_slice(&self.buffer);
                None
            }
            Length::Chunked => self.chunks().await?,
        };
        Ok(Answer { status, first, end: Instant::now() })
    }

    /// Reads chunks until the last.
    async fn chunks(&mut self) -> Outcome<Option<Instant>> {
        let (mut at, mut first) = (0, None);
        loop {
            let rest = self.buffer.get(at..).unwrap_or_default();
            let Some(line) = find(rest, b"\r\n") else {
                self.more().await?;
                continue;
            };
            let size = std::str::from_utf8(rest.get(..line).unwrap_or_default())?;
            let size = usize::from_str_radix(size.trim(), 16)?;
            let (start, end) = (at + line + 2, at + line + 2 + size);
            while self.buffer.len() < end + 2 {
                self.more().await?;
            }
            if size == 0 {
                return Ok(first);
            }
            let chunk = self.buffer.get(start..end).unwrap_or_default();
            if first.is_none() && has_text(chunk) {
                first = Some(Instant::now());
            }
            self.body.extend_from_slice(chunk);
            at = end + 2;
        }
    }

    async fn more(&mut self) -> Outcome<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the connection was closed".into()),
            _ => Ok(()),
        }
    }
}

/// Reports whether a chunk has an id or a piece of content.
fn has_text(chunk: &[u8]) -> bool {
    let has =
        |key: &[u8]| chunk.windows(key.len() + 1).any(|window| window.starts_with(key) && !window.ends_with(b"\""));
    has(b"\"content\":\"") || has(b"\"delta\":\"") || has(b"\"output_ids\":")
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
