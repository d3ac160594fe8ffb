use rolecall_format::LoadError;

use crate::fields::FrameworkFile;

/// One row of a framework's table of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// The model's name.
    pub model: String,
    /// The name of the template that the framework uses for it.
    pub template: String,
    /// Whether it is a base model, whose chat tokens were never trained.
    pub base: bool,
    /// Whether the framework's table refers to its footnote. It does so for base models, and for some others.
    pub starred: bool,
}

/// A framework's table of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTable {
    /// The rows, in the order of the framework's table.
    pub rows: Vec<ModelRow>,
    /// Why the framework uses a default template for base models, for warnings.
    pub why_base: String,
    /// What the footnote of the table says.
    pub footnote: String,
}

impl ModelTable {
    pub(crate) fn read(text: &str) -> Result<ModelTable, LoadError> {
        let file = FrameworkFile::parse(text)?;
        let fields = file.fields();
        fields.refuse_others(&["source", "why_base", "footnote", "models"]);
        let rows = fields.list("models").unwrap_or_default().into_iter().map(|row| ModelRow {
            model: row.text("model").unwrap_or_default(),
            template: row.text("template").unwrap_or_default(),
            base: row.boolean("base"),
            starred: row.boolean("base") || row.boolean("starred"),
        });
        let rows = rows.collect();
        let why_base = fields.text("why_base").unwrap_or_default();
        let footnote = fields.text("footnote").unwrap_or_default();
        drop(fields);
        file.finish(ModelTable { rows, why_base, footnote })
    }

    /// Finds the row of a model by its full name or, failing that, by the last part of its path.
    /// Ignores case.
    pub fn find(&self, model: &str) -> Option<&ModelRow> {
        let last = |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
        let whole = self.rows.iter().find(|row| row.model.eq_ignore_ascii_case(model));
        whole.or_else(|| self.rows.iter().find(|row| last(&row.model) == last(model)))
    }
}
