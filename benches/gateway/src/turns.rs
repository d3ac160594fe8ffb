//! A turn of a long conversation: all of it is new, or it was seen before.

use std::time::Duration;

use crate::Outcome;
use crate::conversations::{Chat, Filling, once};
use crate::figures::Figures;
use crate::load::{Script, run};
use crate::process::Process;

/// How a conversation goes on, and what it takes.
pub struct Turns {
    pub name: &'static str,
    pub figures: Figures,
}

/// The ways to send a turn, as far as a gateway has them. `has_names` is whether it goes on by a name.
pub async fn ways(chat: &Chat, address: &str, has_names: bool) -> Vec<(&'static str, Script)> {
    let mut ways = vec![("unseen", Script::of(chat.unseen()))];
    let (first, next) = chat.again();
    ways.push(("sent again", Script::after(first, u32::MAX, next)));
    if has_names {
        let (first, next) = chat.by_session();
        // The session grows, so another one begins before it is much longer.
        ways.push(("session_id", Script::after(first, 10, next)));
        let (first, next) = chat.by_response();
        if once(address, &first, &Filling::default()).await.is_ok() {
            ways.push(("previous_response_id", Script::after(first, u32::MAX, next)));
        }
    }
    ways
}

/// Measures all ways in turn, some rounds long.
pub async fn measure(
    address: &str,
    ways: &[(&'static str, Script)],
    rounds: usize,
    time: Duration,
    process: &Process,
) -> Outcome<Vec<Turns>> {
    let mut all: Vec<Vec<Figures>> = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for ((_, script), all) in ways.iter().zip(&mut all) {
            all.push(run(address, script, 1, time, Some(process)).await?);
        }
    }
    let turns = ways.iter().zip(all).map(|((name, _), rounds)| Turns { name, figures: Figures::middle(rounds) });
    Ok(turns.collect())
}
