//! Writes the matrices of many models as one Markdown document.

use rolecall::diff::{Matrix, Telling, View};
use rolecall::interop::FRAMEWORKS;

use super::models::Group;
use super::parts::{letter, parts};
use super::words::counted;
use crate::visible;

/// Returns the document. `command` is the command line that generates it.
pub fn write(groups: &[(Group, Matrix)], without: &[String], tellings: &[Telling], command: &str) -> String {
    let prefixes: Vec<String> = FRAMEWORKS.iter().map(|framework| format!("`{}:`", framework.name)).collect();
    let mut out = format!(
        "# Dialects\n\n\
         A model often has several formats: its maker's own, and those of the frameworks that train and serve it (prefixes\n\
         {}). This page compares them pairwise over the same conversations.\n\
         It is the output of `{command}`.\n\n",
        prefixes.join(", ")
    );
    out.push_str(LEGEND);
    out.push_str("\n## The conversations\n\n| conversation | what it tests |\n| --- | --- |\n");
    for telling in tellings {
        out.push_str(&format!("| `{}` | {} |\n", telling.name, telling.tells));
    }
    for (group, matrix) in groups {
        push_group(&mut out, group, matrix);
    }
    if !without.is_empty() {
        out.push_str(&format!("\n## Models without a format\n\n{}\n", listed(without)));
    }
    out
}

const LEGEND: &str = "\
A cell has three parts, `chat · training · serving`, or only the last where a format is compared with itself. *Chat* compares the
prompts. *Training* compares the training texts and which parts of them carry loss. *Serving* reports whether the row's training
text matches what the column serves: the training text begins with the prompt before the last answer, and the text that is learned
after an answer ends where the column stops.

| part | meaning, for the conversations that at least one of the two formats accepts |
| --- | --- |
| `same` | nothing differs |
| `opening` | in each of them, only the token that opens the prompt differs |
| `9 of 14` | this many are the same |
| `-` | there are none |

Each table is followed by the first differences between two formats, and the first conversation that only one of them refuses.
`rolecall diff A B --all` shows every difference in detail.
";

fn push_group(out: &mut String, group: &Group, matrix: &Matrix) {
    out.push_str(&format!("\n## {}\n\n", group.models.first().map_or("", String::as_str)));
    if let [_, others @ ..] = group.models.as_slice()
        && !others.is_empty()
    {
        out.push_str(&format!("Also {}.\n\n", listed(others)));
    }
    for (at, listed) in group.listed.iter().enumerate() {
        let warning = listed.warning.as_ref().map_or(String::new(), |warning| format!(": {warning}"));
        out.push_str(&format!("- {} = `{}`{warning}\n", letter(at), listed.format.name));
    }
    if group.listed.len() < 2 {
        return;
    }
    push_matrix(out, matrix);
    let parts = parts(matrix);
    if !parts.is_empty() {
        out.push_str("\nFirst differences:\n\n");
    }
    for part in parts {
        let (who, conversation, views) = (part.who(), &part.conversation, part.views.join(", "));
        out.push_str(&format!("- {who}, `{conversation}` ({views}): {}\n", visible::escape(&part.what)));
    }
}

/// Appends a table with the results of the three views in each cell.
fn push_matrix(out: &mut String, matrix: &Matrix) {
    let letters: Vec<String> = (0..matrix.formats.len()).map(letter).collect();
    out.push_str(&format!("\n| | {} |\n|{}\n", letters.join(" | "), " --- |".repeat(letters.len() + 1)));
    for (row, name) in letters.iter().enumerate() {
        let cells = (0..letters.len()).map(|column| {
            let views = [View::Chat, View::Training, View::Serving].map(|view| matrix.cell(view, row, column));
            views
                .map(|cell| cell.map_or_else(String::new, counted))
                .into_iter()
                .filter(|said| !said.is_empty())
                .collect::<Vec<_>>()
                .join(" · ")
        });
        out.push_str(&format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
}

fn listed(models: &[String]) -> String {
    models.iter().map(|model| format!("`{model}`")).collect::<Vec<_>>().join(", ")
}
