use rolecall::training::RowRecipe;

/// What is made of the rows.
#[derive(Clone, Debug, Default)]
pub struct ColumnPlan {
    /// How each row becomes samples.
    pub recipe: RowRecipe,
    /// The number of ids of a sequence, if samples are packed.
    pub pack: Option<u32>,
    /// Whether to write the weights as numbers, too.
    pub weights: bool,
    /// The names and types of the columns.
    pub layout: ColumnNames,
}

/// The names and types of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnNames {
    /// Those of the command: `ids`, `loss_mask`.
    #[default]
    Rolecall,
    /// Those of TRL's trainers: `input_ids`, `labels`.
    Trl,
}
