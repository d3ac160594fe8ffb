//! Laws of reading: printed values are parsed back, and a damaged format file is refused with the
//! position of each mistake.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::panic::catch_unwind;
use std::sync::Arc;

use fastrand::Rng;
use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::{Conversation, Json};
use rolecall::format::{Format, builtin_sources, codec};
use rolecall::render::{RuleMode, Writer};
use rolecall_testkit::generate;

#[test]
fn python_arguments_read_back_as_they_were_printed() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..5_000 {
        let entries: Vec<(String, Json)> =
            (0..rng.usize(..4)).map(|_| (odd_text(&mut rng), generate::value(&mut rng, 3, &mut odd_text))).collect();
        let object: json::Object = entries.into_iter().collect();
        let printed = codec::python::print(&object);
        let read = codec::python::read(&printed).unwrap_or_else(|error| panic!("{printed}: {error:?}"));
        assert_eq!(read, object, "{printed}");
    }
}

#[test]
fn json_reads_back_as_it_was_written() {
    let mut rng = Rng::with_seed(2);
    let ascii = Layout { ascii: true, ..Layout::compact() };
    for layout in [Layout::default(), Layout::compact(), Layout::indented(4), Layout::indented(0), ascii] {
        for _ in 0..2_000 {
            let value = generate::value(&mut rng, 4, &mut odd_text);
            let written = json::write(&value, &layout);
            let read = json::parse(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(read, value, "{written}");
            assert_eq!(json::write(&read, &layout), written);
            assert!(!layout.ascii || written.is_ascii(), "{written}");
        }
    }
}

/// Makes keys and strings of every kind: words, quotes, escapes, Python's keywords, characters that
/// are printed as numbers.
fn odd_text(rng: &mut Rng) -> String {
    let pieces = [
        "a",
        "key",
        "class",
        "None",
        "_",
        "9",
        "'",
        "\"",
        "\\",
        "\\n",
        "\n",
        "\r",
        "\t",
        " ",
        "-",
        "é",
        "上",
        "👍🏽",
        "e\u{301}",
        "\u{0}",
        "\u{1f}",
        "\u{7f}",
        "\u{a0}",
        "\u{ad}",
        "\u{200b}",
        "\u{2028}",
        "\u{e000}",
        "\u{fffe}",
        "\u{10ffff}",
        "{",
        "}",
        "**",
        "'''",
        "\u{301}",
        "²",
        "ﬁ",
    ];
    (0..rng.usize(..5)).map(|_| pieces[rng.usize(..pieces.len())]).collect()
}

#[test]
fn a_damaged_format_file_never_panics_and_every_mistake_has_its_place() {
    let sources = all_format_files();
    let mut rng = Rng::with_seed(3);
    let (mut loaded, mut mistakes) = (0, 0);
    for round in 0..4_000 {
        let (file, source) = &sources[round % sources.len()];
        let damaged = damage(source, &mut rng);
        let result = catch_unwind(|| rolecall::format::read(file, &damaged));
        let Ok(result) = result else { panic!("{file}, round {round}: a panic on\n{damaged}") };
        match result {
            Ok(format) => {
                loaded += 1;
                let rendered = catch_unwind(|| render_something(&Arc::new(format)));
                assert!(rendered.is_ok(), "{file}, round {round}: a panic while rendering with\n{damaged}");
            }
            Err(error) => {
                assert!(!error.diagnostics.is_empty(), "{file}, round {round}: an error without diagnostics");
                for mistake in &error.diagnostics {
                    mistakes += 1;
                    assert!(
                        damaged.get(mistake.span.clone()).is_some(),
                        "{file}, round {round}: {mistake:?} is outside\n{damaged}"
                    );
                    assert!(!mistake.message.is_empty() && !mistake.code.is_empty(), "{mistake:?}");
                }
            }
        }
    }
    assert!(loaded > 100 && mistakes > 500, "{loaded} files loaded, {mistakes} mistakes reported");
}

/// Returns the makers' formats, and other frameworks' templates in their own shapes.
fn all_format_files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> =
        builtin_sources().iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    for framework in rolecall::interop::FRAMEWORKS.iter().map(|framework| framework.name) {
        let folder = rolecall_testkit::root().join("formats").join(framework);
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let named = paths.into_iter().map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        files.extend(named);
    }
    files
}

fn render_something(format: &Arc<Format>) {
    let training = format.for_training();
    for (seed, format) in (0..3).flat_map(|seed| [(seed, format), (seed, training)]) {
        for rules in [RuleMode::Enforce, RuleMode::Reference] {
            let generated = generate::conversation(format, seed, rules, &mut |_| "x".to_owned());
            if let Ok(conversation) = Conversation::from_json(generated.request)
                && let Ok(prompt) = Writer::format(format.clone(), generated.options.clone()).render(&conversation)
            {
                let joined: String = prompt.segments().map(|segment| segment.text).collect();
                assert_eq!(joined, prompt.text());
            }
        }
    }
}

/// Makes one to three random changes to a file. Invalid UTF-8 is then replaced, as a reader of
/// files would do.
fn damage(source: &str, rng: &mut Rng) -> String {
    let pieces = [
        "{",
        "}",
        "{{",
        "}}",
        "[[",
        "]]",
        "\"",
        "\"\"\"",
        "'''",
        "\\",
        "\\n",
        "\\u00e9",
        "\\x41",
        "=",
        "\n",
        "\r\n",
        "#",
        "é",
        "👍🏽",
        "\u{0}",
        "<|x|>",
        "{content}",
        "{content:trim}",
        "{name:names}",
        "{seam}",
        "[layout]",
        "[control]",
        "id = 1",
        "id = -1",
        "99999999999999999999",
        "null",
        "{\"[[\"}",
        "{\"",
        "\"}",
        "{arguments:python}",
        "{call:json(a, b)}",
        "{tools:json(indent=4)}",
        "true",
        "1e999",
        " ",
        ",",
        ".",
        "\u{feff}",
    ];
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=bytes.len());
        let end = (at + rng.usize(..12)).min(bytes.len());
        match rng.u8(..6) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, pieces[rng.usize(..pieces.len())].bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
