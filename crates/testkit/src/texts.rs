//! Texts for tests of tokenizers: prose, code, many scripts, and everything that has broken an
//! engine.
//!
//! Start reading at [`mixed`].

use fastrand::Rng;

const WORDS: &[&str] = &[
    "the",
    "quick",
    "Brown",
    "FOX",
    "jumps",
    "over",
    "lazy",
    "dog",
    "naïve",
    "façade",
    "Ångström",
    "user",
    "don't",
    "WE'LL",
    "they're",
    "I'M",
    "she'd",
    "it's",
    "IT'S",
    "o'clock",
    "x'Dx",
    "'s",
    "'S",
    "'ll",
    "'LL",
    "'ſ",
    "'K",
    "HTTPServer",
    "fooBar",
    "snake_case",
    "iPhone",
    "ǅungla",
    "ʰword",
    "straße",
    "STRASSE",
    "İstanbul",
    "ﬁne",
    "Ωmega",
    "σίσυφος",
    "Привет",
    "мир",
    "שלום",
    "مرحبا",
    "سلام\u{200C}ها",
    "नमस्ते",
    "क्षत्रिय",
    "สวัสดีครับ",
    "ភាសាខ្មែរ",
    "தமிழ்",
    "한국어",
    "조선말",
    "\u{1112}\u{1161}\u{11ab}",
    "你好",
    "世界",
    "機械学習",
    "トークン",
    "ひらがな",
    "ｶﾀｶﾅ",
    "ＦＵＬＬ",
    "ｗｉｄｔｈ",
    "𠮷野家",
    "㍿",
    "①②③",
    "Ⅷ",
    "½",
    "²³",
    "४२",
    "٣٤",
];

const CODE: &[&str] = &[
    "fn main() {\n    println!(\"{}\", x);\n}\n",
    "if (a && b || !c) { return -1; }",
    "def f(x):\n\treturn x ** 2\n",
    "<div class=\"a\">&nbsp;</div>",
    "SELECT * FROM t WHERE a <> 'b';",
    "x += 1;;\r\n\r\n",
    "/* ---- */",
    "http://a.b/c?d=e&f=%20#g",
    "{\"a\": [1, 2.5e-3, null]}",
    "#include <stdio.h>",
    "a->b::c()",
    "\\n\\t\\u0041",
    "$HOME/.cargo",
    "---\n===\n***\n",
    "<0x0A><0xE2>",
];

const SPACES: &[&str] = &[
    " ",
    "  ",
    "   ",
    "    ",
    "        ",
    "\t",
    "\t\t",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    " \n",
    "\n ",
    "  \n  \n",
    " \r\n ",
    "\u{A0}",
    "\u{3000}",
    "\u{2003}",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{B}",
    "\u{C}",
    "\u{1C}",
    "\u{1680}",
    "\u{202F}",
    "\u{200B}",
    "\u{FEFF}",
    "\u{2581}",
    "\u{2581}\u{2581}",
    " \u{2581}",
    "\u{2581} ",
];

const EMOJI: &[&str] = &[
    "😀",
    "🎉🎉",
    "👍🏽",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪🇫🇷",
    "❤️",
    "☃",
    "1️⃣",
    "🧑🏿‍🚀",
    "©",
    "™",
    "→",
    "…",
    "—",
    "——",
    "“q”",
    "‘r’",
    "«s»",
    "。",
    "，",
    "！？",
    "、、",
];

/// Inputs that have broken something: composition, the order of combining characters,
/// noncharacters.
const TRAPS: &[&str] = &[
    "e\u{301}",
    "E\u{301}\u{323}",
    "e\u{323}\u{301}",
    "a\u{30A}",
    "\u{212B}",
    "\u{2126}",
    "\u{344}",
    "\u{301}",
    "\u{301}\u{302}",
    "o\u{31B}\u{323}",
    "\u{1100}\u{1161}",
    "\u{AC00}\u{11A8}",
    "\u{F900}",
    "\u{FA0E}",
    "\u{2F800}",
    "\u{958}",
    "\u{FB1D}",
    "\u{1D15E}",
    "s\u{323}\u{307}",
    "\u{FB2C}",
    "\u{9C7}\u{9BE}",
    "\u{0}",
    "\u{1}",
    "\u{7F}",
    "\u{9F}",
    "\u{E000}",
    "\u{F8FF}",
    "\u{FFFD}",
    "\u{FFFF}",
    "\u{10FFFF}",
    "\u{378}",
    "\u{2FE0}",
    "\u{E0001}",
    "\u{1F1E6}",
    "\u{FE0F}",
    "\u{200D}",
    "\u{34F}",
    "\u{61C}",
    "\u{FFF9}",
    "\u{1E900}",
    "\u{0345}\u{03B1}",
    "ά",
    "α\u{301}",
    "ή\u{345}",
    "Z\u{351}\u{321}\u{36B}\u{30A}\u{35D}\u{317}",
    "ü\u{304}",
    "u\u{308}\u{304}",
];

/// Returns a text of up to `parts` parts, with added tokens whole, cut and doubled.
pub fn mixed(rng: &mut Rng, added: &[String], parts: usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(0..=parts) {
        part(rng, added, &mut text);
    }
    text
}

fn part(rng: &mut Rng, added: &[String], text: &mut String) {
    match rng.u32(0..24) {
        0..6 => {
            for _ in 0..rng.usize(1..8) {
                text.push_str(pick(rng, WORDS));
                text.push_str([" ", " ", " ", ", ", ". ", "", "-"][rng.usize(0..7)]);
            }
        }
        6..8 => text.push_str(pick(rng, CODE)),
        8..11 => (0..rng.usize(1..4)).for_each(|_| text.push_str(pick(rng, SPACES))),
        11..13 => text.push_str(pick(rng, EMOJI)),
        13..15 => (0..rng.usize(1..4)).for_each(|_| text.push_str(pick(rng, TRAPS))),
        15 => (0..rng.usize(1..9)).for_each(|_| text.push(char::from(rng.u8(b'0'..=b'9')))),
        16 => text.push_str(&pick(rng, SPACES).repeat(rng.usize(1..40))),
        17 => (0..rng.usize(1..20)).for_each(|_| text.push(char::from(rng.u8(0..128)))),
        18 => (0..rng.usize(1..6)).for_each(|_| text.push(rng.char(..))),
        19 => (0..rng.usize(1..12)).for_each(|_| text.push(rng.char('\u{80}'..'\u{3100}'))),
        20 => (0..rng.usize(1..12)).for_each(|_| text.push(rng.char('一'..'龥'))),
        21 => {
            let bytes: Vec<u8> = (0..rng.usize(1..16)).map(|_| rng.u8(..)).collect();
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        22 if !added.is_empty() => {
            let token = &added[rng.usize(0..added.len())];
            let cut = rng.usize(0..=token.len());
            let cut = (0..=cut).rev().find(|&cut| token.is_char_boundary(cut)).unwrap_or(0);
            match rng.u32(0..4) {
                0 => text.push_str(&token[..cut]),
                1 => text.push_str(&token[cut..]),
                2 => text.push_str(&token.repeat(2)),
                _ => text.push_str(token),
            }
        }
        _ => text.push_str(&pick(rng, WORDS).repeat(rng.usize(1..4))),
    }
}

/// Returns one long word of a random kind: letters of an alphabet, one repeated letter, digits,
/// combining characters.
pub fn long_word(rng: &mut Rng, length: usize) -> String {
    let mut text = String::new();
    let kind = rng.u32(0..7);
    while text.len() < length {
        match kind {
            0 => text.push(char::from(rng.u8(b'a'..=b'z'))),
            1 => text.push('a'),
            2 => text.push(rng.char('一'..'龥')),
            3 => text.push(char::from(rng.u8(b'0'..=b'9'))),
            4 => text.push(rng.char('\u{300}'..'\u{370}')),
            5 => text.push_str(pick(rng, WORDS)),
            _ => text.push_str(pick(rng, EMOJI)),
        }
    }
    text
}

fn pick<'a>(rng: &mut Rng, list: &[&'a str]) -> &'a str {
    list[rng.usize(0..list.len())]
}
