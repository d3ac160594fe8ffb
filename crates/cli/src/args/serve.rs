//! The arguments of `serve`. The gateway's settings are flags under their own names, so that the
//! gateway's table of settings is the only list of them.

use std::path::PathBuf;

/// What the flags of `serve` say.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "gateway"), expect(dead_code, reason = "without the gateway, nobody reads them"))]
pub struct ServeFlags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The settings, each with the path of its key.
    pub settings: Vec<(String, String)>,
}

#[cfg(feature = "gateway")]
mod built {
    use std::path::PathBuf;

    use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
    use rolecall_gateway::settings::{KEYS, Key, MODEL_KEYS, Slot};

    use super::ServeFlags;

    impl Args for ServeFlags {
        fn augment_args(command: Command) -> Command {
            let config = Arg::new("config").long("config").short('c').value_name("FILE").action(ArgAction::Set);
            let config = config.value_parser(clap::value_parser!(PathBuf)).help(
                "The configuration file in TOML, for several models [default: that of the environment variable \
                 ROLECALL_CONFIG, or none]",
            );
            let command = command.arg(config).next_help_heading("The model");
            let command = MODEL_KEYS.iter().fold(command, |command, key| command.arg(flag(key)));
            let command = command.next_help_heading("The gateway");
            KEYS.iter().fold(command, |command, key| command.arg(flag(key))).next_help_heading(None::<&str>)
        }

        fn augment_args_for_update(command: Command) -> Command {
            ServeFlags::augment_args(command)
        }
    }

    impl FromArgMatches for ServeFlags {
        fn from_arg_matches(matches: &ArgMatches) -> Result<ServeFlags, Error> {
            let paths = MODEL_KEYS.iter().map(|key| key.path).chain(KEYS.iter().map(|key| key.path));
            let given = |path: &str| Some((path.to_owned(), matches.get_one::<String>(path)?.clone()));
            Ok(ServeFlags {
                config: matches.get_one::<PathBuf>("config").cloned(),
                settings: paths.filter_map(given).collect(),
            })
        }

        fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
            *self = ServeFlags::from_arg_matches(matches)?;
            Ok(())
        }
    }

    /// Returns the flag of a setting.
    fn flag<T: Clone + Default>(key: &Key<T>) -> Arg {
        // Names of arguments live as long as the process.
        let (flag, value): (&'static str, &'static str) = (key.flag().leak(), key.value_name().leak());
        let flag = Arg::new(key.path).long(flag.trim_start_matches("--")).value_name(value).action(ArgAction::Set);
        let flag = match (key.path, &key.slot) {
            ("model", _) => flag.short('m'),
            (_, Slot::Switch(_)) => flag.num_args(0..=1).default_missing_value("true"),
            _ => flag,
        };
        let default = match key.shown(&T::default()) {
            none if none.is_empty() => String::new(),
            default => format!(" [default: {default}]"),
        };
        flag.help(format!("{}{default}", key.about))
    }
}

#[cfg(not(feature = "gateway"))]
mod not_built {
    use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

    use super::ServeFlags;

    /// Any flags are taken, so that the command can say that it is not built.
    impl Args for ServeFlags {
        fn augment_args(command: Command) -> Command {
            let all = Arg::new("settings").action(ArgAction::Append).num_args(0..).value_name("SETTINGS");
            command.arg(all.trailing_var_arg(true).allow_hyphen_values(true).hide(true))
        }

        fn augment_args_for_update(command: Command) -> Command {
            ServeFlags::augment_args(command)
        }
    }

    impl FromArgMatches for ServeFlags {
        fn from_arg_matches(_: &ArgMatches) -> Result<ServeFlags, Error> {
            Ok(ServeFlags::default())
        }

        fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
            Ok(())
        }
    }
}
