//! Between a kernel's sockets and this process: bytes pass on, but only as frames of a bearable size.
//!
//! Code can reach the sockets of its kernel and write anything to them. A frame that claims 2^60 bytes would end this
//! process when it makes room for it, so lengths are checked before a client of ZeroMQ sees them. Each socket of a
//! kernel is connected to once, before any code runs: what code puts in the place of one later is never connected to.
//! The form of a frame is that of ZMTP 3 (`https://rfc.zeromq.org/spec/23/`).

use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// What goes wrong with a socket of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A frame is longer than allowed.
    TooLong,
    /// The kernel has closed it.
    Closed,
}

/// Follows the frames of one direction.
#[derive(Debug)]
pub(super) struct FrameScan {
    /// Bytes of the greeting or of a frame that are still to come.
    rest: u64,
    /// The bytes of the beginning of a frame that are there.
    start: Vec<u8>,
    /// The bytes of all frames of a message so far.
    message: u64,
    most: u64,
}

impl FrameScan {
    pub fn new(most: u64) -> FrameScan {
        FrameScan { rest: 64, start: Vec::with_capacity(9), message: 0, most }
    }

    /// Takes the next bytes. Returns false if a message is too long.
    pub fn pass(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let taken = self.rest.min(bytes.len() as u64);
                self.rest -= taken;
                bytes = &bytes[taken as usize..];
                continue;
            }
            self.start.push(bytes[0]);
            bytes = &bytes[1..];
            let flags = self.start[0];
            let is_long = flags & 2 != 0;
            if self.start.len() < if is_long { 9 } else { 2 } {
                continue;
            }
            let length = self.start[1..].iter().fold(0u64, |length, byte| length << 8 | u64::from(*byte));
            self.start.clear();
            // Each frame has a cost of its own, however short it is.
            self.message = self.message.saturating_add(length).saturating_add(64);
            if self.message > self.most {
                return false;
            }
            self.rest = length;
            if flags & 1 == 0 {
                self.message = 0;
            }
        }
        true
    }
}

/// Connects to a kernel's socket, and gives it a second address.
pub(super) async fn relay(
    socket: &Path,
    address: &Path,
    most: u64,
    broken: mpsc::Sender<Broken>,
) -> std::io::Result<()> {
    // Whatever has its name now: a link is not followed.
    let found = rustix::fs::open(socket, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) != FileType::Socket {
        return Err(std::io::Error::other("the kernel's socket is no socket"));
    }
    let kernel = UnixStream::connect(format!("/proc/self/fd/{}", found.as_raw_fd())).await?;
    let listener = UnixListener::bind(address)?;
    tokio::spawn(async move {
        let Ok((client, _)) = listener.accept().await else { return };
        // No second one.
        drop(listener);
        let (mut from_kernel, mut to_kernel) = kernel.into_split();
        let (mut from_client, mut to_client) = client.into_split();
        let back = async {
            let _ = tokio::io::copy(&mut from_client, &mut to_kernel).await;
            Broken::Closed
        };
        let forth = async {
            let mut frames = FrameScan::new(most);
            let mut bytes = vec![0; 64 << 10];
            loop {
                match from_kernel.read(&mut bytes).await {
                    Ok(0) | Err(_) => return Broken::Closed,
                    Ok(count) if !frames.pass(&bytes[..count]) => return Broken::TooLong,
                    Ok(count) => {
                        if to_client.write_all(&bytes[..count]).await.is_err() {
                            return Broken::Closed;
                        }
                    }
                }
            }
        };
        let end = tokio::select! { end = back => end, end = forth => end };
        let _ = broken.send(end).await;
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::FrameScan;

    #[test]
    fn frames_pass_in_any_pieces_and_long_ones_do_not() {
        let mut bytes = vec![0; 64];
        bytes.extend([1, 3, 1, 2, 3]); // more follows
        bytes.extend([2, 0, 0, 0, 0, 0, 0, 1, 0]);
        bytes.extend([7; 256]);
        bytes.extend([0, 0]);
        for step in 1..bytes.len() {
            let mut frames = FrameScan::new(400);
            assert!(bytes.chunks(step).all(|piece| frames.pass(piece)), "{step}");
            assert_eq!((frames.rest, frames.message), (0, 0));
            // 2^60 bytes are refused with their length.
            assert!(!frames.pass(&[2, 16, 0, 0, 0, 0, 0, 0, 0]));
        }
        let mut frames = FrameScan::new(300);
        assert!(!frames.pass(&bytes), "the frames of one message count together");
    }
}
