use std::collections::VecDeque;

use crate::interpreter::{Interpreter, Stop};
use crate::{CodeOutput, Error, Execution, Folder, KernelOptions};

/// An interpreter that answers what was recorded, in order, and runs nothing.
///
/// ```
/// use rolecall_interpreter::{Execution, Interpreter, CodeOutput, Recorded, Stop};
/// let result = Execution { outputs: vec![CodeOutput::Result("2".into())], is_new_kernel: false };
/// let mut recorded = Recorded::new([("1 + 1".to_owned(), Ok(result.clone()))])?;
/// assert_eq!(recorded.run("1 + 1", &Stop::default(), &mut |_| {})?, result);
/// assert!(recorded.run("1 + 1", &Stop::default(), &mut |_| {}).is_err());
/// # Ok::<(), rolecall_interpreter::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorded {
    calls: VecDeque<(String, Result<Execution, Error>)>,
    folder: Folder,
}

impl Recorded {
    /// Returns an interpreter that expects these codes, and answers with what became of them.
    pub fn new(calls: impl IntoIterator<Item = (String, Result<Execution, Error>)>) -> Result<Recorded, Error> {
        Ok(Recorded { calls: calls.into_iter().collect(), folder: Folder::new(&KernelOptions::default())? })
    }

    /// Returns how many calls are still expected.
    pub fn remaining(&self) -> usize {
        self.calls.len()
    }
}

impl Interpreter for Recorded {
    fn run(&mut self, code: &str, _stop: &Stop, show: &mut dyn FnMut(&CodeOutput)) -> Result<Execution, Error> {
        if self.calls.front().is_none_or(|(recorded, _)| recorded != code) {
            return Err(Error::NotRecorded(code.to_owned()));
        }
        let Some((_, result)) = self.calls.pop_front() else { return Err(Error::NotRecorded(code.to_owned())) };
        if let Ok(execution) = &result {
            execution.outputs.iter().for_each(show);
        }
        result
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }
}
