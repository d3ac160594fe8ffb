//! The speed of encoding, with a fresh tokenizer and with one that has encoded the corpus before.

use std::hint::black_box;
use std::time::Instant;

use crate::documents::cut;
use crate::options::Options;
use crate::peers::{Encoder, Library};
use crate::{Subject, columns, median, show};

/// Each tokenizer is loaded this often, and encodes the documents once cold.
const LOADS: usize = 3;
/// The passes of the first load. The first is cold, and those after the second are warm.
const PASSES: usize = 5;

/// The measurements of one library.
#[derive(Clone, Default)]
struct Times {
    /// Seconds for each load.
    load: Vec<f64>,
    /// MB/s.
    cold: Vec<f64>,
    warm: Vec<f64>,
}

pub fn measure(subjects: &[Subject<'_>], text: &str, options: &Options) {
    let columns = columns(subjects);
    println!("\nencoding, MB/s, and rolecall's speed relative to the peer's\n");
    print!("{:<16} {:>8} {:>5} {:>9}", "tokenizer", "bytes", "pass", "rolecall");
    columns.iter().skip(1).for_each(|library| print!(" {:>12} {:>6}", library.name(), "×"));
    println!();
    let mut loads = Vec::new();
    let rounds = if options.quick { 1 } else { LOADS };
    for (model, libraries) in subjects.iter().filter(|(_, libraries)| !libraries.is_empty()) {
        let mut load = vec![Vec::new(); libraries.len()];
        for size in &options.sizes {
            let documents = cut(text, *size);
            let times = time(model, libraries, &documents, rounds);
            for (pass, speeds) in [("cold", Times::cold as fn(&Times) -> Option<f64>), ("warm", Times::warm)] {
                let of = |library: &Library| {
                    libraries.iter().position(|known| known == library).and_then(|at| speeds(&times[at]))
                };
                let ours = of(&Library::Rolecall);
                print!("{:<16} {size:>8} {pass:>5} {:>9}", model.name, show(ours));
                for library in columns.iter().skip(1) {
                    let theirs = of(library);
                    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
                    let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
                    print!(" {:>12} {ratio:>6}", show(theirs));
                }
                println!();
            }
            for (load, times) in load.iter_mut().zip(times) {
                load.extend(times.load);
            }
        }
        loads.push((&model.name, libraries, load));
    }
    println!("\ncold: the first pass of a fresh tokenizer over all documents, the median of {rounds} tokenizers;");
    println!("warm: the median of the third to the fifth pass; all libraries take turns. All return ids; \"spans\" is");
    println!("rolecall with the bytes that each token covers. tokenizers encodes each eighth document of 400 bytes");
    println!("and 8 KB, and one of 1 MB in eight.");
    println!("\nloading, ms\n");
    print!("{:<16}", "tokenizer");
    columns.iter().for_each(|library| print!(" {:>12}", library.name()));
    println!();
    for (name, libraries, load) in loads {
        print!("{name:<16}");
        for library in &columns {
            let at = libraries.iter().position(|known| known == library);
            print!(" {:>12}", show(at.and_then(|at| median(load[at].clone())).map(|seconds| seconds * 1e3)));
        }
        println!();
    }
    println!("\nfrom files that the system has in memory; tiktoken-rs and bpe-openai from a file of ranks; medians");
}

/// Measures all libraries with one tokenizer, in turn.
fn time(model: &crate::model::Model, libraries: &[Library], documents: &[&str], loads: usize) -> Vec<Times> {
    let mut times = vec![Times::default(); libraries.len()];
    for load in 0..loads {
        let mut encoders: Vec<Box<dyn Encoder>> = Vec::new();
        for (library, times) in libraries.iter().zip(&mut times) {
            let start = Instant::now();
            encoders.push(library.load(model).expect("it was loaded before"));
            times.load.push(start.elapsed().as_secs_f64());
        }
        for pass in 0..if load == 0 { PASSES } else { 1 } {
            for ((encoder, library), times) in encoders.iter_mut().zip(libraries).zip(&mut times) {
                let speed = encode(&mut **encoder, documents, library.share());
                match pass {
                    0 => times.cold.push(speed),
                    1 => {}
                    _ => times.warm.push(speed),
                }
            }
        }
    }
    times
}

/// Encodes a share of the documents, and returns the speed in MB/s.
fn encode(encoder: &mut dyn Encoder, documents: &[&str], share: usize) -> f64 {
    let start = Instant::now();
    let mut bytes = 0;
    for document in documents.iter().step_by(share) {
        black_box(encoder.encode(black_box(document)));
        bytes += document.len();
    }
    bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
}

impl Times {
    fn cold(&self) -> Option<f64> {
        median(self.cold.clone())
    }

    fn warm(&self) -> Option<f64> {
        median(self.warm.clone())
    }
}
