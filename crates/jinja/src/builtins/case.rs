//! Python's upper, lower, title and swapped case.

/// `str.upper`
pub(crate) fn upper(text: &str) -> String {
    text.to_uppercase()
}

/// `str.lower`
pub(crate) fn lower(text: &str) -> String {
    text.to_lowercase()
}

/// `str.casefold`
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .map(|c| match c {
            'ı' => c.to_string(),
            'ẞ' => "ss".to_owned(),
            // Cherokee folds to its capital letters, which are the older ones.
            '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => upper(&c.to_string()),
            c => upper(&c.to_string()).to_lowercase(),
        })
        .collect()
}

/// A character as it begins a word.
pub(crate) fn title_char(c: char, out: &mut String) {
    match c {
        // Letters that are written as two.
        'Ǆ' | 'ǅ' | 'ǆ' => out.push('ǅ'),
        'Ǉ' | 'ǈ' | 'ǉ' => out.push('ǈ'),
        'Ǌ' | 'ǋ' | 'ǌ' => out.push('ǋ'),
        'Ǳ' | 'ǲ' | 'ǳ' => out.push('ǲ'),
        // Georgian has capital letters that titles do not use.
        '\u{10d0}'..='\u{10ff}' => out.push(c),
        // Greek letters with a subscript have a form of their own.
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
            // ß becomes Ss: what follows the first letter of an expansion is small; marks stay.
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

/// `str.title`: every letter behind something that has no case begins a word.
pub(crate) fn title(text: &str, was_cased: &mut bool) -> String {
    let mut out = String::with_capacity(text.len());
    let lowered = lower(text);
    let mut lowered = lowered.chars();
    for c in text.chars() {
        // What a sigma becomes depends on its neighbours.
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

/// `str.swapcase`
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

/// Whether a character is upper, lower or title case.
pub(crate) fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || is_title(c)
}

pub(crate) fn is_title(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' | 'ᾼ' | 'ῌ' | 'ῼ')
}
