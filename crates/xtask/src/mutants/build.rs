use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Options;
use super::instrument::{InstrumentedSource, instrument};
use super::plan::{MutationDraw, MutationPlan, Random, draw, rust_files, write_file};
use super::site::Site;
use super::trial::trace;
use super::workspace::{Test, Workspace};

/// The module added to every mutated crate. It asks the environment once which mutation is on.
const SWITCH: &str = r#"
#[allow(missing_docs, dead_code)]
mod mutant_switch {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Switch {
        on: u32,
        trace: Option<std::path::PathBuf>,
    }

    static SWITCH: OnceLock<Switch> = OnceLock::new();
    static SEEN: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

    #[inline]
    pub(crate) fn is_on(id: u32) -> bool {
        let switch = SWITCH.get_or_init(|| Switch {
            on: std::env::var("ROLECALL_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(u32::MAX),
            trace: std::env::var_os("ROLECALL_MUTANT_TRACE").map(Into::into),
        });
        if switch.trace.is_some() {
            seen(switch, id);
        }
        switch.on == id
    }

    #[cold]
    fn seen(switch: &Switch, id: u32) {
        if let Some(path) = &switch.trace
            && !SEEN[id as usize].swap(true, Ordering::Relaxed)
            && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
        {
            let _ = std::io::Write::write_all(&mut file, format!("{id}\n").as_bytes());
        }
    }
}
"#;

/// Creates or reuses the copy, compiles it and runs all tests once.
pub fn prepare(options: &Options) -> Result<Workspace, String> {
    let (root, folder) = (crate::root(), options.folder());
    let tree = folder.join("tree");
    let kept =
        MutationPlan::read(&folder).ok().filter(|plan| plan.is_fresh(&root) && plan.sites.len() == options.count);
    let may_resume = folder.join("ready").exists() && !options.keep_plan;
    if let Some(plan) = kept {
        if may_resume && let Ok(tests) = Test::read_all(&folder) {
            eprintln!("resuming {} ({} tests)", folder.display(), tests.len());
            return Ok(Workspace { plan, tree, tests });
        }
        eprintln!("keeping the bugs and recompiling the tests");
        copy_workspace(&root, &tree, options)?;
        let numbered: Vec<(u32, &Site)> = plan.sites.iter().enumerate().map(|(id, site)| (id as u32, site)).collect();
        write_sources(&root, &tree, options, &plan.sources, &numbered)?;
        let tests = compiled(options, &tree)?;
        return Ok(Workspace { plan, tree, tests });
    }
    for stale in ["ready", "results", "tests", "plan"] {
        let _ = fs::remove_file(folder.join(stale));
    }
    let drawn = draw(&root, options)?;
    copy_workspace(&root, &tree, options)?;
    let sites = those_that_compile(options, &tree, &drawn)?;
    let plan = MutationPlan { sites, sources: drawn.sources };
    plan.write(&folder)?;
    let tests = compiled(options, &tree)?;
    Ok(Workspace { plan, tree, tests })
}

/// Compiles the tests and runs each once.
fn compiled(options: &Options, tree: &Path) -> Result<Vec<Test>, String> {
    let folder = options.folder();
    let _ = fs::remove_file(folder.join("ready"));
    let binaries = compile_tests(tree)?;
    let tests = trace(&folder, tree, &binaries, options.jobs)?;
    Test::write_all(&tests, &folder)?;
    fs::write(folder.join("ready"), "").map_err(|error| error.to_string())?;
    Ok(tests)
}

/// Copies the files that git tracks or would add. The sources of the mutated crates are written
/// later, so that unchanged files are not compiled again.
fn copy_workspace(root: &Path, tree: &Path, options: &Options) -> Result<(), String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        files.insert(to.clone());
        if let Ok(target) = fs::read_link(&from) {
            if fs::read_link(&to).is_ok_and(|known| known == target) {
                continue;
            }
            to.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| std::os::unix::fs::symlink(target, &to))
                .map_err(|error| format!("{}: {error}", to.display()))?;
            continue;
        }
        let is_mutated = |of: &String| name.starts_with(&format!("crates/{of}/src/")) && name.ends_with(".rs");
        if options.crates.iter().any(is_mutated) && to.exists() {
            continue;
        }
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|known| known == bytes) {
            continue;
        }
        to.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&to, bytes))
            .map_err(|error| format!("{}: {error}", to.display()))?;
    }
    remove_others(tree, &files)
}

/// Removes files of an earlier copy that no longer exist.
fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, files)?;
        } else if !files.contains(&path) {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Draws until every mutation compiles. A mutation that does not compile is replaced with the next
/// one of the same crate.
fn those_that_compile(options: &Options, tree: &Path, drawn: &MutationDraw) -> Result<Vec<Site>, String> {
    let mut refused: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); drawn.by_crate.len()];
    for round in 1..=40 {
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for (crate_number, (wanted, sites)) in drawn.by_crate.iter().enumerate() {
            let good = (0..sites.len()).filter(|number| !refused[crate_number].contains(number));
            chosen.extend(good.take(*wanted).map(|number| (crate_number, number)));
        }
        // Shuffling mixes the crates, so that a part of a run is a sample of all.
        Random(options.seed).shuffle(&mut chosen);
        let sites: Vec<&Site> = chosen.iter().map(|(of, number)| &drawn.by_crate[*of].1[*number]).collect();
        let numbered: Vec<(u32, &Site)> = sites.iter().enumerate().map(|(id, site)| (id as u32, *site)).collect();
        let written = write_sources(&crate::root(), tree, options, &drawn.sources, &numbered)?;
        let errors = check(options, tree)?;
        let refuted: usize = refused.iter().map(BTreeSet::len).sum();
        eprintln!("round {round}: {} bugs, {refuted} left out, {} errors", sites.len(), errors.len());
        if errors.is_empty() {
            return Ok(sites.into_iter().cloned().collect());
        }
        for (file, line, column) in &errors {
            let Some(instrumented) = written.get(file) else {
                return Err(format!("{file}:{line}: error outside the mutated sources"));
            };
            let at = offset(&instrumented.text, *line, *column);
            let covers = instrumented.written.iter().filter(|(_, range)| range.contains(&at));
            let nearest = || instrumented.written.iter().min_by_key(|(_, range)| range.start.abs_diff(at));
            let Some((id, _)) = covers.min_by_key(|(_, range)| range.len()).or_else(nearest) else {
                return Err(format!("{file}:{line}: error in a file without mutations"));
            };
            let (of, number) = chosen[*id as usize];
            refused[of].insert(number);
        }
    }
    Err("found no set of mutations that compiles".to_owned())
}

/// Writes the sources of the crates with their mutations. Returns the instrumented files.
fn write_sources(
    root: &Path,
    tree: &Path,
    options: &Options,
    sources: &BTreeMap<String, String>,
    numbered: &[(u32, &Site)],
) -> Result<BTreeMap<String, InstrumentedSource>, String> {
    let switch = SWITCH.replace("MOST", &options.count.to_string());
    let libraries: BTreeSet<String> = options.crates.iter().map(|name| format!("crates/{name}/src/lib.rs")).collect();
    let mut written = BTreeMap::new();
    for (file, source) in sources {
        let own = numbered.iter().filter(|(_, site)| site.file == *file).copied().collect();
        let mut instrumented = instrument(source, own);
        if libraries.contains(file) {
            instrumented.text.push_str(&switch);
        }
        write_file(&tree.join(file), &instrumented.text)?;
        written.insert(file.clone(), instrumented);
    }
    // A reused plan only has the files with mutations.
    let mut others = BTreeSet::new();
    for name in &options.crates {
        rust_files(&root.join("crates").join(name).join("src"), &mut others)?;
    }
    for path in others {
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if !written.contains_key(&file) {
            let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let end = if libraries.contains(&file) { switch.as_str() } else { "" };
            write_file(&tree.join(file), &(source + end))?;
        }
    }
    Ok(written)
}

/// Returns the byte offset of a line and column, both counted from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let inner = text[before..].char_indices().nth(column - 1).map_or(0, |(at, _)| at);
    before + inner
}

/// Returns cargo for the copy, with build output kept from run to run.
fn cargo(tree: &Path) -> Command {
    let mut cargo = crate::cargo();
    cargo
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", crate::root().join("target/mutants/build"))
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env_remove("RUSTFLAGS")
        .env_remove("UPDATE");
    cargo
}

/// Returns the positions of errors in the sources of the crates.
fn check(options: &Options, tree: &Path) -> Result<Vec<(String, usize, usize)>, String> {
    let mut cargo = cargo(tree);
    cargo.args(["check", "--keep-going", "--message-format=short", "--color=never"]);
    for name in &options.crates {
        // The facade has the project's name alone.
        let package = if name == "rolecall" { name.clone() } else { format!("rolecall-{name}") };
        cargo.arg("--package").arg(package);
    }
    let output = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut errors = Vec::new();
    for line in text.lines() {
        // crates/parse/src/parser.rs:12:34: error[E0308]: mismatched types
        let mut fields = line.splitn(4, ':');
        let (Some(file), Some(line), Some(column), Some(rest)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if let (Ok(line), Ok(column)) = (line.parse(), column.parse())
            && rest.trim_start().starts_with("error")
        {
            errors.push((file.to_owned(), line, column));
        }
    }
    if errors.is_empty() && !output.status.success() {
        return Err(format!("the copy does not compile:\n{text}"));
    }
    Ok(errors)
}

/// Compiles all tests of the copy.
fn compile_tests(tree: &Path) -> Result<Vec<PathBuf>, String> {
    eprintln!("compiling the tests");
    let output = cargo(tree)
        .args([
            "test",
            "--workspace",
            "--exclude",
            "xtask",
            "--no-run",
            "--locked",
            "--color=never",
            "--message-format=short",
        ])
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let errors: Vec<&str> = text.lines().filter(|line| line.contains("error")).collect();
        return Err(format!("the tests of the copy do not compile:\n{}", errors.join("\n")));
    }
    let mut binaries = Vec::new();
    for line in text.lines() {
        //   Executable tests/laws.rs (/../target/mutants/build/debug/deps/laws-0123456789abcdef)
        let Some((_, path)) = line.trim_start().strip_prefix("Executable").and_then(|rest| rest.rsplit_once('('))
        else {
            continue;
        };
        let path = PathBuf::from(path.trim_end_matches(')'));
        let path = if path.is_relative() { tree.join(path) } else { path };
        binaries.push(path);
    }
    if binaries.is_empty() {
        return Err(format!("cargo reports no tests:\n{text}"));
    }
    Ok(binaries)
}
