//! The gateway gives the library's answers about models of different kinds, which `fixtures/doors` has:
//! in what it sends to engines, in its headers and replies, and by `/v1/render`.

use std::path::Path;

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::{Model, Request};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Settings, Sources};
use rolecall_testkit::doors::{DoorCase, DoorReply, part, reading, sorted};

use crate::common::{Server, StandIn, Step, at, by_ids, engines, integer};

#[tokio::test]
async fn engines_get_the_same_stops_as_the_command_names() {
    for case in DoorCase::all() {
        // llama.cpp's server gets none.
        for kind in by_ids().filter(|kind| *kind != EngineKind::LlamaCpp) {
            let door = Door::open(&case, kind, Vec::new(), &[]).await;
            door.chat(case.requests()[0]).await;
            let body = Json::Object(door.server.engine.body());
            let stops = at(&body, &engines::of(kind).place_of("stop_token_ids"));
            case.same(&format!("{kind:?}"), "stops", &sorted(stops.as_array().unwrap().iter().map(integer)));
        }
        let door = Door::open(&case, EngineKind::Vllm, Vec::new(), &[]).await;
        let shown = door.server.post("/v1/render", case.requests()[0]).await.1;
        case.same("/v1/render", "stops", &sorted(at(&shown, "stop_ids").as_array().unwrap().iter().map(integer)));
    }
}

#[tokio::test]
async fn text_is_never_encoded_to_a_protected_token() {
    for case in DoorCase::all() {
        let door = Door::open(&case, EngineKind::Vllm, Vec::new(), &[]).await;
        let protected = json::parse(case.fixture.needed("protected")).unwrap();
        for id in protected.as_array().unwrap().iter().map(integer) {
            let text = door.model.tokenizer().unwrap().token_text(id).unwrap();
            let body = Json::Object(object! { "text" => text.as_str() });
            let shown = door.server.post("/tokenize", &write(&body)).await.1;
            let ids: Vec<u32> = at(&shown, "tokens").as_array().unwrap().iter().map(integer).collect();
            assert!(ids.len() > 1 && !ids.contains(&id), "{}: `{text}` is {ids:?}", case.name());
        }
    }
}

#[tokio::test]
async fn engines_get_the_ids_of_the_library() {
    for case in DoorCase::all() {
        let library: Vec<Json> = parsed(case.fixture.needed("prompts"));
        for kind in by_ids() {
            let door = Door::open(&case, kind, Vec::new(), &[]).await;
            for (request, library) in case.requests().into_iter().zip(&library) {
                let shown = door.server.post("/v1/render", request).await;
                // What a prompt lacks may be refused, which is another question.
                if shown.0 == 400 {
                    assert_ne!(request, case.requests()[0], "{}: {shown:?}", case.name());
                    continue;
                }
                assert_eq!(part(&shown.1, &["prompt", "ids", "control_ids"]), *library, "{}: /v1/render", case.name());
                door.chat(request).await;
                let ids: Vec<u32> = at(library, "ids").as_array().unwrap().iter().map(integer).collect();
                assert_eq!(door.server.engine.prompt(), ids, "{}: {kind:?}", case.name());
            }
        }
    }
}

#[tokio::test]
async fn what_a_prompt_lacks_is_what_the_account_has_left_out() {
    let (mut named, mut refused) = (0, 0);
    for case in DoorCase::all() {
        let door = Door::open(&case, EngineKind::Vllm, Vec::new(), &[]).await;
        for (request, account) in case.requests().into_iter().zip(parsed(case.fixture.needed("accounts"))) {
            let leaves = at(&account, "leaves").as_array().unwrap();
            let left_out = |leaf: &&Json| at(leaf, "kind").as_str() == Some("left_out");
            let left_out: Vec<String> = leaves.iter().filter(left_out).map(place_of_leaf).collect();
            let (status, shown) = door.server.post("/v1/render", request).await;
            if status != 200 {
                // A refusal names one of them, or a part of it.
                let place = place_of_refusal(&shown);
                let is_of = |whole: &String| {
                    place.strip_prefix(&**whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                assert!(left_out.iter().any(is_of), "{}: `{place}` is not among {left_out:?}", case.name());
                refused += 1;
                continue;
            }
            let has_forms = account.as_object().unwrap().get("forms").is_some();
            let told = Some(&account).filter(|_| !leaves.is_empty() || has_forms);
            assert_eq!(shown.as_object().unwrap().get("account"), told, "{}: /v1/render", case.name());
            let answer = door.chat(request).await;
            let header = answer.headers().get("x-rolecall-left-out").map_or("", |value| value.to_str().unwrap());
            // As documented, it does not name the `name` of a message, which only labels it.
            let expected: Vec<String> = left_out.into_iter().filter(|place| !place.ends_with(".name")).collect();
            assert_eq!(header, expected.join(", "), "{}: x-rolecall-left-out", case.name());
            named += expected.len();
        }
    }
    assert!(named > 0 && refused > 0, "{named} {refused}");
}

#[tokio::test]
async fn replies_are_parsed_by_the_policies_of_requests_and_settings() {
    for case in DoorCase::all() {
        let library = parsed(case.fixture.needed("readings"));
        for (reply, library) in case.replies().into_iter().zip(library) {
            let library = part(&library, &["content", "reasoning_content", "calls", "finish_reason"]);
            let own: Vec<(&str, &str)> = reply.policies.iter().map(|(name, word)| (&**name, &**word)).collect();
            for (settings, of_request) in [(&own[..], &[][..]), (&[], &own[..])] {
                let door = Door::open(&case, EngineKind::Vllm, steps_of(&case, &reply), settings).await;
                let mut request = json::parse(case.requests()[0]).unwrap().as_object().unwrap().clone();
                of_request.iter().for_each(|(name, word)| request.insert(*name, (*word).into()));
                let (status, answer) = door.server.post("/v1/chat/completions", &write(&Json::Object(request))).await;
                assert_eq!(status, 200, "{answer:?}");
                let answer = reading(at(&answer, "choices.0"));
                assert_eq!(answer, library, "{}: {:?} {settings:?} {of_request:?}", case.name(), reply.output);
            }
        }
    }
}

/// A gateway in front of an engine, for one model.
struct Door {
    server: Server,
    model: Model,
    _folder: tempfile::TempDir,
}

impl Door {
    /// Starts a gateway with these settings of the model, as `rolecall serve` has them as flags.
    async fn open(case: &DoorCase, kind: EngineKind, steps: Vec<Step>, settings: &[(&str, &str)]) -> Door {
        let folder = tempfile::tempdir().unwrap();
        case.write_model(folder.path());
        let steps = if steps.is_empty() { vec![Step::End("stop")] } else { steps };
        let engine = StandIn::new(kind, steps);
        let address = engine.start().await;
        let model = folder.path().display().to_string();
        let word = kind.word();
        let own = [("model", &*model), ("engine", &address), ("engine_kind", word), ("store.at", "memory")];
        let flags = own.iter().chain(settings).map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect();
        let config = Settings::read(&Sources { flags, ..Sources::default() }).unwrap().open().unwrap();
        let model = Model::open(Path::new(&model)).unwrap();
        Door { server: Server::open(config, engine).await, model, _folder: folder }
    }

    async fn chat(&self, request: &str) -> reqwest::Response {
        let answer = self.server.request("/v1/chat/completions", request).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{:?}", answer.text().await);
        answer
    }
}

/// Returns what an engine sends of a reply.
fn steps_of(case: &DoorCase, reply: &DoorReply) -> Vec<Step> {
    let folder = tempfile::tempdir().unwrap();
    case.write_model(folder.path());
    let model = Model::open(folder.path()).unwrap();
    let session = model.session(Request::without_messages(Object::new()).unwrap()).unwrap();
    let ids = session.encode_sampled(&reply.output).unwrap();
    vec![Step::Ids(ids), Step::End(if reply.finish_reason.is_none() { "stop" } else { "length" })]
}

/// Returns the place of a leaf as the header names it.
fn place_of_leaf(leaf: &Json) -> String {
    place(at(leaf, "message"), at(leaf, "field").as_str().unwrap_or_default())
}

/// Returns the place that a refusal names, as the header would.
fn place_of_refusal(answer: &Json) -> String {
    place(at(answer, "error.message_index"), at(answer, "error.param").as_str().unwrap_or_default())
}

fn place(message: &Json, field: &str) -> String {
    match message {
        Json::Null => field.to_owned(),
        index => format!("messages[{}].{field}", integer(index)).trim_end_matches('.').to_owned(),
    }
}

fn parsed(text: &str) -> Vec<Json> {
    text.lines().map(|line| json::parse(line).unwrap()).collect()
}

fn write(value: &Json) -> String {
    json::write(value, &Layout::compact())
}
