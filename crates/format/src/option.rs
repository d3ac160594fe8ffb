/// What a caller may choose of a format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Its name, which is also the name of its hole.
    pub name: String,
    /// What holds when nobody chooses.
    pub default: String,
    /// What may be chosen; anything, if empty.
    pub values: Vec<String>,
    /// The values that it is meant for, where others are taken too; any value is usual, if empty.
    pub usual: Vec<String>,
    /// One sentence for people.
    pub help: String,
}
