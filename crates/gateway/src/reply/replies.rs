use futures_util::future::select_all;

use crate::Fault;
use crate::engine::EnginePiece;
use crate::reply::LiveReply;

/// The replies to a request, which are read together.
pub struct Replies {
    pub all: Vec<LiveReply>,
    /// The one that was read last.
    last: usize,
}

/// A piece of the reply with this number, or `None` after its last.
pub type NextPiece = (usize, Result<Option<EnginePiece>, Fault>);

impl Replies {
    /// Reports whether no reply has an id yet.
    pub fn are_awaited(&self) -> bool {
        self.all.iter().all(|reply| reply.count() == 0)
    }

    /// Waits for the next piece of any reply. Returns `None` after the last. Nothing is lost if this is
    /// dropped while it waits.
    pub async fn next(&mut self) -> Option<NextPiece> {
        let open = self.all.iter_mut().enumerate().filter(|(_, reply)| !reply.is_over());
        let mut open: Vec<(usize, &mut LiveReply)> = open.collect();
        let found = match &mut open[..] {
            [] => return None,
            [(choice, reply)] => (*choice, reply.generating.next().await),
            _ => {
                // Each comes first in its turn, so that none waits for another that never pauses.
                let before = open.partition_point(|(choice, _)| *choice <= self.last);
                open.rotate_left(before);
                let open = open.into_iter();
                let waiting =
                    open.map(|(choice, reply)| Box::pin(async move { (choice, reply.generating.next().await) }));
                select_all(waiting).await.0
            }
        };
        self.last = found.0;
        Some(found)
    }
}

impl From<Vec<LiveReply>> for Replies {
    fn from(all: Vec<LiveReply>) -> Replies {
        Replies { all, last: 0 }
    }
}
