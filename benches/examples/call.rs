//! Prints the microseconds of one short `encode` call, the least of several rounds. `python/call.py` runs
//! it beside the same call in Python.
//!
//!     cargo run --release -p rolecall-benches --example call -- path/to/model

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rolecall::{Model, Request};

const ROUNDS: usize = 15;
const CALLS: u32 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("expected the folder of a model")?;
    let model = Model::open(folder)?;
    let text = r#"{"messages": [{"role": "user", "content": "What is the capital of France?"}]}"#;
    let request = Arc::new(Request::from_text(text)?);
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            black_box(model.encode(Arc::clone(&request))?);
        }
        least = least.min(begun.elapsed().as_secs_f64() / f64::from(CALLS));
    }
    println!("{:.2}", least * 1e6);
    Ok(())
}
