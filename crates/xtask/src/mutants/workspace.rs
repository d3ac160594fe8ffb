use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::plan::MutationPlan;

/// The compiled copy of the workspace.
pub struct Workspace {
    pub plan: MutationPlan,
    pub tree: PathBuf,
    /// All tests that pass without a mutation, quickest first.
    pub tests: Vec<Test>,
}

/// A test that can run alone.
#[derive(Clone, Debug)]
pub struct Test {
    pub binary: PathBuf,
    pub name: String,
    /// The running time without a mutation.
    pub took: Duration,
    /// The mutations whose sites the test reaches.
    pub reached: BTreeSet<u32>,
}
