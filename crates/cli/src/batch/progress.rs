use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::tally::Tally;

/// How often the line is redrawn on a terminal.
const OFTEN: Duration = Duration::from_millis(250);
/// How often a line is written if it cannot be redrawn.
const SELDOM: Duration = Duration::from_secs(10);

/// The progress display of a batch on standard error.
pub struct Progress {
    /// Whether the line can be redrawn.
    terminal: bool,
    /// The size of the input in bytes, if known.
    total: Option<u64>,
    /// The position and counts at the start of this run.
    from: (u64, Tally),
    begun: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub fn new(terminal: bool, total: Option<u64>, from: (u64, Tally)) -> Progress {
        Progress { terminal, total, from, begun: Instant::now(), drawn: None }
    }

    /// Returns how long to wait before the next call of [`show`](Progress::show).
    pub fn patience(&self) -> Duration {
        OFTEN
    }

    /// Shows the progress if an update is due: `bytes` is the number of input bytes read so far.
    pub fn show(&mut self, bytes: u64, tally: &Tally) {
        let pause = if self.terminal { OFTEN } else { SELDOM };
        if self.drawn.unwrap_or(self.begun).elapsed() < pause {
            return;
        }
        self.drawn = Some(Instant::now());
        let mut line = self.rates(tally, self.begun.elapsed());
        if let Some(total) = self.total.filter(|total| *total > 0) {
            line.push_str(&format!(", {} %", bytes.min(total) * 100 / total));
            let done = bytes.saturating_sub(self.from.0);
            if done > 0 {
                let left = self.begun.elapsed().mul_f64(total.saturating_sub(bytes) as f64 / done as f64);
                line.push_str(&format!(", {} left", time(left)));
            }
        }
        self.write(&line);
    }

    /// Replaces the line with a summary.
    pub fn end(&mut self, tally: &Tally) {
        let took = self.begun.elapsed();
        let line = format!("{} in {}", self.rates(tally, took), time(took));
        self.write(&line);
        if self.terminal {
            let _ = io::stderr().lock().write_all(b"\n");
        }
    }

    fn rates(&self, tally: &Tally, took: Duration) -> String {
        let mut line = format!("{} conversations", grouped(tally.answered));
        if tally.refused > 0 {
            line.push_str(&format!(", {} refused", grouped(tally.refused)));
        }
        if tally.noted > 0 {
            line.push_str(&format!(", {} with warnings", grouped(tally.noted)));
        }
        let rate = |count: u64, before: u64| {
            let seconds = took.as_secs_f64().max(1e-3);
            grouped(((count - before) as f64 / seconds).round() as u64)
        };
        line.push_str(&format!(", {}/s", rate(tally.answered, self.from.1.answered)));
        if tally.tokens > 0 {
            line.push_str(&format!(", {} tokens/s", rate(tally.tokens, self.from.1.tokens)));
        }
        line
    }

    fn write(&self, line: &str) {
        let drawn = match self.terminal {
            true => {
                let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
                // The line is ASCII. A line that wraps could not be redrawn.
                format!("\r\x1b[K{}", &line[..line.len().min(width.saturating_sub(1))])
            }
            false => format!("{line}\n"),
        };
        // Errors of stderr cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(drawn.as_bytes());
    }

    /// Removes the line, to make room for other output.
    pub fn clear(&self) {
        if self.terminal && self.drawn.is_some() {
            let _ = io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12 s`, `3 min 5 s`, `2 h 4 min`
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_read_easily() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [7, 65, 3600, 7500].map(|s| time(Duration::from_secs(s))),
            ["7 s", "1 min 5 s", "1 h 0 min", "2 h 5 min"]
        );
    }

    #[test]
    fn rates_are_those_of_this_run() {
        let before = Tally { answered: 1000, tokens: 50_000, ..Tally::default() };
        let progress = Progress::new(false, None, (0, before.clone()));
        let mut tally = before;
        tally.add(&Tally { answered: 3000, refused: 1, named: vec![4], tokens: 900_000, ..Tally::default() });
        let line = progress.rates(&tally, Duration::from_secs(3));
        assert_eq!(line, "4,000 conversations, 1 refused, 1,000/s, 300,000 tokens/s");
    }
}
