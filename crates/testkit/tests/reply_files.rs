//! A format's replies are written as a file and read back.
#![expect(clippy::panic, reason = "a test fails by a panic, in its helpers too")]

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use fastrand::Rng;
use rolecall::format::codec::{JsonStyle, MarkedSyntax};
use rolecall::format::{
    CallIds, Codec, Control, ControlId, Field, Format, FormatPart, Op, Slot, load, registry, write_reply,
};
use rolecall::infer::infer;
use rolecall_testkit::FolderTemplates;

/// The number of generated formats.
const ROUNDS: u64 = 3000;

fn check(format: &Format) -> Format {
    let file = write_reply(format);
    let read = load(&file).unwrap_or_else(|error| panic!("{file}\n{error:?}"));
    for slot in Slot::ALL.into_iter().filter(|slot| slot.is_reply() && *slot != Slot::Generate) {
        let (read, own) = (read.layout(slot), format.layout(slot));
        assert_eq!(read.map(|layout| layout.steps()), own.map(|layout| layout.steps()), "{}\n{file}", slot.key());
    }
    assert_eq!(read.part, FormatPart::Reply);
    assert_eq!(read.rules.call_ids, format.rules.call_ids);
    assert_eq!(write_reply(&read), file, "the second writing differs");
    read
}

#[test]
fn every_built_in_formats_replies_are_read_as_they_were_written() {
    for format in rolecall::format::registry().iter() {
        check(format);
    }
    for (name, source) in rolecall::format::shared_calls().chain(rolecall::format::reply_files()) {
        check(&load(source).unwrap_or_else(|error| panic!("{name}: {error}")));
    }
}

#[test]
fn what_is_inferred_of_a_template_is_read_as_it_was_written() {
    let Some(folder) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template's layouts are written");
        return;
    };
    let templates = FolderTemplates::read(&folder.join("templates")).unwrap_or_else(|error| panic!("{error}")).compiled;
    let (mut written, mut wrong) = (0, Vec::new());
    for (name, template) in &templates {
        let format = infer(template).format;
        // Without inferred layouts, there is nothing to write.
        if format.layout(Slot::Assistant).is_none() {
            continue;
        }
        written += 1;
        wrong.extend(catch_unwind(|| check(&format)).err().map(|_| name));
    }
    assert!(wrong.is_empty(), "{} of {written}: {wrong:?}", wrong.len());
    assert!(written * 10 > templates.len() * 9, "only {written} of {} templates have layouts", templates.len());
}

#[test]
fn any_layouts_are_read_as_they_were_written() {
    let mut kinds = BTreeSet::new();
    for seed in 0..ROUNDS {
        let mut rng = Rng::with_seed(seed);
        let mut format = Format::new(format!("Seed/{seed}"));
        let texts = ["<s>", "[CALL]", "</s>", "<|x|>", "<s><s>", "é"];
        let controls = texts.iter().filter(|_| rng.bool()).map(|text| Control {
            text: (*text).to_owned(),
            id: None,
            ..Control::default()
        });
        format.controls = controls.collect::<Vec<_>>().into();
        if rng.bool() {
            format.rules.call_ids = CallIds::from_text("functions.{name}:{index}").expect("a pattern");
        }
        let count = format.controls.len();
        let assistant = [Op::Literal("|".into()), Op::hole(Field::Content, Codec::Text), Op::Literal("|".into())]
            .into_iter()
            .chain([Op::hole(Field::Calls, Codec::Text)]);
        let mut call = literals(&mut rng, count);
        call.push(Op::Group([Op::hole(Field::Id, Codec::Text)].into_iter().chain(literals(&mut rng, count)).collect()));
        call.extend(literals(&mut rng, count));
        call.push(hole(&mut rng));
        call.extend(literals(&mut rng, count));
        kinds.insert(call.len());
        let format = format.with_layouts([(Slot::Assistant, assistant.collect()), (Slot::Call, call)]);
        check(&format);
    }
    assert!(kinds.len() > 5, "{kinds:?}");
}

/// Makes literals and control tokens, never two literals in a row.
fn literals(rng: &mut Rng, controls: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..rng.usize(..4) {
        match rng.u8(..3) {
            0 if controls > 0 => ops.push(Op::Control(ControlId(rng.usize(..controls)))),
            _ if matches!(ops.last(), Some(Op::Literal(_))) => {}
            _ => ops.push(Op::Literal(text(rng))),
        }
    }
    ops
}

fn text(rng: &mut Rng) -> String {
    const PIECES: [&str; 26] = [
        "{", "}", "[", "]", "[[", "]]", "{{", "}}", "\"", "'", "\\", "\n", "<s>", "</s>", "<|x|>", "<|y|>", "[CALL]",
        "{\"", "\"}", "{ 'a", "{%", "é", "\u{1}", " ", "seam", "|",
    ];
    (0..rng.usize(1..6)).map(|_| PIECES[rng.usize(..PIECES.len())]).collect()
}

fn hole(rng: &mut Rng) -> Op {
    let style = JsonStyle {
        indent: rng.bool().then(|| rng.usize(..8)),
        level: rng.usize(..3),
        compact: rng.bool(),
        ascii: rng.bool(),
        sorted: rng.bool(),
        parsed: rng.bool(),
    };
    let codec = [Codec::Json(style), Codec::JsonString, Codec::Python, Codec::Marked(MarkedSyntax::new("<|\"|>"))];
    Op::hole(Field::Arguments, codec[rng.usize(..codec.len())].clone())
}

#[test]
fn a_shared_call_layout_is_taken_by_name() {
    let own = "part = 'reply'\nname = 'mine'\ncalls = 'json-in-tags'\n[control]\n'<tool_call>' = {}\n[layout]\nassistant = '{content}|{calls}'\ngenerate = ''";
    let format = load(own).expect("the format loads");
    let call = format.layout(Slot::Call).expect("the call layout is included");
    assert!(call.writes(ControlId(0)), "declared tokens are control tokens in it");
    assert!(format.layout(Slot::CallSeparator).is_some());
    let instead = load(&format!("{own}\ncall = '{{call:json(name, parameters)}}'")).expect("the format loads");
    assert!(!instead.layout(Slot::Call).expect("its own call layout").writes(ControlId(0)));
    let error = load(&own.replace("json-in-tags", "json-in-tag")).expect_err("no such layout").to_string();
    assert!(error.contains("`json-in-tag` is not a shared call layout"), "{error}");
    let error = load(&own.replace("json-in-tags", "json-list-behind-mark"))
        .expect_err("its marker is not declared")
        .to_string();
    assert!(error.contains("writes `[TOOL_CALLS]`, which is not declared"), "{error}");
    assert!(registry().get("json-in-tags").is_none(), "a shared call layout is not a format");
}

#[test]
fn every_reply_file_says_its_name_and_where_it_is_from() {
    for (name, source) in rolecall::format::shared_calls().chain(rolecall::format::reply_files()) {
        let format = load(source).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((format.name.as_str(), format.part), (name, FormatPart::Reply));
        assert!(!format.sources.is_empty() && format.title != name, "{name} names no source or has no title");
    }
}

#[test]
fn a_reply_file_is_found_by_each_of_its_names_and_no_name_is_taken_twice() {
    let registry = registry();
    let mut names = BTreeSet::new();
    for (name, source) in rolecall::format::shared_calls().chain(rolecall::format::reply_files()) {
        let format = load(source).unwrap_or_else(|error| panic!("{name}: {error}"));
        for name in format.names() {
            assert!(names.insert(name.to_owned()) && registry.get(name).is_none(), "`{name}` is taken");
            let found = rolecall::format::reply_format(name).map(|format| format.name.as_str());
            assert_eq!(found, Some(format.name.as_str()), "{name}");
        }
    }
}

#[test]
fn the_manual_names_every_layout_hole_and_codec_and_its_example_is_right() {
    let manual = include_str!("../../../formats/README.md");
    let example = manual.split("```toml\n").find(|block| block.starts_with("part = \"reply\""));
    let example = example.and_then(|block| block.split("```").next()).expect("an example of a reply");
    check(&load(example).unwrap_or_else(|error| panic!("{error:?}")));
    let rows: Vec<&str> = manual.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let named = |name: &str| {
        rows.iter()
            .any(|row| row.split('|').next().is_some_and(|cell| format!("`{cell}").contains(&format!("`{name}"))))
    };
    for slot in Slot::ALL {
        assert!(named(&format!("{}`", slot.key())), "the manual does not name the layout `{}`", slot.key());
        for field in slot.fields() {
            assert!(named(&format!("{}`", field.name())), "the manual does not name the hole `{}`", field.name());
        }
    }
    for codec in Codec::NAMES {
        assert!(named(codec), "the manual does not name the codec `{codec}`");
    }
}
