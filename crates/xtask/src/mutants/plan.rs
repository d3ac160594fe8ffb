use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Options;
use super::site::{Site, sites};

/// The mutations of a run, in the order in which they are tried.
pub struct MutationPlan {
    pub sites: Vec<Site>,
    /// The original text of the files with mutations.
    pub sources: BTreeMap<String, String>,
}

impl MutationPlan {
    pub fn site(&self, id: u32) -> (&Site, &str) {
        let site = &self.sites[id as usize];
        (site, self.sources.get(&site.file).map_or("", String::as_str))
    }

    /// Writes the chosen mutations and the sources that they apply to.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let mut text = format!("digest\t{:016x}\n", digest(&self.sources));
        for (id, site) in self.sites.iter().enumerate() {
            let told = site.told(self.site(id as u32).1);
            text.push_str(&format!("{id}\t{}\t{}\t{}\t{told}\n", site.file, site.line, site.column));
        }
        let path = folder.join("plan");
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let originals = folder.join("originals");
        for (file, source) in &self.sources {
            write_file(&originals.join(file), source)?;
        }
        Ok(())
    }

    /// Reads a plan and the sources for which it was made.
    pub fn read(folder: &Path) -> Result<MutationPlan, String> {
        let path = folder.join("plan");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (mut sources, mut known) = (BTreeMap::new(), BTreeMap::new());
        let mut chosen = Vec::new();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.splitn(5, '\t').collect();
            let [_, file, line, column, told] = fields[..] else { return Err(format!("not a plan: {line:?}")) };
            if !sources.contains_key(file) {
                let path = folder.join("originals").join(file);
                let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                known.insert(file.to_owned(), sites(file, &source)?);
                sources.insert(file.to_owned(), source);
            }
            let place = (line.to_owned(), column.to_owned(), told.to_owned());
            let of_file = &known[file];
            let site = of_file
                .iter()
                .find(|site| (site.line.to_string(), site.column.to_string(), site.told(&sources[file])) == place)
                .ok_or_else(|| format!("{file}:{line}: the source differs from the one that the plan was made for"))?;
            chosen.push(site.clone());
        }
        Ok(MutationPlan { sites: chosen, sources })
    }

    /// Reports whether the files of this plan are unchanged in the workspace.
    pub fn is_fresh(&self, root: &Path) -> bool {
        self.sources.iter().all(|(file, source)| fs::read_to_string(root.join(file)).is_ok_and(|now| now == *source))
    }
}

/// All mutations of the crates in random order, with the number wanted from each crate.
pub struct MutationDraw {
    pub by_crate: Vec<(usize, Vec<Site>)>,
    pub sources: BTreeMap<String, String>,
}

/// Finds every site and shuffles them with the seed. The share of each crate is proportional to its
/// lines.
pub fn draw(root: &Path, options: &Options) -> Result<MutationDraw, String> {
    let (mut by_crate, mut sources) = (Vec::new(), BTreeMap::new());
    let mut lines = Vec::new();
    for (number, name) in options.crates.iter().enumerate() {
        let mut paths = BTreeSet::new();
        rust_files(&root.join("crates").join(name).join("src"), &mut paths)?;
        paths.retain(|path| !is_for_tests(path.strip_prefix(root).unwrap_or(path)));
        let (mut all, mut count) = (Vec::new(), 0);
        for path in paths {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            count += source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count();
            all.extend(sites(&file, &source)?);
            sources.insert(file, source);
        }
        let mut random = Random(options.seed.wrapping_add(number as u64 * 0x1_0000_0000));
        random.shuffle(&mut all);
        by_crate.push(all);
        lines.push(count);
    }
    let total: usize = lines.iter().sum();
    // Round the cumulative shares, so that they add up.
    let (mut before, mut given, mut wanted) = (0, 0, Vec::new());
    for count in lines {
        before += count;
        let until = (options.count * before + total / 2) / total.max(1);
        wanted.push(until - given);
        given = until;
    }
    Ok(MutationDraw { by_crate: wanted.into_iter().zip(by_crate).collect(), sources })
}

/// Collects all Rust files below a folder.
pub fn rust_files(folder: &Path, paths: &mut BTreeSet<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        match path.is_dir() {
            true => rust_files(&path, paths)?,
            false if path.extension().is_some_and(|ending| ending == "rs") => {
                paths.insert(path);
            }
            false => {}
        }
    }
    Ok(())
}

/// Reports whether a path is `tests.rs` or in a folder `tests`.
fn is_for_tests(path: &Path) -> bool {
    path.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

pub fn write_file(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the FNV-1a hash of names and texts.
fn digest(sources: &BTreeMap<String, String>) -> u64 {
    let bytes = sources.iter().flat_map(|(file, source)| file.bytes().chain(source.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = (self.next() % (end as u64 + 1)) as usize;
            items.swap(end, other);
        }
    }
}
