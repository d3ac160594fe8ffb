//! The options of the command line.

use std::path::PathBuf;

use crate::peers::Library;

const USAGE: &str =
    "usage: [--only NAME,..] [--peers NAME,..] [--sizes BYTES,..] [--measures NAME,..] [--quick] [FOLDER]
--only      tokenizers, by the names of their folders, and `kimi-like`
--peers     rolecall is always measured; others: fastokens, tokenizers, tiktoken-rs, kitoken, bpe-openai,
            and for speed spans, which is rolecall with the span of each token
--sizes     of documents, in bytes; the default is 400,8192,1048576
--measures  the default is speed,decoding,memory,long,hostile
--quick     2 MB of the corpus, and one loading of each tokenizer";

/// What is measured.
#[derive(Clone, Copy)]
pub enum Measure {
    Speed,
    Decoding,
    Memory,
    Long,
    Hostile,
}

const MEASURES: [(&str, Measure); 5] = [
    ("speed", Measure::Speed),
    ("decoding", Measure::Decoding),
    ("memory", Measure::Memory),
    ("long", Measure::Long),
    ("hostile", Measure::Hostile),
];

pub struct Options {
    pub folder: PathBuf,
    /// Names of tokenizers; all if it is empty.
    only: Vec<String>,
    pub libraries: Vec<Library>,
    pub sizes: Vec<usize>,
    pub measures: Vec<Measure>,
    pub quick: bool,
}

impl Options {
    pub fn read(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            folder: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/tokenizers")),
            only: Vec::new(),
            libraries: Library::ALL.to_vec(),
            sizes: vec![400, 8 << 10, 1 << 20],
            measures: MEASURES.iter().map(|(_, measure)| *measure).collect(),
            quick: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut list = || arguments.next().map(|list| list.split(',')).ok_or(USAGE);
            match &**argument {
                "--only" => options.only = list()?.map(str::to_owned).collect(),
                "--peers" => {
                    let peers: Option<Vec<Library>> = list()?.map(Library::named).collect();
                    options.libraries = peers.ok_or(USAGE)?;
                    options.libraries.retain(|library| *library != Library::Rolecall);
                    options.libraries.insert(0, Library::Rolecall);
                }
                "--sizes" => {
                    let sizes: Result<Vec<usize>, _> = list()?.map(str::parse).collect();
                    options.sizes = sizes.map_err(|_| USAGE)?;
                }
                "--measures" => {
                    let named = |name| MEASURES.iter().find(|(known, _)| *known == name);
                    let measures: Option<Vec<_>> = list()?.map(named).collect();
                    options.measures = measures.ok_or(USAGE)?.iter().map(|(_, measure)| *measure).collect();
                }
                "--quick" => options.quick = true,
                flag if flag.starts_with('-') => return Err(USAGE.to_owned()),
                folder => options.folder = PathBuf::from(folder),
            }
        }
        Ok(options)
    }

    /// Reports whether a tokenizer is to be measured.
    pub fn covers(&self, model: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == model)
    }
}
