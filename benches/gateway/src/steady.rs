//! Many slow streams at once, and the memory that they take.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Outcome;
use crate::client::Client;
use crate::conversations::{Chat, Filling};
use crate::load::{check, fresh};
use crate::process::Process;

/// The number of streams, and how long they take: 300 ids with a pause of 200 ms before each.
const STREAMS: usize = 1000;
const IDS: u32 = 300;
pub const PAUSE: u64 = 200;

/// What a gateway needed.
pub struct Steady {
    pub idle: u64,
    pub at_ten: u64,
    pub at_end: u64,
    pub most: u64,
    /// The answers that arrived whole.
    pub whole: usize,
    /// How long each took beyond the engine's pauses in ms, sorted.
    pub added: Vec<f64>,
    pub processor: Duration,
}

/// Runs the streams through a gateway.
pub async fn run(address: &str, process: &Process) -> Outcome<Steady> {
    let chat = Chat { messages: 1, words: 20, ids: IDS, is_streamed: true };
    let template = chat.unseen();
    let (idle, processor) = (process.memory()?, process.processor()?);
    let mut streams = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..STREAMS {
        let (address, template) = (address.to_owned(), template.clone());
        streams.spawn(async move {
            let mut client = Client::open(&address).await?;
            let mut request = Vec::new();
            template.fill(&Filling { fresh: fresh(), ..Filling::default() }, &mut request);
            let begin = Instant::now();
            let answer = client.send(&request).await?;
            check(&answer, &client)?;
            let took = (answer.end - begin).as_secs_f64() * 1e3;
            Outcome::Ok((took - f64::from(IDS) * PAUSE as f64, pieces(&client.body)))
        });
    }
    let (mut most, mut at_ten, mut at_end) = (0, 0, 0);
    let last = Duration::from_millis(u64::from(IDS) * PAUSE - 1000);
    while begin.elapsed() < last {
        sleep(Duration::from_millis(500)).await;
        let now = process.memory()?;
        most = most.max(now);
        if at_ten == 0 && begin.elapsed() >= Duration::from_secs(10) {
            at_ten = now;
        }
        at_end = now;
    }
    let (mut whole, mut added) = (0, Vec::new());
    while let Some(stream) = streams.join_next().await {
        let (late, pieces) = stream??;
        added.push(late);
        whole += usize::from(pieces);
    }
    added.sort_by(f64::total_cmp);
    let processor = process.processor()?.saturating_sub(processor);
    Ok(Steady { idle, at_ten, at_end, most, whole, added, processor })
}

/// Reports whether a stream came to its end.
fn pieces(body: &[u8]) -> bool {
    let body = String::from_utf8_lossy(body);
    body.contains("\"finish_reason\":\"length\"") && body.trim_end().ends_with("data: [DONE]")
}
