//! Measures the rendering of one more turn by every format, after conversations of different
//! lengths.

use std::sync::Arc;

use rolecall::conversation::{Conversation, Message};
use rolecall::format::{Format, registry};
use rolecall::render::growth::Longer;
use rolecall::render::{Options, Writer};
use rolecall_benches::{Runner, race};

/// The numbers of messages before the turn.
const MESSAGES: [usize; 4] = [2, 20, 200, 2_000];

fn main() {
    let registry = registry();
    println!(
        "{:<28} {:>8} {:>8} {:>8} {:>8}  {:>7}  {:>10}",
        "format", MESSAGES[0], MESSAGES[1], MESSAGES[2], MESSAGES[3], "ratio", "whole 2000"
    );
    let (mut slowest, mut steepest) = (0.0_f64, 0.0_f64);
    let formats: Vec<_> = registry.iter().collect();
    for format in &formats {
        let times = measure(format);
        let turns = &times[..MESSAGES.len()];
        let least = turns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = turns.iter().copied().fold(0.0, f64::max);
        (slowest, steepest) = (slowest.max(most), steepest.max(most / least));
        println!(
            "{:<28} {:>8.2} {:>8.2} {:>8.2} {:>8.2}  {:>7.2}  {:>10.1}",
            format.name,
            times[0],
            times[1],
            times[2],
            times[3],
            most / least,
            times[4]
        );
    }
    println!(
        "\ntimes in µs, medians: an answer and a question of fifty words after so many messages; whole: rendering all"
    );
    println!(
        "{} formats; slowest turn {slowest:.2} µs; greatest ratio of a format's slowest to its fastest {steepest:.2}",
        formats.len()
    );
}

/// Returns the times of a turn after each number of messages, and that of a whole rendering.
fn measure(format: &Arc<Format>) -> Vec<f64> {
    let words = "the weather in Köln is 18.5 degrees and clear, 今天天气很好, so we walk along the river until the lights come on; \
                 tell me which of the three roads is the shortest one and why nobody takes it at night — «никто» — \
                 even though it is lit, dry and well known to all";
    let last = MESSAGES[MESSAGES.len() - 1] + 3;
    let messages: Vec<Message> = (0..last)
        .map(|turn| {
            let text = format!("{turn}: {words}");
            if turn % 2 == 0 { Message::user(text) } else { Message::assistant(text) }
        })
        .collect();
    let writer = &Writer::format(format.clone(), Options::default());
    let lent: Vec<&Message> = messages.iter().collect();
    let frame = Conversation::new(Vec::new());
    let growths: Vec<_> = MESSAGES
        .iter()
        .map(|count| {
            let earlier = Conversation::new(messages[..count + 1].to_vec());
            let (_, growth) = writer.render_growing(&earlier).expect("it renders");
            (count + 3, growth.expect("a state"))
        })
        .collect();
    let turns = growths.iter().map(|(count, growth)| {
        let longer = Longer { frame: &frame, count: *count, head: &[], tail: &lent[count.saturating_sub(4)..*count] };
        Runner::new("turn", move || writer.grow(growth, &longer).expect("it grows"))
    });
    let whole = Conversation::new(messages.clone());
    let whole = Runner::new("whole", || writer.render(&whole).expect("it renders"));
    let times = race(turns.chain([whole]).collect());
    times.iter().map(|(_, time)| time.as_nanos() as f64 / 1000.0).collect()
}
