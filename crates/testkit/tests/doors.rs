//! The library's answers about models of different kinds, with which the other doors are compared.

use rolecall::conversation::Json;
use rolecall::format::write_reply;
use rolecall::model::ReplyContext;
use rolecall::parse::{CallsInReasoning, ParseOptions, UnclosedReasoning};
use rolecall::session::Finish;
use rolecall::template::{ChatTemplate, NamedTemplate, TemplateOptions, analyze_template};
use rolecall::{Model, Reading, Request, Stop, answer};
use rolecall_testkit::doors::{ANALYSIS, DoorCase, DoorReply, lines, part, reading, sorted};

#[test]
fn the_library_answers_every_question() {
    DoorCase::check_all(|mut case| {
        let folder = std::env::temp_dir().join(format!("rolecall-doors-{}-{}", case.name(), std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        case.write_model(&folder);
        let model = Model::open(&folder).unwrap();
        let requests: Vec<Request> = case.requests().iter().map(|text| Request::from_text(text).unwrap()).collect();

        case.expect("stops", &stops(&case, &model, &requests[0]));
        case.expect("protected", &sorted(model.protected().unwrap().tokens().map(|token| token.id)));
        case.expect("prompts", &lines(requests.iter().map(|request| prompt(&model, request))));
        case.expect("accounts", &lines(requests.iter().map(|request| account(&model, request))));
        let context = model.reply_context_after(&requests[0], "", ParseOptions::default()).unwrap();
        case.expect("layouts", &write_reply(&context.layouts().unwrap()));
        case.expect("analysis", &lines([analysis(&model)]));
        let replies = case.replies();
        case.expect("readings", &lines(replies.iter().map(|reply| read_in_session(&model, &requests[0], reply))));
        let parsed = lines(replies.iter().map(|reply| read(&model, &requests[0], reply)));
        case.same("Model::parse", "readings", &parsed);
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

/// Returns the tokens that end a reply, which the prompt and a session name, too.
fn stops(case: &DoorCase, model: &Model, request: &Request) -> String {
    let stops = sorted(model.stop_ids().unwrap());
    for text in case.stops() {
        let id = model.tokenizer().unwrap().token_id(&text).unwrap();
        assert!(model.stop_ids().unwrap().contains(&id), "{}: `{text}` is missing in {stops}", case.name());
    }
    let prompt = model.prompt(request.clone()).unwrap();
    let stops_of = |context: ReplyContext| sorted(context.stops().unwrap().into_iter().map(|(id, _)| id));
    assert_eq!(stops_of(prompt.reply().unwrap()), stops, "{}: a prompt", case.name());
    let mut session = model.session(request.clone()).unwrap();
    session.open().unwrap();
    assert_eq!(stops_of(session.reply_context().unwrap()), stops, "{}: a session", case.name());
    stops
}

/// Returns the ids of a prompt, which are those of a session that opens with it.
fn prompt(model: &Model, request: &Request) -> Json {
    let prompt = model.prompt(request.clone()).unwrap();
    let encoded = prompt.encode().unwrap();
    let mut session = model.session(request.clone()).unwrap();
    session.open().unwrap();
    assert_eq!(String::from_utf8_lossy(&session.bytes()), prompt.text(), "a session");
    assert_eq!(session.ids(), encoded.ids(), "a session");
    part(&answer::of_encoded(None, prompt.prompt(), &encoded), &["prompt", "ids", "control_ids"])
}

fn account(model: &Model, request: &Request) -> Json {
    answer::of_account(model.prompt(request.clone()).unwrap().account())
}

fn analysis(model: &Model) -> Json {
    let named: &NamedTemplate = model.templates().unwrap().choose(None, false).unwrap();
    let template = ChatTemplate::compile(&named.source, model.templates().unwrap().tokens.clone()).unwrap();
    let mut analysis = analyze_template(&template, &TemplateOptions::default()).unwrap();
    analysis.note_tokenizer(model.tokenizer().unwrap().adds_bos().is_some());
    part(&answer::of_analysis(named, &analysis), &ANALYSIS)
}

/// Parses a reply in a session, which ends it with the first token that stops the model.
fn read_in_session(model: &Model, request: &Request, reply: &DoorReply) -> Json {
    let mut request = request.clone();
    for (name, word) in &reply.policies {
        request.other.insert(name, word.as_str().into());
    }
    let mut session = model.session(request).unwrap();
    session.open().unwrap();
    let ids = session.encode_sampled(&reply.output).unwrap();
    let finish = if is_cut(reply) { Finish::Length } else { Finish::Stop };
    reading(&answer::of_reading(None, &session.accept(&ids, finish).unwrap().reading))
}

/// Parses a reply as text and as ids, which say the same.
fn read(model: &Model, request: &Request, reply: &DoorReply) -> Json {
    let policy = |name: &str| reply.policies.iter().find(|(known, _)| known == name).map(|(_, word)| word.as_str());
    let options = ParseOptions {
        calls_in_reasoning: policy("calls_in_reasoning").and_then(CallsInReasoning::from_key),
        unclosed_reasoning: policy("unclosed_reasoning").and_then(UnclosedReasoning::of_word),
        ..ParseOptions::default()
    };
    let context = model.reply_context(request.clone(), options).unwrap();
    let stop = if is_cut(reply) { Stop::Length } else { Stop::End };
    let mut by_text = Reading::default();
    let mut parser = context.text_parser();
    parser.push_text(&reply.output, &mut |event| by_text.add(&event));
    parser.finish(stop, &mut |event| by_text.add(&event));
    let by_text = reading(&answer::of_reading(None, &by_text));
    let session = model.session(request.clone()).unwrap();
    let mut by_ids = Reading::default();
    let mut parser = context.id_parser().unwrap();
    parser.push_all(&session.encode_sampled(&reply.output).unwrap(), &mut |event| by_ids.add(&event)).unwrap();
    parser.finish(stop, &mut |event| by_ids.add(&event));
    let by_ids = reading(&answer::of_reading(None, &by_ids));
    assert_eq!(by_ids, by_text, "{}: ids", reply.output);
    by_text
}

fn is_cut(reply: &DoorReply) -> bool {
    reply.finish_reason.as_deref() == Some("length")
}
