use rolecall_format::LoadError;

use crate::fields::File;

/// One row of a framework's table of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// The model's name.
    pub model: String,
    /// The template that the framework uses for it.
    pub template: String,
    /// Whether it is a base model whose own chat tokens were never trained.
    pub base: bool,
}

/// A framework's table of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTable {
    /// The rows, in the table's order.
    pub rows: Vec<ModelRow>,
    /// Why a base model has no template of its own.
    pub why_base: String,
}

impl ModelTable {
    pub(crate) fn read(text: &str) -> Result<ModelTable, LoadError> {
        let file = File::parse(text)?;
        let fields = file.fields();
        fields.refuse_others(&["source", "why_base", "models"]);
        let rows = fields.list("models").unwrap_or_default().into_iter().map(|row| ModelRow {
            model: row.text("model").unwrap_or_default(),
            template: row.text("template").unwrap_or_default(),
            base: row.boolean("base"),
        });
        let rows = rows.collect();
        let why_base = fields.text("why_base").unwrap_or_default();
        drop(fields);
        file.finish(ModelTable { rows, why_base })
    }

    /// The row of a model: by its whole name, or by the last part of a path. Letter case does not matter.
    pub fn find(&self, model: &str) -> Option<&ModelRow> {
        let last = |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
        let whole = self.rows.iter().find(|row| row.model.eq_ignore_ascii_case(model));
        whole.or_else(|| self.rows.iter().find(|row| last(&row.model) == last(model)))
    }
}
