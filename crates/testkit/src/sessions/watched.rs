use std::sync::Arc;

use rolecall::Error;
use rolecall::Request;
use rolecall::conversation::Message;
use rolecall::encode::Decoder;
use rolecall::session::{Author, Cut, Delta, Finish, Keep, OnRewrite, Plan, Reply, Segment, SegmentPart, Session};

use super::Subject;

/// A session of which every operation is checked: what it returns agrees with the session, ids only
/// grow, sampled ids stay, no text of a caller is a control token, and an error changes nothing.
#[derive(Clone)]
pub struct Watched<'a> {
    subject: &'a Subject,
    decoder: Arc<Decoder>,
    session: Session,
    /// The sampled ids of each reply, with their place.
    sampled: Vec<(usize, Vec<u32>)>,
    /// The session when it was checked last.
    checked: Session,
}

/// Everything that a session shows.
#[derive(Clone, Debug, PartialEq)]
struct State {
    ids: Vec<u32>,
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    messages: Vec<Arc<Message>>,
    is_open: bool,
    reply: Option<(usize, bool)>,
    branches: Vec<Vec<u32>>,
}

impl State {
    fn of(session: &Session) -> State {
        State {
            ids: session.ids(),
            bytes: session.bytes(),
            segments: session.segments(),
            messages: session.messages(),
            is_open: session.is_open(),
            reply: session.reply().map(|reply| (reply.message, reply.is_unfinished)),
            branches: session.branches().collect(),
        }
    }
}

impl<'a> Watched<'a> {
    /// Begins a session.
    pub fn new(subject: &'a Subject, request: Request) -> Result<Watched<'a>, Error> {
        let session = subject.model.session(request)?;
        let decoder = subject.model.decoder()?;
        assert!(session.is_empty() && !session.is_open(), "{}: a new session has no ids", subject.name);
        let checked = session.clone();
        Ok(Watched { subject, decoder, session, sampled: Vec::new(), checked })
    }

    /// Returns the session itself.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Makes the next operation render the whole conversation.
    pub fn forget_growth(&mut self) {
        self.session.forget_growth();
    }

    /// Plans messages.
    pub fn plan(&self, new: &[Message]) -> Result<Plan, Error> {
        let before = State::of(&self.session);
        let plan = self.session.plan(new);
        assert_eq!(State::of(&self.session), before, "{}: a plan changes nothing", self.subject.name);
        if self.session.is_open() {
            assert_eq!(plan.as_ref().err().map(Error::code), Some("awaits_reply"));
        }
        plan
    }

    /// Appends the messages of a plan.
    pub fn append(&mut self, plan: Plan, on: OnRewrite) -> Result<Delta, Error> {
        let before = self.session.clone();
        let is_stable = plan.is_stable();
        let result = self.session.append(plan, on);
        let name = &self.subject.name;
        match &result {
            Ok(delta) if on == OnRewrite::Rewrite && !is_stable => {
                let earlier = State::of(&before);
                assert_eq!(self.session.branches().last(), Some(earlier.ids.clone()), "{name}: the branch is readable");
                self.check(&earlier, delta, true);
            }
            Ok(delta) => {
                assert!(is_stable || on == OnRewrite::Keep, "{name}: a rewrite is refused");
                self.check(&State::of(&before), delta, false);
                let has_note = delta.notes.iter().any(|note| note.code() == "kept");
                assert_eq!(has_note, !is_stable, "{name}: what was kept is reported");
            }
            Err(error) => {
                self.check_unchanged(before);
                if error.code() == "rewrites" {
                    assert!(!is_stable && on == OnRewrite::Refuse, "{name}: {error}");
                }
            }
        }
        result
    }

    /// Opens the model's turn.
    pub fn open(&mut self) -> Result<Delta, Error> {
        let before = self.session.clone();
        let result = self.session.open();
        match &result {
            Ok(delta) => {
                self.check(&State::of(&before), delta, false);
                assert!(self.session.is_open());
            }
            Err(_) => self.check_unchanged(before),
        }
        result
    }

    /// Ends an unfinished reply.
    pub fn close(&mut self) -> Result<Delta, Error> {
        let before = self.session.clone();
        let result = self.session.close();
        match &result {
            Ok(delta) => {
                self.check(&State::of(&before), delta, false);
                let are_closing = delta.segments.iter().all(|segment| segment.author == Author::Closing);
                assert!(are_closing, "{}: {:?}", self.subject.name, delta.segments);
            }
            Err(_) => self.check_unchanged(before),
        }
        result
    }

    /// Takes the ids of a reply.
    pub fn accept(&mut self, ids: &[u32], finish: Finish) -> Result<Arc<Reply>, Error> {
        let before = self.session.clone();
        let result = self.session.accept(ids, finish);
        let name = &self.subject.name;
        let mut bytes = Vec::new();
        let are_known = ids.iter().all(|id| self.decoder.append(*id, &mut bytes).is_ok());
        assert_eq!(result.is_ok(), before.is_open() && are_known, "{name}: {:?}", result.as_ref().err());
        let Ok(reply) = &result else {
            self.check_unchanged(before);
            return result;
        };
        let (earlier, now) = (State::of(&before), State::of(&self.session));
        let start = earlier.ids.len();
        assert_eq!(now.ids, [&earlier.ids[..], ids].concat(), "{name}: sampled ids are kept");
        assert_eq!(now.bytes, [&earlier.bytes[..], &bytes].concat(), "{name}: and their bytes");
        assert_eq!(now.messages.len(), earlier.messages.len() + 1, "{name}");
        assert_eq!((reply.message, now.is_open), (earlier.messages.len(), false), "{name}");
        assert!(reply.stop.is_none_or(|stop| ids.contains(&stop)), "{name}");
        for segment in now.segments.iter().filter(|segment| segment.ids.start >= start) {
            let weight = if segment.part == SegmentPart::AfterStop { 0.0 } else { 1.0 };
            let expected = (Author::Sampled, Some(reply.message), weight);
            assert_eq!((segment.author, segment.message, segment.weight), expected, "{name}: {segment:?}");
        }
        self.sampled.push((start, ids.to_vec()));
        self.check_session(&now);
        result
    }

    /// Drops old turns.
    pub fn truncate(&mut self, rule: Keep) -> Result<Cut, Error> {
        let before = self.session.clone();
        let result = self.session.truncate(rule);
        match &result {
            Ok(cut) => {
                let earlier = self.sampled_ids(&before);
                self.check_delta(&State::of(&before), &cut.delta);
                let kept = self.sampled_ids(&self.session);
                assert!(earlier.ends_with(&kept), "{}: sampled ids of replies that stay", self.subject.name);
                let ids = self.session.ids();
                let segments = self.session.segments();
                let sampled = segments.iter().filter(|segment| segment.author == Author::Sampled);
                self.sampled = sampled.map(|segment| (segment.ids.start, ids[segment.ids.clone()].to_vec())).collect();
            }
            Err(_) => self.check_unchanged(before),
        }
        result
    }

    fn sampled_ids(&self, session: &Session) -> Vec<u32> {
        let ids = session.ids();
        let segments = session.segments();
        let sampled = segments.iter().filter(|segment| segment.author == Author::Sampled);
        sampled.flat_map(|segment| ids[segment.ids.clone()].to_vec()).collect()
    }

    /// Checks what an operation returned. Only a rewrite may replace ids.
    fn check(&mut self, before: &State, delta: &Delta, may_cut: bool) {
        let name = &self.subject.name;
        assert!(may_cut || delta.keep == before.ids.len(), "{name}: {} of {} stay", delta.keep, before.ids.len());
        for (start, ids) in &self.sampled {
            let is_whole = start + ids.len() <= delta.keep || *start >= delta.keep;
            assert!(is_whole, "{name}: a reply is replaced as a whole or not at all");
        }
        self.sampled.retain(|(start, _)| *start < delta.keep);
        let now = self.check_delta(before, delta);
        assert_eq!(now.messages[..before.messages.len()].len(), before.messages.len());
        self.check_session(&now);
    }

    fn check_delta(&self, before: &State, delta: &Delta) -> State {
        let name = &self.subject.name;
        let now = State::of(&self.session);
        assert!(delta.keep <= before.ids.len(), "{name}: {} stay", delta.keep);
        assert_eq!(now.ids, [&before.ids[..delta.keep], &delta.ids].concat(), "{name}: the ids of a delta");
        assert_eq!(delta.total(), now.ids.len(), "{name}");
        check_cover(name, &delta.segments, delta.keep..now.ids.len());
        let own = now.segments.iter().filter(|segment| segment.ids.end > delta.keep);
        let own = own.map(|segment| {
            let ids = segment.ids.start.max(delta.keep)..segment.ids.end;
            Segment { ids, ..segment.clone() }
        });
        let own: Vec<Segment> = own.collect();
        assert_eq!(own, delta.segments, "{name}: the segments of a delta");
        for segment in &delta.segments {
            assert!(segment.weight == 0.0 || segment.author == Author::Sampled, "{name}: {segment:?}");
            let ids = &now.ids[segment.ids.clone()];
            // A role may be a part of a control token.
            if segment.author == Author::Caller && segment.part != SegmentPart::Field {
                let forged = ids.iter().find(|id| self.subject.encoder.protected().contains(**id));
                assert_eq!(forged, None, "{name}: a caller's text became a control token: {segment:?}");
            }
        }
        now
    }

    /// Checks the session as a whole.
    fn check_session(&mut self, now: &State) {
        let name = &self.subject.name;
        check_cover(name, &now.segments, 0..now.ids.len());
        assert_eq!(self.session.len(), now.ids.len(), "{name}");
        let mut bytes = Vec::with_capacity(now.bytes.len());
        let decoded = now.ids.iter().try_for_each(|id| self.decoder.append(*id, &mut bytes));
        assert!(decoded.is_ok(), "{name}: {decoded:?}");
        let shown = String::from_utf8_lossy(&bytes);
        assert_eq!(shown, String::from_utf8_lossy(&now.bytes), "{name}: the text is that of the ids");
        for (start, ids) in &self.sampled {
            assert_eq!(&now.ids[*start..start + ids.len()], ids, "{name}: sampled ids in their place");
            for segment in now.segments.iter().filter(|segment| {
                segment.ids.start < start + ids.len() && *start < segment.ids.end && segment.author != Author::Sampled
            }) {
                let end = now.segments.iter().any(|other| other.ids.end == start + ids.len());
                assert!(end && segment.author == Author::Template, "{name}: {segment:?} was sampled");
            }
        }
        let weighed = now.segments.iter().filter(|segment| segment.weight > 0.0);
        let weighed: usize = weighed.map(|segment| segment.ids.len()).sum();
        let sampled: usize = self.sampled.iter().map(|(_, ids)| ids.len()).sum();
        assert!(weighed <= sampled, "{name}: only sampled ids have weight");
        let common = self.session.common_ids(&self.checked);
        assert_eq!(common, self.checked.common_ids(&self.session), "{name}");
        assert_eq!(now.ids[..common], self.checked.ids()[..common], "{name}: common ids are the same");
        assert_eq!(now.ids[common..], self.session.ids_from(common), "{name}: the ids after the common ones");
        self.checked = self.session.clone();
    }

    /// Checks that an operation that failed left everything as it was, also what comes next.
    fn check_unchanged(&self, mut before: Session) {
        let name = &self.subject.name;
        assert_eq!(State::of(&self.session), State::of(&before), "{name}: an error changes nothing");
        let mut now = self.session.clone();
        let goes_on = |session: &mut Session| match session.is_open() {
            true => session.accept(&[], Finish::Stop).map(|reply| (reply.message, Vec::new())).map_err(|e| e.code()),
            false => session.open().map(|delta| (delta.keep, delta.ids)).map_err(|error| error.code()),
        };
        assert_eq!(goes_on(&mut now), goes_on(&mut before), "{name}: nor what comes next");
    }
}

/// Checks that segments cover each id once, in order.
fn check_cover(name: &str, segments: &[Segment], ids: std::ops::Range<usize>) {
    let mut at = ids.start;
    for segment in segments {
        assert!(segment.ids.start == at && segment.ids.end > at, "{name}: {segment:?} at {at}");
        at = segment.ids.end;
    }
    assert_eq!(at, ids.end, "{name}: segments cover every id");
}
