//! The imports between the modules of a crate: a circle of them has at most two files, which are one thought.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The crates with larger circles, of at most so many files. None may grow, and no crate may be added. The one that
/// is here is an interpreter: a value charges the rendering for what it does, the rendering holds values, and a value's
/// attributes are builtins.
const LARGER: [(&str, usize); 1] = [("jinja", 28)];

/// The path of a module below the root of its crate.
type Module = Vec<String>;

#[test]
fn circles_of_imports_have_at_most_two_files() {
    let mut found = Vec::new();
    for entry in fs::read_dir(rolecall_testkit::root().join("crates")).unwrap().filter_map(Result::ok) {
        let name = entry.file_name().into_string().unwrap();
        if ["testkit", "xtask"].contains(&name.as_str()) {
            continue;
        }
        let mut texts = BTreeMap::new();
        read_modules(&entry.path().join("src"), &[], &mut texts);
        let most = LARGER.iter().find(|(larger, _)| *larger == name).map_or(2, |(_, most)| *most);
        let circles = circles(&imports_of_all(&texts));
        let larger = circles.iter().filter(|circle| circle.len() > most);
        found.extend(larger.map(|circle| format!("{name}: {} files, {circle:?}", circle.len())));
        if most > 2 && circles.iter().all(|circle| circle.len() < most) {
            found.push(format!("{name}: its largest circle is smaller now, so LARGER must say so"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(vec![(*from).to_owned()]).or_default().insert(vec![(*to).to_owned()]);
        }
        circles(&graph).into_iter().map(|circle| circle.concat().concat()).collect::<Vec<_>>()
    };
    assert_eq!(graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]), ["abc", "de"]);
    assert!(graph(&[("a", "b"), ("a", "c"), ("b", "c")]).is_empty());
    let texts = [("", ""), ("a", "use super::b::{C, d::{E, F}};\nuse crate::g::H;"), ("b", ""), ("g", "")];
    let texts = texts.map(|(name, text)| {
        (name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(), text.to_owned())
    });
    let found = imports_of_all(&texts.into());
    let names = |module: &Module| module.join("/");
    assert_eq!(found[&vec!["a".to_owned()]].iter().map(names).collect::<Vec<_>>(), ["b", "g"]);
}

/// Reads the code of each module in a folder, without its tests.
fn read_modules(folder: &Path, above: &[String], texts: &mut BTreeMap<Module, String>) {
    for path in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut module = above.to_vec();
        if path.is_dir() {
            module.push(stem);
            read_modules(&path, &module, texts);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            if !["mod", "lib", "main"].contains(&stem.as_str()) {
                module.push(stem);
            }
            let text = fs::read_to_string(&path).unwrap();
            texts.insert(module, text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned());
        }
    }
}

/// Returns the modules that each module imports from.
fn imports_of_all(texts: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, text): (&Module, &String)| {
        let paths = text.split('\n').zip(offsets(text)).filter_map(|(line, at)| {
            let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub(super) "));
            let line = rest.or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
            let start = at + text[at..].find(line.strip_prefix("use ").map(|_| line)?)?;
            Some(text[start + "use ".len()..].split(';').next()?.split_whitespace().collect::<String>())
        });
        let imported = paths.flat_map(|path| each_path(&path)).filter_map(|path| resolve(module, &path, texts));
        (module.clone(), imported.filter(|other| other != module).collect())
    };
    texts.iter().map(of).collect()
}

/// Returns where each line begins.
fn offsets(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

/// Returns the paths that an import with braces stands for.
fn each_path(path: &str) -> Vec<String> {
    let Some((before, inner)) = path.split_once('{') else { return vec![path.to_owned()] };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let mut depth = 0;
    let is_border = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    inner.split(is_border).flat_map(|part| each_path(&format!("{before}{part}"))).collect()
}

/// Returns the module that a path leads to, if it is one of this crate.
fn resolve(from: &Module, path: &str, texts: &BTreeMap<Module, String>) -> Option<Module> {
    let mut steps = path.split("::").peekable();
    let mut module = match *steps.peek()? {
        "crate" => Vec::new(),
        "super" | "self" => from.clone(),
        _ => return None,
    };
    for step in steps {
        match step {
            "crate" | "self" => {}
            "super" => _ = module.pop(),
            step => module.push(step.to_owned()),
        }
    }
    (0..=module.len()).rev().map(|end| module[..end].to_vec()).find(|module| texts.contains_key(module))
}

/// Returns the sets of modules that all reach one another, if they are more than one.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let new = imports.get(module).into_iter().flatten().filter(|module| reached.insert((*module).clone()));
            open.extend(new);
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = imports.keys().map(|module| (module, reached(module))).collect();
    let mut circles: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, others) in &reached {
        let both = others.iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(*module)));
        let circle: Vec<Module> = both.cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}
