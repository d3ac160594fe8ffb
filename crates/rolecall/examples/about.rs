//! Prints what is known about a model, with the evidence: `about path/to/model`.

use rolecall::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "internlm2".into()))?;
    for choice in model.evidence() {
        println!("{choice}");
    }
    for warning in model.warnings() {
        println!("warning: {warning}");
    }
    println!("bos {:?}, eos {:?}", model.bos(), model.eos());
    println!("sampling {:?}", model.sampling());
    Ok(())
}
