use std::fmt;

use rolecall_format::Format;

/// Letters of a text that are shown.
const SHOWN: usize = 48;

/// Why a model needs a format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// These texts stand in its chat template.
    Template(Vec<String>),
    /// Its tokenizer has these tokens.
    Tokens(Vec<String>),
    /// Its config names this architecture.
    Architecture(String),
    /// What was asked for is the format's own name.
    FormatName(String),
    /// The name is one that the format lists.
    Name {
        /// The name, or the part of it that is meant.
        name: String,
        /// As the format file spells it.
        listed: String,
        /// Whether the config gave the name.
        by_config: bool,
    },
    /// The name fits a pattern of the format.
    Pattern {
        /// The name, or the part of it that fits.
        name: String,
        /// The pattern.
        pattern: String,
        /// Whether the config gave the name.
        by_config: bool,
    },
}

impl Evidence {
    /// A stable name for the kind of evidence.
    pub fn code(&self) -> &'static str {
        match self {
            Evidence::Template(_) => "template",
            Evidence::Tokens(_) => "tokens",
            Evidence::Architecture(_) => "architecture",
            Evidence::FormatName(_) => "format_name",
            Evidence::Name { by_config: false, .. } => "name",
            Evidence::Pattern { by_config: false, .. } => "pattern",
            Evidence::Name { .. } | Evidence::Pattern { .. } => "config_name",
        }
    }

    /// The pattern that a name fits, where that is the evidence.
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Evidence::Pattern { pattern, .. } => Some(pattern),
            Evidence::Name { listed, .. } => Some(listed),
            _ => None,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = |by_config: &bool| if *by_config { "its config.json names the model " } else { "" };
        match self {
            Evidence::Template(texts) => write!(f, "its chat template has {}", listed(texts)),
            Evidence::Tokens(tokens) => write!(f, "its tokenizer has {}", listed(tokens)),
            Evidence::Architecture(name) => write!(f, "its config.json names the architecture `{name}`"),
            Evidence::FormatName(name) => write!(f, "`{name}` is the format's own name"),
            Evidence::Name { name, listed, by_config } if name.eq_ignore_ascii_case(listed) => {
                write!(
                    f,
                    "{}`{name}`, {}",
                    whose(by_config),
                    if *by_config { "which the format lists" } else { "exactly as the format lists it" }
                )
            }
            Evidence::Name { name, listed, by_config } => {
                write!(f, "{}`{name}`, which the format lists as `{listed}`", whose(by_config))
            }
            Evidence::Pattern { name, pattern, by_config: false } => write!(f, "`{name}` fits the pattern `{pattern}`"),
            Evidence::Pattern { name, pattern, by_config: true } => {
                write!(f, "{}`{name}`, which fits the pattern `{pattern}`", whose(&true))
            }
        }
    }
}

/// A format that a model may need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The format's name.
    pub format: String,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
}

impl Candidate {
    pub(super) fn of(format: &Format, evidence: Vec<Evidence>) -> Candidate {
        Candidate { format: format.name.clone(), evidence }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.format)?;
        for (at, evidence) in self.evidence.iter().enumerate() {
            write!(f, "{}{evidence}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// `` `a`, `b` and `c` ``, each cut where it is long.
pub(super) fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    let shown: Vec<String> = texts
        .iter()
        .map(|text| match text.as_ref().char_indices().nth(SHOWN) {
            Some((end, _)) => format!("`{}…`", &text.as_ref()[..end]),
            None => format!("`{}`", text.as_ref()),
        })
        .collect();
    match shown.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
