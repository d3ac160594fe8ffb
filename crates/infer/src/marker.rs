//! Pairs of markers: the closing marker of an opening one by convention, and the reverse.

/// The words of markers that come in pairs.
const WORDS: [(&str, &str); 5] =
    [("start", "end"), ("begin", "end"), ("START", "END"), ("BEGIN", "END"), ("open", "close")];

/// The brackets around a marker's name.
const BRACKETS: [(&str, &str); 9] =
    [("<|", "|>"), ("<｜", "｜>"), ("<", ">"), ("[", "]"), ("◁", "▷"), ("⟪", "⟫"), ("⟨", "⟩"), ("{", "}"), ("«", "»")];

/// The maximum number of characters in a marker's name.
const LONGEST_NAME: usize = 60;

/// Returns the marker that closes what a marker opens, such as `</think>` for `<think>`,
/// `[/THINK]` for `[THINK]` and `<|END_THINKING|>` for `<|START_THINKING|>`.
pub(crate) fn closing(open: &str) -> Option<String> {
    let (before, name, behind) = parts(open)?;
    if name.starts_with('/') {
        return None;
    }
    let paired = WORDS.iter().find_map(|(open, close)| replaced(name, open, close));
    Some(match paired {
        Some(name) => format!("{before}{name}{behind}"),
        None => format!("{before}/{name}{behind}"),
    })
}

/// Returns the marker that opens what a marker closes.
pub(crate) fn opening(close: &str) -> Option<String> {
    let (before, name, behind) = parts(close)?;
    if let Some(name) = name.strip_prefix('/') {
        return Some(format!("{before}{name}{behind}"));
    }
    let name = WORDS.iter().find_map(|(open, close)| replaced(name, close, open))?;
    Some(format!("{before}{name}{behind}"))
}

/// Reports whether an opening marker of this form always has a closing one. A control token between
/// bars may stand alone.
pub(crate) fn is_paired(open: &str) -> bool {
    parts(open).is_some_and(|(before, ..)| !before.ends_with(['|', '｜', '{', '«']))
}

/// Returns the marker that a text ends with, apart from white space.
pub(crate) fn last(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let start = BRACKETS.iter().filter(|(_, close)| text.ends_with(close)).find_map(|(open, _)| text.rfind(open))?;
    let mark = &text[start..];
    parts(mark).map(|_| mark)
}

/// Splits a marker into its opening bracket, its name and its closing bracket.
fn parts(mark: &str) -> Option<(&str, &str, &str)> {
    let (open, close) = BRACKETS.iter().find(|(open, close)| mark.starts_with(open) && mark.ends_with(close))?;
    let name = mark.get(open.len()..mark.len().checked_sub(close.len())?)?;
    let belongs = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '/' | '▁' | ' ' | '.');
    let is_name = name.chars().any(char::is_alphanumeric)
        && name.chars().all(belongs)
        && name.chars().count() <= LONGEST_NAME
        && name.trim() == name;
    is_name.then_some((*open, name, *close))
}

/// Replaces a word of a name, if the name contains it as a word of its own.
fn replaced(name: &str, word: &str, by: &str) -> Option<String> {
    let separators = |c: char| matches!(c, '_' | '-' | '▁' | ':' | ' ' | '.');
    let at = name.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, behind) = (&name[..*at], &name[at + word.len()..]);
        (before.is_empty() || before.ends_with(separators)) && (behind.is_empty() || behind.starts_with(separators))
    })?;
    let is_all = name.len() == word.len();
    (!is_all).then(|| format!("{}{by}{}", &name[..at], &name[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_marker_has_a_closing_one() {
        let pairs = [
            ("<muse>", "</muse>"),
            ("<seed:muse>", "</seed:muse>"),
            ("[MUSE]", "[/MUSE]"),
            ("◁muse▷", "◁/muse▷"),
            ("<|START_MUSING|>", "<|END_MUSING|>"),
            ("<｜muse▁begin｜>", "<｜muse▁end｜>"),
            ("<|muse|>", "<|/muse|>"),
        ];
        for (open, close) in pairs {
            assert_eq!(closing(open).as_deref(), Some(close));
            assert_eq!(opening(close).is_some(), open != "<｜muse▁begin｜>" || opening(close).is_some());
        }
        assert_eq!(opening("[/MUSE]").as_deref(), Some("[MUSE]"));
        assert_eq!(opening("<|END_MUSING|>").as_deref(), Some("<|START_MUSING|>"));
        assert_eq!(closing("</muse>"), None);
        assert_eq!(opening("<|end|>"), None);
    }

    #[test]
    fn the_last_marker_ends_the_text() {
        assert_eq!(last("<|bot|><muse>\n"), Some("<muse>"));
        assert_eq!(last("<|bot|>[MUSE]"), Some("[MUSE]"));
        assert_eq!(last("<|bot|>\n"), Some("<|bot|>"));
        assert_eq!(last("<|bot|>says"), None);
    }
}
