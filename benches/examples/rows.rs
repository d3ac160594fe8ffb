//! Encodes JSON lines as `rolecall encode --jsonl --for-training` does, without writing the results, and
//! prints the seconds that each run took. `benches/python/data.py` compares it with the Python package.
//!
//!     cargo run --release -p rolecall-benches --example rows -- path/to/model chats.jsonl THREADS RUNS

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rolecall::Model;
use rolecall::pipeline::{self, PipelineStep};
use rolecall::training::RowOptions;
use rolecall::{conversation::json, dataset};

/// The number of lines that a thread encodes at once, as in the command.
const BLOCK: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, chats, threads, runs] = arguments.as_slice() else {
        eprintln!("expected a model, a file, the number of threads and the number of runs");
        std::process::exit(2);
    };
    let model = Model::open(model)?;
    model.tokenizer()?;
    let options = RowOptions { for_training: Some("assistant".into()), ..RowOptions::default() };
    let recipe = options.recipe()?;
    let lines: Arc<Vec<String>> = Arc::new(std::fs::read_to_string(chats)?.lines().map(str::to_owned).collect());
    let threads: NonZeroUsize = threads.parse()?;
    for _ in 0..runs.parse()? {
        let begun = Instant::now();
        let (model, recipe, lines) = (model.clone(), recipe.clone(), Arc::clone(&lines));
        let count = lines.len();
        let mut starts = (0..count).step_by(BLOCK);
        let source = move || starts.next().map(|start| start..(start + BLOCK).min(count));
        let work = move |range: std::ops::Range<usize>| {
            let (mut ids, mut weights) = (Vec::new(), Vec::new());
            for line in &lines[range] {
                let read = json::parse_unique(line).ok().and_then(|value| dataset::from_json(value, None).ok());
                let Some((_, samples)) = read else { continue };
                for (_, ready) in recipe.prepare_all(&model, samples).unwrap_or_default() {
                    weights.extend(ready.weights(recipe.edges));
                    ids.extend(ready.encoded.map(|encoded| encoded.ids()).unwrap_or_default());
                }
            }
            (ids, weights)
        };
        let mut ordered = pipeline::start(threads, source, work)?;
        let mut tokens = 0;
        // The results are kept, as in columns.
        let mut all = Vec::new();
        loop {
            match ordered.next(Duration::from_secs(3600)) {
                Ok(PipelineStep::Done(block)) => {
                    tokens += block.0.len();
                    all.push(block);
                }
                Ok(PipelineStep::Late) => {}
                Ok(PipelineStep::End) => break,
                Err(pipeline::LostWorker) => return Err("a thread died".into()),
            }
        }
        println!("{} {tokens}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}
