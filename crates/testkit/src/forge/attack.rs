//! Texts that try to become control tokens.

use fastrand::Rng;

use super::Marks;

/// White space between the parts of a text, as found in files and typed on keyboards.
const SPACES: [&str; 16] = [
    " ", " ", " ", "\n", "\n\n", "\r\n", "\t", "  ", "    ", "\n ", " \n", "\u{a0}", "\u{3000}", "\u{2028}", "\r",
    "\u{1c}",
];
/// Texts put next to markers: quotes, escapes, brackets, letters and odd characters.
const BESIDE: [&str; 23] = [
    // A normalizer of our own turns this one into a control token.
    "\u{a7}", "a", "hi", "\"", "\\", "'", "{", "}}", "é", "👍🏽", "```", "null", "e\u{301}", "\u{338}", "\u{200b}",
    "\u{feff}", "<", ">", "|", "\u{0}", "</", "\u{202e}", "The",
];
/// Characters that are invisible, or that join their neighbours.
const UNSEEN: [&str; 9] =
    ["\u{200b}", "\u{200d}", "\u{2060}", "\u{feff}", "\u{ad}", "\u{0}", "\u{301}", "\u{fe0f}", "\u{7f}"];

/// Makes a text of markers, disguised in every way that has ever fooled a tokenizer.
pub fn attack(marks: &Marks, rng: &mut Rng) -> String {
    let mut text = String::new();
    if rng.u8(..4) == 0 {
        text.push_str(pick(&BESIDE, rng));
    }
    for _ in 0..rng.usize(1..4) {
        if rng.u8(..3) == 0 {
            text.push_str(pick(&SPACES, rng));
        }
        disguise(marks, rng, &mut text);
        if rng.u8(..4) == 0 {
            text.push_str(pick(&BESIDE, rng));
        }
    }
    if rng.u8(..5) == 0 {
        text.push_str(pick(&SPACES, rng));
    }
    text
}

/// Writes one marker: unchanged, cut, doubled or disguised.
fn disguise(marks: &Marks, rng: &mut Rng, text: &mut String) {
    let mark = marks.pick(rng);
    let borders: Vec<usize> = mark.char_indices().map(|(at, _)| at).chain([mark.len()]).collect();
    let cut = borders[rng.usize(..borders.len())];
    let (head, tail) = mark.split_at(cut);
    match rng.u8(..24) {
        0..=4 => text.push_str(mark),
        5..=6 => text.push_str(head),
        7..=8 => text.push_str(tail),
        // The second half, then the first half, so that a neighbouring text may complete either.
        9 => text.extend([tail, head]),
        10 => text.push_str(&mark.repeat(2)),
        11 => text.extend([head, mark, tail]),
        12 => text.extend([head, marks.pick(rng), tail]),
        13 => text.push_str(&mark.to_uppercase()),
        14 => text.extend(mark.chars().map(|c| if c.is_lowercase() { upper(c) } else { lower(c) })),
        15 => text.extend([head, pick(&SPACES, rng), tail]),
        16 => text.extend([pick(&SPACES, rng), mark, pick(&SPACES, rng)]),
        17 => text.extend([head, pick(&UNSEEN, rng), tail]),
        18 => text.extend(mark.chars().map(wide)),
        19 => text.extend(mark.chars().map(|c| look_alike(c, rng))),
        20 => text.extend(mark.chars().map(|c| alphabet(c, rng))),
        21 => escape(mark, rng, text),
        22 => {
            // Write every byte by the name of its token.
            text.extend(mark.bytes().map(|byte| format!("<0x{byte:02X}>")));
        }
        _ => {
            // Separate a letter from its combining character, or use a character that normalizes to
            // this one.
            for c in mark.chars() {
                match decomposed(c).filter(|_| rng.bool()) {
                    Some(apart) => text.push_str(apart),
                    None => text.push(c),
                }
            }
        }
    }
}

/// Returns the character that the compatibility normal forms fold to this one.
fn wide(c: char) -> char {
    match c {
        ' ' => '\u{3000}',
        '!'..='~' => char::from_u32(c as u32 + 0xfee0).unwrap_or(c),
        '\u{ff5c}' => '|',
        '\u{2581}' => ' ',
        other => other,
    }
}

/// Returns another character that a normal form or the eye takes for this one.
fn look_alike(c: char, rng: &mut Rng) -> char {
    let other: &[char] = match c {
        '<' => &['\u{fe64}', '\u{ff1c}', '\u{2039}', '\u{3c}'],
        '>' => &['\u{fe65}', '\u{ff1e}', '\u{203a}'],
        '|' => &['\u{ff5c}', '\u{2223}', '\u{ffe8}', '\u{1c0}'],
        '\u{ff5c}' => &['|', '\u{2502}'],
        '_' => &['\u{2581}', '\u{ff3f}', '\u{fe4d}'],
        '\u{2581}' => &['_', ' ', '\u{2582}'],
        '/' => &['\u{ff0f}', '\u{2215}'],
        '[' => &['\u{ff3b}'],
        ']' => &['\u{ff3d}'],
        'k' | 'K' => &['\u{212a}'],
        's' | 'S' => &['\u{17f}', '\u{ff53}', '\u{24e2}', '\u{2e2}'],
        'i' | 'I' => &['\u{130}', '\u{2170}', '\u{1d422}', '\u{ff29}'],
        'a'..='z' => &['\u{430}'],
        _ => &[],
    };
    match other {
        [] => c,
        _ if rng.u8(..3) == 0 => c,
        other => other[rng.usize(..other.len())],
    }
}

/// Returns the character in a tokenizer's own alphabet, where a space may be `▁` or `Ġ`.
fn alphabet(c: char, rng: &mut Rng) -> char {
    match (c, rng.bool()) {
        (' ', true) => '\u{2581}',
        (' ', false) => '\u{120}',
        ('\n', _) => '\u{10a}',
        ('\u{2581}', _) => ' ',
        ('_', true) => '\u{2581}',
        _ => c,
    }
}

/// Writes the marker as another language escapes it, once or in one place.
fn escape(mark: &str, rng: &mut Rng, text: &mut String) {
    let how = rng.u8(..6);
    for c in mark.chars() {
        match (how, c) {
            (0, c) if !c.is_alphanumeric() => text.push_str(&format!("\\u{:04x}", c as u32)),
            (1, '<') => text.push_str("&lt;"),
            (1, '>') => text.push_str("&gt;"),
            (1, '|') => text.push_str("&#124;"),
            (2, c) if c.is_ascii_punctuation() => text.push_str(&format!("%{:02X}", c as u32)),
            (3, '<') => text.push_str("\\<"),
            (4, '<') => text.push_str("<0x3C>"),
            (5, '<' | '[') => text.push_str("{{'"),
            (5, '>' | ']') => text.push_str("'}}"),
            (_, c) => text.push(c),
        }
    }
}

/// Returns text that the canonical normal form relates to this character.
fn decomposed(c: char) -> Option<&'static str> {
    Some(match c {
        'é' => "e\u{301}",
        'K' => "\u{212a}",
        ';' => "\u{37e}",
        '`' => "\u{1fef}",
        '<' => "\u{226e}",
        '>' => "\u{226f}",
        '=' => "=\u{338}",
        'a' => "a\u{30a}",
        'n' => "n\u{303}",
        _ => return None,
    })
}

fn upper(c: char) -> char {
    c.to_uppercase().next().unwrap_or(c)
}

fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn pick<'a>(list: &[&'a str], rng: &mut Rng) -> &'a str {
    list[rng.usize(..list.len())]
}
