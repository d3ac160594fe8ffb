use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rolecall::encode::{Encoder, Protection};
use rolecall::format::Format;
use rolecall::template::jinja::{Constant, Test};
use rolecall::template::{ChatTemplate, FindingKind, TemplateOptions, analyze_template};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;

use super::marks::spelled_in;
use super::property::ROLES;
use super::talk::Habits;
use super::{Marks, Subject, Voice, small_templates, small_tokenizers};
use crate::{FolderTemplates, Toy, generate};

/// Templates with their names.
pub type Templates = Vec<(String, ChatTemplate)>;

/// The name of the toy tokenizer in which a format's literal texts are tokens too.
const MARKED: &str = "toy-marked";

/// Tokenizers with their names.
pub type Tokenizers = Vec<(String, Arc<dyn Tokenizer>)>;

/// The subjects of a run: each format with each tokenizer that has its control tokens, and each
/// template with each tokenizer.
#[derive(Default)]
pub struct Plan {
    /// The subjects, in a fixed order.
    pub subjects: Vec<Subject>,
    /// Templates that are not tried, each with the reason.
    pub left_out: Vec<String>,
}

/// A tokenizer that all templates share.
struct Shared {
    name: String,
    tokenizer: Arc<dyn Tokenizer>,
    tokens: Arc<[String]>,
}

/// A template that all tokenizers share.
struct Program {
    name: String,
    voice: Voice,
    protection: Arc<Protection>,
    words: Arc<[String]>,
    gates: Arc<[String]>,
    literals: Arc<[String]>,
}

impl Plan {
    /// Every built-in format and small template with tokenizers that need no files.
    pub fn builtin() -> Plan {
        let mut plan = Plan::default();
        plan.add_formats_with_toys();
        let templates = small_templates().into_iter().map(|(name, source)| {
            let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")].map(|(name, text)| (name.into(), text.into()));
            let template =
                ChatTemplate::compile(source, tokens.to_vec()).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name.to_owned(), template)
        });
        let tokenizers = small_tokenizers().into_iter().map(|(name, tokenizer)| (name.to_owned(), tokenizer));
        plan.add_templates(&templates.collect(), &tokenizers.collect());
        plan
    }

    /// [`Plan::builtin`] with the templates and tokenizers of these folders added.
    pub fn with_folders(templates: Option<&Path>, tokenizers: Option<&Path>) -> Result<Plan, String> {
        let mut plan = Plan::builtin();
        let tokenizers = tokenizers.map(read_tokenizers).transpose()?.unwrap_or_default();
        plan.add_formats(&tokenizers);
        if let Some(folder) = templates {
            let templates = FolderTemplates::read(folder)?;
            plan.left_out.extend(templates.left_out);
            plan.add_templates(&templates.compiled, &tokenizers);
        }
        Ok(plan)
    }

    /// Keeps the subjects whose labels contain this text.
    pub fn keep(&mut self, only: &str) {
        self.subjects.retain(|subject| subject.label.contains(only));
    }

    /// Adds each format with three toy tokenizers: one as the maker's file would be, one that also
    /// has the appended tokens, and one in which every piece of the format's literal text is a
    /// token.
    fn add_formats_with_toys(&mut self) {
        let registry = rolecall::format::registry();
        for format in generate::variants(&registry) {
            let [plain, appended, marked] = Toy::family(format, &generate::marks(format));
            for (name, toy) in [("toy", plain), ("toy-appended", appended), (MARKED, marked)] {
                self.add_format(format, name, &(Arc::new(toy) as Arc<dyn Tokenizer>));
            }
        }
    }

    fn add_formats(&mut self, tokenizers: &Tokenizers) {
        let registry = rolecall::format::registry();
        for format in generate::variants(&registry) {
            for (name, tokenizer) in tokenizers {
                self.add_format(format, name, tokenizer);
            }
        }
    }

    /// Adds a format with a tokenizer that has its control tokens.
    fn add_format(&mut self, format: &Arc<Format>, name: &str, tokenizer: &Arc<dyn Tokenizer>) {
        let protection = Arc::new(Protection::default().with_format(format));
        if Encoder::new(&protection, Arc::clone(tokenizer)).is_err() {
            return;
        }
        let tokens = tokenizer.added_tokens().iter().map(|token| token.text.clone());
        let tokens = tokens.chain(format.controls.iter().flat_map(|control| control.texts().map(str::to_owned)));
        let mut tokens: Vec<String> = tokens.collect();
        tokens.sort();
        tokens.dedup();
        let words: Arc<[String]> = generate::marks(format).into();
        let marks = Marks::new(tokens.into(), Arc::clone(&words), Arc::from([]), words);
        self.subjects.push(Subject {
            label: format!("{} × {name}", generate::label(format)),
            voice: Voice::Format(Arc::clone(format)),
            marks: marks.honest_with(tokenizer.as_ref(), &protection),
            tokenizer: Arc::clone(tokenizer),
            protection,
            bound: OnceLock::new(),
            is_real: name != MARKED,
        });
    }

    /// Adds templates, each with each of these tokenizers and with a toy that has its markers.
    pub fn add_templates(&mut self, templates: &Templates, tokenizers: &Tokenizers) {
        let shared: Vec<Shared> = tokenizers.iter().map(|(name, tokenizer)| share(name, tokenizer)).collect();
        for (name, template) in templates {
            let program = match Program::new(name, template) {
                Ok(program) => program,
                Err(error) => {
                    self.left_out.push(format!("{name}: {error}"));
                    continue;
                }
            };
            for tokenizer in &shared {
                self.add_template(&program, tokenizer);
            }
            // A toy with the template's own control tokens, which few of the tokenizers have.
            let none = Format::new("none");
            let toy =
                program.words.iter().filter(|word| is_token(word)).fold(Toy::of(&none), |toy, word| toy.with(word));
            self.add_template(&program, &share("toy", &(Arc::new(toy) as Arc<dyn Tokenizer>)));
        }
    }

    fn add_template(&mut self, program: &Program, shared: &Shared) {
        let (tokens, words) = (Arc::clone(&shared.tokens), Arc::clone(&program.words));
        let marks = Marks::new(tokens, words, Arc::clone(&program.gates), Arc::clone(&program.literals));
        self.subjects.push(Subject {
            label: format!("{} × {}", program.name, shared.name),
            voice: program.voice.clone(),
            marks: marks.honest_with(shared.tokenizer.as_ref(), &program.protection),
            tokenizer: Arc::clone(&shared.tokenizer),
            protection: Arc::clone(&program.protection),
            bound: OnceLock::new(),
            is_real: true,
        });
    }
}

fn share(name: &str, tokenizer: &Arc<dyn Tokenizer>) -> Shared {
    let tokens: Vec<String> = tokenizer.added_tokens().iter().map(|token| token.text.clone()).collect();
    Shared { name: name.to_owned(), tokenizer: Arc::clone(tokenizer), tokens: tokens.into() }
}

impl Program {
    /// Takes from a template's analysis what it accepts and what it compares texts with.
    fn new(name: &str, template: &ChatTemplate) -> Result<Program, rolecall::Error> {
        let analysis = analyze_template(template, &TemplateOptions::default())?;
        let (source, tokens) = (template.source(), template.tokens());
        let gated = analysis.findings.iter().any(|finding| finding.kind == FindingKind::ContentGated);
        let mut words = spelled_in(source);
        words.extend(tokens.iter().map(|(_, text)| text.clone()));
        let mut gates = Vec::new();
        for asked in &analysis.program.comparisons {
            let is_text = matches!(asked.test, Test::Operator(_) | Test::Method(_));
            gates.extend(asked.with.iter().filter_map(|with| match with {
                Constant::Text(text) if is_text && !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            }));
        }
        for list in [&mut words, &mut gates] {
            list.sort();
            list.dedup();
        }
        let protection = Arc::new(Protection::default().with_template(name, template));
        // The whole source contains every literal, unless the template joins one from parts.
        let mut literals = vec![without_comments(source)];
        literals.extend(tokens.iter().map(|(_, text)| text.clone()));
        literals.extend(ROLES.map(|role| format!("<|{role}|>")).into_iter().filter(|_| joins_roles(source)));
        let voice =
            Voice::Template { template: Arc::new(template.clone()), habits: Arc::new(Habits::of(&analysis)), gated };
        Ok(Program {
            name: name.to_owned(),
            voice,
            protection,
            words: words.into(),
            gates: gates.into(),
            literals: literals.into(),
        })
    }
}

/// Reports whether a source writes a role between bars, however it joins the two.
fn joins_roles(source: &str) -> bool {
    let squeezed: String = source.chars().filter(|c| !c.is_whitespace() && !"'\"+~{}".contains(*c)).collect();
    let roles = ["m.role", "message.role", "m[role]", "message[role]", "role"];
    roles.iter().any(|role| squeezed.contains(&format!("<|{role}|>")))
}

fn without_comments(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some((before, comment)) = rest.split_once("{#") {
        text.push_str(before);
        rest = comment.split_once("#}").map_or("", |(_, behind)| behind);
    }
    text + rest
}

pub(crate) fn is_token(word: &str) -> bool {
    let closed = (word.starts_with('<') && word.ends_with('>')) || (word.starts_with('[') && word.ends_with(']'));
    closed && word.len() > 2
}

/// Reads the tokenizers in a folder, one subfolder each, sorted by name.
fn read_tokenizers(folder: &Path) -> Result<Tokenizers, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let mut tokenizers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        if !path.is_dir() {
            continue;
        }
        let tokenizer = tokenizer::load(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tokenizers.push((name, Arc::from(tokenizer)));
    }
    if tokenizers.is_empty() {
        return Err(failed(&"no subfolder with a tokenizer"));
    }
    tokenizers.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(tokenizers)
}
