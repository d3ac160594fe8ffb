//! Python's case conversions.

/// Converts as `str.upper` does.
pub(crate) fn upper(text: &str) -> String {
    text.to_uppercase()
}

/// Converts as `str.lower` does.
pub(crate) fn lower(text: &str) -> String {
    text.to_lowercase()
}

/// Converts as `str.casefold` does.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .map(|c| match c {
            'ı' => c.to_string(),
            'ẞ' => "ss".to_owned(),
            // Cherokee folds to its uppercase letters, which were encoded first.
            '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => upper(&c.to_string()),
            c => upper(&c.to_string()).to_lowercase(),
        })
        .collect()
}

/// Appends the title case of a character.
pub(crate) fn title_char(c: char, out: &mut String) {
    match c {
        // Digraphs.
        'Ǆ' | 'ǅ' | 'ǆ' => out.push('ǅ'),
        'Ǉ' | 'ǈ' | 'ǉ' => out.push('ǈ'),
        'Ǌ' | 'ǋ' | 'ǌ' => out.push('ǋ'),
        'Ǳ' | 'ǲ' | 'ǳ' => out.push('ǲ'),
        // Georgian has uppercase letters that title case does not use.
        '\u{10d0}'..='\u{10ff}' => out.push(c),
        // Greek letters with iota subscript have separate title case forms.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            out.extend(char::from_u32(c as u32 + 8));
        }
        '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' => out.push(c),
        // An apostrophe and a letter.
        'ŉ' => out.push_str("ʼN"),
        'ᾳ' | 'ᾼ' => out.push('ᾼ'),
        'ῃ' | 'ῌ' => out.push('ῌ'),
        'ῳ' | 'ῼ' => out.push('ῼ'),
        c => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            // `ß` becomes `Ss`: after the first letter of an expansion, letters are lowercase, and
            // combining marks are unchanged.
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

/// Converts as `str.title` does: a letter after an uncased character starts a word.
pub(crate) fn title(text: &str, was_cased: &mut bool) -> String {
    let mut out = String::with_capacity(text.len());
    let lowered = lower(text);
    let mut lowered = lowered.chars();
    for c in text.chars() {
        // The lowercase form of a sigma depends on its neighbors.
        let small = lowered.by_ref().take(c.to_lowercase().len());
        if *was_cased {
            out.extend(small);
        } else {
            small.for_each(drop);
            title_char(c, &mut out);
        }
        *was_cased = is_cased(c);
    }
    out
}

/// Converts as `str.swapcase` does.
pub(crate) fn swap(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let lowered = lower(text);
    let mut lowered = lowered.chars();
    for c in text.chars() {
        let small = lowered.by_ref().take(c.to_lowercase().len());
        if c.is_uppercase() {
            out.extend(small);
            continue;
        }
        small.for_each(drop);
        if c.is_lowercase() {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// Reports whether a character is uppercase, lowercase or title case.
pub(crate) fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || is_title(c)
}

pub(crate) fn is_title(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' | 'ᾼ' | 'ῌ' | 'ῼ')
}
