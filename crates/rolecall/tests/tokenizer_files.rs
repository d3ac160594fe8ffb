//! The kinds of tokenizer files: each is known by its content and found in a folder.

use std::fs;
use std::path::Path;

use rolecall::tokenizer::{FileKind, load_bytes, load_file};

use crate::common::files::whole;

#[test]
fn every_kind_has_a_whole_file_with_each_form_of_its_name() {
    let files = whole();
    for kind in FileKind::ALL {
        assert!(files.iter().any(|file| file.kind == *kind), "common::files::whole has no {}", kind.name());
    }
    let names: Vec<&str> = files.iter().flat_map(|file| file.file_names).copied().collect();
    for name in FileKind::FILE_NAMES {
        assert!(names.contains(name), "no file is tried as {name}");
    }
    for (number, is_one) in FileKind::OTHER_NAMES.iter().enumerate() {
        assert!(names.iter().any(|name| is_one(Path::new(name))), "no file is tried by OTHER_NAMES[{number}]");
    }
}

#[test]
fn the_content_of_a_file_tells_its_kind() {
    for file in whole() {
        let (kind, _) = load_bytes(&file.file, file.config).unwrap();
        assert_eq!(kind, file.kind, "{}", file.name);
    }
}

#[test]
fn a_file_is_found_in_its_folder_by_each_of_its_names() {
    let folder = std::env::temp_dir().join(format!("rolecall-tokenizer-files-{}", std::process::id()));
    for file in whole() {
        for name in file.file_names {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), &file.file).unwrap();
            if let Some(config) = file.config {
                fs::write(folder.join("tokenizer_config.json"), config).unwrap();
            }
            let loaded = load_file(&folder).map(|(found, _)| (found.path, found.kind));
            fs::remove_dir_all(&folder).unwrap();
            assert_eq!(loaded.unwrap(), (folder.join(name), file.kind), "{}", file.name);
        }
    }
}

#[test]
fn a_folder_with_files_of_all_names_has_the_tokenizer_that_is_preferred() {
    let folder = std::env::temp_dir().join(format!("rolecall-tokenizer-choice-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let files = whole();
    // The content tells the kind, so any file can have any name.
    let any = files.iter().find(|file| file.config.is_none()).unwrap();
    for name in files.iter().flat_map(|file| file.file_names) {
        fs::write(folder.join(name), &any.file).unwrap();
    }
    let mut found = Vec::new();
    while let Ok((file, _)) = load_file(&folder) {
        found.push(file.path.file_name().unwrap().to_string_lossy().into_owned());
        fs::remove_file(file.path).unwrap();
    }
    fs::remove_dir_all(&folder).unwrap();
    // The order in which users have had them; other names may come between.
    let order = [
        "tokenizer.json",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tiktoken.model",
        "tekken.json",
        "tokenizer.model.v3",
        "tekken_240718.json",
        "x.tiktoken",
        "model.gguf",
    ];
    found.retain(|name| order.contains(&name.as_str()));
    assert_eq!(found, order);
}
