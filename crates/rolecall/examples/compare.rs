//! Prints for each conversation how the prompts of two models differ: `compare MODEL MODEL`, such
//! as `compare qwen1.5 qwen2.5`.

use rolecall::Model;
use rolecall::diff::{Telling, compare_models};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let open = |at| Model::open(std::env::args().nth(at).unwrap_or_else(|| ["qwen1.5", "qwen2.5"][at - 1].into()));
    let comparison = compare_models([&open(1)?, &open(2)?], &Telling::of_templates())?;
    for (case, _, outcome) in comparison.findings() {
        println!("{:<30} {}", case.telling.name, outcome.name());
    }
    Ok(())
}
