//! The formats of a batch's output.

use std::path::Path;

use clap::ValueEnum;

/// The format that rows are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowKind {
    Jsonl,
    Arrow,
    Parquet,
}

impl RowKind {
    /// Returns the format that a file name asks for.
    pub fn of_path(path: &Path) -> Option<RowKind> {
        match path.extension()?.to_str()? {
            "jsonl" | "ndjson" | "json" => Some(RowKind::Jsonl),
            "arrow" | "arrows" => Some(RowKind::Arrow),
            "parquet" => Some(RowKind::Parquet),
            _ => None,
        }
    }
}
