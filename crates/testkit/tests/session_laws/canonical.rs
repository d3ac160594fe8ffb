//! Replies as the template writes them: the text of a session is that of the stock prompt, and its
//! ids are too where every boundary is at a control token. The other places are listed in a page.

use std::collections::BTreeSet;
use std::fmt::Write;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Message, Role};
use rolecall::model::ModelPrompt;
use rolecall::session::{Finish, OnRewrite, Rewrite};
use rolecall::stability::{Case, Pace};
use rolecall::{Error, Request};
use rolecall_testkit::sessions::{Subject, Vocabulary, Watched};

use super::{line, own, templates, vocabulary};

/// What the conversations of one subject show.
#[derive(Debug, Default)]
struct Found {
    /// Turns whose text and ids were compared.
    turns: usize,
    /// Turns whose ids differ from those of the stock prompt, and the first difference.
    seams: usize,
    first: Option<Seam>,
    /// Replies that the layouts of the subject do not read back as they were written.
    unread: usize,
    unread_first: Option<String>,
    /// Turns that rewrite what was sent.
    rewrites: usize,
    /// Rewrites whose place in the template was found to write the earlier text, and the others.
    placed: usize,
    unplaced: Vec<String>,
}

#[derive(Debug)]
struct Seam {
    case: String,
    message: usize,
    session: Vec<String>,
    stock: Vec<String>,
}

struct Play<'a> {
    subject: &'a Subject,
    case: &'a str,
    /// The conversation, with another question at its end.
    conversation: Conversation,
    marked: BTreeSet<u32>,
}

fn play(subject: &Subject, found: &mut Found) {
    let marked: BTreeSet<u32> = subject.tokenizer.added_tokens().iter().map(|token| token.id).collect();
    for case in Case::all().into_iter().filter(|case| case.pace == Pace::AtOnce) {
        let mut conversation = case.conversation.clone();
        if conversation.messages.last().is_some_and(|last| *last.role() == Role::Assistant) {
            conversation.messages.push(Message::user("Why?"));
        }
        Play { subject, case: &case.name, conversation, marked: marked.clone() }.run(found);
    }
}

impl Play<'_> {
    fn request(&self, messages: &[Message]) -> Request {
        let conversation = Conversation {
            messages: messages.to_vec(),
            add_generation_prompt: Some(true),
            ..self.conversation.clone()
        };
        Request { id: None, format: None, conversation, other: Object::new() }
    }

    fn stock(&self, messages: &[Message]) -> Result<ModelPrompt, Error> {
        self.subject.model.prompt(self.request(messages))
    }

    fn what(&self, message: usize) -> String {
        format!("{}, {}, reply {message}", self.subject.name, self.case)
    }

    fn run(&self, found: &mut Found) {
        let messages = &self.conversation.messages;
        let is_reply = |message: &Message| *message.role() == Role::Assistant;
        let Some(first) = messages.iter().position(is_reply).filter(|first| *first > 0) else { return };
        // Many subjects refuse tools, a system message or an order of roles.
        let Ok(mut watched) = Watched::new(self.subject, self.request(&messages[..first])) else { return };
        let (Ok(mut opened), Ok(_)) = (self.stock(&messages[..first]), watched.open()) else { return };
        assert_eq!(watched.session().bytes(), opened.text().as_bytes(), "{}", self.what(0));
        assert_eq!(watched.session().ids(), opened.encode().unwrap().ids(), "{}", self.what(0));
        let mut boundaries = vec![watched.session().len()];
        let mut at = first;
        while at < messages.len() {
            let next = messages[at + 1..].iter().position(is_reply).map_or(messages.len(), |next| at + 1 + next);
            let Ok(stock) = self.stock(&messages[..next]) else { return };
            if !stock.text().starts_with(opened.text()) {
                self.rewritten(&mut watched, at, next, found);
                return;
            }
            let Some(reply) = self.reply(&stock, opened.text().len(), at) else {
                found.unread += 1;
                found.unread_first.get_or_insert_with(|| format!("{}: no reply in {:?}", self.what(at), stock.text()));
                return;
            };
            watched.accept(&reply, Finish::Stop).unwrap();
            boundaries.push(watched.session().len());
            let mut said: Vec<Message> = watched.session().messages().iter().map(|said| (**said).clone()).collect();
            said.extend(messages[at + 1..next].iter().cloned());
            let again = self.stock(&said);
            if again.as_ref().ok().is_none_or(|again| again.text() != stock.text()) {
                found.unread += 1;
                found.unread_first.get_or_insert_with(|| {
                    let again = again.map(|again| again.text().to_owned());
                    format!("{}: {:?} {:?} {again:?}", self.what(at), watched.session().reply(), stock.text())
                });
                return;
            }
            let plan = watched.plan(&messages[at + 1..next]).unwrap();
            let sampled = String::from_utf8_lossy(&watched.session().bytes()).into_owned();
            assert!(plan.is_stable(), "{}: {:?} {sampled:?} {:?}", self.what(at), plan.rewrite(), stock.text());
            watched.append(plan, OnRewrite::Refuse).unwrap();
            watched.open().unwrap();
            let text = String::from_utf8_lossy(&watched.session().bytes()).into_owned();
            assert_eq!(text, stock.text(), "{}", self.what(at));
            self.compare(&watched, &stock, &boundaries, at, found);
            boundaries.push(watched.session().len());
            opened = stock;
            at = next;
        }
    }

    /// Returns the ids of the reply as the template writes it in a longer prompt.
    fn reply(&self, stock: &ModelPrompt, from: usize, message: usize) -> Option<Vec<u32>> {
        let replies = stock.replies().unwrap();
        let reply = replies.iter().find(|reply| reply.message == Some(message) && reply.range.end >= from)?;
        // The template may write the text of an empty reply before the end of its generation prompt.
        let range = from..reply.range.end;
        let encoded = self.subject.encoder.encode_part(stock.prompt(), range);
        Some(encoded.unwrap_or_else(|error| panic!("{}: {error}", self.what(message))).ids())
    }

    fn compare(&self, watched: &Watched<'_>, stock: &ModelPrompt, boundaries: &[usize], at: usize, found: &mut Found) {
        found.turns += 1;
        let (ours, whole) = (watched.session().ids(), stock.encode().unwrap().ids());
        if ours == whole {
            return;
        }
        found.seams += 1;
        let is_marked = |at: usize| ours.get(at).is_some_and(|id| self.marked.contains(id));
        let same = ours.iter().zip(&whole).take_while(|(one, other)| one == other).count();
        // A difference is in the run of text around a boundary that is not at a control token.
        let open = boundaries.iter().filter(|boundary| !is_marked(**boundary) && !is_marked(**boundary - 1));
        let mut runs = open.map(|boundary| {
            let start = (0..*boundary).rev().find(|at| is_marked(*at)).map_or(0, |at| at + 1);
            let end = (*boundary..ours.len()).find(|at| is_marked(*at)).unwrap_or(ours.len());
            start..end
        });
        assert!(
            runs.any(|run| run.contains(&same)),
            "{}: the ids differ at {same}, where every boundary is at a control token: {:?} and {:?}",
            self.what(at),
            self.pieces(&ours, same),
            self.pieces(&whole, same)
        );
        found.first.get_or_insert_with(|| Seam {
            case: self.case.to_owned(),
            message: at,
            session: self.pieces(&ours, same),
            stock: self.pieces(&whole, same),
        });
    }

    /// Returns the texts of the ids around a difference.
    fn pieces(&self, ids: &[u32], at: usize) -> Vec<String> {
        let decoder = self.subject.model.decoder().unwrap();
        let text = |id: &u32| {
            let mut bytes = Vec::new();
            decoder.append(*id, &mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        ids[at.saturating_sub(1)..ids.len().min(at + 3)].iter().map(text).collect()
    }

    /// Checks a turn that changes what was sent: the plan says so, and each choice does what it says.
    fn rewritten(&self, watched: &mut Watched<'_>, at: usize, next: usize, found: &mut Found) {
        let messages = &self.conversation.messages;
        // The reply as it is written while nothing follows it.
        let mut alone = self.request(&messages[..=at]);
        alone.conversation.add_generation_prompt = Some(false);
        let Ok(alone) = self.subject.model.prompt(alone) else { return };
        let opened = watched.session().bytes();
        if !alone.text().as_bytes().starts_with(&opened) {
            return;
        }
        let Some(reply) = self.reply(&alone, opened.len(), at) else { return };
        watched.accept(&reply, Finish::Stop).unwrap();
        let new = &messages[at + 1..next];
        let Ok(plan) = watched.plan(new) else { return };
        let mut said: Vec<Message> = watched.session().messages().iter().map(|said| (**said).clone()).collect();
        said.extend(new.iter().cloned());
        let stock = self.stock(&said).unwrap();
        let Some(rewrite) = plan.rewrite().cloned() else {
            // What the layouts read may be written in another way than the original.
            assert!(stock.text().as_bytes().starts_with(&opened), "{}: no rewrite", self.what(at));
            return;
        };
        found.rewrites += 1;
        let what = self.what(at);
        let text = String::from_utf8(watched.session().bytes()).unwrap();
        let same = stock.text().bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let character = (0..=same).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        assert!(rewrite.byte <= character || rewrite.byte >= opened.len(), "{what}: {rewrite}, differs at {character}");
        assert!(text[rewrite.byte..].starts_with(&rewrite.before) || rewrite.byte >= opened.len(), "{what}: {rewrite}");
        assert!(stock.text()[rewrite.byte..].starts_with(&rewrite.after), "{what}: {rewrite}");
        assert!(rewrite.ids <= watched.session().len(), "{what}: {rewrite}");
        self.check_place(&said[..=at], rewrite.byte < opened.len(), &rewrite, found);
        let code = watched.clone().append(plan.clone(), OnRewrite::Refuse).unwrap_err().code();
        assert_eq!(code, "rewrites", "{what}");
        let mut kept = watched.clone();
        kept.append(plan.clone(), OnRewrite::Keep).unwrap();
        kept.open().unwrap();
        assert!(!kept.session().difference().unwrap().has_stock_text(), "{what}: a kept rewrite differs");
        let mut anew = watched.clone();
        anew.append(plan, OnRewrite::Rewrite).unwrap();
        anew.open().unwrap();
        let text = String::from_utf8_lossy(&anew.session().bytes()).into_owned();
        assert_eq!(text, stock.text(), "{what}");
        let said: Vec<Message> = anew.session().messages().iter().map(|said| (**said).clone()).collect();
        assert_eq!(self.stock(&said).unwrap().text(), text, "{what}");
    }
    /// Checks that the place of a rewrite is the one that wrote the earlier text.
    fn check_place(&self, said: &[Message], is_in_prompt: bool, rewrite: &Rewrite, found: &mut Found) {
        assert_eq!(rewrite.line.is_some(), self.subject.source.is_some(), "{}: {rewrite}", self.subject.name);
        if rewrite.line.is_none() {
            return;
        }
        let mut earlier = self.request(if is_in_prompt { &said[..said.len() - 1] } else { said });
        earlier.conversation.add_generation_prompt = Some(is_in_prompt);
        match line::check(self.subject, &earlier, rewrite) {
            line::Place::Wrote => found.placed += 1,
            place => found.unplaced.push(format!("{place:?}: {}: {rewrite} {:?}", self.subject.name, rewrite.line)),
        }
    }
}

#[test]
fn canonical_replies_give_the_stock_prompt_for_templates_of_our_own() {
    for vocabulary in [Vocabulary::Bytes, Vocabulary::small()] {
        let mut rewrites = 0;
        for subject in own::subjects(&vocabulary) {
            let mut found = Found::default();
            play(&subject, &mut found);
            println!("{}: {found:?}", subject.name);
            assert!(found.turns > 3, "{}: {found:?}", subject.name);
            assert!(found.unplaced.is_empty(), "{:?}", found.unplaced);
            rewrites += found.placed;
        }
        assert!(rewrites > 3, "{rewrites}");
    }
}

#[test]
fn canonical_replies_give_the_stock_prompt_for_every_format() {
    let (subjects, others) = Subject::of_registry(&Vocabulary::Bytes);
    assert!(others.is_empty(), "{others:?}");
    let (mut turns, mut unread) = (0, 0);
    for subject in &subjects {
        let mut found = Found::default();
        play(subject, &mut found);
        assert_eq!(found.seams, 0, "{}: each byte is an id: {found:?}", subject.name);
        turns += found.turns;
        unread += found.unread;
    }
    println!("{} formats: {turns} turns compared, {unread} replies not read back", subjects.len());
    assert!(turns > 1_000, "{turns}");
}

const PAGE: &str = "docs/session-seams.md";

const HEAD: &str = "# Where a session's ids are not those of one whole encode

A session encodes a prompt and each reply separately, as an engine sees them. Its text is that of the
stock prompt wherever the template rewrites nothing and the replies are those that the template
writes. Its ids are too if there is a control token at each end of every reply. Elsewhere, a
tokenizer may join the text on both sides of such a boundary.

This page lists the templates for which that happens, over the conversations that `rolecall
stability` uses. Each reply is the text that the template writes for it. The vocabulary is that of
Qwen3 with the template's own markers as control tokens.

- **turns**: the turns that were compared, and those whose ids differ
- **first difference**: the conversation, the index of the reply before the difference, the ids of
  the session and the ids of one whole encode, from the last common id on

A test writes this page (`crates/testkit/tests/session_laws.rs`, `UPDATE=1`), and checks it if the
reference templates are available.

";

#[test]
fn canonical_replies_give_the_stock_prompt_for_every_template() {
    let vocabulary = vocabulary();
    let (mut rows, mut unread) = (String::new(), String::new());
    let (mut templates_listed, mut count) = (0, 0);
    let mut sum = Found::default();
    for subject in templates(&vocabulary) {
        let mut found = Found::default();
        play(&subject, &mut found);
        if let Some(first) = &found.unread_first {
            let _ = writeln!(unread, "{first}");
        }
        sum.turns += found.turns;
        sum.seams += found.seams;
        sum.unread += found.unread;
        sum.rewrites += found.rewrites;
        sum.placed += found.placed;
        sum.unplaced.append(&mut found.unplaced);
        // Our own templates are not part of the page.
        if subject.name.starts_with("own: ") {
            continue;
        }
        count += 1;
        let Some(first) = &found.first else { continue };
        templates_listed += 1;
        let _ = writeln!(
            rows,
            "| `{}` | {} | {} | `{}`, reply {}: {} and {} |",
            subject.name,
            found.turns,
            found.seams,
            first.case,
            first.message,
            visible(&first.session),
            visible(&first.stock)
        );
    }
    println!("{unread}{sum:?}");
    if count == 0 {
        rolecall_testkit::say_skipped("the page about the seams of sessions is not checked");
        return;
    }
    assert!(sum.turns > 4_000 && sum.rewrites > 100, "{sum:?}");
    assert!(sum.placed > 100 && sum.unplaced.is_empty(), "{sum:?}");
    let page = format!(
        "{HEAD}Of {count} templates, {templates_listed} are listed.\n\n| template | turns | other ids | first difference |\n\
         | --- | --- | --- | --- |\n{rows}"
    );
    let path = rolecall_testkit::root().join(PAGE);
    if std::fs::read_to_string(&path).is_ok_and(|known| known == page) {
        return;
    }
    assert!(std::env::var_os("UPDATE").is_some(), "{PAGE} is stale; run `UPDATE=1 cargo test` to write it");
    std::fs::write(path, page).unwrap();
}

/// Returns the texts of ids as a cell of a table.
fn visible(pieces: &[String]) -> String {
    let shown = |text: &String| {
        text.replace('\n', "↵").replace(' ', "␣").replace('\t', "→").replace('|', "\\|").replace('`', "ˋ")
    };
    let pieces: Vec<String> = pieces.iter().map(|piece| format!("`{}`", shown(piece))).collect();
    pieces.join(" ")
}
