//! Tests of batches: threads, column files and interrupted runs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, json};
use rolecall_testkit::Fixture;

/// The extensions of the output formats.
const KINDS: [&str; 3] = ["jsonl", "arrow", "parquet"];

#[test]
fn rows_say_what_the_lines_say() {
    let folder = Folder::new("rows");
    fs::write(folder.path("in.jsonl"), lines(2500)).unwrap();
    let lines = encode(&folder, &["in.jsonl", "--for-training", "--threads", "1"]);
    let lines = String::from_utf8(lines.stdout).unwrap();
    for kind in ["arrow", "parquet"] {
        let file = format!("out.{kind}");
        let run = encode(&folder, &["in.jsonl", "--for-training", "--with-text", "--threads", "4", "--output", &file]);
        assert_eq!(run.status.code(), Some(1), "{}", String::from_utf8_lossy(&run.stderr));
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.contains("lines were refused") && run.stdout.is_empty(), "{said}");
        let mut answers = lines.lines();
        for batch in read(&folder.path(&file)) {
            for row in 0..batch.num_rows() {
                let answer = json::parse(answers.next().expect("there is an answer for each row")).unwrap();
                compare(&batch, row, answer.as_object().unwrap());
            }
        }
        assert_eq!(answers.next(), None, "{kind}");
    }
}

#[test]
fn the_answers_of_a_preference_pair_are_told_apart_in_columns() {
    let folder = Folder::new("sides");
    let pair = r#"{"prompt": "Which?", "chosen": "This.", "rejected": "That."}"#;
    let plain = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    fs::write(folder.path("in.jsonl"), format!("{pair}\n{plain}\n{{}}\n")).unwrap();
    for kind in ["arrow", "parquet"] {
        let file = format!("out.{kind}");
        encode(&folder, &["in.jsonl", "--output", &file]);
        let mut sides = Vec::new();
        for batch in read(&folder.path(&file)) {
            let column = batch.column_by_name("side").expect("there is such a column").as_string::<i32>();
            sides.extend(column.iter().map(|side| side.map(str::to_owned)));
        }
        assert_eq!(sides, [Some("chosen".to_owned()), Some("rejected".to_owned()), None, None], "{kind}");
    }
}

#[test]
fn the_control_tokens_of_a_template_have_origins_of_their_own_in_columns() {
    let folder = Folder::new("template");
    let template = "{{ '<s>' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}\
        {% endfor %}{{ '<|im_start|>assistant\n' }}";
    fs::write(folder.path("t.jinja"), template).unwrap();
    fs::write(folder.path("in.jsonl"), "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}]}\n").unwrap();
    let run = |writer: [&str; 2], file: &str| -> Vec<(u32, u32, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
        command.args(["encode", "--jsonl", "--tokenizer", "tokenizer.json", "--output", file, "in.jsonl"]).args(writer);
        assert!(command.current_dir(&folder.0).status().unwrap().success());
        let batch = read(&folder.path(file)).remove(0);
        let origins = batch.column_by_name("origins").unwrap().as_list::<i32>().value(0);
        let kinds = origins.as_struct().column_by_name("kind").unwrap().as_string::<i32>().clone();
        let runs = pairs(origins.as_struct());
        let named =
            runs.into_iter().zip(kinds.iter()).map(|((start, end), kind)| (start, end, kind.unwrap().to_owned()));
        named.filter(|(.., kind)| kind == "control").collect()
    };
    let by_template = run(["--template", "t.jinja"], "template.parquet");
    assert_eq!(by_template, run(["--format", "tiny.toml"], "format.parquet"));
    assert_eq!(by_template.len(), 4, "{by_template:?}");
}

/// Checks that a row has the same contents as a line of JSON.
fn compare(batch: &RecordBatch, row: usize, answer: &Object) {
    let column = |name: &str| batch.column_by_name(name).expect("there is such a column");
    let number = column("row").as_primitive::<UInt64Type>().value(row);
    let error = column("error").as_struct();
    // Every ninth line is invalid and has no id.
    let id = answer.get("id").map(|id| match id {
        rolecall::conversation::Json::String(text) => text.clone(),
        other => json::write(other, &json::Layout::compact()),
    });
    let ids = column("id").as_string::<i32>();
    assert_eq!(id.as_deref(), ids.is_valid(row).then(|| ids.value(row)), "row {number}");
    if let Some(refused) = answer.get("error").and_then(|error| error.as_object()) {
        assert!(error.is_valid(row) && column("ids").is_null(row) && column("loss_mask").is_null(row));
        assert!(column("spans").is_null(row) && column("origins").is_null(row) && column("prompt").is_null(row));
        let text = |name: &str| error.column_by_name(name).unwrap().as_string::<i32>().value(row).to_owned();
        assert_eq!(refused.get("code").unwrap().as_str(), Some(text("code").as_str()));
        assert_eq!(refused.get("message").unwrap().as_str(), Some(text("message").as_str()));
        return;
    }
    assert!(error.is_null(row));
    let numbers = |key: &str| -> Vec<u32> {
        let list = answer.get(key).unwrap().as_array().unwrap();
        list.iter().map(|item| json::write(item, &json::Layout::compact()).parse().unwrap()).collect()
    };
    let list = |name: &str| column(name).as_list::<i32>().value(row);
    let ids = list("ids").as_primitive::<UInt32Type>().values().to_vec();
    assert_eq!(numbers("ids"), ids);
    let mask = list("loss_mask").as_primitive::<UInt8Type>().values().to_vec();
    assert_eq!(numbers("loss_mask"), mask.iter().map(|learned| u32::from(*learned)).collect::<Vec<_>>());
    let prompt = column("prompt").as_string::<i32>().value(row);
    assert_eq!(answer.get("prompt").unwrap().as_str(), Some(prompt));
    let spans = list("spans");
    let spans: Vec<(u32, u32)> = pairs(spans.as_struct());
    assert_eq!(spans.len(), ids.len());
    let origins = list("origins");
    compare_origins(origins.as_struct(), &spans, prompt, answer);
}

/// Checks that the ids of each run cover the text of its segments.
fn compare_origins(origins: &StructArray, spans: &[(u32, u32)], prompt: &str, answer: &Object) {
    let ranges = pairs(origins);
    let texts = |name: &str| origins.column_by_name(name).unwrap().as_string::<i32>().clone();
    let (kinds, roles, fields) = (texts("kind"), texts("role"), texts("field"));
    let indices = origins.column_by_name("index").unwrap().as_primitive::<Int32Type>();
    let mut runs = 0..ranges.len();
    for segment in answer.get("segments").unwrap().as_array().unwrap() {
        let segment = segment.as_object().unwrap();
        let text = segment.get("text").unwrap().as_str().unwrap();
        let origin = segment.get("origin").unwrap();
        let run = runs.clone().find(|at| {
            let (first, behind) = (ranges[*at].0 as usize, ranges[*at].1 as usize);
            let bytes = spans[first].0 as usize..spans[behind - 1].1 as usize;
            let same = match (origin.as_str(), origin.as_object()) {
                (Some(kind), _) => kinds.value(*at) == kind && indices.is_null(*at) && roles.is_null(*at),
                (None, Some(message)) => {
                    let index = message.get("message").unwrap();
                    let role = ["user", "assistant"][indices.value(*at) as usize % 2];
                    kinds.value(*at) == "message"
                        && json::write(index, &json::Layout::compact()) == indices.value(*at).to_string()
                        && roles.value(*at) == role
                        && message.get("field").unwrap().as_str() == Some(fields.value(*at))
                }
                _ => false,
            };
            same && prompt[bytes].contains(text)
        });
        // A run may cover several adjacent segments.
        runs.start = run.unwrap_or_else(|| panic!("no run for {text:?} of {prompt:?}"));
    }
}

fn pairs(list: &StructArray) -> Vec<(u32, u32)> {
    let side = |name: &str| list.column_by_name(name).unwrap().as_primitive::<UInt32Type>().values().to_vec();
    side("start").into_iter().zip(side("end")).collect()
}

fn read(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    match path.extension().unwrap().to_str().unwrap() {
        "arrow" => StreamReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        _ => ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect(),
    }
}

#[test]
fn order_is_kept_however_many_threads_there_are() {
    let folder = Folder::new("order");
    fs::write(folder.path("in.jsonl"), lines(1500)).unwrap();
    let one = encode(&folder, &["in.jsonl", "--threads", "1"]);
    let many = encode(&folder, &["in.jsonl", "--threads", "7"]);
    assert!(one.stdout == many.stdout && one.stderr == many.stderr);
    assert_eq!(one.stdout.iter().filter(|byte| **byte == b'\n').count(), 1500);
    let piped = encode_with(&folder, &["--threads", "7"], &lines(1500));
    assert!(one.stdout == piped.stdout);
    assert_eq!(encode(&folder, &["in.jsonl", "--output", "out.jsonl"]).status.code(), Some(1));
    assert!(fs::read(folder.path("out.jsonl")).unwrap() == one.stdout);
}

#[test]
fn sequences_are_the_same_whatever_the_threads_and_the_files_are() {
    let folder = Folder::new("packed");
    fs::write(folder.path("in.jsonl"), lines(3000)).unwrap();
    let args = ["in.jsonl", "--for-training", "--loss-weight", "stop=0.5", "--pack", "96", "--truncate", "right"];
    let one = encode(&folder, &[&args[..], &["--threads", "1"]].concat());
    let many = encode(&folder, &[&args[..], &["--threads", "7"]].concat());
    assert!(one.stdout == many.stdout && one.stderr == many.stderr);
    let text = String::from_utf8(one.stdout).unwrap();
    let numbers = |answer: &Object, key: &str| -> Vec<f64> {
        let list = answer.get(key).and_then(Json::as_array).unwrap_or_default().iter();
        list.map(|number| json::write(number, &json::Layout::compact()).parse().unwrap()).collect()
    };
    let mut seen = vec![0; 3000];
    let mut answers = Vec::new();
    for line in text.lines() {
        let Json::Object(answer) = json::parse(line).unwrap() else { panic!("{line}") };
        numbers(&answer, "rows").iter().for_each(|row| seen[*row as usize - 1] += 1);
        answers.push(answer);
    }
    assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
    for kind in ["arrow", "parquet"] {
        let file = format!("out.{kind}");
        let run = encode(&folder, &[&args[..], &["--output", &file]].concat());
        assert_eq!(run.status.code(), Some(1), "{}", String::from_utf8_lossy(&run.stderr));
        let mut answers = answers.iter();
        for batch in read(&folder.path(&file)) {
            for row in 0..batch.num_rows() {
                let answer = answers.next().unwrap();
                for key in ["rows", "ids", "loss_mask", "loss_weights", "position_ids", "cu_seqlens"] {
                    let list = batch.column_by_name(key).unwrap().as_list::<i32>();
                    let values = as_numbers(&list.value(row));
                    let expected = numbers(answer, key);
                    assert_eq!((list.is_null(row), values), (expected.is_empty(), expected), "{kind} {key} {row}");
                }
                assert_eq!(batch.column_by_name("error").unwrap().is_valid(row), answer.get("error").is_some());
            }
        }
        assert!(answers.next().is_none(), "{kind}");
    }
}

fn as_numbers(values: &dyn Array) -> Vec<f64> {
    match values.data_type() {
        DataType::UInt64 => values.as_primitive::<UInt64Type>().values().iter().map(|value| *value as f64).collect(),
        DataType::UInt32 => {
            values.as_primitive::<UInt32Type>().values().iter().map(|value| f64::from(*value)).collect()
        }
        DataType::Int32 => values.as_primitive::<Int32Type>().values().iter().map(|value| f64::from(*value)).collect(),
        DataType::UInt8 => values.as_primitive::<UInt8Type>().values().iter().map(|value| f64::from(*value)).collect(),
        _ => values.as_primitive::<Float32Type>().values().iter().map(|value| f64::from(*value)).collect(),
    }
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    const KILLS: u64 = 3;
    let folder = Folder::new("killed");
    fs::write(folder.path("in.jsonl"), lines(4500)).unwrap();
    for kind in KINDS {
        let (whole, file) = (format!("whole.{kind}"), format!("cut.{kind}"));
        let whole_run = encode(&folder, &["in.jsonl", "--for-training", "--output", &whole]);
        let args = ["in.jsonl", "--for-training", "--output", &file, "--resume", "--journal-ms", "0"];
        let journal = folder.path(&format!("{file}.resume"));
        let mut kills = 0;
        let last = loop {
            let before = fs::read(&journal).ok();
            let mut child = command(&folder, &args).spawn().unwrap();
            if kills == KILLS {
                break Some(child.wait_with_output().unwrap());
            }
            let begun = Instant::now();
            // Kill the run once it is farther than the run before, a little later each time.
            while child.try_wait().unwrap().is_none() && (fs::read(&journal).ok() == before) {
                assert!(begun.elapsed() < Duration::from_secs(60), "{kind}: the run makes no progress");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(700 * kills));
            if child.try_wait().unwrap().is_some() {
                break Some(child.wait_with_output().unwrap());
            }
            child.kill().unwrap();
            child.wait().unwrap();
            if !journal.exists() {
                // The run was complete, but was killed before it could report that.
                break None;
            }
            kills += 1;
        };
        assert!(kills >= 2, "{kind}: killed only {kills} times");
        assert!(fs::read(folder.path(&whole)).unwrap() == fs::read(folder.path(&file)).unwrap(), "{kind}");
        let stderr = |run: &Output| String::from_utf8_lossy(&run.stderr).into_owned();
        // Lines that earlier runs refused are counted too.
        if let Some(last) = last {
            assert_eq!((last.status.code(), stderr(&last)), (whole_run.status.code(), stderr(&whole_run)));
        }
        for left in ["part", "resume", "joined", "resume.new"] {
            assert!(!folder.path(&format!("{file}.{left}")).exists(), "{file}.{left} was left behind");
        }
    }
}

#[test]
fn a_run_does_not_go_on_with_something_else() {
    let folder = Folder::new("else");
    let input = lines(1500);
    fs::write(folder.path("in.jsonl"), &input).unwrap();
    let (part, journal) = (folder.path("out.jsonl.part"), folder.path("out.jsonl.resume"));
    let mut child = command(&folder, &["-", "--output", "out.jsonl", "--journal-ms", "0"]).spawn().unwrap();
    let half = input.len() / 2;
    child.stdin.as_mut().unwrap().write_all(&input.as_bytes()[..half]).unwrap();
    while !fs::read_to_string(&journal).is_ok_and(|text| !text.contains("\"output\": 0")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (kept_part, kept_journal) = (fs::read(&part).unwrap(), fs::read(&journal).unwrap());
    let refused = |args: &[&str], code: &str| {
        let run = encode(&folder, args);
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(3) && said.contains(&format!("error[{code}]")), "{args:?}: {said}");
    };
    fs::write(folder.path("other.jsonl"), input.replacen("there", "their", 1)).unwrap();
    fs::write(folder.path("short.jsonl"), &input[..100]).unwrap();
    let resume = ["in.jsonl", "--output", "out.jsonl", "--resume"];
    refused(&["in.jsonl", "--output", "out.jsonl"], "interrupted_run");
    refused(&["other.jsonl", "--output", "out.jsonl", "--resume"], "other_input");
    refused(&["short.jsonl", "--output", "out.jsonl", "--resume"], "other_input");
    refused(&["in.jsonl", "--output", "out.jsonl", "--resume", "--for-training"], "other_arguments");
    refused(&["in.jsonl", "--output", "out.jsonl", "--resume", "--to", "arrow"], "other_arguments");
    let tokenizer = fs::read(folder.path("tokenizer.json")).unwrap();
    fs::write(folder.path("tokenizer.json"), [&tokenizer[..], b"\n"].concat()).unwrap();
    refused(&resume, "other_arguments");
    // Different content of the same length is also a different tokenizer.
    let other = String::from_utf8(tokenizer.clone()).unwrap().replacen('\n', " ", 1);
    assert!(other.len() == tokenizer.len() && other.as_bytes() != tokenizer);
    fs::write(folder.path("tokenizer.json"), other).unwrap();
    refused(&resume, "other_arguments");
    fs::write(folder.path("tokenizer.json"), tokenizer).unwrap();
    // So is a tokenizer with different files next to it: they determine which tokens text is never
    // encoded to.
    fs::create_dir(folder.path("additional_chat_templates")).unwrap();
    let beside = [
        ("chat_template.jinja", "{{ messages }}"),
        ("chat_template.json", "{}"),
        ("additional_chat_templates/tool_use.jinja", "{{ tools }}"),
        ("tokenizer_config.json", "{}"),
        ("special_tokens_map.json", "{}"),
        ("added_tokens.json", "{}"),
        ("config.json", "{}"),
        ("generation_config.json", "{}"),
    ];
    for (file, text) in beside {
        fs::write(folder.path(file), text).unwrap();
        refused(&resume, "other_arguments");
        fs::remove_file(folder.path(file)).unwrap();
    }
    fs::remove_file(&journal).unwrap();
    refused(&resume, "no_journal");
    refused(&["in.jsonl", "--output", "out.jsonl"], "interrupted_run");
    fs::write(&journal, "{}").unwrap();
    refused(&resume, "no_journal");
    fs::write(&journal, &kept_journal).unwrap();
    fs::write(&part, b"").unwrap();
    refused(&resume, "damaged_part");
    fs::write(&part, &kept_part).unwrap();
    // A different file with the same text is the same input, and so is a pipe.
    assert_eq!(encode_with(&folder, &["--output", "out.jsonl", "--resume"], &input).status.code(), Some(1));
    let whole = encode(&folder, &["in.jsonl"]);
    assert!(fs::read(folder.path("out.jsonl")).unwrap() == whole.stdout);
    refused(&["in.jsonl", "--output", "out.jsonl"], "output_exists");
    let complete = encode(&folder, &resume);
    let said = String::from_utf8(complete.stderr).unwrap();
    assert!(complete.status.code() == Some(0) && said.contains("note[complete]"), "{said}");
    assert!(fs::read(folder.path("out.jsonl")).unwrap() == whole.stdout);
    refused(&["in.jsonl", "--output", ".", "--to", "arrow", "--force"], "output_is_no_file");
    assert_eq!(encode(&folder, &["in.jsonl", "--output", "out.jsonl", "--force"]).status.code(), Some(1));
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_batch_quietly() {
    let folder = Folder::new("enough");
    // The input never ends.
    let mut child = command(&folder, &["-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = lines(9);
    let feeding = std::thread::spawn(move || while stdin.write_all(text.as_bytes()).is_ok() {});
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty() && !first.is_empty(), "{output:?}");
    feeding.join().unwrap();
}

#[test]
fn lines_may_end_as_they_like() {
    let folder = Folder::new("ends");
    let line = |id: u32| format!(r#"{{"id":{id},"messages":[{{"role":"user","content":"Hi"}}]}}"#);
    let input = format!("\u{feff}{}\r\n\r\n  \n\t{}\n{}", line(1), line(2), line(3));
    let run = encode_with(&folder, &[], &input);
    let said = String::from_utf8(run.stdout).unwrap();
    let ids: Vec<&str> = said.lines().map(|line| &line[..line.find(",").unwrap()]).collect();
    assert_eq!((ids, run.status.code()), (vec!["{\"id\":1", "{\"id\":2", "{\"id\":3"], Some(0)));
}

#[test]
fn progress_is_said_where_it_is_asked_for_alone() {
    let folder = Folder::new("progress");
    fs::write(folder.path("in.jsonl"), lines(8)).unwrap();
    assert_eq!(encode(&folder, &["in.jsonl"]).stderr, b"");
    let run = encode(&folder, &["in.jsonl", "--progress", "--output", "out.arrow"]);
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("8 conversations, ") && said.contains(" tokens/s in 0 s"), "{said}");
    assert!(said.lines().count() == 1 && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn files_without_rows_can_be_read() {
    let folder = Folder::new("empty");
    for kind in KINDS {
        let file = format!("out.{kind}");
        assert!(encode_with(&folder, &["--output", &file], "\n").status.success());
        match kind {
            "jsonl" => assert_eq!(fs::read(folder.path(&file)).unwrap(), b""),
            _ => assert_eq!(read(&folder.path(&file)).len(), 0),
        }
    }
}

#[test]
fn an_arrow_stream_says_that_it_ends() {
    // Arrow's format: the end of a stream is a continuation marker and a length of zero. Most
    // readers also accept the end of the file, so only the bytes can be checked.
    const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let folder = Folder::new("end");
    for (name, input) in [("none.arrow", String::new()), ("some.arrow", lines(20))] {
        encode_with(&folder, &["--output", name], &input);
        let bytes = fs::read(folder.path(name)).unwrap();
        assert!(bytes.ends_with(&END), "{name} has no end marker");
        assert!(!read(&folder.path(name)).is_empty() || input.is_empty(), "{name}");
    }
}

#[test]
fn refused_lines_are_kept_with_their_reasons() {
    let folder = Folder::new("reasons");
    let good = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    fs::write(folder.path("a.jsonl"), format!("{good}\n{{\"id\": 7, \"messages\": []}}\r\n")).unwrap();
    fs::write(folder.path("b.jsonl"), b"{\"a\": \"\xff\"}\nno json").unwrap();
    let args = ["a.jsonl", "b.jsonl", "--errors", "bad.jsonl"];
    assert_eq!(encode(&folder, &args).status.code(), Some(1));
    let kept = fs::read_to_string(folder.path("bad.jsonl")).unwrap();
    let rows: Vec<&str> = kept.lines().collect();
    let first = r#"{"file":"a.jsonl","line":2,"id":7,"error":{"code":"no_messages","message":"the conversation has no messages","#;
    assert!(rows[0].starts_with(first), "{kept}");
    assert!(rows[0].ends_with(r#","text":"{\"id\": 7, \"messages\": []}"}"#), "{kept}");
    assert!(rows[1].starts_with(r#"{"file":"b.jsonl","line":1,"error":{"code":"not_utf8""#), "{kept}");
    assert!(rows[2].starts_with(r#"{"file":"b.jsonl","line":2,"error":{"code":"not_json""#), "{kept}");
    assert!(rows[2].ends_with(r#""text":"no json"}"#) && rows.len() == 3, "{kept}");
    // The file is replaced only on request, and nothing else is written before.
    let again = encode(&folder, &[&args[..], &["--output", "out.jsonl"]].concat());
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(
        again.status.code() == Some(3) && said.contains("error[errors_exist]") && said.contains("--force"),
        "{said}"
    );
    assert!(!folder.path("out.jsonl.part").exists() && fs::read_to_string(folder.path("bad.jsonl")).unwrap() == kept);
    assert_eq!(encode(&folder, &["b.jsonl", "--errors", "bad.jsonl", "--force"]).status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.path("bad.jsonl")).unwrap().lines().count(), 2);
}

#[test]
fn a_file_without_text_is_one_error_that_names_its_kind() {
    let folder = Folder::new("kinds");
    let line = "{\"messages\": [{\"role\": \"user\", \"content\": \"你好\"}]}\n";
    let utf16 = |text: &str, to: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to).collect::<Vec<u8>>();
    fs::write(folder.path("good.jsonl"), line).unwrap();
    encode(&folder, &["good.jsonl", "--output", "made.parquet"]);
    encode(&folder, &["good.jsonl", "--output", "made.arrow"]);
    let gzip = |bytes: &[u8]| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    };
    for (name, bytes, kind) in [
        ("le", utf16(line, u16::to_le_bytes), "UTF-16 text"),
        ("be", utf16(line, u16::to_be_bytes), "UTF-16 text"),
        ("bom", utf16(&format!("\u{feff}{line}"), u16::to_le_bytes), "UTF-16 text"),
        ("parquet", fs::read(folder.path("made.parquet")).unwrap(), "a Parquet file"),
        ("arrow", fs::read(folder.path("made.arrow")).unwrap(), "an Arrow stream"),
        ("xz", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\n\0\xff".to_vec(), "a file compressed with xz"),
        ("program", fs::read(env!("CARGO_BIN_EXE_rolecall")).unwrap(), "a program"),
        ("packed.gz", gzip(&utf16(line, u16::to_le_bytes)), "UTF-16 text"),
    ] {
        fs::write(folder.path(name), bytes).unwrap();
        for args in [&[name][..], &["good.jsonl", name, "--output", "out.jsonl"]] {
            let run = encode(&folder, args);
            let said = String::from_utf8(run.stderr).unwrap();
            assert_eq!(run.status.code(), Some(3), "{name}: {said}");
            assert!(said.starts_with("error[not_utf8]: cannot read `") && said.contains(kind), "{name}: {said}");
            assert!(said.contains("= help:") && said.matches("error").count() == 1, "{name}: {said}");
            assert!(run.stdout.is_empty() && !folder.path("out.jsonl.part").exists(), "{name}");
        }
    }
}

#[test]
fn the_account_of_each_row_is_a_column() {
    let folder = Folder::new("account");
    let turn = |content: &str| format!(r#"{{"role": "assistant", "content": {content}}}"#);
    let line = |turns: &str| format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hi\"}}, {turns}]}}\n");
    let label = r#"{"role": "assistant", "content": "a", "label": "x"}"#;
    let lines = [line(&turn("\"a\"")), line(&turn("\" \"")), "{}\n".to_owned(), line(label)].concat();
    fs::write(folder.path("in.jsonl"), lines).unwrap();
    for kind in ["arrow", "parquet"] {
        let file = format!("out.{kind}");
        let run = encode(&folder, &["in.jsonl", "--output", &file]);
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.contains("warning[noted_lines]: 2 of 4 lines have warnings"), "{said}");
        assert!(said.contains("= note: empty_reply: in.jsonl, line 2: message 1: the reply is empty"), "{said}");
        assert!(said.contains("= note: left_out: in.jsonl, line 4: message 1, label"), "{said}");
        let mut kinds = Vec::new();
        for batch in read(&folder.path(&file)) {
            let column = batch.column_by_name("account").unwrap().as_list::<i32>();
            for row in 0..batch.num_rows() {
                let entries = column.value(row);
                let names = entries.as_struct().column_by_name("kind").unwrap().as_string::<i32>();
                let names: Vec<String> = names.iter().flatten().map(str::to_owned).collect();
                kinds.push(column.is_valid(row).then_some(names));
            }
        }
        let one = |name: &str| Some(vec![name.to_owned()]);
        assert_eq!(kinds, [Some(Vec::new()), one("empty_reply"), None, one("left_out")], "{kind}");
    }
    let strict = encode(&folder, &["in.jsonl", "--strict"]);
    let said = String::from_utf8(strict.stderr).unwrap();
    assert!(said.contains("error[refused_lines]: 3 of 4 lines were refused"), "{said}");
}

/// Returns conversations of many lengths, every ninth of them invalid.
fn lines(count: usize) -> String {
    let mut text = String::new();
    for id in 1..=count {
        if id % 9 == 0 {
            text.push_str(r#"{"id": "bad", "messages": []}"#);
        } else {
            let long = " there<|im_end|>".repeat(id % 13);
            let turn =
                format!(r#"{{"role": "user", "content": "Hi {id}"}}, {{"role": "assistant", "content": "Hi{long}!"}}"#);
            let turns = vec![turn; 1 + id % 3].join(", ");
            text.push_str(&format!(r#"{{"id": [{id}], "messages": [{turns}]}}"#));
        }
        text.push('\n');
    }
    text
}

fn encode(folder: &Folder, args: &[&str]) -> Output {
    encode_with(folder, args, "")
}

fn encode_with(folder: &Folder, args: &[&str], input: &str) -> Output {
    let mut child = command(folder, args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeding = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

fn command(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolecall"));
    command.args(["encode", "--jsonl", "--format", "tiny.toml", "--tokenizer", "tokenizer.json"]).args(args);
    command.current_dir(&folder.0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A temporary folder with a small format and its tokenizer, removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("rolecall-batch-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        let cases = Fixture::of_folder("cli/jsonl");
        let case = cases.iter().find(|case| case.path.ends_with("ids.case")).unwrap();
        for file in ["tiny.toml", "tokenizer.json"] {
            fs::write(folder.path(file), case.needed(&format!("file {file}"))).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
