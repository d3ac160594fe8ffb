use std::fmt;

use rolecall::conversation::spelling;

/// What is wrong with the settings of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFault {
    /// A stable name for what is wrong.
    pub code: &'static str,
    /// Where it is.
    pub place: SettingPlace,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Where a setting was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SettingPlace {
    /// In no place of its own.
    #[default]
    Nowhere,
    /// In a file.
    File {
        /// Its path.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// In an environment variable.
    Variable(String),
    /// In a flag.
    Flag(String),
}

impl SettingFault {
    pub(crate) fn new(code: &'static str, place: SettingPlace, message: impl Into<String>) -> SettingFault {
        SettingFault { code, place, message: message.into(), help: None }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> SettingFault {
        SettingFault { help: Some(help.into()), ..self }
    }

    /// Returns the error for a key that is not known.
    pub(crate) fn unknown(key: &str, known: impl Iterator<Item = &'static str>, place: SettingPlace) -> SettingFault {
        let near = spelling::nearest(key, known).map(|near| format!("did you mean `{near}`?"));
        let fault = SettingFault::new("unknown_key", place, format!("there is no setting `{key}`"));
        SettingFault { help: near.or_else(|| Some("`rolecall serve --help` lists the settings".to_owned())), ..fault }
    }
}

impl fmt::Display for SettingFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            SettingPlace::Nowhere => formatter.write_str(&self.message),
            _ => write!(formatter, "{}: {}", self.place, self.message),
        }
    }
}

impl std::error::Error for SettingFault {}

impl fmt::Display for SettingPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingPlace::Nowhere => Ok(()),
            SettingPlace::File { path, line, column } => write!(formatter, "{path}:{line}:{column}"),
            SettingPlace::Variable(name) => write!(formatter, "environment, {name}"),
            SettingPlace::Flag(flag) => write!(formatter, "command line, {flag}"),
        }
    }
}
