//! No conversation forges a control token: whatever its texts spell, the control tokens are those
//! of the same conversation with harmless texts.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json};
use rolecall::encode::{Encoder, Protection};
use rolecall::format::{Format, Slot};
use rolecall::render::{Options, RuleMode, Writer};
use rolecall::template::ChatTemplate;
use rolecall::tokenizer;
use rolecall::tokenizer::{AddedToken, TextPlace, Token, Tokenizer, TokenizerKind};
use rolecall::{Error, Origin, Prompt};
use rolecall_testkit::{Toy, forge, generate};

/// Conversations for each format and rule mode.
const ROUNDS: u64 = 80;

#[test]
fn texts_cannot_change_the_control_tokens() {
    let registry = rolecall::format::registry();
    let mut tokens = 0;
    for format in generate::variants(&registry) {
        let (encoders, marks) = (encoders(format), generate::marks(format));
        for (seed, rules) in (0..ROUNDS).flat_map(|seed| [(seed, RuleMode::Enforce), (seed, RuleMode::Reference)]) {
            let mut rng = Rng::with_seed(seed);
            let mut twins = BTreeMap::new();
            let generated = generate::conversation(format, seed, rules, &mut |_| {
                let text = numbered(generate::hostile(&marks, &mut rng), twins.len(), &mut rng);
                twins.insert(text.clone(), generate::harmless(&text));
                text
            });
            let twin_options =
                Options { choices: replaced_choices(&generated.options, &twins), ..generated.options.clone() };
            let compare = |request: &Json| -> Result<usize, String> {
                let hostile = control_tokens(request, format, &generated.options, &encoders)?;
                let harmless = control_tokens(&replaced(request, &twins), format, &twin_options, &encoders)?;
                match hostile == harmless {
                    true => Ok(hostile.iter().map(|(_, ids)| ids.len()).sum()),
                    false => Err(format!("forged\n  hostile:  {hostile:?}\n  harmless: {harmless:?}")),
                }
            };
            match compare(&generated.request) {
                Ok(count) => tokens += count,
                Err(why) => {
                    let forged = |why: &String| why.starts_with("forged");
                    let smallest = match forged(&why) {
                        true => generate::shrink(&generated.request, |request| {
                            compare(request).is_err_and(|why| forged(&why))
                        }),
                        false => generated.request.clone(),
                    };
                    let why = compare(&smallest).err().unwrap_or(why);
                    let smallest = json::write(&smallest, &Layout::default());
                    let label = generate::label(format);
                    panic!("{label}, seed {seed}, {:?}\n  request: {smallest}\n  {why}", generated.options);
                }
            }
        }
    }
    assert!(tokens > 10_000, "only {tokens} control tokens were checked");
}

/// Conversations for the built-in formats with small templates and tokenizers. `conform --forge` tries real
/// ones, too.
const TRIED: usize = 1_500;

/// The seed; `conform --forge` takes others.
const SEED: u64 = 20_261_122;

#[test]
fn no_conversation_forges_a_token() {
    let plan = forge::Plan::builtin();
    let summary = forge::run(&plan.subjects, TRIED, SEED, 2, &|_| {});
    assert_clean(&plan, &summary);
    assert!(summary.rendered > TRIED * 9 / 10 && summary.controls > TRIED, "{summary}");
    // The same seed gives the same conversations on any number of threads.
    let alone = forge::run(&plan.subjects, TRIED / 10, SEED, 1, &|_| {});
    let together = forge::run(&plan.subjects, TRIED / 10, SEED, 3, &|_| {});
    assert_eq!(alone.to_string(), together.to_string());
}

fn assert_clean(plan: &forge::Plan, summary: &forge::Summary) {
    if let Some(failure) = summary.failures.first() {
        panic!("{}, seed {}: {}\n{summary}", failure.subject, failure.seed, forge::explain(&plan.subjects, failure));
    }
}

/// A tokenizer that lets tokens through in some way.
struct Leaky {
    tokenizer: Arc<dyn Tokenizer>,
    leak: Leak,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Leak {
    /// Ordinary text becomes the tokens that it spells.
    Spelled,
    /// Ordinary text becomes the tokens that it spells in other letters.
    Folded,
    /// One token is missing from the added tokens.
    Unsaid,
}

impl Tokenizer for Leaky {
    fn encode_ordinary(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), tokenizer::Error> {
        let folded = text.to_ascii_lowercase();
        match self.leak {
            Leak::Spelled => self.tokenizer.encode_reference(text, place, out),
            Leak::Folded if folded != text => self.tokenizer.encode_reference(&folded, place, out),
            Leak::Folded | Leak::Unsaid => self.tokenizer.encode_ordinary(text, place, out),
        }
    }

    fn keeping_out(&self, ids: &BTreeSet<u32>) -> Result<Arc<dyn Tokenizer>, tokenizer::Error> {
        let tokenizer = self.tokenizer.keeping_out(ids)?;
        Ok(Arc::new(Leaky { tokenizer, leak: self.leak }))
    }

    fn encode_reference(&self, text: &str, place: TextPlace, out: &mut Vec<Token>) -> Result<(), tokenizer::Error> {
        self.tokenizer.encode_reference(text, place, out)
    }

    fn added_tokens(&self) -> &[AddedToken] {
        let added = self.tokenizer.added_tokens();
        if self.leak == Leak::Unsaid { &added[1..] } else { added }
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_id(text)
    }

    fn token_text(&self, id: u32) -> Option<String> {
        self.tokenizer.token_text(id)
    }

    fn token_bytes(&self, id: u32, out: &mut Vec<u8>) -> bool {
        self.tokenizer.token_bytes(id, out)
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }

    fn kind(&self) -> TokenizerKind {
        self.tokenizer.kind()
    }

    fn adds_bos(&self) -> Option<u32> {
        self.tokenizer.adds_bos()
    }

    fn adds_eos(&self) -> Option<u32> {
        self.tokenizer.adds_eos()
    }
}

#[test]
fn a_tokenizer_that_lets_tokens_through_is_found_out() {
    // A tokenizer that folds letters also changes honest text with added tokens, so either failure
    // may be found first.
    for (leak, why) in [(Leak::Spelled, "forged"), (Leak::Folded, "honest"), (Leak::Unsaid, "forged")] {
        let (_, small) = forge::small_tokenizers().into_iter().next().unwrap();
        let leaky: Arc<dyn Tokenizer> = Arc::new(Leaky { tokenizer: small, leak });
        let mut plan = forge::Plan::default();
        let (name, source) = forge::small_templates()[0];
        let template = ChatTemplate::compile(source, Vec::new()).unwrap();
        plan.add_templates(&vec![(name.into(), template)], &vec![("leaky".into(), leaky)]);
        plan.keep("leaky");
        let summary = forge::run(&plan.subjects, 60, SEED, 1, &|_| {});
        let failure = summary.failures.first().unwrap_or_else(|| panic!("{leak:?}: {summary}"));
        let told = forge::explain(&plan.subjects, failure);
        assert!(told.starts_with(why) || (leak != Leak::Spelled && told.starts_with("honest")), "{leak:?}: {told}");
        // The example is small: a message or two with little text.
        let request = told.split_once("request: ").unwrap().1;
        assert!(request.len() < 120, "{leak:?}: {told}");
    }
}

#[test]
fn an_unknown_role_is_refused_by_name() {
    let registry = rolecall::format::registry();
    let mut rng = Rng::with_seed(7);
    for format in generate::variants(&registry) {
        // If the reference identifies messages by position, no role is unknown to it.
        let marks = generate::marks(format);
        let by_place = format.rules.roles.key() == "by-place";
        let modes = [RuleMode::Enforce, RuleMode::Reference];
        for rules in modes.into_iter().filter(|rules| *rules == RuleMode::Enforce || !by_place) {
            for round in 0..40 {
                let role = match round {
                    0 => String::new(),
                    1 => "User".to_owned(),
                    2 => "user ".to_owned(),
                    _ => generate::hostile(&marks, &mut rng) + "x",
                };
                let messages = [("user", "q"), (role.as_str(), "evil")];
                let messages = messages.map(|(role, content)| {
                    Json::Object(rolecall::conversation::object! { "role" => role, "content" => content })
                });
                let request = rolecall::conversation::object! { "messages" => messages.to_vec() };
                let conversation = Conversation::from_json(request.into()).unwrap();
                let options = Options { rules, ..Options::default() };
                match Writer::format(format.clone(), options.clone()).render(&conversation).map_err(Error::from) {
                    Err(Error::Render(error)) => {
                        let label = generate::label(format);
                        assert_eq!(error.code(), "unknown_role", "{label}: {role:?}");
                        assert!(error.to_string().contains(&format!("`{role}`")), "{label}: {error}");
                    }
                    other => panic!("{}: {role:?} gives {other:?}", generate::label(format)),
                }
            }
        }
    }
}

/// Placeholders of frameworks' templates, Python and Jinja, and tokens of other families.
const NOT_OURS: [&str; 16] = [
    "{input}",
    "{system}",
    "{round}",
    "{bot_name}",
    "{}",
    "{0}",
    "{{content}}",
    "{{ content }}",
    "{content}",
    "%s",
    "{% if true %}x{% endif %}",
    "{{",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<FILL>",
];

#[test]
fn braces_and_marks_in_a_text_stay_that_text() {
    let registry = rolecall::format::registry();
    let mut seen = 0;
    for format in generate::variants(&registry) {
        let label = generate::label(format);
        let encoders = encoders(format);
        let marks = generate::marks(format);
        for text in NOT_OURS.into_iter().chain(marks.iter().map(String::as_str)) {
            let (request, twin) = (said_by_all(format, text), said_by_all(format, &generate::harmless(text)));
            let conversation = Conversation::from_json(request.clone()).unwrap();
            let prompt = Writer::format(format.clone(), Options::default()).render(&conversation).unwrap();
            for (message, said) in conversation.messages.iter().enumerate() {
                let own = prompt.segments().filter(|segment| segment.origin.message() == Some(message));
                let (origins, texts): (Vec<Origin>, Vec<&str>) =
                    own.map(|segment| (segment.origin, segment.text)).unzip();
                assert_eq!(texts.concat(), said.text().unwrap(), "{label}, message {message}: {:?}", prompt.text());
                let content = Origin::Message { message, field: "content".into() };
                assert!(origins.iter().all(|origin| *origin == content), "{label}: {origins:?}");
                seen += 1;
            }
            let tokens = |request: &Json| control_tokens(request, format, &Options::default(), &encoders);
            assert_eq!(tokens(&request), tokens(&twin), "{label}: {text:?}");
        }
    }
    assert!(seen > 5_000, "only {seen} texts were checked");
}

/// Makes a request in which every role has the same text.
fn said_by_all(format: &Format, text: &str) -> Json {
    let has_system = [Slot::System, Slot::Folded].into_iter().any(|slot| format.layout(slot).is_some());
    let roles = ["system", "user", "assistant", "user", "assistant"].into_iter().skip(usize::from(!has_system));
    let messages =
        roles.map(|role| Json::Object(rolecall::conversation::object! { "role" => role, "content" => text }));
    rolecall::conversation::object! { "messages" => messages.collect::<Vec<Json>>() }.into()
}

/// Makes the encoders of three toys: one as the maker's file would be, one that also has the
/// appended tokens, and one in which every piece of the format's literal text is a token.
fn encoders(format: &Format) -> Vec<Encoder> {
    let [plain, appended, marked] = Toy::family(format, &generate::marks(format));
    let encoder =
        |toy: Toy| Encoder::new(&Protection::default().with_format(format), Arc::new(toy)).expect("the toy fits");
    [plain, appended, marked].into_iter().map(encoder).collect()
}

/// Returns the text that the format itself wrote and, for each tokenizer, the ids that plain text
/// must never become.
fn control_tokens(
    request: &Json,
    format: &Format,
    options: &Options,
    encoders: &[Encoder],
) -> Result<Vec<(String, Vec<u32>)>, String> {
    let conversation = Conversation::from_json(request.clone()).map_err(|error| error.to_string())?;
    let prompt =
        Writer::format(format.clone(), options.clone()).render(&conversation).map_err(|error| error.to_string())?;
    let mut found = vec![(format_text(&prompt), Vec::new())];
    for encoder in encoders {
        let encoded = encoder.encode(&prompt).map_err(|error| error.to_string())?;
        let protected: Vec<u32> = encoder.tokenizer().added_tokens().iter().map(|token| token.id).collect();
        let ids = encoded.ids().into_iter().filter(|id| protected.contains(id) || *id < Toy::BYTES).collect();
        assert_eq!(encoded.control_ids(), ids, "the control flags and the protected ids differ");
        found.push((String::new(), ids));
    }
    Ok(found)
}

/// Returns the text with the format's own origin, with brackets around control tokens and without
/// values.
fn format_text(prompt: &Prompt) -> String {
    let mut text = String::new();
    for segment in prompt.segments() {
        match segment.origin {
            Origin::Control(_) => text.extend(["⟦", segment.text, "⟧"]),
            Origin::Format => text.push_str(segment.text),
            _ => {}
        }
    }
    text
}

/// Makes a text unique, so that no two texts share a twin. The number is not part of a marker.
fn numbered(text: String, number: usize, rng: &mut Rng) -> String {
    match rng.bool() {
        true => format!("{number}\u{7f}{text}"),
        false => format!("{text}\u{7f}{number}"),
    }
}

/// Replaces each hostile text in a request: in values, keys, and arguments given as JSON text.
fn replaced(value: &Json, twins: &BTreeMap<String, String>) -> Json {
    match value {
        Json::String(text) => match (twin_of(text, twins), text.starts_with('{').then(|| json::parse(text))) {
            (Some(twin), _) => twin.into(),
            (None, Some(Ok(inner))) => json::write(&replaced(&inner, twins), &Layout::compact()).into(),
            (None, _) => value.clone(),
        },
        Json::Array(items) => Json::Array(items.iter().map(|item| replaced(item, twins)).collect()),
        Json::Object(object) => {
            let each = object.iter().map(|(key, item)| {
                (twins.get(key).map_or_else(|| key.to_owned(), String::clone), replaced(item, twins))
            });
            Json::Object(each.collect::<Object>())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    }
}

/// Returns the twin of a text, or of two texts around a marker that the format looks for.
fn twin_of(text: &str, twins: &BTreeMap<String, String>) -> Option<String> {
    if let Some(twin) = twins.get(text) {
        return Some(twin.clone());
    }
    let ends = twins.iter().find_map(|(last, twin)| Some((text.strip_suffix(last.as_str())?, twin)));
    let (before, behind) = ends?;
    let starts = twins.iter().find_map(|(first, twin)| Some((before.strip_prefix(first.as_str())?, twin)));
    let (mark, ahead) = starts?;
    Some([ahead, mark, behind].concat())
}

fn replaced_choices(options: &Options, twins: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let each =
        options.choices.iter().map(|(name, value)| (name.clone(), twin_of(value, twins).unwrap_or(value.clone())));
    each.collect()
}
