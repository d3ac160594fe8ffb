//! Compares the benchmarks of two commits, in runs that alternate between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
Compare the speed of two commits.

    cargo xtask compare BASE [OPTION ..]

    --with COMMIT    the commit to compare with BASE [default: HEAD]
    --bench NAME     the benchmark to run: render, jinja, pipeline or tokenizer [default: render]
    --rounds N       how often each commit runs it, taking turns [default: 5]
    --most PERCENT   the slowdown that is reported as a loss [default: 5]

Both commits are checked out and built below target/compare. Every row of the benchmark's tables is
compared by the best time of its column `rolecall`. The exit code is 1 if any row lost more than --most.
";

/// The column of a benchmark's tables that is compared.
const COLUMN: &str = "rolecall";

/// The rows of a benchmark's tables, each with the value of the compared column.
type Rows = BTreeMap<String, f64>;

struct Options {
    base: String,
    with: String,
    bench: String,
    rounds: usize,
    most: f64,
}

/// Builds and runs both commits, and prints the ratio of each row.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") || arguments.is_empty() {
        print!("{HELP}");
        return Ok(if arguments.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS });
    }
    let options = Options::parse(arguments)?;
    let commits = [&options.base, &options.with].map(|commit| checkout(commit));
    let [base, with] = commits;
    let folders = [base?, with?];
    for folder in &folders {
        bench(folder, &options.bench, true)?;
    }
    let mut best = [Rows::new(), Rows::new()];
    for round in 1..=options.rounds {
        for (folder, best) in folders.iter().zip(&mut best) {
            eprintln!("round {round} of {}: {}", options.rounds, folder.display());
            for (row, value) in rows(&bench(folder, &options.bench, false)?) {
                let known = best.entry(row).or_insert(value);
                *known = known.min(value);
            }
        }
    }
    Ok(report(&options, &best))
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options =
            Options { base: String::new(), with: "HEAD".into(), bench: "render".into(), rounds: 5, most: 5.0 };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or_else(|| format!("`{argument}` needs a value"));
            let number = |text: String| text.parse::<f64>().map_err(|_| format!("expected a number, found `{text}`"));
            match argument.as_str() {
                "--with" => options.with = value()?,
                "--bench" => options.bench = value()?,
                "--rounds" => options.rounds = number(value()?)?.max(1.0) as usize,
                "--most" => options.most = number(value()?)?,
                commit if !commit.starts_with('-') && options.base.is_empty() => options.base = commit.to_owned(),
                other => return Err(format!("unknown argument `{other}`; `cargo xtask compare --help` lists them")),
            }
        }
        match options.base.is_empty() {
            true => Err("expected the commit to compare with; `cargo xtask compare --help` shows how".into()),
            false => Ok(options),
        }
    }
}

/// Checks a commit out into a folder of its own, which later runs use again.
fn checkout(commit: &str) -> Result<PathBuf, String> {
    let hash = git(&["rev-parse", "--short=12", &format!("{commit}^{{commit}}")])?;
    let folder = crate::root().join("target/compare").join(&hash);
    if !folder.is_dir() {
        fs::create_dir_all(crate::root().join("target/compare")).map_err(|error| error.to_string())?;
        git(&["clone", "--quiet", "--no-checkout", ".", &folder.display().to_string()])?;
        git(&["-C", &folder.display().to_string(), "checkout", "--quiet", "--detach", &hash])?;
    }
    Ok(folder)
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(crate::root()).output();
    let output = output.map_err(|error| format!("git does not start: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs a benchmark in a checkout and returns what it prints, or only builds it.
fn bench(folder: &Path, name: &str, only_build: bool) -> Result<String, String> {
    let mut command = crate::cargo();
    command.args(["bench", "--locked", "-p", "rolecall-benches", "--bench", name]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).stderr(Stdio::inherit());
    command.args(if only_build { &["--no-run"][..] } else { &["--quiet"] });
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("the benchmark `{name}` fails in {}", folder.display())),
    }
}

/// Returns the rows of all tables that have the compared column. A value ends where the column's
/// title does.
fn rows(output: &str) -> Rows {
    let mut rows = Rows::new();
    let mut column: Option<usize> = None;
    for line in output.lines() {
        let characters: Vec<char> = line.chars().collect();
        if let Some(at) = line.find(COLUMN).filter(|_| !line.contains(" / ") && !line.contains(';')) {
            column = Some(line[..at].chars().count() + COLUMN.len());
            continue;
        }
        let Some(end) = column.filter(|end| *end <= characters.len()) else { continue };
        let start = characters[..end].iter().rposition(|character| character.is_whitespace()).map_or(0, |at| at + 1);
        let value: String = characters[start..end].iter().collect();
        let Ok(value) = value.parse::<f64>() else { continue };
        // What is measured: the words and whole numbers before the first time.
        let is_time = |field: &&str| field.contains('.') && field.parse::<f64>().is_ok();
        let name: Vec<&str> = line.split_whitespace().take_while(|field| !is_time(field)).collect();
        rows.insert(name.join(" "), value);
    }
    rows
}

fn report(options: &Options, [base, with]: &[Rows; 2]) -> ExitCode {
    println!("{:<40} {:>10} {:>10} {:>9}", options.bench, options.base, options.with, "change");
    let mut lost = 0;
    for (row, before) in base {
        let Some(after) = with.get(row) else { continue };
        let change = (after / before - 1.0) * 100.0;
        let is_lost = change > options.most;
        lost += usize::from(is_lost);
        println!("{row:<40} {before:>10.2} {after:>10.2} {change:>+8.1}%{}", if is_lost { "  LOSS" } else { "" });
    }
    println!(
        "\nbest of {} rounds each, in the units of the benchmark; {lost} rows lost more than {} %",
        options.rounds, options.most
    );
    if lost > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn the_value_of_a_row_ends_where_the_title_of_its_column_does() {
        let output = "format     messages  minijinja  rolecall      copy\n\
                      chatml            3       2.22      0.34      0.03\n\
                      chatml          200     143.71     12.03      1.99\n\n\
                      medians; x faster: minijinja / rolecall\n";
        let found = rows(output);
        assert_eq!(found.get("chatml 3"), Some(&0.34));
        assert_eq!(found.len(), 2);
    }
}
