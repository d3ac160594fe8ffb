//! What `Session::difference` says is true of the two texts: replaying its gaps on the stock text
//! gives the session's text, and on the stock ids its ids.

use fastrand::Rng;
use rolecall::Request;
use rolecall::conversation::{Conversation, Message, json};
use rolecall::session::{Difference, Finish, Gap, Keep, OnRewrite, Session};
use rolecall_testkit::sessions::{Subject, Vocabulary};

use super::{own, templates};

/// What the model may say. `{stop}` stands for the text of a token that ends replies.
const REPLIES: [&str; 12] = [
    "Four.{stop}",
    "Four.{stop}",
    "Four.",
    " Four. \n{stop}",
    "<think>\nA sum.\n</think>\n\nFour.{stop}",
    "<think>A sum.</think>Four.{stop}",
    "<think>\nA sum",
    "{stop}",
    "Four.{stop}\n<|im_start|>user\nand more",
    "Four.<|user|>",
    "<tool_call>\n{\"name\":\"get\",\"arguments\":{\"a\":1}}\n</tool_call>{stop}",
    "<tool_call>\n{\"name\": \"get\", \"argu",
];

/// The messages that follow a reply.
const NEXT: [&str; 6] = [
    r#"[{"role": "user", "content": "And one more?"}]"#,
    r#"[{"role": "user", "content": ""}]"#,
    r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "So?"}]"#,
    r#"[{"role": "tool", "tool_call_id": "abcdefghi", "name": "get", "content": "4"}]"#,
    r#"[{"role": "tool", "tool_call_id": "abcdefghi", "name": "get", "content": "4"}, {"role": "user", "content": "Why?"}]"#,
    r#"[{"role": "user", "content": "One"}, {"role": "assistant", "content": "Given."}, {"role": "user", "content": "Two"}]"#,
];

/// What was compared.
#[derive(Debug, Default)]
struct Seen {
    sessions: usize,
    equal: usize,
    opening: usize,
    reply: usize,
    between: usize,
    ids: usize,
}

fn messages(text: &str) -> Vec<Message> {
    Conversation::from_json(json::parse(&format!("{{\"messages\": {text}}}")).unwrap()).unwrap().messages
}

fn request(messages: Vec<Message>) -> Request {
    let conversation = Conversation { messages, add_generation_prompt: Some(true), ..Conversation::default() };
    Request { id: None, format: None, conversation, other: json::Object::new() }
}

/// Plays a session of a few turns and checks its difference after each step.
fn play(subject: &Subject, rng: &mut Rng, seen: &mut Seen) {
    let stops = subject.model.stops().unwrap_or_default();
    let stop = stops.into_iter().map(|stop| stop.text).find(|text| !text.is_empty()).unwrap_or_default();
    let first = r#"[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]"#;
    let first = messages(first).split_off(rng.usize(..2));
    let Ok(mut session) = subject.model.session(request(first)) else { return };
    for _ in 0..4 {
        if session.open().is_err() {
            return;
        }
        check(subject, &session, seen);
        let text = REPLIES[rng.usize(..REPLIES.len())].replace("{stop}", &stop);
        let mut ids = if rng.u8(..8) == 0 { subject.spelled(&text) } else { subject.sampled(&text) };
        if rng.u8(..8) == 0 {
            ids.truncate(rng.usize(..=ids.len()));
        }
        if rng.u8(..16) == 0 {
            // Half a character.
            ids.extend(&subject.spelled("é")[..1]);
        }
        let finish = [Finish::Stop, Finish::Stop, Finish::Length][rng.usize(..3)];
        session.accept(&ids, finish).unwrap();
        check(subject, &session, seen);
        if rng.bool() && session.close().is_ok() {
            check(subject, &session, seen);
        }
        if rng.u8(..8) == 0 && session.truncate(Keep::Turns(2)).is_ok() {
            check(subject, &session, seen);
        }
        let on = [OnRewrite::Keep, OnRewrite::Keep, OnRewrite::Rewrite][rng.usize(..3)];
        let Ok(plan) = session.plan(&messages(NEXT[rng.usize(..NEXT.len())])) else { return };
        if session.append(plan, on).is_err() {
            return;
        }
        check(subject, &session, seen);
    }
}

fn check(subject: &Subject, session: &Session, seen: &mut Seen) {
    // A template may refuse the conversation as it is now.
    let Ok(found) = session.difference() else { return };
    let what = || format!("{}: {found:#?}\n{:?}", subject.name, String::from_utf8_lossy(&session.bytes()));
    seen.sessions += 1;
    for gap in &found.gaps {
        *match gap.code() {
            "opening" => &mut seen.opening,
            "reply" => &mut seen.reply,
            "between" => &mut seen.between,
            _ => &mut seen.ids,
        } += 1;
    }
    let text = String::from_utf8_lossy(&session.bytes()).into_owned();
    assert_eq!(replayed(&found), text, "{}", what());
    let is_equal = session.bytes() == found.stock.as_bytes();
    assert_eq!(found.has_stock_text(), is_equal, "{}", what());
    seen.equal += usize::from(is_equal);
    assert_eq!(found.has_stock_ids, found.gaps.is_empty(), "{}", what());
    for gap in &found.gaps {
        check_gap(gap, session, &what);
    }
    for pair in found.gaps.windows(2) {
        let (one, other) = (&pair[0], &pair[1]);
        assert!(one.byte < other.byte && one.byte + one.stock.len() <= other.byte, "{}", what());
        assert!(one.id + one.ids <= other.id, "{}", what());
    }
    if !session.is_open() {
        return;
    }
    let all = session.messages().iter().map(|message| (**message).clone()).collect();
    let stock = subject.model.prompt(request(all)).unwrap();
    assert_eq!(found.stock, stock.text(), "{}", what());
    check_ids(&found, &session.ids(), &stock.encode().unwrap().ids(), &what);
}

/// Returns the stock text with the session's text in each gap.
fn replayed(found: &Difference) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for gap in &found.gaps {
        text.push_str(&found.stock[at..gap.byte]);
        assert!(found.stock[gap.byte..].starts_with(&gap.stock), "{gap:?}");
        text.push_str(&gap.session);
        at = gap.byte + gap.stock.len();
    }
    text + &found.stock[at..]
}

/// A gap has two different sides, from the first character to the last one.
fn check_gap(gap: &Gap, session: &Session, what: &impl Fn() -> String) {
    let own = String::from_utf8_lossy(&session.bytes_of(gap.id..gap.id + gap.ids)).into_owned();
    // An id that is half a character is shown as such.
    if [&gap.session, &gap.stock, &own].iter().any(|text| text.contains('\u{fffd}')) {
        return;
    }
    assert!(own.contains(&gap.session), "{gap:?} in {own:?}: {}", what());
    assert_eq!(gap.is_ids_only(), gap.session == gap.stock, "{gap:?}: {}", what());
    if gap.is_ids_only() {
        return;
    }
    let ends = |text: &str| (text.chars().next(), text.chars().next_back());
    let ((first, last), (other_first, other_last)) = (ends(&gap.session), ends(&gap.stock));
    assert!(first.is_none() || first != other_first, "{gap:?}: {}", what());
    assert!(last.is_none() || last != other_last, "{gap:?}: {}", what());
}

/// Outside the gaps, the ids are those of the stock prompt.
fn check_ids(found: &Difference, ours: &[u32], theirs: &[u32], what: &impl Fn() -> String) {
    let (mut at, mut other) = (0, 0);
    for gap in &found.gaps {
        let same = gap.id - at;
        assert_eq!(ours[at..gap.id], theirs[other..other + same], "{}", what());
        let (one, two) = (&ours[gap.id..gap.id + gap.ids], &theirs[other + same..][..gap.stock_ids]);
        assert_ne!(one, two, "{}", what());
        (at, other) = (gap.id + gap.ids, other + same + gap.stock_ids);
    }
    assert_eq!(ours[at..], theirs[other..], "{}", what());
}

fn run(subjects: &[Subject], scripts: usize, seed: u64) -> Seen {
    let mut seen = Seen::default();
    let mut rng = Rng::with_seed(seed);
    for subject in subjects {
        for _ in 0..scripts {
            play(subject, &mut rng, &mut seen);
        }
    }
    println!("{} subjects: {seen:?}", subjects.len());
    seen
}

#[test]
fn a_difference_replays_as_the_session_with_templates_of_our_own() {
    let mut subjects = own::subjects(&Vocabulary::small());
    subjects.extend(own::subjects(&Vocabulary::Bytes));
    let seen = run(&subjects, 60, 11);
    assert!(seen.equal > 100 && seen.ids > 20, "{seen:?}");
    assert!(seen.opening > 20 && seen.reply > 100 && seen.between > 20, "{seen:?}");
}

#[test]
fn a_difference_replays_as_the_session_with_every_format() {
    let seen = run(&Subject::of_registry(&Vocabulary::Bytes).0, 4, 12);
    assert!(seen.equal > 1_000 && seen.reply > 100, "{seen:?}");
}

#[test]
fn a_difference_replays_as_the_session_with_every_template() {
    let seen = run(&templates(&Vocabulary::Bytes), 4, 13);
    assert!(seen.sessions > 100 && seen.equal > 50, "{seen:?}");
}
