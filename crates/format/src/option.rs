/// An option of a format that a caller can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The name of the option and of its hole.
    pub name: String,
    /// The value if the caller sets none.
    pub default: String,
    /// The accepted values. If empty, any value is accepted.
    pub values: Vec<String>,
    /// The intended values, if others are also accepted. If empty, any value is intended.
    pub usual: Vec<String>,
    /// A one-sentence description for people.
    pub help: String,
}
