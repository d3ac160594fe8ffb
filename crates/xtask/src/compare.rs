//! Compares the benchmarks of two commits, in runs that alternate between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
Compare the speed of two commits.

    cargo xtask compare BASE [OPTION ..]

    --with COMMIT    the commit to compare with BASE [default: HEAD]
    --bench NAME     the benchmark to run: render, jinja, pipeline, tokenizer, training, sessions, growth or
                     growth_templates [default: render]
    --rounds N       how often each commit runs it, taking turns [default: 5]
    --most PERCENT   the slowdown that is reported as a loss [default: 5]

Both commits are checked out and built below target/compare. For every row of the benchmark's
tables, each run gives the ratio of rolecall to the benchmark's peer, which a slow moment of the
machine changes little. A benchmark without a peer of its own is compared by its times, so the machine must
be quiet. The medians are compared. The exit code is 1 if any row lost more than --most.
";

/// A benchmark, the column of its tables that is compared, and the column that it is compared with.
#[derive(Clone, Copy)]
struct Bench {
    name: &'static str,
    ours: &'static str,
    /// Without a peer, its times are compared.
    peer: Option<&'static str>,
    /// Whether the columns are rates, so that higher is better.
    is_rate: bool,
}

const BENCHES: [Bench; 8] = [
    Bench { name: "render", ours: "rolecall", peer: Some("minijinja"), is_rate: false },
    Bench { name: "jinja", ours: "rolecall", peer: Some("minijinja"), is_rate: false },
    Bench { name: "pipeline", ours: "rolecall", peer: Some("peer"), is_rate: false },
    Bench { name: "tokenizer", ours: "rolecall", peer: Some("encode"), is_rate: true },
    Bench { name: "training", ours: "rolecall", peer: None, is_rate: false },
    Bench { name: "sessions", ours: "both", peer: None, is_rate: false },
    Bench { name: "growth", ours: "200", peer: None, is_rate: false },
    Bench { name: "growth_templates", ours: "200", peer: None, is_rate: false },
];

/// The rows of a benchmark's tables, each with its speed relative to the peer in each run.
type Rows = BTreeMap<String, Vec<f64>>;

struct CompareOptions {
    base: String,
    with: String,
    bench: Bench,
    rounds: usize,
    most: f64,
}

/// Builds and runs both commits, and prints the ratio of each row.
pub fn run(arguments: &[String]) -> Result<ExitCode, String> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") || arguments.is_empty() {
        print!("{HELP}");
        return Ok(if arguments.is_empty() { ExitCode::from(2) } else { ExitCode::SUCCESS });
    }
    let options = CompareOptions::parse(arguments)?;
    let commits = [&options.base, &options.with].map(|commit| checkout(commit));
    let [base, with] = commits;
    let folders = [base?, with?];
    for folder in &folders {
        bench(folder, options.bench.name, true)?;
    }
    let mut found = [Rows::new(), Rows::new()];
    for round in 1..=options.rounds {
        for (folder, found) in folders.iter().zip(&mut found) {
            eprintln!("round {round} of {}: {}", options.rounds, folder.display());
            for (row, ratio) in rows(&bench(folder, options.bench.name, false)?, options.bench) {
                found.entry(row).or_default().push(ratio);
            }
        }
    }
    Ok(report(&options, found))
}

impl CompareOptions {
    fn parse(arguments: &[String]) -> Result<CompareOptions, String> {
        let mut options =
            CompareOptions { base: String::new(), with: "HEAD".into(), bench: BENCHES[0], rounds: 5, most: 5.0 };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or_else(|| format!("`{argument}` needs a value"));
            let number = |text: String| text.parse::<f64>().map_err(|_| format!("expected a number, found `{text}`"));
            match argument.as_str() {
                "--with" => options.with = value()?,
                "--bench" => {
                    let name = value()?;
                    let found = BENCHES.into_iter().find(|bench| bench.name == name);
                    options.bench = found.ok_or_else(|| format!("there is no benchmark `{name}` to compare"))?;
                }
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
    // Some benchmarks need the tokenizers in the folder next to the project.
    let (shared, beside) = (crate::root().with_file_name("shared"), folder.with_file_name("shared"));
    if let (Ok(shared), false) = (shared.canonicalize(), beside.exists()) {
        std::os::unix::fs::symlink(shared, beside).map_err(|error| error.to_string())?;
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

/// Returns the rows of all tables that have the columns, each with its speed relative to the peer.
fn rows(output: &str, bench: Bench) -> Vec<(String, f64)> {
    let mut rows = Vec::new();
    let mut columns = None;
    for line in output.lines() {
        let is_legend = line.contains(" / ") || line.contains(';');
        let peer = bench.peer.map(|peer| end_of(line, peer));
        if let (false, Some(ours), Some(peer)) = (is_legend, end_of(line, bench.ours), peer.unwrap_or(Some(0))) {
            columns = Some((ours, peer));
            continue;
        }
        let Some((ours, peer)) = columns else { continue };
        let peer = if bench.peer.is_some() { value_before(line, peer) } else { Some(1.0) };
        let (Some(ours), Some(peer)) = (value_before(line, ours), peer) else { continue };
        // What is measured: the words and whole numbers before the first time.
        let is_time = |field: &&str| field.contains('.') && field.parse::<f64>().is_ok();
        let name: Vec<&str> = match bench.is_rate {
            true => line.split_whitespace().take(1).collect(),
            false => line.split_whitespace().take_while(|field| !is_time(field)).collect(),
        };
        rows.push((name.join(" "), if bench.is_rate { ours / peer } else { peer / ours }));
    }
    rows
}

/// Returns the column, in characters, where a title of one word ends.
fn end_of(line: &str, title: &str) -> Option<usize> {
    let starts = line.match_indices(title).map(|(at, _)| at);
    let is_word = |at: &usize| {
        let (before, after) = (line[..*at].chars().next_back(), line[at + title.len()..].chars().next());
        before.is_none_or(char::is_whitespace) && after.is_none_or(char::is_whitespace)
    };
    let at = starts.into_iter().find(is_word)?;
    Some(line[..at].chars().count() + title.chars().count())
}

/// Returns the number that ends at a column.
fn value_before(line: &str, end: usize) -> Option<f64> {
    let characters: Vec<char> = line.chars().take(end).collect();
    if characters.len() < end {
        return None;
    }
    let start = characters.iter().rposition(|character| character.is_whitespace()).map_or(0, |at| at + 1);
    characters[start..].iter().collect::<String>().parse().ok()
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn report(options: &CompareOptions, [base, mut with]: [Rows; 2]) -> ExitCode {
    let bench = options.bench;
    let what = match bench.peer {
        Some(peer) => format!("{}: times as fast as `{peer}`", bench.name),
        None => format!("{}: `{}`", bench.name, bench.ours),
    };
    let shown = |speed: f64| if bench.peer.is_some() { speed } else { 1.0 / speed };
    println!("{what:<40} {:>10} {:>10} {:>9}", options.base, options.with, "change");
    let mut lost = 0;
    for (row, mut before) in base {
        let Some(after) = with.get_mut(&row) else { continue };
        let (before, after) = (median(&mut before), median(after));
        let change = (after / before - 1.0) * 100.0;
        let is_lost = change < -options.most;
        lost += usize::from(is_lost);
        let (before, after) = (shown(before), shown(after));
        println!("{row:<40} {before:>10.2} {after:>10.2} {change:>+8.1}%{}", if is_lost { "  LOSS" } else { "" });
    }
    if with.is_empty() {
        eprintln!("the benchmark printed no table: does it need a tokenizer in `shared`, beside the project?");
        return ExitCode::from(2);
    }
    println!("\nmedians of {} rounds; {lost} rows lost more than {} %", options.rounds, options.most);
    if lost > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::{BENCHES, rows};

    #[test]
    fn the_value_of_a_row_ends_where_the_title_of_its_column_does() {
        let output = "format     messages  minijinja its value  rolecall      copy\n\
                      chatml            3       2.20      1.22      0.50      0.03\n\
                      chatml          200     120.00     99.11     12.00      1.99\n\n\
                      medians; x faster: minijinja / rolecall\n";
        assert_eq!(rows(output, BENCHES[0]), [("chatml 3".to_owned(), 4.4), ("chatml 200".to_owned(), 10.0)]);
    }

    #[test]
    fn without_a_peer_times_are_compared() {
        let output = "messages     ids      both     whole  × whole\n\
                      \x20      2      31      4.00     10.40      0.7\n\n\
                      times in µs; both: both in a session that goes on\n";
        let bench = BENCHES.into_iter().find(|bench| bench.name == "sessions").expect("it is there");
        assert_eq!(rows(output, bench), [("2 31".to_owned(), 0.25)]);
    }

    #[test]
    fn more_is_better_in_a_rate() {
        let output = "MB/s        rolecall    encode  encode_fast\n\
                      some/file       30.0      10.0         20.0\n\
                      other/one       30.0         -            -\n";
        assert_eq!(rows(output, BENCHES[3]), [("some/file".to_owned(), 3.0)]);
    }
}
