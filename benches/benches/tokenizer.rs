//! Compares encoding with the `tokenizers` crate and tiktoken-rs: the same text, equal ids, in one
//! run.
//!
//!     cargo bench -p rolecall-benches --bench tokenizer [-- FOLDER]
//!
//! FOLDER contains one folder for each tokenizer; the default is ../shared/tokenizers next to the
//! project. The text is 1 MiB of generated prose, code, Chinese, Japanese and emoji. After it come
//! texts that make encoders slow, in two sizes.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rolecall::tokenizer;
use rolecall::tokenizer::{TextPlace, Tokenizer};

/// The timed work.
type Work<'a> = Box<dyn FnMut() + 'a>;
/// Makes a text of the given number of bytes.
type MakeText = fn(usize) -> String;

const MIB: usize = 1 << 20;
const ROUNDS: usize = 9;

/// The tokenizers and their folders.
const TOKENIZERS: [(&str, &str); 6] = [
    ("Qwen3", "qwen3"),
    ("Llama 3", "llama3"),
    ("DeepSeek V3", "deepseek-v3"),
    ("Llama 2", "llama2"),
    ("InternLM2", "internlm2"),
    ("Mistral v3", "mistral-v3"),
];

/// The patterns of the tokenizers whose ids are ranks, as tiktoken-rs expects them.
const TIKTOKEN_PATTERNS: [(&str, &str); 2] = [
    (
        "qwen3",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    (
        "llama3",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

fn main() {
    let folder = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with("--"))
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/tokenizers")), PathBuf::from);
    if !folder.is_dir() {
        println!("no tokenizers: {} does not exist; give a folder with one folder for each", folder.display());
        return;
    }
    let text = mixed_text(MIB);
    println!(
        "{:<12} {:>8} {:>9} {:>9} {:>9} {:>9} {:>12} {:>9}   {:>8} {:>8} {:>10}",
        "MB/s",
        "load, ms",
        "its load",
        "rolecall",
        "short",
        "encode",
        "encode_fast",
        "tiktoken",
        "× encode",
        "× fast",
        "× tiktoken"
    );
    for (name, path) in TOKENIZERS {
        measure_speed(name, &folder.join(path), path, &text);
    }
    println!(
        "\nmedians of {ROUNDS} interleaved rounds, {} bytes; its load: of `tokenizers`; short: the same in pieces of about 400 bytes; × encode: rolecall / encode of",
        text.len()
    );
    println!(
        "`tokenizers`, without its special tokens; rolecall returns spans, as `encode` does; encode_fast and tiktoken-rs return none.\n"
    );
    println!("{:<12} {:<16} {:>9} {:>9} {:>9}", "time", "text", "1 MB, ms", "4 MB, ms", "ratio");
    for (name, path) in TOKENIZERS {
        measure_growth(name, &folder.join(path));
    }
}

fn measure_speed(name: &str, folder: &Path, path: &str, text: &str) {
    let start = Instant::now();
    let Ok(ours) = tokenizer::load(folder) else {
        println!("{name:<12} not in {}", folder.display());
        return;
    };
    let load = start.elapsed();
    let ids = |tokens: &[tokenizer::Token]| tokens.iter().map(|token| token.id).collect::<Vec<u32>>();
    let encoded = encode(&*ours, text);
    let start = Instant::now();
    let peer = peer(folder);
    let its_load = peer.as_ref().map(|_| start.elapsed().as_secs_f64() * 1e3);
    let tiktoken =
        TIKTOKEN_PATTERNS.iter().find(|(known, _)| *known == path).map(|(_, pattern)| tiktoken(folder, pattern));
    if let Some(peer) = &peer {
        let theirs = peer.encode(text, false).expect("it encodes");
        assert!(ids(&encoded) == theirs.get_ids(), "{name}: ids differ from `encode`");
    }
    if let Some(tiktoken) = &tiktoken {
        assert!(ids(&encoded) == tiktoken.encode_ordinary(text), "{name}: ids differ from tiktoken-rs");
    }
    let pieces = pieces(text);
    let mut out = Vec::new();
    let mut work: Vec<(&str, Work<'_>)> = vec![
        ("rolecall", Box::new(|| drop(black_box(encode(&*ours, text))))),
        (
            "short",
            Box::new(|| {
                for piece in &pieces {
                    out.clear();
                    ours.encode_ordinary(piece, TextPlace::Inside, &mut out).expect("it encodes");
                }
            }),
        ),
    ];
    if let Some(peer) = &peer {
        work.push(("encode", Box::new(|| drop(black_box(peer.encode(text, false))))));
        work.push(("encode_fast", Box::new(|| drop(black_box(peer.encode_fast(text, false))))));
    }
    if let Some(tiktoken) = &tiktoken {
        work.push(("tiktoken", Box::new(|| drop(black_box(tiktoken.encode_ordinary(text))))));
    }
    let mut times = vec![Vec::new(); work.len()];
    for _ in 0..ROUNDS {
        for ((_, work), times) in work.iter_mut().zip(&mut times) {
            let start = Instant::now();
            work();
            times.push(start.elapsed());
        }
    }
    let speed = |wanted: &str| {
        let at = work.iter().position(|(name, _)| *name == wanted)?;
        let mut times = times[at].clone();
        times.sort();
        Some(text.len() as f64 / 1e6 / times[ROUNDS / 2].as_secs_f64())
    };
    let ratio = |wanted: &str| Some(speed("rolecall")? / speed(wanted)?);
    let show = |speed: Option<f64>| speed.map_or("-".to_owned(), |speed| format!("{speed:.1}"));
    println!(
        "{name:<12} {:>8} {:>9} {:>9} {:>9} {:>9} {:>12} {:>9}   {:>8} {:>8} {:>10}",
        load.as_millis(),
        its_load.map_or("-".to_owned(), |load| format!("{load:.0}")),
        show(speed("rolecall")),
        show(speed("short")),
        show(speed("encode")),
        show(speed("encode_fast")),
        show(speed("tiktoken")),
        show(ratio("encode")),
        show(ratio("encode_fast")),
        show(ratio("tiktoken")),
    );
}

fn encode(tokenizer: &dyn Tokenizer, text: &str) -> Vec<tokenizer::Token> {
    let mut out = Vec::new();
    tokenizer.encode_ordinary(text, TextPlace::Start, &mut out).expect("it encodes");
    out
}

/// Loads a file into the `tokenizers` crate, if the crate can read it, with the prefix space as in
/// transformers.
fn peer(folder: &Path) -> Option<tokenizers::Tokenizer> {
    let mut peer = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).ok()?;
    let config = std::fs::read(folder.join("tokenizer_config.json")).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
    if let Some(legacy) = config["legacy"].as_bool()
        && peer.get_pre_tokenizer().is_none()
    {
        use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
        let scheme = if legacy { PrependScheme::Always } else { PrependScheme::First };
        peer.with_normalizer(None::<tokenizers::NormalizerWrapper>).ok()?;
        peer.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', scheme, false)));
    }
    Some(peer)
}

/// Makes a tiktoken-rs encoder from the vocabulary of a file whose ids are ranks.
fn tiktoken(folder: &Path, pattern: &str) -> tiktoken_rs::CoreBPE {
    let json = std::fs::read(folder.join("tokenizer.json")).expect("it was read before");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("it was read before");
    let vocabulary = json["model"]["vocab"].as_object().expect("it was read before");
    let bytes: Vec<(char, u8)> = (0..=255).map(|byte| (byte_character(byte), byte)).collect();
    let encoder = vocabulary.iter().filter_map(|(text, id)| {
        let text: Option<Vec<u8>> =
            text.chars().map(|c| bytes.iter().find(|(known, _)| *known == c).map(|&(_, byte)| byte)).collect();
        Some((text?, u32::try_from(id.as_u64()?).ok()?))
    });
    tiktoken_rs::CoreBPE::new(encoder.collect(), Default::default(), pattern).expect("a valid vocabulary")
}

/// Returns the character for a byte in byte-level vocabularies.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    char::from_u32(256 + (0..byte).filter(|&byte| !printable(byte)).count() as u32).unwrap_or_default()
}

fn measure_growth(name: &str, folder: &Path) {
    let Ok(tokenizer) = tokenizer::load(folder) else { return };
    for (kind, make) in SLOW_TEXTS {
        let time = |bytes: usize| {
            let text = make(bytes);
            (0..5)
                .map(|_| {
                    let start = Instant::now();
                    drop(black_box(encode(&*tokenizer, &text)));
                    start.elapsed()
                })
                .min()
                .unwrap_or_default()
        };
        let (one, four): (Duration, Duration) = (time(1_000_000), time(4_000_000));
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:<12} {kind:<16} {:>9.1} {:>9.1} {:>9.2}",
            milliseconds(one),
            milliseconds(four),
            milliseconds(four) / milliseconds(one)
        );
    }
}

const SLOW_TEXTS: [(&str, MakeText); 10] = [
    ("one word", |bytes| "internationalization".repeat(bytes / 20)),
    ("random letters", |bytes| random_text(bytes, |random| char::from(b'a' + (random % 26) as u8))),
    ("one letter", |bytes| "a".repeat(bytes)),
    ("spaces", |bytes| " ".repeat(bytes)),
    ("newlines", |bytes| "\n".repeat(bytes)),
    ("emoji", |bytes| random_text(bytes, |random| char::from_u32(0x1F600 + random as u32 % 64).unwrap_or('a'))),
    ("random bytes", |bytes| {
        let mut random = Random(1);
        let bytes: Vec<u8> = (0..bytes / 2).map(|_| random.next() as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }),
    ("Chinese", |bytes| random_text(bytes, |random| char::from_u32(0x4E00 + random as u32 % 3000).unwrap_or('a'))),
    ("digits", |bytes| random_text(bytes, |random| char::from(b'0' + (random % 10) as u8))),
    ("marks", |bytes| random_text(bytes, |random| char::from_u32(0x300 + random as u32 % 64).unwrap_or('a'))),
];

fn random_text(bytes: usize, mut character: impl FnMut(u64) -> char) -> String {
    let mut random = Random(7);
    let mut text = String::with_capacity(bytes + 4);
    while text.len() < bytes {
        text.push(character(random.next()));
    }
    text
}

/// Splits a text into pieces of about 400 bytes.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(boundary(rest, 400));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Returns the last character boundary up to a byte.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    /// Returns small numbers more often than large ones, like the frequency of words in a text.
    fn rank(&mut self, bound: usize) -> usize {
        let (a, b) = (self.below(bound) + 1, self.below(bound) + 1);
        a * b / (bound + 1) * (self.below(bound) + 1) / (bound + 1)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const COMMON: &str = "the of and to in a is that it for was on are as with be by this have from at or one had not but what all were \
when we there can an your which their said if do will each about how up out them then she many some so these would other into has \
more her two like him see time could no make than first been its who now people my made over did down only way find use may water \
long little very after words called just where most know get through back much before go good new write our me man too any day same \
right look think also around another came come work three must because does part even place well such here take why things help put \
years different away again off went old number great tell men say small every found still between name should home big give air line \
set own under read last never us left end along while might next sound below saw something thought both few those always looked show \
large often together asked house world going want school important until form food keep children feet land side without boy once \
animals life enough took sometimes four head above kind began almost live page got earth need far hand high year mother light country \
father let night following picture being study second eyes soon times story boys since white days ever paper hard near sentence \
better best across during today others however sure means knew try told young miles sun ways thing whole hear example heard several \
change answer room sea against top turned learn point city play toward five using himself usually";

const CHARACTERS: &str = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标写存候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严";

const KANA: &str = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんがぎぐげござじずぜぞだでどばびぶべぼアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワンー";

const EMOJI: &[&str] = &[
    "😀",
    "😂",
    "🎉",
    "👍",
    "👍🏽",
    "❤️",
    "🔥",
    "🚀",
    "👩‍💻",
    "👨‍👩‍👧",
    "🏳️‍🌈",
    "🇩🇪",
    "🇯🇵",
    "✨",
    "🤔",
    "✅",
    "⚠️",
    "📦",
    "🐛",
    "🙏",
];

/// Makes a text of half prose, a quarter code, a fifth Chinese and Japanese, and emoji, in
/// alternating paragraphs.
fn mixed_text(bytes: usize) -> String {
    let mut random = Random(42);
    let common: Vec<&str> = COMMON.split_whitespace().collect();
    let made: Vec<String> = (0..6_000).map(|_| made_word(&mut random)).collect();
    let characters: Vec<char> = CHARACTERS.chars().collect();
    let kana: Vec<char> = KANA.chars().collect();
    let mut text = String::with_capacity(bytes + 1_000);
    while text.len() < bytes {
        match random.below(20) {
            0..10 => prose(&mut random, &common, &made, &mut text),
            10..15 => code(&mut random, &common, &made, &mut text),
            15..18 => east_asian(&mut random, &characters, &[], &mut text),
            18 => east_asian(&mut random, &characters, &kana, &mut text),
            _ => (0..random.below(12) + 1).for_each(|_| text.push_str(random.pick(EMOJI))),
        }
        text.push_str(["\n", "\n\n", "\n\n", " "][random.below(4)]);
    }
    text.truncate(boundary(&text, bytes));
    text
}

fn made_word(random: &mut Random) -> String {
    const PARTS: &[&str] = &[
        "con", "tra", "ment", "in", "ter", "pre", "ro", "sta", "tion", "able", "ly", "de", "ver", "ing", "er", "ous",
        "mi", "cro", "gra", "phy", "log", "ic", "al", "un", "re", "per", "for", "man", "ce", "ne", "ti", "ber", "lin",
        "sor", "vel", "dan", "kir", "ost",
    ];
    (0..random.below(3) + 2).map(|_| random.pick(PARTS)).collect()
}

fn word<'a>(random: &mut Random, common: &[&'a str], made: &'a [String]) -> &'a str {
    if random.below(4) > 0 { common[random.rank(common.len())] } else { &made[random.rank(made.len())] }
}

fn prose(random: &mut Random, common: &[&str], made: &[String], text: &mut String) {
    for _ in 0..random.below(6) + 2 {
        for at in 0..random.below(18) + 4 {
            let word = word(random, common, made);
            match at {
                0 => text.extend(word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1))),
                _ => {
                    text.push_str([" ", " ", " ", " ", " ", " ", ", ", " "][random.below(8)]);
                    text.push_str(word);
                }
            }
            match random.below(40) {
                0 => text.push_str(["'s", "n't", "'ll", "’s"][random.below(4)]),
                1 => text.push_str(&format!(" {}", random.below(3000))),
                2 => text.push_str(&format!(
                    " ({}, “{}”)",
                    common[random.below(common.len())],
                    made[random.below(made.len())]
                )),
                _ => {}
            }
        }
        text.push_str([". ", ". ", "? ", "! ", "; "][random.below(5)]);
    }
}

fn code(random: &mut Random, common: &[&str], made: &[String], text: &mut String) {
    let name = |random: &mut Random| {
        let (first, second) = (word(random, common, made).to_owned(), word(random, common, made).to_owned());
        match random.below(3) {
            0 => first,
            1 => format!("{first}_{second}"),
            _ => first + &second[..1].to_uppercase() + &second[1..],
        }
    };
    let indent = "    ".repeat(random.below(4));
    let (a, b, c) = (name(random), name(random), name(random));
    text.push_str(&format!("{indent}pub fn {a}(&self, {b}: &str) -> Result<Vec<u32>, Error> {{\n"));
    for _ in 0..random.below(8) + 1 {
        let (x, number) = (name(random), random.below(100_000));
        let line = match random.below(6) {
            0 => format!("{indent}    let {x} = self.{b}.get({number})?;\n"),
            1 => format!("{indent}    if {x} != {c} && {a} <= 0x{number:X} {{ return None; }}\n"),
            2 => format!("{indent}    // {} {} {}\n", random.pick(common), random.pick(common), random.pick(common)),
            3 => format!("{indent}    println!(\"{{}}: {x}\", {c}[{}]);\n", number % 10),
            4 => format!("{indent}\tfor (let i = 0; i < {x}.length; i++) {{ {c} += {x}[i]; }}\n"),
            _ => format!("{indent}    {{\"{x}\": [{number}, {}.5, null], \"{c}\": \"{a}\"}},\n", number % 100),
        };
        text.push_str(&line);
    }
    text.push_str(&indent);
    text.push('}');
}

fn east_asian(random: &mut Random, characters: &[char], kana: &[char], text: &mut String) {
    for _ in 0..random.below(5) + 1 {
        for _ in 0..random.below(20) + 3 {
            match kana.is_empty() || random.below(3) == 0 {
                true => text.push(characters[random.rank(characters.len())]),
                false => text.push(kana[random.below(kana.len())]),
            }
        }
        text.push_str(["，", "。", "、", "！", "：“"][random.below(5)]);
    }
}
