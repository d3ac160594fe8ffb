//! The words in which a caller asks for training samples.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use rolecall_conversation::Role;

use super::{Limit, RowEncoding, RowRecipe, Samples, Truncate};
use crate::dataset::Shape;
use crate::loss::{Edges, FinalStop, GREATEST_WEIGHT, LossPolicy, PartWeights, RoleLoss};
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
    /// What to accept that is otherwise an error: `masked-stop`, `no-loss`.
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
        let edges = chosen("edges", self.edges.as_deref(), &[("any", Edges::Any), ("strict", Edges::Strict)])?;
        let samples = [("whole", Samples::Whole), ("turns", Samples::Turns), ("auto", Samples::AsServed)];
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
            stop_ids: false,
            edges: edges.unwrap_or_default(),
            append_final_stop: policy.is_some() && final_stop == Some(FinalStopWord::Append),
            policy,
            samples: chosen("samples", self.samples.as_deref(), &samples)?.unwrap_or_default(),
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
        type Make = fn() -> LossPolicy;
        let policies: [(&str, Make); 5] = [
            ("assistant", LossPolicy::assistant),
            ("last", LossPolicy::last),
            ("chosen", LossPolicy::chosen),
            ("tagged", LossPolicy::assistant),
            ("all", LossPolicy::all),
        ];
        let Some(policy) = chosen("for_training", Some(whose), &policies)? else { return Ok(None) };
        let mut policy = policy();
        policy.tagged = whose == "tagged";
        for text in &self.loss_weight {
            let (part, weight) = read_part(text).map_err(|why| problem("loss_weight", why))?;
            part.set(&mut policy.weights, weight);
        }
        let roles = self
            .loss_role
            .iter()
            .map(|text| read_role(text).map_err(|why| problem("loss_role", why.replace("--", "").replace("-", "_"))));
        policy.roles = roles.collect::<Result<_, _>>()?;
        policy.final_stop = match self.final_stop()? {
            Some(FinalStopWord::Refuse) => FinalStop::Refuse,
            // If nothing can be appended, that is worth a warning.
            None | Some(FinalStopWord::Append | FinalStopWord::Warn) => FinalStop::Warn,
        };
        for word in &self.allow {
            match chosen("allow", Some(word), &[("masked-stop", false), ("no-loss", true)])? {
                Some(true) => policy.allow_empty = true,
                _ => policy.allow_masked_stop = true,
            }
        }
        Ok(Some(policy))
    }

    fn final_stop(&self) -> Result<Option<FinalStopWord>, OptionError> {
        use FinalStopWord::{Append, Refuse, Warn};
        chosen("final_stop", self.final_stop.as_deref(), &[("append", Append), ("warn", Warn), ("refuse", Refuse)])
    }

    fn limit(&self) -> Result<Option<Limit>, OptionError> {
        let ways = [("right", Truncate::Right), ("left", Truncate::Left), ("oldest", Truncate::Oldest)];
        let by = chosen("truncate", self.truncate.as_deref(), &ways)?;
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

#[derive(Clone, Copy, PartialEq)]
enum FinalStopWord {
    Append,
    Warn,
    Refuse,
}

/// Returns the limit for samples of at most `max_tokens` ids that are packed in sequences of `pack`. A
/// sample is only truncated to fit a sequence if a way to truncate is given.
pub fn limit(max_tokens: Option<NonZeroUsize>, truncate: Option<Truncate>, pack: Option<u32>) -> Option<Limit> {
    let packed = truncate.and(pack).map(|length| length as usize);
    let most = max_tokens.map(NonZeroUsize::get).into_iter().chain(packed).min();
    most.map(|ids| Limit { ids, by: truncate.unwrap_or_default() })
}

/// A part of a reply that has a weight of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPart {
    /// The reasoning.
    Reasoning,
    /// The content.
    Content,
    /// The tool calls and the code.
    Calls,
    /// The token that ends the turn.
    Stop,
}

impl LossPart {
    /// Sets the weight of the part.
    pub fn set(self, weights: &mut PartWeights, weight: f32) {
        *match self {
            LossPart::Reasoning => &mut weights.reasoning,
            LossPart::Content => &mut weights.content,
            LossPart::Calls => &mut weights.calls,
            LossPart::Stop => &mut weights.closer,
        } = weight;
    }
}

/// Reads the weight of a part of a reply: `reasoning=0`.
pub fn read_part(text: &str) -> Result<(LossPart, f32), String> {
    let (part, weight) = text.split_once('=').ok_or("expected PART=N")?;
    let part = match part {
        "reasoning" => LossPart::Reasoning,
        "content" => LossPart::Content,
        "calls" => LossPart::Calls,
        "stop" => LossPart::Stop,
        _ => return Err(format!("expected `reasoning`, `content`, `calls` or `stop`, found `{part}`")),
    };
    Ok((part, read_weight(weight)?))
}

/// Reads a role whose text carries loss: `tool`, `tool:turn`, `tool=0.5`.
pub fn read_role(text: &str) -> Result<RoleLoss, String> {
    let (name, weight) = match text.split_once('=') {
        Some((name, weight)) => (name, read_weight(weight)?),
        None => (text, 1.0),
    };
    let (name, whole_turn) = match name.split_once(':') {
        Some((name, "turn")) => (name, true),
        Some((_, other)) => return Err(format!("expected `:turn` after the role, found `:{other}`")),
        None => (name, false),
    };
    match Role::from_name(name) {
        Role::Assistant => Err("set the weights of replies with `--loss-weight`".into()),
        Role::Other(name) if name.is_empty() => Err("expected the name of a role".into()),
        role => Ok(RoleLoss { role, whole_turn, weight }),
    }
}

fn read_weight(text: &str) -> Result<f32, String> {
    let weight = text.parse().ok().filter(|weight| (0.0..=GREATEST_WEIGHT).contains(weight));
    weight.ok_or_else(|| format!("expected a weight from 0 to {GREATEST_WEIGHT}, found `{text}`"))
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
