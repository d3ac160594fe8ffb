use rolecall::format::Format;

/// An option of a format that a caller may set.
pub struct Setting {
    pub name: String,
    pub default: String,
    pub help: String,
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
