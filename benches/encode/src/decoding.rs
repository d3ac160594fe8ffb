//! The speed of decoding rolecall's ids of the corpus.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::documents::cut;
use crate::peers::{Encoder, Library};
use crate::{Subject, columns, median, show};

const ROUNDS: usize = 3;

pub fn measure(subjects: &[Subject<'_>], text: &str) {
    let columns = columns(subjects);
    println!("\ndecoding documents of 8 KB, MB/s of text, and rolecall's speed relative to the peer's\n");
    print!("{:<16} {:>9}", "tokenizer", "rolecall");
    columns.iter().skip(1).for_each(|library| print!(" {:>12} {:>6}", library.name(), "×"));
    println!("  documents that are not the text");
    let documents = cut(text, 8 << 10);
    for (model, libraries) in subjects {
        let encoders: Vec<Box<dyn Encoder>> =
            libraries.iter().map(|library| library.load(model).expect("it was loaded before")).collect();
        let Ok(mut ours) = Library::Rolecall.load(model) else { continue };
        let ids: Vec<Vec<u32>> = documents.iter().map(|document| ours.ids(document).unwrap_or_default()).collect();
        let mut speeds = vec![Vec::new(); encoders.len()];
        let mut wrong = vec![0; encoders.len()];
        for round in 0..=ROUNDS {
            for (at, encoder) in encoders.iter().enumerate() {
                if round == 0 {
                    wrong[at] = differences(&**encoder, &documents, &ids);
                } else {
                    speeds[at].push(decode(&**encoder, &documents, &ids));
                }
            }
        }
        let of = |library: &Library| {
            libraries.iter().position(|known| known == library).and_then(|at| median(speeds[at].clone()))
        };
        let ours = of(&Library::Rolecall);
        print!("{:<16} {:>9}", model.name, show(ours));
        for library in columns.iter().skip(1) {
            let theirs = of(library);
            let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
            print!(" {:>12} {:>6}", show(theirs), ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        let wrong = libraries.iter().zip(wrong).filter(|(_, wrong)| *wrong > 0);
        let wrong: Vec<String> = wrong.map(|(library, wrong)| format!("{} {wrong}", library.name())).collect();
        println!("  {}", if wrong.is_empty() { "none".to_owned() } else { wrong.join(", ") });
    }
    println!("\nmedians of {ROUNDS} rounds, in which all take turns, after one that compares the texts");
}

/// Returns the number of documents that are not what was encoded.
fn differences(encoder: &dyn Encoder, documents: &[&str], ids: &[Vec<u32>]) -> usize {
    let equal = |(document, ids): (&&str, &Vec<u32>)| {
        let decoded = catch_unwind(AssertUnwindSafe(|| encoder.decode(ids)));
        decoded.is_ok_and(|decoded| decoded.is_ok_and(|bytes| bytes == document.as_bytes()))
    };
    documents.iter().zip(ids).filter(|pair| !equal(*pair)).count()
}

fn decode(encoder: &dyn Encoder, documents: &[&str], ids: &[Vec<u32>]) -> f64 {
    let start = Instant::now();
    for ids in ids {
        drop(black_box(encoder.decode(black_box(ids))));
    }
    documents.iter().map(|document| document.len()).sum::<usize>() as f64 / 1e6 / start.elapsed().as_secs_f64()
}
