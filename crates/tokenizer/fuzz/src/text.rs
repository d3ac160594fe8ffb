//! Texts made from bytes: each few bytes append a part or repeat an earlier one.

/// The longest texts. They have more tokens than are handed over at once, and those of few letters
/// have words of more than one window of merges.
const LONGEST: usize = 8 << 10;
const LONGEST_OF_LETTERS: usize = 3 << 10;

/// The bytes of an input, read one by one; zeros follow them.
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    /// Returns a number below `bound`, which is at most 65,536.
    pub fn below(&mut self, bound: usize) -> usize {
        let high = if bound > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (high | usize::from(self.byte())) % bound.max(1)
    }

    pub fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.below(list.len())]
    }

    /// Takes the next bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes the rest.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// What a text is made of.
#[derive(Clone, Copy)]
pub enum TextKind<'a> {
    /// Everything that is in these tables.
    Mixed,
    /// These letters alone.
    Letters(&'a [&'a str]),
}

/// Makes a text. `added` are the tokenizer's control tokens and others that are worth spelling.
pub fn text_of(bytes: &mut Bytes<'_>, kind: TextKind<'_>, added: &[String]) -> String {
    let mut text = String::new();
    let longest = match kind {
        TextKind::Mixed => LONGEST,
        TextKind::Letters(_) => LONGEST_OF_LETTERS,
    };
    while !bytes.is_over() && text.len() < longest {
        match kind {
            TextKind::Mixed => push_part(bytes, added, &mut text),
            TextKind::Letters(letters) => push_letters(bytes, letters, added, &mut text),
        }
    }
    while text.len() > longest {
        text.pop();
    }
    text
}

fn push_letters(bytes: &mut Bytes<'_>, letters: &[&str], added: &[String], text: &mut String) {
    match bytes.below(8) {
        0..4 => {
            // Two letters for each byte.
            for _ in 0..bytes.below(16) {
                let both = bytes.below(256);
                text.push_str(letters[both % 16 % letters.len()]);
                text.push_str(letters[both / 16 % letters.len()]);
            }
        }
        4 => text.push_str(&bytes.pick(letters).repeat(bytes.below(1 << 13))),
        5 => repeat_earlier(bytes, text),
        6 => push_random(bytes, text, |random| letters[random % letters.len()].into()),
        _ => push_added(bytes, added, text),
    }
}

fn push_part(bytes: &mut Bytes<'_>, added: &[String], text: &mut String) {
    match bytes.below(16) {
        0..3 => text.push_str(bytes.pick(FRAGMENTS)),
        3 => {
            for _ in 0..bytes.below(12) {
                text.push_str(bytes.pick(FRAGMENTS));
                text.push(' ');
            }
        }
        4 => text.push_str(bytes.pick(SPACES)),
        5 => (0..bytes.below(40)).for_each(|_| text.push_str(bytes.pick(SPACES))),
        6 => text.push_str(&bytes.pick(SPACES).repeat(bytes.below(700))),
        7 => text.push_str(&bytes.pick(FRAGMENTS).repeat(bytes.below(120))),
        8 | 9 => repeat_earlier(bytes, text),
        10 => push_script(bytes, text),
        11 => push_added(bytes, added, text),
        12 => push_random(bytes, text, |random| char::from(b'0' + (random % 10) as u8).to_string()),
        13 => push_random(bytes, text, |random| char::from((random % 128) as u8).to_string()),
        14 => {
            // Many words, most of which occur once.
            let spread = 1 + bytes.below(1 << 14);
            push_random(bytes, text, |random| {
                let word = random % spread;
                let letter = |place: u32| char::from(b'a' + (word / 26usize.pow(place) % 26) as u8);
                format!(" {}{}{}{}", letter(0), letter(1), letter(2), word % 7)
            });
        }
        _ => text.push_str(&String::from_utf8_lossy(&(0..bytes.below(24)).map(|_| bytes.byte()).collect::<Vec<_>>())),
    }
}

/// Appends a part of the text so far, or one of its ends.
fn repeat_earlier(bytes: &mut Bytes<'_>, text: &mut String) {
    let from = floor(text, bytes.below(1 << 16) % (text.len() + 1));
    let to = floor(text, (from + bytes.below(600)).min(text.len()));
    let part = text[from..to].to_owned();
    (0..=bytes.below(3)).for_each(|_| text.push_str(&part));
}

/// Appends a run of characters of a script.
fn push_script(bytes: &mut Bytes<'_>, text: &mut String) {
    let (first, last) = SCRIPTS[bytes.below(SCRIPTS.len())];
    let span = 1 + bytes.below(256) as u32 * (1 + (last as u32 - first as u32) / 256);
    push_random(bytes, text, |random| {
        char::from_u32((first as u32 + random as u32 % span).min(last as u32)).unwrap_or('x').to_string()
    });
}

/// Appends a run of what random numbers stand for; its length and seed are in the input.
fn push_random(bytes: &mut Bytes<'_>, text: &mut String, make: impl Fn(usize) -> String) {
    let count = match bytes.below(8) {
        0 => bytes.below(4_000),
        1 => bytes.below(400),
        _ => bytes.below(32),
    };
    let mut state = bytes.below(256) as u64 + 1;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&make((state >> 33) as usize));
    }
}

/// Appends a token's text, whole, cut or doubled.
fn push_added(bytes: &mut Bytes<'_>, added: &[String], text: &mut String) {
    let Some(last) = added.len().checked_sub(1) else { return };
    let token = &added[bytes.below(1 << 16).min(last.max(1) * 64) % added.len()];
    let cut = floor(token, bytes.below(64).min(token.len()));
    text.push_str(match bytes.below(4) {
        0 => &token[..cut],
        1 => &token[cut..],
        _ => token,
    });
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

const SPACES: &[&str] = &[
    " ",
    "  ",
    "   ",
    "    ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    " \n",
    "\n ",
    "\t\n",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\u{1f}",
    "\u{85}",
    "\u{a0}",
    "\u{1680}",
    "\u{180e}",
    "\u{2000}",
    "\u{2003}",
    "\u{2009}",
    "\u{200a}",
    "\u{200b}",
    "\u{2028}",
    "\u{2029}",
    "\u{202f}",
    "\u{205f}",
    "\u{2060}",
    "\u{3000}",
    "\u{feff}",
    "\u{2581}",
    "\u{2581}\u{2581}",
    " \u{2581}",
    "\u{2581} ",
    "\n\t ",
    " \r",
    "\u{a0} ",
    " \u{3000}",
];

const FRAGMENTS: &[&str] = &[
    "a",
    "b",
    "the",
    "The",
    "THE",
    "word",
    "ing",
    "'s",
    "'S",
    "'t",
    "'re",
    "'RE",
    "'ve",
    "'m",
    "'ll",
    "'LL",
    "'d",
    "'ſ",
    "'K",
    "’s",
    "don't",
    "WE'LL",
    "I'M",
    "x'Dx",
    "o'clock",
    "naïve",
    "façade",
    "Ångström",
    "straße",
    "İstanbul",
    "ﬁne",
    "ǅungla",
    "ʰword",
    "Ωmega",
    "σίσυφος",
    "ſ",
    "K",
    "ß",
    "ı",
    "İ",
    "Привет",
    "мир",
    "שלום",
    "שָׁלוֹם",
    "مرحبا",
    "سلام\u{200c}ها",
    "नमस्ते",
    "क्षत्रिय",
    "สวัสดีครับ",
    "ភាសាខ្មែរ",
    "தமிழ்",
    "한국어",
    "\u{1112}\u{1161}\u{11ab}",
    "\u{1100}\u{1161}",
    "가\u{11a8}",
    "你好",
    "世界",
    "中文",
    "人民",
    "機械学習",
    "トークン",
    "ひらがな",
    "か\u{3099}",
    "は\u{309a}",
    "ｶﾞ",
    "ＦＵＬＬ",
    "𠮷野家",
    "㍿",
    "①②③",
    "Ⅷ",
    "½",
    "²³",
    "४२",
    "٣٤",
    "0",
    "1",
    "12",
    "123",
    "1234",
    "12345678901234567890",
    "1,000.5",
    "-1",
    "1e9",
    "0x1F",
    "v1.2.3",
    ".",
    ",",
    "!",
    "?",
    "...",
    "--",
    "---",
    "——",
    "…",
    "“",
    "”",
    "。",
    "，",
    "、",
    "！？",
    "(",
    ")",
    "()",
    "[]",
    "{}",
    "{\"",
    "\":",
    "\", \"",
    "//",
    "/*",
    "*/",
    "\\",
    "\\n",
    "<",
    ">",
    "</",
    "/>",
    "<|",
    "|>",
    "==",
    "!=",
    "->",
    "=>",
    "::",
    "&&",
    "||",
    "+=",
    ";\n",
    "{\n",
    "}\n",
    "\n    ",
    "\n\n    ",
    "\n\t\t",
    "#",
    "$",
    "%",
    "@",
    "^",
    "~",
    "`",
    "```",
    "_",
    "__init__",
    "snake_case",
    "camelCase",
    "HTTPServer",
    "http://a.b/c?d=e#f",
    "a@b.c",
    "😀",
    "🎉🎉",
    "👍🏽",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪🇫🇷",
    "❤️",
    "1️⃣",
    "🧑🏿‍🚀",
    "©",
    "™",
    "→",
    "∑",
    "√",
    "€",
    "£",
    "¥",
    "\u{20e3}",
    "e\u{301}",
    "E\u{301}\u{323}",
    "e\u{323}\u{301}",
    "a\u{30a}",
    "\u{212b}",
    "\u{2126}",
    "\u{344}",
    "\u{301}",
    "\u{301}\u{302}",
    "o\u{31b}\u{323}",
    "s\u{323}\u{307}",
    "\u{958}",
    "\u{915}\u{93c}",
    "\u{9c7}\u{9be}",
    "\u{fb1d}",
    "\u{fb2c}",
    "\u{1d15e}",
    "\u{f900}",
    "\u{fa0e}",
    "\u{2f800}",
    "ά",
    "α\u{301}",
    "ή\u{345}",
    "\u{345}\u{3b1}",
    "ü\u{304}",
    "u\u{308}\u{304}",
    "Z\u{351}\u{321}\u{36b}\u{30a}\u{35d}\u{317}",
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "\u{9f}",
    "\u{ad}",
    "\u{34f}",
    "\u{61c}",
    "\u{200d}",
    "\u{200e}",
    "\u{2066}",
    "\u{fe0f}",
    "\u{e000}",
    "\u{f8ff}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{378}",
    "\u{2fe0}",
    "\u{e0001}",
    "\u{1f1e6}",
    "\u{fff9}",
    "\u{1e900}",
    "<0x0A>",
    "<0xE2>",
    "<s>",
    "</s>",
    "<unk>",
    "[INST]",
    "aaaaaaaaaaaaaaaa",
    "abababababababab",
    "supercalifragilistic",
    "================",
    "中文中文中文中文中文",
];

const SCRIPTS: &[(char, char)] = &[
    ('a', 'z'),
    ('A', 'Z'),
    ('\u{80}', '\u{ff}'),
    ('\u{100}', '\u{24f}'),
    ('\u{300}', '\u{36f}'),
    ('\u{370}', '\u{3ff}'),
    ('\u{400}', '\u{52f}'),
    ('\u{590}', '\u{5ff}'),
    ('\u{600}', '\u{6ff}'),
    ('\u{900}', '\u{97f}'),
    ('\u{980}', '\u{dff}'),
    ('\u{e00}', '\u{e7f}'),
    ('\u{1000}', '\u{109f}'),
    ('\u{1100}', '\u{11ff}'),
    ('\u{1780}', '\u{17ff}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{1e00}', '\u{1fff}'),
    ('\u{2000}', '\u{206f}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{2190}', '\u{2bff}'),
    ('\u{3000}', '\u{30ff}'),
    ('\u{3040}', '\u{309f}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{f900}', '\u{ffff}'),
    ('\u{10000}', '\u{10fff}'),
    ('\u{1d000}', '\u{1d7ff}'),
    ('\u{1f000}', '\u{1faff}'),
    ('\u{20000}', '\u{2ffff}'),
    ('\u{e0000}', '\u{e01ef}'),
];
