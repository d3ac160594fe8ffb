use std::sync::Arc;

use rolecall::Error;
use rolecall::conversation::{Message, Role};
use rolecall::grammar::{Grammar, Note, Options};
use rolecall::parse::{Ids, ParseOptions};
use rolecall::session::{Finish, OnRewrite, Session, SessionNote};

use crate::clock::random;
use crate::engine::{EngineShape, PromptIds};
use crate::observe::{RequestLog, Stage};
use crate::reply::reader::ReplyReader;
use crate::request::by_text;
use crate::request::chat_request::{ChatRequest, Past};
use crate::turn::context::Bound;
use crate::turn::left_out;
use crate::turn::sessions::SessionTurn;
use crate::turn::sessions::chain::Chain;
use crate::turn::sessions::record::{self, setup_of};
use crate::{Fault, FaultCode};

/// A turn of the model that is ready to be generated.
pub struct Turn {
    /// The ids of the prompt.
    pub ids: PromptIds,
    /// Its text, if the engine gets that instead.
    pub text: Option<String>,
    /// The number of them that the session had, and that stayed as they were.
    pub kept: usize,
    pub history: History,
    /// The parts of the client's messages that the model does not see.
    pub left_out: Vec<left_out::LeftOutField>,
    /// The ids that end the reply, each with whether the parser must get it.
    pub stops: Vec<(u32, bool)>,
    /// What reads the ids of the reply.
    pub reader: ReplyReader,
    /// Whether a call may be sent only when it ends, because the model writes its id last.
    pub holds_calls: bool,
    /// What the reply must follow.
    pub shape: Option<EngineShape>,
    /// What no grammar says of that.
    pub notes: Vec<Note>,
    /// What goes on after the reply. A reply that continues a message is no turn of a session.
    pub awaited: Option<OpenTurn>,
}

/// What was done with the conversation so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// It was not seen before.
    New,
    /// It goes on.
    Grown,
    /// It goes on, and what the template would rewrite stays as it was sent.
    Kept,
    /// The template rewrites a part of it.
    Rewritten,
    /// It was seen before, but with other tools, switches or instructions, or with another model.
    Changed,
}

impl History {
    /// Returns the word in answers.
    pub fn name(self) -> &'static str {
        match self {
            History::New => "new",
            History::Grown => "grown",
            History::Kept => "kept",
            History::Rewritten => "rewritten",
            History::Changed => "changed",
        }
    }
}

/// A conversation that awaits its reply.
#[derive(Clone)]
pub struct OpenTurn {
    /// The ids of the prompt.
    pub ids: PromptIds,
    /// The session, with its turn opened.
    pub session: Session,
    /// The session before the new messages.
    pub base: Session,
    /// The session without messages, if it begins.
    pub saved: Option<String>,
    pub past: Option<Arc<SessionTurn>>,
    /// The messages since then.
    pub new: Vec<Message>,
    pub on: OnRewrite,
    pub kept: usize,
    /// The digest of the conversation up to the reply.
    pub chain: Chain,
    pub setup: String,
    pub instructions: usize,
}

/// What is known of the conversation of a request.
pub struct KnownPast {
    pub found: Option<SessionTurn>,
    /// The request's messages that it has.
    pub covered: Overlap,
    /// The digest of all of the request's messages.
    pub chain: Chain,
}

/// The messages at the beginning of a request that its conversation has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlap {
    pub count: usize,
    /// Whether they are the conversation's first ones, and not its last ones.
    pub are_first: bool,
}

impl Overlap {
    /// Returns the first of the client's messages in a conversation that has so many.
    fn first(self, known: usize) -> First {
        match self.are_first {
            true => First { here: known, own: self.count },
            false => First { here: known.saturating_sub(self.count), own: 0 },
        }
    }
}

/// The first message of a conversation whose place in the request is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct First {
    /// Its index in the conversation.
    here: usize,
    /// Its index in the request.
    own: usize,
}

impl First {
    /// Returns the index in the request of a message of the conversation.
    pub fn own_index(self, index: usize) -> Option<usize> {
        index.checked_sub(self.here).map(|after| after + self.own)
    }
}

/// The digests of the beginnings of a request's messages that end with a reply, the longest first, each
/// with its number of messages, and the digest of all.
pub fn beginnings(wanted: &ChatRequest) -> (Vec<(usize, Chain)>, Chain) {
    let mut chain = Chain::new(&wanted.served.name, &wanted.request);
    let (mut found, mut text) = (Vec::new(), String::new());
    let all = wanted.instructions.iter().chain(&wanted.messages);
    for (at, message) in all.enumerate() {
        chain = chain.push_by(message, &mut text);
        if *message.role() == rolecall::conversation::Role::Assistant {
            found.push((at + 1, chain));
        }
    }
    found.reverse();
    (found, chain)
}

/// Returns what the prompt of a session lacks of a request, unless it refuses it.
fn left_out_of(
    wanted: &ChatRequest,
    session: &Session,
    history: History,
    notes: &[SessionNote],
) -> Result<Vec<left_out::LeftOutField>, Fault> {
    let left_out = match history {
        // What was written anew may lack more, and what is new may be written before the rest.
        History::Rewritten => left_out::of_all(wanted, session)?,
        _ => left_out::of_notes(notes),
    };
    if left_out.is_empty() {
        return Ok(left_out);
    }
    let messages = session.messages();
    let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
    left_out::judge(wanted, &messages, left_out)
}

/// Returns the digests of the messages before a turn.
fn chain_before(wanted: &ChatRequest, past: Option<&SessionTurn>) -> Chain {
    past.and_then(|found| found.past.chain).unwrap_or_else(|| {
        let messages = past.iter().flat_map(|found| &found.past.messages);
        let start = Chain::new(&wanted.served.name, &wanted.request);
        messages.fold(start, |chain, message| chain.push(message))
    })
}

/// Refuses the result of a call that was cut off where the conversation is written anew, because the call cannot be.
fn refuse_result_of_cut_call(found: &SessionTurn, first: Option<&Message>, index: usize) -> Result<(), Fault> {
    let was_cut = matches!(found.past.last.reply, record::RecordReply::Ids(_, Finish::Length | Finish::Abort));
    let has_call = found.past.messages.last().is_some_and(|last| last.calls().len() > 0);
    if !was_cut || has_call || first.is_none_or(|first| *first.role() != Role::Tool) {
        return Ok(());
    }
    let message = format!("message {index}: its call was cut off, and cannot be written again");
    let help = Some("ask for the call again, or leave tools and settings as they were".into());
    let fault = Fault::at("tool_call_id", FaultCode::CutCall, message);
    Err(Fault { message_index: u32::try_from(index).ok(), help, ..fault })
}

impl Turn {
    /// Renders and encodes a request.
    pub fn make(wanted: &ChatRequest, known: KnownPast, bound: Bound, seen: &RequestLog) -> Result<Turn, Fault> {
        let turn = match wanted.request.conversation.continue_final_message {
            true => Turn::continuing(wanted, bound, seen),
            false => Turn::in_session(wanted, known, bound, seen),
        };
        let mut turn = turn.map_err(|fault| bound.placed(fault, "messages"))?;
        if turn.text.is_some() {
            // The engine encodes the text again.
            turn.kept = 0;
        }
        bound.check(turn.ids.len(), "messages")?;
        Ok(turn)
    }

    /// Makes the turn of a session: one that goes on, or a new one.
    fn in_session(wanted: &ChatRequest, known: KnownPast, bound: Bound, seen: &RequestLog) -> Result<Turn, Fault> {
        let KnownPast { found: past, covered, chain } = known;
        let setup = setup_of(&wanted.served.name, &wanted.request, &wanted.instructions);
        let is_named = wanted.past != Past::Recognised;
        let new: Vec<Message> = match &wanted.past {
            Past::Known(_) => wanted.messages.clone(),
            _ => wanted.instructions.iter().chain(&wanted.messages).skip(covered.count).cloned().collect(),
        };
        let history = if past.is_some() { History::Changed } else { History::New };
        // The conversation from its beginning, up to the new messages and with them, and which are the client's.
        let (mut said, mut rest) = (wanted.instructions.clone(), wanted.messages.clone());
        let mut first = First::default();
        if let Some(found) = past {
            let fits = found.past.last.setup == setup || !is_named;
            first = covered.first(found.past.messages.len());
            if let (true, Some(session)) = (fits, &found.past.session) {
                let session = session.clone().with_most_ids(bound.counted);
                match Turn::growing(wanted, session, Some(Arc::new(found)), new, (setup.clone(), chain), seen) {
                    Ok(turn) => return Ok(turn.counted_from(first)),
                    // The client counts its own messages.
                    Err(fault) if is_named => return Err(fault.counted_from(first)),
                    // A whole conversation tells better what is wrong with it.
                    Err(fault) if fault.code.name() == "rewrites" => return Err(fault),
                    Err(_) => first = First::default(),
                }
            } else if is_named {
                refuse_result_of_cut_call(&found, new.first(), covered.count)?;
                let skipped = found.past.last.instructions;
                said.extend(found.past.messages.iter().skip(skipped).map(|message| Message::clone(message)));
                first.here = (first.here + wanted.instructions.len()).saturating_sub(skipped);
                rest = new;
            } else {
                first = First::default();
            }
        }
        let session = wanted.served.model.session(wanted.request.clone())?.with_most_ids(bound.counted);
        said.extend(rest);
        let turn = left_out::check(wanted, &said);
        let turn = turn.and_then(|()| Turn::growing(wanted, session, None, said, (setup, chain), seen));
        let turn = turn.map_err(|fault| fault.counted_from(first))?;
        Ok(Turn { history, ..turn.counted_from(first) })
    }

    /// Returns the turn for a client that counts its own messages.
    fn counted_from(self, first: First) -> Turn {
        let own = |(index, field): left_out::LeftOutField| Some((first.own_index(index)?, field));
        Turn { left_out: self.left_out.into_iter().filter_map(own).collect(), ..self }
    }

    /// Makes the turn of a session with new messages.
    fn growing(
        wanted: &ChatRequest,
        base: Session,
        past: Option<Arc<SessionTurn>>,
        new: Vec<Message>,
        (setup, chain): (String, Chain),
        seen: &RequestLog,
    ) -> Result<Turn, Fault> {
        if past.is_some() {
            left_out::check_tools(wanted, || {
                base.messages().iter().map(|message| Message::clone(message)).chain(new.iter().cloned()).collect()
            })?;
        }
        // Histories of a name may leave each other without knowing it, so each turn has ids of its own for its calls.
        let mut session = base.clone().with_call_seed(random());
        let rendering = seen.time(Stage::Render);
        let plan = session.plan(&new)?;
        let rewrites = plan.rewrite().is_some();
        let before = session.len();
        let mut kept = before.min(session.append(plan, wanted.on_rewrite)?.keep);
        drop(rendering);
        // A session encodes new messages when the turn opens.
        let encoding = seen.time(Stage::Encode);
        let opened = session.open()?;
        drop(encoding);
        kept = kept.min(opened.keep);
        let was_rewritten = opened.notes.iter().any(|note| matches!(note, SessionNote::Rewritten { .. }));
        let history = match (past.is_some(), rewrites || was_rewritten, wanted.on_rewrite) {
            (false, ..) => History::New,
            (true, false, _) => History::Grown,
            (true, true, OnRewrite::Rewrite) => History::Rewritten,
            (true, true, _) => History::Kept,
        };
        let left_out = left_out_of(wanted, &session, history, &opened.notes)?;
        let reply = session.reply_context()?;
        let (shape, notes) = shape_of(wanted, reply.around_reasoning().is_some(), |options| reply.grammar(options))?;
        let saved = if past.is_none() { Some(base.save()?) } else { None };
        let chain = match wanted.past {
            Past::Recognised => chain,
            _ => new.iter().fold(chain_before(wanted, past.as_deref()), Chain::push),
        };
        let sent = past.as_ref().map_or_else(PromptIds::default, |found| found.past.sent.clone());
        let ids = PromptIds::of_session(&sent, &session);
        // What the session wrote again may be the same, as after a reply that a stop text cut.
        let same = if kept < sent.len() { ids.common(&sent) } else { 0 };
        Ok(Turn {
            ids: ids.clone(),
            text: by_text::prompt(&wanted.served, || Ok(session.bytes()))?,
            kept: kept.max(same),
            history,
            left_out,
            stops: reply.stops()?,
            reader: ReplyReader::Turn(Box::new(reply.id_parser()?)),
            holds_calls: reply.has_late_ids(),
            shape,
            notes,
            awaited: Some(OpenTurn {
                ids,
                session,
                base,
                saved,
                past,
                new,
                on: wanted.on_rewrite,
                kept,
                chain,
                setup,
                instructions: wanted.instructions.len(),
            }),
        })
    }

    /// Makes the turn that continues the last message.
    fn continuing(wanted: &ChatRequest, bound: Bound, seen: &RequestLog) -> Result<Turn, Fault> {
        let mut request = wanted.request.clone();
        let messages: Vec<Message> = wanted.instructions.iter().chain(&wanted.messages).cloned().collect();
        request.conversation.messages.clone_from(&messages);
        let rendering = seen.time(Stage::Render);
        let prompt = wanted.served.model.prompt(request.clone())?;
        drop(rendering);
        left_out::refuse(wanted, &request, prompt.prompt())?;
        let messages: Vec<&Message> = messages.iter().collect();
        let left_out = left_out::judge(wanted, &messages, left_out::of_prompt(prompt.prompt().dropped()))?;
        let context = prompt.reply_context(ParseOptions { ids: Ids::Seeded(random()), ..ParseOptions::default() })?;
        let can_reason = context.around_reasoning().is_some();
        let (shape, notes) = shape_of(wanted, can_reason, |options| context.grammar(options))?;
        let encoding = seen.time(Stage::Encode);
        let ids = PromptIds::from(prompt.encode_at_most(bound.counted)?.ids());
        drop(encoding);
        Ok(Turn {
            ids,
            text: by_text::prompt(&wanted.served, || Ok(prompt.text().into()))?,
            kept: 0,
            history: History::New,
            left_out,
            stops: context.stops()?,
            reader: ReplyReader::Turn(Box::new(context.id_parser()?)),
            holds_calls: context.has_late_ids(),
            shape,
            notes,
            awaited: None,
        })
    }
}

/// Returns what the reply must follow, if it is not free, and what no grammar says of it. `grammar_of` makes the
/// grammar, and `can_reason` says whether the model reasons.
fn shape_of(
    wanted: &ChatRequest,
    can_reason: bool,
    grammar_of: impl FnOnce(Options) -> Result<Grammar, Error>,
) -> Result<(Option<EngineShape>, Vec<Note>), Fault> {
    let Some(options) = wanted.grammar(can_reason) else { return Ok((None, Vec::new())) };
    let (shape, notes) = wanted.served.engine.shape_of(&grammar_of(options)?)?;
    wanted.answer.check(&notes)?;
    Ok((Some(shape), notes))
}
