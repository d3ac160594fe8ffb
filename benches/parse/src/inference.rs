use std::path::Path;
use std::time::{Duration, Instant};

use rolecall_render::ChatTemplate;
use serde_json::Value;

const ROUNDS: usize = 5;

/// Prints the time to infer a layout from each template of a folder with an `index.json`: the
/// median of some rounds each; then the median and the maximum over all templates.
pub fn measure(folder: &Path) {
    let Some(templates) = templates(folder) else {
        return println!("no templates: {} has no index.json that lists any", folder.display());
    };
    let mut times: Vec<(Duration, &str)> = templates
        .iter()
        .map(|(name, template)| {
            let mut times: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    std::hint::black_box(rolecall_infer::infer(template));
                    start.elapsed()
                })
                .collect();
            times.sort();
            (times[ROUNDS / 2], name.as_str())
        })
        .collect();
    times.sort();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let at = |part: usize| milliseconds(times[(times.len() - 1) * part / 100].0);
    println!(
        "inferring a layout, ms: {} templates, median {:.2}, 90th percentile {:.2}, maximum {:.2} ({})",
        times.len(),
        at(50),
        at(90),
        at(100),
        times[times.len() - 1].1
    );
}

fn templates(folder: &Path) -> Option<Vec<(String, ChatTemplate)>> {
    let index: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("index.json")).ok()?).ok()?;
    let mut templates = Vec::new();
    for entry in index["templates"].as_array()? {
        let Some(file) = entry["file"].as_str() else { continue };
        let tokens = ["bos_token", "eos_token"];
        let tokens = tokens.iter().filter_map(|name| Some(((*name).to_owned(), entry[*name].as_str()?.to_owned())));
        let source = std::fs::read_to_string(folder.join(file)).ok()?;
        if let Ok(template) = ChatTemplate::compile(&source, tokens.collect()) {
            templates.push((file.to_owned(), template));
        }
    }
    (!templates.is_empty()).then_some(templates)
}
