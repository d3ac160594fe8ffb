//! Long chains of calls after one question: a session that renders only what is new has the ids of
//! one that renders everything, before and after the number of messages that it may look back to.

use rolecall::Request;
use rolecall::conversation::{Conversation, Message, json};
use rolecall::session::{Finish, OnRewrite, Proof, Session};
use rolecall_testkit::sessions::{Subject, Vocabulary};

use super::{is_real, own, templates};

/// The numbers of results at which both ways are compared. A session looks back at most 128
/// messages, which are 64 results with as many replies.
const COMPARED: [usize; 12] = [1, 9, 10, 40, 62, 63, 64, 65, 100, 127, 129, 150];

#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    grown: usize,
    /// The longest chain that grew, in messages.
    longest: usize,
}

fn tool(at: usize) -> Message {
    let text = format!(r#"{{"role": "tool", "tool_call_id": "abcdefghi", "name": "get", "content": "{at}"}}"#);
    Message::from_object(json::parse(&text).unwrap().as_object().unwrap().clone()).unwrap()
}

fn asked(subject: &Subject) -> Option<Session> {
    let text = r#"{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function",
        "function": {"name": "get", "description": "Gets.", "parameters": {"type": "object", "properties": {}}}}]}"#;
    let conversation = Conversation::from_json(json::parse(text).unwrap()).unwrap();
    let request = Request { id: None, format: None, conversation, other: json::Object::new() };
    let mut session = subject.model.session(request).ok()?;
    session.open().ok()?;
    Some(session)
}

/// Returns what the model says: a call, as the first syntax that the subject parses.
fn call(subject: &Subject, session: &Session) -> Vec<u32> {
    let stops = subject.model.stops().unwrap_or_default();
    let stop = stops.into_iter().map(|stop| stop.text).find(|text| !text.is_empty()).unwrap_or_default();
    let texts = [
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n<function=get>\n</function>\n</tool_call>",
        "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {}}]",
        "{\"name\": \"get\", \"parameters\": {}}",
    ];
    let each = texts.map(|text| subject.sampled(&format!("{text}{stop}")));
    let reads = |ids: &&Vec<u32>| {
        let reply = session.clone().accept(ids, Finish::Stop);
        reply.is_ok_and(|reply| !reply.reading.calls.is_empty())
    };
    each.iter().find(reads).unwrap_or(&each[0]).clone()
}

/// Appends messages and opens the next turn.
fn go_on(session: &mut Session, new: &[Message]) -> Result<(Option<String>, Proof), &'static str> {
    let plan = session.plan(new).map_err(|error| error.code())?;
    let rewrite = plan.rewrite().map(ToString::to_string);
    session.append(plan, OnRewrite::Keep).map_err(|error| error.code())?;
    let delta = session.open().map_err(|error| error.code())?;
    Ok((rewrite, delta.proof))
}

/// Does the same with and without what was proved.
fn compare(subject: &Subject, session: &mut Session, new: &[Message], seen: &mut Seen) -> bool {
    let mut whole = session.clone();
    whole.forget_growth();
    let what = |session: &Session| format!("{}, {} messages", subject.name, session.messages().len());
    let (one, other) = (go_on(session, new), go_on(&mut whole, new));
    let rewrite = |result: &Result<(Option<String>, Proof), &'static str>| result.clone().map(|(rewrite, _)| rewrite);
    assert_eq!(rewrite(&one), rewrite(&other), "{}", what(session));
    assert_eq!(session.segments(), whole.segments(), "{}", what(session));
    assert_eq!((session.ids(), session.bytes()), (whole.ids(), whole.bytes()), "{}", what(session));
    seen.compared += 1;
    if let Ok((_, Proof::Growth { .. })) = &one {
        seen.grown += 1;
        seen.longest = seen.longest.max(session.messages().len());
    }
    one.is_ok()
}

/// A call and its result, again and again.
fn rounds(subject: &Subject, most: usize, seen: &mut Seen) {
    let Some(mut session) = asked(subject) else { return };
    let says = call(subject, &session);
    for count in 1..=most {
        session.accept(&says, Finish::Stop).unwrap();
        let new = [tool(count)];
        let is_open = match COMPARED.contains(&count) {
            true => compare(subject, &mut session, &new, seen),
            false => go_on(&mut session, &new).is_ok(),
        };
        if !is_open {
            return;
        }
    }
    session.accept(&says, Finish::Stop).unwrap();
    compare(subject, &mut session, &[Message::user("So?")], seen);
}

/// Many results at once.
fn group(subject: &Subject, count: usize, seen: &mut Seen) {
    let Some(mut session) = asked(subject) else { return };
    let says = call(subject, &session);
    session.accept(&says, Finish::Stop).unwrap();
    let new: Vec<Message> = (0..count).map(tool).collect();
    if compare(subject, &mut session, &new, seen) {
        session.accept(&says, Finish::Stop).unwrap();
        if compare(subject, &mut session, &[tool(count)], seen) {
            session.accept(&says, Finish::Stop).unwrap();
            compare(subject, &mut session, &[Message::user("So?")], seen);
        }
    }
}

fn run(subjects: &[Subject], is_long: impl Fn(usize) -> bool) -> Seen {
    let mut seen = Seen::default();
    for (at, subject) in subjects.iter().enumerate() {
        rounds(subject, if is_long(at) { 150 } else { 10 }, &mut seen);
        for count in if is_long(at) { vec![10, 127, 128, 129, 150] } else { vec![10] } {
            group(subject, count, &mut seen);
        }
    }
    println!("{} subjects: {seen:?}", subjects.len());
    seen
}

#[test]
fn long_chains_of_calls_have_the_same_ids_with_and_without_growth() {
    let seen = run(&own::subjects(&Vocabulary::small()), |_| true);
    assert!(seen.grown > 100 && seen.longest > 280, "{seen:?}");
    let mut subjects = Subject::of_registry(&Vocabulary::Bytes).0;
    subjects.extend(templates(&Vocabulary::Bytes));
    let seen = run(&subjects, |at| at % 24 == 0);
    let (compared, grown) = if subjects.iter().any(is_real) { (500, 300) } else { (100, 100) };
    assert!(seen.compared > compared && seen.grown > grown, "{seen:?}");
}
