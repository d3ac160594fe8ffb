//! Prints the dangers of a model's tokenizer: `audit path/to/model`.

use rolecall::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model =
        Model::open(std::env::args().nth(1).ok_or("expected a model's folder or GGUF file as the first argument")?)?;
    for finding in model.audit()?.findings {
        println!("{}: {}", finding.kind.code(), finding.message);
        println!("    {}", finding.kind.help());
    }
    Ok(())
}
