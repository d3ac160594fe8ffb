//! What a measurement found.

use std::time::Duration;

/// Answers in some time.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Answers per second.
    pub rate: f64,
    /// How long each took in ms, sorted.
    pub whole: Vec<f64>,
    /// How long each took in ms until its first text, sorted.
    pub first: Vec<f64>,
    /// The time of the gateway's processor per answer, in ms.
    pub processor: f64,
}

impl Figures {
    /// Returns the figures of rounds: those of the middle one by its rate.
    pub fn middle(mut rounds: Vec<Figures>) -> Figures {
        rounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let at = rounds.len() / 2;
        rounds.into_iter().nth(at).unwrap_or_default()
    }

    pub fn sort(&mut self) {
        self.whole.sort_by(f64::total_cmp);
        self.first.sort_by(f64::total_cmp);
    }
}

/// Returns the value below which a part of sorted values is.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
