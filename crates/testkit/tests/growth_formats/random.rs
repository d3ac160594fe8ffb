//! Formats of random layouts and rules, so that everything on which a turn may depend occurs in
//! combinations that no family has.

use std::fmt::Write;

use fastrand::Rng;
use rolecall::format::{Format, LoadError, load};

/// The layouts to choose from, by slot. An empty one is left out.
const LAYOUTS: [(&str, &[&str]); 21] = [
    ("begin", &["", "<s>", "B"]),
    ("system", &["S:{content}<e>", "S:{content}[[ T:{tools:json}]]<e>", "S:[[{tools:present}P]]{content}<e>"]),
    ("system-first", &["", "", "<s>F:[[{tools:present}P]]{content}<e>", "F{seam}{content}<e>"]),
    (
        "user",
        &[
            "U:{content:trim}<e>",
            "U{round}:{content}<e>",
            "U:[[{tools:json}]]{content}<e>",
            "<s>U:[[{name}]]{content}<e>",
            "U:{seam}{folded}<e>",
        ],
    ),
    ("user-first", &["", "", "UF:{content}<e>", "<s>U:{folded:trim}<e>", "UF:[[{tools:json}]]{content}<e>"]),
    ("folded", &["", "[[<s><<{system}>>]]{content}"]),
    (
        "assistant",
        &[
            "A:{content}[[|R:{reasoning}]][[|C:{calls}]]<e>",
            "A:[[{mode}]]{content}[[{calls}]]<e>",
            "A{round}:{content}[[{calls}]]{seam}",
            "{seam}A:[[{tools:present}P]]{content}[[{calls}]]<e>",
        ],
    ),
    ("assistant-last", &["", "", "AL:{content}[[{calls}]]"]),
    ("assistant-with-calls", &["", "", "AC:{calls}[[|{content}]]<e>"]),
    ("assistant-after", &["", "", "<x>"]),
    (
        "call",
        &[
            "[{id} {name} {arguments:json}]",
            "[{index:from(1, conversation)} {name} {arguments:json}]",
            "[{id} {index} {name} {arguments:json}]",
        ],
    ),
    ("call-interpreter", &["", "[py {code}]", "[{index:from(0, conversation)} py {code}]"]),
    ("tool", &["T:{content}<e>", "T:[[{id}]] {content}<e>"]),
    ("tool-interpreter", &["", "TI:{content}<e>"]),
    ("tool-group", &["", "", "G:{results}<e>"]),
    ("tools", &["", "", "TOOLS:{tools:json}<e>"]),
    ("tools-interpreter", &["", "", "INT:{interpreter}<e>"]),
    ("generate", &["A:", "A{round}:", "<x>A:"]),
    ("end", &["", "<x>"]),
    ("pair", &["", "", "<x>"]),
    ("part-text", &["", "", "<s>{content}<x>"]),
];

const RULES: [(&str, &[&str]); 14] = [
    ("system", &["anywhere", "anywhere", "leading", "first", "fold", "none", "refused"]),
    ("turns", &["any", "any", "any", "alternate", "answered", "paired"]),
    ("users", &["any", "any", "apart"]),
    ("assistant", &["any", "after-user"]),
    ("tool", &["any", "after-assistant", "after-call"]),
    ("answers", &["any", "any", "required"]),
    ("system-with-tools", &["keep", "keep", "replace"]),
    ("tools", &["after-system", "before-system", "after-first", "after-default"]),
    ("blank-system", &["keep", "skip", "skip-spaces"]),
    ("roles", &["named", "by-place"]),
    ("ending", &["closed", "closed", "reopened", "open"]),
    ("header", &["any", "one-line"]),
    ("call-ids", &["any", "nine-characters", "functions.{name}:{index}", "c-{name}"]),
    ("interpreter-field", &["", "", "interpreter"]),
];

const DEFAULTS: [(&str, &[&str]); 4] = [
    ("system", &["", "D"]),
    ("system-when", &["not-first", "none", "always"]),
    ("system-with-tools", &["", "DT"]),
    ("interpreter", &["", "S"]),
];

/// Makes a random format and its file, or an error if the choices do not fit together.
pub fn format(rng: &mut Rng) -> Result<(Format, String), LoadError> {
    let mut file = "name = \"own\"\ntitle = \"Own\"\n[sources]\nlayout = \"a test\"\n[control]\n\"<s>\" = { bos = true }\n\"<e>\" = { ends_turn = true }\n\"<x>\" = {}\n[fields]\nmode = \"a field\"\n".to_owned();
    for (table, choices) in [("layout", &LAYOUTS[..]), ("rules", &RULES[..]), ("defaults", &DEFAULTS[..])] {
        let _ = writeln!(file, "[{table}]");
        for (key, values) in choices {
            let value = values[rng.usize(..values.len())];
            if !value.is_empty() || *key == "generate" {
                let _ = writeln!(file, "{key} = '{value}'");
            }
        }
    }
    let format = load(&file)?;
    Ok((format, file))
}
