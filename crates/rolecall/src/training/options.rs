//! The words in which a caller asks for training samples.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use super::{
    Limit, LossExemption, LossOptions, MissingStop, RowEncoding, RowRecipe, Samples, Truncate, Whose, read_part,
    read_role,
};
use crate::dataset::Shape;
use crate::loss::{Edges, LossPolicy};
use crate::model::Purpose;

/// The options of the Python package, with the names and values of the command's flags.
///
/// ```
/// use rolecall::training::RowOptions;
/// let options = RowOptions { for_training: Some("last".into()), max_tokens: Some(4096), ..RowOptions::default() };
/// assert_eq!(options.recipe()?.encoding.and_then(|encoding| encoding.limit).map(|limit| limit.ids), Some(4096));
/// let wrong = RowOptions { truncate: Some("middle".into()), ..RowOptions::default() };
/// assert_eq!(wrong.recipe().unwrap_err().to_string(), "expected `truncate` to be `right`, `left` or `oldest`, found `middle`");
/// # Ok::<(), rolecall::training::OptionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowOptions {
    /// Whose text carries loss: `assistant`, `last`, `chosen`, `tagged` or `all`. Without it, rows are
    /// prompts and nothing carries loss.
    pub for_training: Option<String>,
    /// The weights of parts of replies: `reasoning=0`.
    pub loss_weight: Vec<String>,
    /// The roles besides the assistant whose text carries loss: `tool`, `tool:turn`, `tool=0.5`.
    pub loss_role: Vec<String>,
    /// Whether a token carries loss if `any` or all (`strict`) of its bytes do.
    pub edges: Option<String>,
    /// What to do if the template writes no stop token after the last reply: `append`, `warn` or
    /// `refuse`.
    pub final_stop: Option<String>,
    /// What to accept that is otherwise an error: `masked-stop`, `no-loss`, `null-word`.
    pub allow: Vec<String>,
    /// The maximum number of ids.
    pub max_tokens: Option<usize>,
    /// How to truncate: `right`, `left` or `oldest`.
    pub truncate: Option<String>,
    /// How to divide a conversation into samples: `whole`, `turns` or `auto`.
    pub samples: Option<String>,
    /// The number of ids of a sequence, if samples are packed.
    pub pack: Option<u32>,
    /// The shape of the rows, by its name.
    pub shape: Option<String>,
    /// Whether every part of a conversation must be in the prompt.
    pub strict: bool,
    /// Whether to encode as the reference does.
    pub reference_encoding: bool,
}

/// An option with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// What was expected and what was found.
    pub problem: String,
}

impl RowOptions {
    /// Returns the recipe that the options ask for.
    pub fn recipe(&self) -> Result<RowRecipe, OptionError> {
        let policy = self.policy()?;
        if policy.is_none() && self.pack.is_some() {
            return Err(problem("pack", "expected `for_training` with `pack`, found none".into()));
        }
        let edges = chosen("edges", self.edges.as_deref(), &Edges::ALL)?;
        let final_stop = self.final_stop()?;
        Ok(RowRecipe {
            shape: match self.shape.as_deref() {
                None => None,
                Some(name) => Some(Shape::from_str(name).map_err(|()| {
                    let known: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
                    problem("shape", expected("shape", &known, name))
                })?),
            },
            // Training text is complete.
            generation: policy.as_ref().map(|_| false),
            continue_final_message: false,
            purpose: if policy.is_some() { Purpose::Training } else { Purpose::Answer },
            strict: self.strict,
            stops: false,
            edges: edges.unwrap_or_default(),
            append_final_stop: policy.is_some() && final_stop == Some(MissingStop::Append),
            policy,
            samples: chosen("samples", self.samples.as_deref(), &Samples::ALL)?.unwrap_or_default(),
            encoding: Some(RowEncoding { reference: self.reference_encoding, limit: self.limit()? }),
        })
    }

    fn policy(&self) -> Result<Option<LossPolicy>, OptionError> {
        let Some(whose) = self.for_training.as_deref() else {
            let other = [("loss_weight", !self.loss_weight.is_empty()), ("loss_role", !self.loss_role.is_empty())];
            let needs = other.into_iter().find(|(_, given)| *given);
            return match needs {
                Some((option, _)) => {
                    Err(problem(option, format!("expected `for_training` with `{option}`, found none")))
                }
                None => Ok(None),
            };
        };
        let Some(whose) = chosen("for_training", Some(whose), &Whose::ALL)? else { return Ok(None) };
        let part = |text: &String| read_part(text).map_err(|why| problem("loss_weight", why));
        let role = |text: &String| {
            read_role(text).map_err(|why| problem("loss_role", why.replace("--", "").replace('-', "_")))
        };
        let mut options = LossOptions {
            parts: self.loss_weight.iter().map(part).collect::<Result<_, _>>()?,
            roles: self.loss_role.iter().map(role).collect::<Result<_, _>>()?,
            final_stop: self.final_stop()?.unwrap_or_default(),
            ..LossOptions::of(whose)
        };
        for word in &self.allow {
            options.allow.extend(chosen("allow", Some(word), &LossExemption::ALL)?);
        }
        Ok(Some(options.policy()))
    }

    fn final_stop(&self) -> Result<Option<MissingStop>, OptionError> {
        chosen("final_stop", self.final_stop.as_deref(), &MissingStop::ALL)
    }

    fn limit(&self) -> Result<Option<Limit>, OptionError> {
        let by = chosen("truncate", self.truncate.as_deref(), &Truncate::ALL)?;
        if self.pack.is_some_and(|length| !(1..=i32::MAX as u32).contains(&length)) {
            return Err(problem("pack", format!("expected a number of ids from 1 to {}, found 0 or more", i32::MAX)));
        }
        let most = match self.max_tokens.map(NonZeroUsize::new) {
            Some(None) => return Err(problem("max_tokens", "expected a number of ids from 1, found 0".into())),
            most => most.flatten(),
        };
        if by.is_some() && most.is_none() && self.pack.is_none() {
            return Err(problem("truncate", "expected `max_tokens` or `pack` with `truncate`, found none".into()));
        }
        Ok(limit(most, by, self.pack))
    }
}

/// Returns the limit for samples of at most `max_tokens` ids that are packed in sequences of `pack`. A
/// sample is only truncated to fit a sequence if a way to truncate is given.
pub fn limit(max_tokens: Option<NonZeroUsize>, truncate: Option<Truncate>, pack: Option<u32>) -> Option<Limit> {
    let packed = truncate.and(pack).map(|length| length as usize);
    let most = max_tokens.map(NonZeroUsize::get).into_iter().chain(packed).min();
    most.map(|ids| Limit { ids, by: truncate.unwrap_or_default() })
}

/// Returns the value with a name.
fn chosen<T: Copy>(
    option: &'static str,
    name: Option<&str>,
    known: &[(&'static str, T)],
) -> Result<Option<T>, OptionError> {
    let Some(name) = name else { return Ok(None) };
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(problem(option, expected(option, &names, name)))
        }
    }
}

fn expected(option: &str, known: &[&str], found: &str) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = quoted.split_last().map_or((String::new(), &[][..]), |(last, others)| (last.clone(), others));
    format!("expected `{option}` to be {} or {last}, found `{found}`", others.join(", "))
}

fn problem(option: &'static str, problem: String) -> OptionError {
    OptionError { option, problem }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for OptionError {}
