//! The options and rules of a format, as a caller sees them.

use rolecall_format::Format;

/// An option of a format that a caller may set.
pub struct Setting {
    /// Its name.
    pub name: String,
    /// The value that counts if none is given.
    pub default: String,
    /// What it does.
    pub help: String,
    /// The possible values. Empty if any text is possible.
    pub values: Vec<String>,
}

/// Returns the format's options, including `spelling` if its control tokens have several spellings.
pub fn settings_of(format: &Format) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    let spellings = format.spellings();
    if !spellings.is_empty() {
        settings.push(Setting {
            name: "spelling".into(),
            default: "usual".into(),
            help: "how the control tokens are spelled".into(),
            values: std::iter::once("usual").chain(spellings).map(str::to_owned).collect(),
        });
    }
    settings.extend(format.choices.iter().map(|choice| Setting {
        name: choice.name.clone(),
        default: choice.default.clone(),
        help: choice.help.clone(),
        values: choice.values.clone(),
    }));
    settings
}

/// Returns the rules by their names in the format file. Optional rules are included only if set.
pub fn rules_of(format: &Format) -> Vec<(&'static str, String)> {
    let rules = &format.rules;
    let mut named = vec![
        ("system", rules.system.key().to_owned()),
        ("turns", rules.turns.key().to_owned()),
        ("users", rules.users.key().to_owned()),
        ("assistant", rules.assistant.key().to_owned()),
        ("tool", rules.tool.key().to_owned()),
        ("answers", rules.answers.key().to_owned()),
        ("system-with-tools", rules.system_with_tools.key().to_owned()),
        ("tools", rules.tools.key().to_owned()),
        ("tool-texts", rules.tool_texts.key().to_owned()),
        ("blank-system", rules.blank_system.key().to_owned()),
        ("roles", rules.roles.key().to_owned()),
        ("ending", rules.ending.key().to_owned()),
        ("loss", rules.loss.key().to_owned()),
        ("header", rules.header.key().to_owned()),
    ];
    if let Some(field) = &rules.interpreter_field {
        named.push(("interpreter-field", field.clone()));
    }
    if let Some(max) = rules.max_calls {
        named.push(("max-calls", max.to_string()));
    }
    named
}
