use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rolecall_encode::{PlainMarkers, Protect};
use rolecall_format::{Format, Registry};
use rolecall_render::{DateTime, Forms, RuleMode};
use rolecall_tokenizer::{FileKind, Tokenizer};

use super::encoders::Encoders;
use super::ends::Ends;
use super::templates::{CompiledTemplates, Templates};
use super::{BosBy, Choice, Model, ModelCore, OpenError, Settings, Voice};
use crate::files::Files;
use crate::format::{file_of, is_file, read as read_format, registry};
use crate::identify::{Clues, FileError, ModelFile, ModelWarning, identify, read_files};
use crate::template::{ModelTemplates, NamedTemplate};
use crate::template_files::load_from as load_templates;
use crate::tokenizer;

/// A builder that opens a model part by part.
///
/// ```
/// use rolecall::Model;
/// let model = Model::builder().format("chatml").option("unused", "x").open()?;
/// assert_eq!(model.format().map(|format| format.name.as_str()), Some("chatml"));
/// # Ok::<(), rolecall::model::OpenError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelBuilder {
    pub(super) model: Option<PathBuf>,
    pub(super) files: Files,
    pub(super) registry: Option<Registry>,
    pub(super) replaces: bool,
    pub(super) format: Option<String>,
    pub(super) template: Option<TemplateFrom>,
    pub(super) tokenizer: Option<PathBuf>,
    pub(super) loaded: Option<GivenTokenizer>,
    pub(super) bos_token: Option<Vec<String>>,
    pub(super) eos_token: Option<String>,
    pub(super) settings: Settings,
}

/// A tokenizer that the caller passes.
#[derive(Clone)]
pub(super) struct GivenTokenizer(Arc<dyn Tokenizer>);

impl fmt::Debug for GivenTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loaded")
    }
}

#[derive(Clone, Debug)]
pub(super) enum TemplateFrom {
    Path(PathBuf),
    Templates(ModelTemplates),
}

/// The parts found for a path or name.
#[derive(Default)]
struct ModelParts {
    templates: Option<(ModelTemplates, PathBuf)>,
    format: Option<String>,
    tokenizer: Option<PathBuf>,
    ends: Ends,
    choices: Vec<Choice>,
    warnings: Vec<ModelWarning>,
}

impl ModelBuilder {
    /// Sets the model. It provides every part that is not set separately.
    ///
    /// It is a model's folder, a GGUF file, a chat template (`.jinja`, `tokenizer_config.json`), a
    /// format file, or the name of a format or model.
    #[must_use]
    pub fn model(mut self, path_or_name: impl AsRef<Path>) -> ModelBuilder {
        self.model = Some(path_or_name.as_ref().to_path_buf());
        self
    }

    /// Sets where files are read from. By default, from the disk.
    #[must_use]
    pub fn files(mut self, files: Files) -> ModelBuilder {
        self.files = files;
        self
    }

    /// Sets the formats in which names are looked up. By default these are the built-in formats.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> ModelBuilder {
        self.registry = Some(registry);
        self
    }

    /// Allows a format file to replace a format of the same name. Otherwise a name clash is an
    /// error.
    #[must_use]
    pub fn replacing(mut self, replaces: bool) -> ModelBuilder {
        self.replaces = replaces;
        self
    }

    /// Sets the format, by its name or its file. It replaces the model's chat templates.
    #[must_use]
    pub fn format(mut self, name_or_file: impl Into<String>) -> ModelBuilder {
        self.format = Some(name_or_file.into());
        self
    }

    /// Sets the chat templates to those of a file or folder. They replace the model's own.
    #[must_use]
    pub fn template(mut self, path: impl AsRef<Path>) -> ModelBuilder {
        self.template = Some(TemplateFrom::Path(path.as_ref().to_path_buf()));
        self
    }

    /// Sets the chat templates to ones that are already loaded.
    #[must_use]
    pub fn templates(mut self, templates: ModelTemplates) -> ModelBuilder {
        self.template = Some(TemplateFrom::Templates(templates));
        self
    }

    /// Sets the tokenizer's file or folder.
    #[must_use]
    pub fn tokenizer(mut self, path: impl AsRef<Path>) -> ModelBuilder {
        self.tokenizer = Some(path.as_ref().to_path_buf());
        self
    }

    /// Sets a tokenizer that is already loaded. It replaces any file.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rolecall::{Model, Request};
    /// use rolecall::template::ModelTemplates;
    /// use rolecall::tokenizer::HuggingFace;
    /// let json = br#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "|": 1}, "merges": []}}"#;
    /// let templates = ModelTemplates::from_json(&"{% for m in messages %}{{ m.content }}|{% endfor %}".into())?;
    /// let tokenizer = Arc::new(HuggingFace::from_bytes(json, None)?);
    /// let model = Model::builder().templates(templates).loaded_tokenizer(tokenizer).open()?;
    /// let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "a"}]}"#)?;
    /// assert_eq!(model.prompt(request)?.encode()?.ids(), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn loaded_tokenizer(mut self, tokenizer: Arc<dyn Tokenizer>) -> ModelBuilder {
        self.loaded = Some(GivenTokenizer(tokenizer));
        self
    }

    /// Sets the tokens that open a text. An empty list means none.
    #[must_use]
    pub fn bos_tokens(mut self, tokens: impl IntoIterator<Item = String>) -> ModelBuilder {
        self.bos_token = Some(tokens.into_iter().collect());
        self
    }

    /// Sets the token that closes a text. An empty string means none.
    #[must_use]
    pub fn eos_token(mut self, token: impl Into<String>) -> ModelBuilder {
        self.eos_token = Some(token.into());
        self
    }

    /// Chooses one of several chat templates by its name.
    #[must_use]
    pub fn template_name(mut self, name: impl Into<String>) -> ModelBuilder {
        self.settings.template_name = Some(name.into());
        self
    }

    /// Sets an option of the format or a switch of the chat template, for all requests.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> ModelBuilder {
        self.settings.options.push((name.into(), value.into()));
        self
    }

    /// Sets who writes the token that opens a prompt.
    #[must_use]
    pub fn bos(mut self, bos: BosBy) -> ModelBuilder {
        self.settings.bos = bos;
        self
    }

    /// Sets how the format's order rules are applied.
    #[must_use]
    pub fn rules(mut self, rules: RuleMode) -> ModelBuilder {
        self.settings.rules = rules;
        self
    }

    /// Sets the form in which tool calls are passed to a chat template.
    #[must_use]
    pub fn forms(mut self, forms: Forms) -> ModelBuilder {
        self.settings.forms = forms;
        self
    }

    /// Sets the time that chat templates see.
    #[must_use]
    pub fn now(mut self, now: DateTime) -> ModelBuilder {
        self.settings.now = Some(now);
        self
    }

    /// Sets which of the tokenizer's tokens text never encodes to.
    #[must_use]
    pub fn protect(mut self, protect: Protect) -> ModelBuilder {
        self.settings.protect = protect;
        self
    }

    /// Sets what to do if a chat template marks turns with texts that are not tokens of the tokenizer.
    #[must_use]
    pub fn plain_markers(mut self, plain: PlainMarkers) -> ModelBuilder {
        self.settings.plain_markers = plain;
        self
    }

    /// Replaces all settings.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> ModelBuilder {
        self.settings = settings;
        self
    }

    /// Opens the model. The tokenizer is loaded when it is first needed.
    pub fn open(mut self) -> Result<Model, OpenError> {
        self.files = self.files.unseen();
        let made = self.clone();
        let mut registry = self.registry.take().unwrap_or_else(registry);
        let mut found = match &self.model {
            Some(asked) => self.find(asked, &mut registry)?,
            None => ModelParts::default(),
        };
        if let Some(asked) = &self.format {
            let name = self.name_of_format(asked, &mut registry)?;
            found.choices.retain(|choice| choice.part == "tokenizer");
            found.choices.push(Choice::asked("format", asked));
            (found.format, found.templates) = (Some(name), None);
            found.warnings.clear();
        }
        self.take_given(&mut found)?;
        self.take_own_tokens(&mut found, &mut registry);
        let name = self.model.as_ref().map(|model| model.display().to_string());
        let compiled = CompiledTemplates::default();
        let voice = match (found.templates, found.format) {
            (Some((templates, path)), recognised) => {
                let templates = Arc::new(Templates::new(templates));
                self.check(&templates, &path, &compiled)?;
                Voice::Templates { templates, recognised }
            }
            (None, Some(format)) => Voice::Format(format),
            (None, None) => Voice::Nothing,
        };
        let own = match &voice {
            Voice::Templates { templates, .. } => {
                templates.model.templates.first().map(|named| named.source_name().display().to_string())
            }
            Voice::Format(name) => Some(name.clone()),
            Voice::Nothing => None,
        };
        let known = match &voice {
            Voice::Templates { recognised, .. } => recognised.as_deref(),
            Voice::Format(name) => Some(name.as_str()),
            Voice::Nothing => None,
        };
        let controls = known.and_then(|name| registry.find(name)).map(|format| Arc::clone(&format.controls));
        let controls = controls.unwrap_or_default();
        let encoders = match self.loaded.take() {
            Some(GivenTokenizer(tokenizer)) => Encoders::of(tokenizer, &controls),
            None => Encoders::new(found.tokenizer, self.files.clone(), controls),
        };
        Ok(Model {
            shared: Arc::new(ModelCore {
                name: name.or(own).unwrap_or_default(),
                made,
                registry,
                voice,
                compiled,
                encoders,
                replies: Default::default(),
                ends: found.ends,
                generations: Default::default(),
                digests: Default::default(),
                choices: found.choices,
                warnings: found.warnings,
            }),
            settings: Arc::new(self.settings),
            setups: Arc::default(),
        })
    }

    /// Takes the templates and the tokenizer that the caller names or passes.
    fn take_given(&mut self, found: &mut ModelParts) -> Result<(), OpenError> {
        if let Some(from) = self.template.take() {
            let (templates, path) = match from {
                TemplateFrom::Path(path) => (load_templates(&self.files, &path)?, path),
                TemplateFrom::Templates(templates) => {
                    let path = templates.templates.first().map(NamedTemplate::source_name).unwrap_or_default();
                    (templates, path)
                }
            };
            found.choices.retain(|choice| choice.part != "chat template");
            found.choices.push(Choice::asked("chat template", &path.display().to_string()));
            found.templates = Some((templates, path));
        }
        if let Some(path) = self.tokenizer.take() {
            found.choices.retain(|choice| choice.part != "tokenizer");
            found.choices.push(Choice::asked("tokenizer", &path.display().to_string()));
            found.tokenizer = Some(path);
        }
        if self.loaded.is_some() {
            found.choices.retain(|choice| choice.part != "tokenizer");
            found.choices.push(Choice::asked("tokenizer", "one that is already loaded"));
            found.tokenizer = None;
        }
        Ok(())
    }

    /// Finds the parts of a model from a path or name.
    fn find(&self, asked: &Path, registry: &mut Registry) -> Result<ModelParts, OpenError> {
        if self.files.is_dir(asked) {
            return self.find_in_folder(asked, registry);
        }
        let name = asked.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let ends = |ending: &str| name.ends_with(ending);
        let is_template = ends(".jinja")
            || [ModelFile::TokenizerConfig, ModelFile::TemplateJson].iter().any(|file| name == file.name());
        // A file that belongs to every model's folder stands for the folder, as does a tokenizer in JSON, which
        // would otherwise be read as a framework's template.
        let of_folder = [ModelFile::Config, ModelFile::SpecialTokens, ModelFile::AddedTokens].map(ModelFile::name);
        let of_tokenizer = FileKind::FILE_NAMES.iter().copied().filter(|file| file.ends_with(".json"));
        let mut of_folder = of_folder.into_iter().chain(["generation_config.json"]).chain(of_tokenizer);
        if self.files.is_file(asked) && of_folder.any(|file| name == file) {
            return self.find_in_folder(folder_of(asked), registry);
        }
        let is_gguf = ends(".gguf") || (self.files.is_file(asked) && self.is_gguf(asked)?);
        if is_gguf {
            return self.find_in_gguf(asked);
        }
        if is_template {
            return match self.find_in_template(asked) {
                // The template may be in another file of the folder, or the folder may be
                // recognized by something else.
                Err(OpenError::File(FileError::NoTemplate { .. })) if name == ModelFile::TokenizerConfig.name() => {
                    self.find_in_folder(folder_of(asked), registry)
                }
                found => found,
            };
        }
        let text = asked.to_string_lossy();
        if registry.find(&text).is_some() {
            let choices = vec![Choice::new("format", format!("`{text}` is the name of a format"))];
            return Ok(ModelParts { format: Some(text.into_owned()), choices, ..ModelParts::default() });
        }
        let is_format = [".toml", ".json", ".py"].iter().any(|ending| ends(ending)) || file_of(&text).1.is_some();
        if self.files.is_file(asked) || is_format {
            let name = self.add_format(asked, registry)?;
            let choices = vec![Choice::new("format", format!("the file {}", asked.display()))];
            return Ok(ModelParts { format: Some(name), choices, ..ModelParts::default() });
        }
        if is_path(&text) {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(FileError::Unreadable { path: asked.to_path_buf(), source }.into());
        }
        let clues = Clues { name: text.clone().into_owned(), folder: None };
        let identified = match identify(&clues, registry) {
            Ok(identified) => identified,
            // The caller sets the format or template separately.
            Err(_) if self.format.is_some() || self.template.is_some() => return Ok(ModelParts::default()),
            Err(error) => return Err(OpenError::Unidentified(error)),
        };
        Ok(ModelParts {
            format: Some(identified.format.name.clone()),
            choices: identified.evidence.iter().map(|evidence| Choice::new("format", evidence.to_string())).collect(),
            warnings: identified.warnings,
            ..ModelParts::default()
        })
    }

    /// Returns the name of a requested format: a registered one, or that of a file, which is added
    /// to the registry.
    fn name_of_format(&self, asked: &str, registry: &mut Registry) -> Result<String, OpenError> {
        if registry.find(asked).is_some() {
            return Ok(asked.to_owned());
        }
        let path = Path::new(asked);
        if !is_file(asked) && !self.files.is_file(path) {
            let near = registry.suggest(asked).map(str::to_owned);
            return Err(OpenError::UnknownFormat { name: asked.to_owned(), near });
        }
        self.add_format(path, registry)
    }

    /// Adds the format of a file to the registry and returns its name.
    fn add_format(&self, path: &Path, registry: &mut Registry) -> Result<String, OpenError> {
        let format = load_format(&self.files, path)?;
        let added = match self.replaces {
            true => registry.replace(format),
            false => registry.add(format).map_err(|clash| OpenError::NameClash { path: path.to_path_buf(), clash })?,
        };
        Ok(added.name.clone())
    }

    fn find_in_folder(&self, folder: &Path, registry: &Registry) -> Result<ModelParts, OpenError> {
        let read = read_files(&self.files, folder, &ModelFile::ALL)?;
        // `.` and `..` have no name.
        let named = folder.file_name().is_none().then(|| self.files.absolute(folder)).flatten();
        let name = named.as_deref().unwrap_or(folder).display().to_string();
        let templates = read.templates.clone();
        let ends = Ends::of_folder(&self.files, folder, &templates)?;
        let has_template = !templates.templates.is_empty();
        let identified = identify(&Clues { name, folder: Some(read) }, registry);
        let mut found = ModelParts { ends, ..ModelParts::default() };
        if has_template {
            let named = templates.templates.iter().map(NamedTemplate::place).collect::<Vec<_>>().join(", ");
            found.choices.push(Choice::new("chat template", named));
            found.templates = Some((templates, folder.to_path_buf()));
        }
        match identified {
            Ok(identified) => {
                let part = if has_template { "recognised format" } else { "format" };
                let why = identified.evidence.iter().map(|evidence| Choice::new(part, evidence.to_string()));
                found.choices.extend(why);
                found.warnings = identified.warnings;
                found.format = Some(identified.format.name.clone());
            }
            // The template is sufficient, or the caller sets the format or template separately.
            Err(_) if has_template || self.format.is_some() || self.template.is_some() => {}
            Err(error) => {
                return match self.gguf_of(folder)? {
                    Some(file) => self.find_in_gguf(&file),
                    None => Err(OpenError::Unidentified(error)),
                };
            }
        }
        if let Ok(file) = tokenizer::find_file(&self.files, folder) {
            found.choices.push(Choice::new("tokenizer", file.display().to_string()));
            found.tokenizer = Some(folder.to_path_buf());
        }
        Ok(found)
    }

    fn find_in_template(&self, path: &Path) -> Result<ModelParts, OpenError> {
        let templates = load_templates(&self.files, path)?;
        let folder = folder_of(path);
        let ends = Ends::of_folder(&self.files, folder, &templates)?;
        let mut choices = vec![Choice::asked("chat template", &path.display().to_string())];
        let tokenizer = tokenizer::find_file(&self.files, folder).ok().map(|file| {
            choices.push(Choice::new("tokenizer", format!("{}, in the folder of the chat template", file.display())));
            folder.to_path_buf()
        });
        Ok(ModelParts {
            templates: Some((templates, path.to_path_buf())),
            tokenizer,
            ends,
            choices,
            ..ModelParts::default()
        })
    }

    fn find_in_gguf(&self, path: &Path) -> Result<ModelParts, OpenError> {
        let templates = match load_templates(&self.files, path) {
            Ok(templates) => Some(templates),
            Err(FileError::NoTemplate { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let ends = Ends::of_gguf(&self.files, path, templates.as_ref().unwrap_or(&ModelTemplates::default()))?;
        let shown = path.display().to_string();
        let mut choices = vec![Choice::new("tokenizer", format!("the vocabulary in {shown}"))];
        choices.extend(
            templates.as_ref().map(|_| Choice::new("chat template", format!("`tokenizer.chat_template` in {shown}"))),
        );
        Ok(ModelParts {
            templates: templates.map(|templates| (templates, path.to_path_buf())),
            tokenizer: Some(path.to_path_buf()),
            ends,
            choices,
            ..ModelParts::default()
        })
    }

    fn is_gguf(&self, path: &Path) -> Result<bool, FileError> {
        self.files.is_gguf(path).map_err(|source| FileError::Unreadable { path: path.to_path_buf(), source })
    }

    /// Returns the GGUF file of a folder that has exactly one.
    fn gguf_of(&self, folder: &Path) -> Result<Option<PathBuf>, OpenError> {
        Ok(match self.files.with_extension(folder, "gguf")?.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        })
    }

    /// Returns the tokens that open and close a text, as the files in the tokenizer's folder name them,
    /// or `None` if no such file exists.
    fn own_tokens(&self, tokenizer: &Path) -> Option<(Vec<String>, String)> {
        let folder = if self.files.is_dir(tokenizer) { tokenizer } else { tokenizer.parent()? };
        // Errors in these files are reported where the files themselves are requested.
        let folder = read_files(&self.files, folder, &ModelFile::ALL).ok()?;
        // If these files exist and name no token, the tokenizer has none.
        let named = folder.files.iter().any(|file| {
            [ModelFile::TokenizerConfig, ModelFile::SpecialTokens].iter().any(|telling| telling.name() == *file)
        });
        let token = |name| folder.templates.token(name).map(str::to_owned);
        named.then(|| (token("bos_token").into_iter().collect(), token("eos_token").unwrap_or_default()))
    }

    /// Sets the tokens that open and close a text in formats and templates that use those of the
    /// tokenizer. The caller's tokens come first, then those that the tokenizer's files name.
    fn take_own_tokens(&self, found: &mut ModelParts, registry: &mut Registry) {
        let (bos, eos) = found.tokenizer.as_deref().and_then(|path| self.own_tokens(path)).unzip();
        let named = |token: &String| !token.is_empty();
        let asked = self.bos_token.as_ref().map(|tokens| tokens.iter().filter(|token| named(token)).cloned().collect());
        if let Some((templates, _)) = &mut found.templates {
            for (name, token) in
                [("bos_token", bos.as_ref().map(|bos: &Vec<String>| bos.concat())), ("eos_token", eos.clone())]
            {
                if let Some(token) = token.filter(named).filter(|_| templates.token(name).is_none()) {
                    templates.set_token(name, token);
                }
            }
            if let Some(tokens) = &self.bos_token {
                templates.set_token("bos_token", tokens.concat());
            }
            if let Some(token) = &self.eos_token {
                templates.set_token("eos_token", token.clone());
            }
        }
        let (bos, eos): (Option<Vec<String>>, _) = (asked.or(bos), self.eos_token.clone().or(eos));
        if bos.is_none() && eos.is_none() {
            return;
        }
        let formats: Vec<Arc<Format>> = registry.iter().filter(|format| format.has_own_tokens()).cloned().collect();
        for format in formats {
            registry.replace(format.with_tokens_of(bos.as_deref(), eos.as_deref()));
        }
    }

    /// Checks the template that all requests use, so that its errors are reported when the model is
    /// opened.
    fn check(&self, templates: &Arc<Templates>, path: &Path, compiled: &CompiledTemplates) -> Result<(), OpenError> {
        if self.settings.template_name.is_none() && templates.model.templates.len() != 1 {
            return Ok(());
        }
        match templates.choose(&self.settings, false, compiled) {
            Ok(_) => Ok(()),
            Err(crate::Error::NoTemplate(why)) => Err(OpenError::NoTemplate { path: path.to_path_buf(), why }),
            Err(error) => Err(OpenError::Template(Box::new(error))),
        }
    }
}

/// Reports whether a text can only be a path, and no name of a model such as `owner/name`.
fn is_path(text: &str) -> bool {
    let is_absolute = Path::new(text).is_absolute();
    let opens = ["./", "../", "~", ".\\", "..\\"].iter().any(|opening| text.starts_with(opening));
    is_absolute || opens || text.ends_with('/') || text.matches('/').count() > 1 || text.contains('\\')
}

/// Returns the folder that contains a file.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn load_format(files: &Files, path: &Path) -> Result<Format, OpenError> {
    let file = path.to_str().map_or(path, |named| Path::new(file_of(named).0));
    let text = files.read_text(file)?;
    read_format(&path.display().to_string(), &text)
        .map_err(|error| OpenError::Format { path: path.to_path_buf(), error })
}
