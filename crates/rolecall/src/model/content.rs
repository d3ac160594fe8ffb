//! Everything that a model was opened from, as bytes.
//!
//! The bytes are a line that names the form, the length of a JSON object, that object, and the
//! content of each file. The object holds the arguments of the builder, and the path and size of
//! each file.

use std::collections::BTreeMap;
use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};

use rolecall_conversation::json::{self, Layout, Object};
use rolecall_conversation::{Json, object};
use rolecall_encode::{PlainMarkers, Protect};
use rolecall_parse::{CallsInReasoning, UnclosedReasoning};
use rolecall_render::{Forms, Limits, RuleMode};

use super::builder::TemplateFrom;
use super::{BosBy, Model, ModelBuilder, OpenError, Settings, clock};
use crate::files::{Files, HeldFile};

/// The first line, which names the form and its version.
const START: &[u8] = b"rolecall model 1\n";
/// What the bytes do not hold of templates that are code.
const CODE: &str = "a template that is code";
/// The bytes of the object's length.
const LENGTH: usize = 8;

impl Model {
    /// Returns everything that the model was opened from: the caller's choices, the settings, and
    /// the content of each file that was read.
    ///
    /// [`Model::from_bytes`] opens the same model from it, on any machine. The tokenizer is loaded
    /// first if needed. Equal models give equal bytes. A file that has changed since the model was
    /// opened is an error, and so is a model with a tokenizer, chat templates or a registry that
    /// the caller had already loaded: hold their files in [`Files`] instead. Templates that are code
    /// are left out: [`ModelBuilder::from_bytes`] takes the bytes then.
    ///
    /// ```
    /// use rolecall::Model;
    /// let bytes = Model::open("chatml")?.to_bytes()?;
    /// assert_eq!(Model::from_bytes(&bytes)?.name(), "chatml");
    /// # Ok::<(), rolecall::model::OpenError>(())
    /// ```
    pub fn to_bytes(&self) -> Result<Vec<u8>, OpenError> {
        // What the tokenizer is loaded from is known once it was loaded. A tokenizer that cannot
        // be loaded gives the same error there.
        let _ = self.shared.encoders.loaded();
        let mut header = arguments(&self.shared.made)?;
        header.insert("settings", settings(&self.settings).into());
        let mut rows = Vec::new();
        let mut content = Vec::new();
        for (path, held) in self.shared.made.files.content()? {
            let mut row = object! { "path" => portable(&path) };
            match held {
                HeldFile::File(bytes) => {
                    row.insert("size", number(bytes.len() as u64));
                    content.push(bytes);
                }
                HeldFile::Folder(absolute) => {
                    row.insert("absolute", absolute.map_or(Json::Null, |path| portable(&path).into()));
                }
            }
            rows.push(Json::Object(row));
        }
        header.insert("files", Json::Array(rows));
        let header = json::write(&Json::Object(header), &Layout::compact());
        let size = START.len() + LENGTH + header.len() + content.iter().map(|bytes| bytes.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(START);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header.as_bytes());
        content.iter().for_each(|content| bytes.extend(&content[..]));
        Ok(bytes)
    }

    /// Opens the model of which [`Model::to_bytes`] returned these bytes. Nothing is read from the
    /// disk.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, OpenError> {
        let (builder, has_code) = read_content(bytes)?;
        match has_code {
            true => Err(OpenError::NoContent { part: CODE }),
            false => builder.open(),
        }
    }
}

impl ModelBuilder {
    /// Returns the builder of the model of which [`Model::to_bytes`] returned these bytes. If its
    /// templates are code, [`ModelBuilder::templates`] must set them again.
    ///
    /// ```
    /// use rolecall::Model;
    /// use rolecall::model::ModelBuilder;
    /// let bytes = Model::open("chatml")?.to_bytes()?;
    /// assert_eq!(ModelBuilder::from_bytes(&bytes)?.open()?.name(), "chatml");
    /// # Ok::<(), rolecall::model::OpenError>(())
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<ModelBuilder, OpenError> {
        Ok(read_content(bytes)?.0)
    }
}

/// Returns the builder of a model, and whether its templates are code.
fn read_content(bytes: &[u8]) -> Result<(ModelBuilder, bool), OpenError> {
    let rest = bytes.strip_prefix(START).ok_or_else(|| {
        damaged(&format!("expected `{}` in the first line", String::from_utf8_lossy(START).trim_end()))
    })?;
    let (length, rest) = rest.split_first_chunk::<LENGTH>().ok_or_else(ends)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ends())?;
    let (header, mut rest) = rest.split_at_checked(length).ok_or_else(ends)?;
    let header = std::str::from_utf8(header).map_err(|error| damaged(&format!("the header: {error}")))?;
    let header = json::parse_unique(header).map_err(|error| damaged(&format!("the header: {error}")))?;
    let header = ContentFields(header.as_object().ok_or_else(|| damaged("expected an object as the header"))?);
    let mut held = BTreeMap::new();
    for row in header.0.get("files").and_then(Json::as_array).ok_or_else(|| expected("files", "a list"))? {
        let row = ContentFields(row.as_object().ok_or_else(|| expected("files", "a list of objects"))?);
        let path = row.path("path")?.ok_or_else(|| expected("path", "text"))?;
        let found = match row.0.get("size") {
            None => HeldFile::Folder(row.path("absolute")?),
            Some(_) => {
                let size = usize::try_from(row.number("size")?).map_err(|_| ends())?;
                let (content, after) = rest.split_at_checked(size).ok_or_else(ends)?;
                rest = after;
                HeldFile::File(content.into())
            }
        };
        if held.insert(path, found).is_some() {
            return Err(damaged("a file is there twice"));
        }
    }
    if !rest.is_empty() {
        return Err(damaged(&format!("{} bytes are left over", rest.len())));
    }
    let files = Files::closed(held);
    let settings = read_settings(header.object("settings")?)?;
    // Earlier versions do not write it.
    let has_code = header.0.get("code").is_some() && header.flag("code")?;
    Ok((ModelBuilder { files, settings, ..read_arguments(&header)? }, has_code))
}

fn arguments(made: &ModelBuilder) -> Result<Object, OpenError> {
    // Named one by one, so that a new field is not forgotten here.
    let ModelBuilder {
        model,
        files: _,
        registry,
        replaces,
        format,
        template,
        tokenizer,
        loaded,
        bos_token,
        eos_token,
        settings: _,
    } = made;
    let has_code = matches!(template, Some(TemplateFrom::Templates(templates)) if templates.are_code());
    let template = match template {
        Some(TemplateFrom::Path(path)) => Some(path),
        Some(TemplateFrom::Templates(_)) if has_code => None,
        Some(TemplateFrom::Templates(_)) => return Err(OpenError::NoContent { part: "chat templates" }),
        None => None,
    };
    if loaded.is_some() {
        return Err(OpenError::NoContent { part: "a tokenizer" });
    }
    if registry.is_some() {
        return Err(OpenError::NoContent { part: "a registry" });
    }
    let path = |path: &Option<PathBuf>| path.as_ref().map_or(Json::Null, |path| portable(path).into());
    let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
    let bos_token = bos_token.as_ref().map(|tokens| tokens.iter().map(|token| token.as_str().into()).collect());
    let mut arguments = object! {
        "model" => path(model),
        "replaces" => *replaces,
        "format" => text(format),
        "template" => path(&template.cloned()),
        "tokenizer" => path(tokenizer),
        "bos_token" => bos_token.map_or(Json::Null, Json::Array),
        "eos_token" => text(eos_token),
    };
    if has_code {
        arguments.insert("code", Json::Bool(true));
    }
    Ok(arguments)
}

fn read_arguments(header: &ContentFields<'_>) -> Result<ModelBuilder, OpenError> {
    let bos_token = match header.0.get("bos_token") {
        None | Some(Json::Null) => None,
        Some(tokens) => {
            let texts = tokens.as_array().map(|tokens| tokens.iter().map(|token| token.as_str().map(str::to_owned)));
            let texts = texts.and_then(Iterator::collect::<Option<Vec<String>>>);
            Some(texts.ok_or_else(|| expected("bos_token", "a list of texts"))?)
        }
    };
    Ok(ModelBuilder {
        model: header.path("model")?,
        replaces: header.flag("replaces")?,
        format: header.text("format")?.map(str::to_owned),
        template: header.path("template")?.map(TemplateFrom::Path),
        tokenizer: header.path("tokenizer")?,
        bos_token,
        eos_token: header.text("eos_token")?.map(str::to_owned),
        ..ModelBuilder::default()
    })
}

fn settings(settings: &Settings) -> Object {
    let Settings {
        bos,
        rules,
        options,
        forms,
        template_name,
        now,
        limits,
        protect,
        calls_in_reasoning,
        unclosed_reasoning,
        plain_markers,
    } = settings;
    let pair =
        |(name, value): &(String, String)| Json::Array(vec![Json::from(name.as_str()), Json::from(value.as_str())]);
    object! {
        "bos" => bos.word(),
        "is_reference" => *rules == RuleMode::Reference,
        "options" => options.iter().map(pair).collect::<Vec<Json>>(),
        "forms_as_wanted" => *forms == Forms::AsWanted,
        "template_name" => template_name.as_deref().map_or(Json::Null, Json::from),
        "now" => now.map_or(Json::Null, clock::write),
        "limits" => LIMITS.map(|limit| number(limit(&mut limits.clone()).get())).to_vec(),
        "protects_all" => *protect == Protect::AllAdded,
        "calls_in_reasoning" => calls_in_reasoning.map_or(Json::Null, |policy| policy.key().into()),
        "unclosed_reasoning" => unclosed_reasoning.map_or(Json::Null, |policy| policy.word().into()),
        "plain_markers" => *plain_markers == PlainMarkers::Allow,
    }
}

fn read_settings(fields: ContentFields<'_>) -> Result<Settings, OpenError> {
    let pair = |pair: &Json| {
        let [name, value] = pair.as_array()? else { return None };
        Some((name.as_str()?.to_owned(), value.as_str()?.to_owned()))
    };
    let options = fields.0.get("options").and_then(Json::as_array);
    let options = options.and_then(|options| options.iter().map(pair).collect::<Option<Vec<_>>>());
    let numbers = |key| {
        let items = fields.0.get(key).and_then(Json::as_array);
        let items = items.map(|items| items.iter().map(as_number).collect::<Option<Vec<u64>>>());
        items.flatten().ok_or_else(|| expected(key, "a list of whole numbers"))
    };
    let now = match fields.0.get("now") {
        None | Some(Json::Null) => None,
        Some(now) => Some(clock::read(now).ok_or_else(|| expected("now", "a date and a time"))?),
    };
    let mut limits = Limits::default();
    let given = numbers("limits")?;
    if given.len() != LIMITS.len() {
        return Err(expected("limits", "another count of numbers"));
    }
    LIMITS.iter().zip(given).for_each(|(limit, given)| limit(&mut limits).set(given));
    let bos = fields.text("bos")?.and_then(|word| word.parse::<BosBy>().ok());
    Ok(Settings {
        bos: bos.ok_or_else(|| expected("bos", "one of the known words"))?,
        rules: if fields.flag("is_reference")? { RuleMode::Reference } else { RuleMode::Enforce },
        options: options.ok_or_else(|| expected("options", "pairs of texts"))?,
        forms: if fields.flag("forms_as_wanted")? { Forms::AsWanted } else { Forms::AsGiven },
        template_name: fields.text("template_name")?.map(str::to_owned),
        now,
        limits,
        protect: if fields.flag("protects_all")? { Protect::AllAdded } else { Protect::Control },
        calls_in_reasoning: fields.text("calls_in_reasoning")?.and_then(CallsInReasoning::from_key),
        unclosed_reasoning: fields.text("unclosed_reasoning")?.and_then(UnclosedReasoning::of_word),
        plain_markers: if fields.flag("plain_markers")? { PlainMarkers::Allow } else { PlainMarkers::Refuse },
    })
}

/// A limit of a template.
enum Limit<'a> {
    Count(&'a mut usize),
    Steps(&'a mut u64),
}

/// The limits, in the order in which they are written.
const LIMITS: [fn(&mut Limits) -> Limit<'_>; 9] = [
    |limits| Limit::Count(&mut limits.source_bytes),
    |limits| Limit::Count(&mut limits.nesting),
    |limits| Limit::Steps(&mut limits.instructions),
    |limits| Limit::Count(&mut limits.output_bytes),
    |limits| Limit::Count(&mut limits.live_bytes),
    |limits| Limit::Count(&mut limits.recursion),
    |limits| Limit::Count(&mut limits.depth),
    |limits| Limit::Count(&mut limits.loop_length),
    |limits| Limit::Steps(&mut limits.integer_bits),
];

impl Limit<'_> {
    fn get(self) -> u64 {
        match self {
            Limit::Count(count) => *count as u64,
            Limit::Steps(steps) => *steps,
        }
    }

    fn set(self, most: u64) {
        match self {
            Limit::Count(count) => *count = usize::try_from(most).unwrap_or(usize::MAX),
            Limit::Steps(steps) => *steps = most,
        }
    }
}

/// The fields of an object.
struct ContentFields<'a>(&'a Object);

impl<'a> ContentFields<'a> {
    /// Returns a text, or `None` if it is null.
    fn text(&self, key: &str) -> Result<Option<&'a str>, OpenError> {
        match self.0.get(key) {
            Some(Json::String(text)) => Ok(Some(text)),
            Some(Json::Null) => Ok(None),
            _ => Err(expected(key, "text or null")),
        }
    }

    fn path(&self, key: &str) -> Result<Option<PathBuf>, OpenError> {
        Ok(self.text(key)?.map(PathBuf::from))
    }

    fn flag(&self, key: &str) -> Result<bool, OpenError> {
        self.0.get(key).and_then(Json::as_bool).ok_or_else(|| expected(key, "true or false"))
    }

    fn number(&self, key: &str) -> Result<u64, OpenError> {
        self.0.get(key).and_then(as_number).ok_or_else(|| expected(key, "a whole number"))
    }

    fn object(&self, key: &str) -> Result<ContentFields<'a>, OpenError> {
        self.0.get(key).and_then(Json::as_object).map(ContentFields).ok_or_else(|| expected(key, "an object"))
    }
}

/// Returns a path as text that means the same file on every system. Bytes that are not UTF-8 are
/// replaced.
fn portable(path: &Path) -> String {
    path.to_string_lossy().replace(MAIN_SEPARATOR_STR, "/")
}

/// Returns a number as JSON, as text where JSON numbers of this crate end.
fn number(number: u64) -> Json {
    i64::try_from(number).map_or_else(|_| number.to_string().into(), Json::from)
}

fn as_number(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.as_i64().and_then(|number| u64::try_from(number).ok()),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn expected(key: &str, what: &str) -> OpenError {
    damaged(&format!("expected {what} as `{key}`"))
}

fn ends() -> OpenError {
    damaged("it is cut off")
}

fn damaged(why: &str) -> OpenError {
    OpenError::Content { why: why.to_owned() }
}
