//! Measures the cost of analyzing a chat template: `costs FILE..` prints the time of each stage and
//! the steps of all probes.

use std::time::Instant;
use std::{env, fs};

use rolecall_infer::infer;
use rolecall_parse::Reply;
use rolecall_render::{ChatTemplate, ProbeBudget, TemplateOptions, analyze_template_within};

fn main() {
    println!("milliseconds and steps\n  compile  analyze    steps    infer    steps renders    reply");
    for file in env::args().skip(1) {
        let Ok(source) = fs::read_to_string(&file) else { continue };
        let (template, compiling) = timed(|| ChatTemplate::compile(&source, Vec::new()));
        let template = match template {
            Ok(template) => template,
            Err(error) => {
                println!("{compiling:9.2}ms {error} {file}");
                continue;
            }
        };
        let budget = ProbeBudget::default();
        let (analysis, analyzing) = timed(|| analyze_template_within(&template, &TemplateOptions::default(), &budget));
        let (inferred, inferring) = timed(|| infer(&template));
        let (_, reading) = timed(|| Reply::new(&inferred.format));
        let (analyzed, steps, renders) = (budget.spent(), inferred.report.steps, inferred.report.renders);
        println!("{compiling:9.2}{analyzing:9.2}{analyzed:9}{inferring:9.2}{steps:9}{renders:8}{reading:9.2} {file}");
        for error in analysis.err().into_iter().chain(inferred.report.error) {
            println!("  {error}");
        }
    }
}

/// Returns the result of a run, and its duration in milliseconds.
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed().as_secs_f64() * 1e3)
}
