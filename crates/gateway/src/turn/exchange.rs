use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::{FutureExt, stream};
use rolecall::grammar::Note;
use rolecall::guard::guard_future;
use rolecall::session::Session;
use tokio::sync::mpsc;
use tokio::task::{consume_budget, yield_now};

use crate::engine::{Ask, End, EnginePiece};
use crate::fault::answer;
use crate::gateway::{Gateway, Permit};
use crate::observe::Stage;
use crate::reply::ignored_grammar;
use crate::reply::pending_logprobs::PendingLogprobs;
use crate::reply::replies::{self, Replies};
use crate::reply::usage::Usage;
use crate::reply::writer::{Done, Frames, Opening, ReplyWriter, WholeReply};
use crate::reply::{LiveReply, ReplyStep};
use crate::request::by_text;
use crate::request::chat_request::{ChatRequest, Past};
use crate::request::completing::CompletionRequest;
use crate::request::sampling::Sampling;
use crate::served_model::ServedModel;
use crate::store::Owner;
use crate::turn::context::{self, Bound};
use crate::turn::headers::{defaults, left_out_header, names_header, not_enforced};
use crate::turn::hosted_calls::HostedCalls;
use crate::turn::resend::Resend;
use crate::turn::running::RunningTurn;
use crate::turn::sessions::SessionTurn;
use crate::turn::sessions::chain::Chain;
use crate::turn::{History, KnownPast, Overlap, Turn, beginnings};
use crate::work::{AT_ONCE, sized};
use crate::{Fault, FaultCode};

/// Reads a request of one API whose prompts are no conversations.
pub type ReadTexts = fn(&Gateway, &str) -> Result<(CompletionRequest, Box<dyn ReplyWriter>), Fault>;

/// Reads a request of one API.
pub type ReadRequest = fn(&Gateway, &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault>;

/// Reads a request of one API, with what was found out for it before.
pub trait ReadBody:
    FnOnce(&Gateway, &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> + Send + 'static
{
}

impl<T: FnOnce(&Gateway, &str) -> Result<(ChatRequest, Box<dyn ReplyWriter>), Fault> + Send + 'static> ReadBody for T {}

/// A request that is being answered.
pub(super) struct Exchange {
    pub(super) gateway: Arc<Gateway>,
    pub(super) owner: Owner,
    /// What the conversation is kept for, if it is one.
    pub(super) wanted: Option<ChatRequest>,
    pub(super) writer: Box<dyn ReplyWriter>,
    pub(super) replies: Replies,
    /// The number of replies to each prompt.
    pub(super) choices: usize,
    pub(super) usage: Usage,
    /// Whether a call may be sent only when it ends, because the model writes its id last.
    pub(super) holds_calls: bool,
    pub(super) history: History,
    /// What the grammar of the replies does not enforce.
    pub(super) notes: Vec<Note>,
    /// The place among the requests at the same time.
    pub(super) permit: Permit,
    pub(super) run: RunningTurn,
    /// Its calls that run here, if any may.
    pub(super) hosted: Option<HostedCalls>,
}

/// A request whose prompt was made.
pub struct PreparedRequest {
    pub wanted: ChatRequest,
    writer: Box<dyn ReplyWriter>,
    pub turn: Turn,
    permit: Permit,
    /// Whether its conversation goes on.
    is_known: bool,
}

/// Reads a request, finds its conversation, and makes the prompt.
pub async fn prepare(
    gateway: &Arc<Gateway>,
    owner: Owner,
    read: impl ReadBody,
    body: String,
    permit: Permit,
) -> Result<PreparedRequest, Fault> {
    // A client that leaves keeps its place as long as its work goes on.
    let reader = Arc::clone(gateway);
    let length = gateway.size_of_work(body.len());
    let (wanted, writer, names, chain, permit) = sized(length, move || {
        let parsing = permit.seen.time(Stage::Parse);
        let (wanted, writer) = read(&reader, &body)?;
        drop(parsing);
        permit.seen.model(&wanted.served.name);
        let (names, chain) = beginnings(&wanted);
        Ok((wanted, writer, names, chain, permit))
    })
    .await?;
    let (found, covered) = find(gateway, owner, &wanted, &names).await.map_err(|fault| writer.placed(fault))?;
    let is_known = found.is_some();
    let bound = Bound::of(&wanted.served, &gateway.limits);
    let size = found.as_ref().map_or(length, |found| size_of(&wanted, found, covered));
    // A grammar takes longer than its schema looks.
    let size = if wanted.is_free() { gateway.size_of_work(size) } else { AT_ONCE + 1 };
    let (wanted, turn, permit) = sized(size, move || {
        let turn = Turn::make(&wanted, KnownPast { found, covered, chain }, bound, &permit.seen)?;
        Ok((wanted, turn, permit))
    })
    .await
    .map_err(|fault| writer.placed(fault))?;
    Ok(PreparedRequest { wanted, writer, turn, permit, is_known })
}

/// Answers a request of one API.
pub async fn exchange(
    gateway: Arc<Gateway>,
    owner: Owner,
    read: impl ReadBody,
    body: String,
    permit: Permit,
) -> Result<Response, Fault> {
    let PreparedRequest { mut wanted, mut writer, mut turn, permit, is_known } =
        prepare(&gateway, owner, read, body, permit).await?;
    let hosted = HostedCalls::begin(&gateway, owner, &wanted).await.map_err(|fault| writer.placed(fault))?;
    let (served, count) = (Arc::clone(&wanted.served), turn.ids.len());
    let fits = context::fit(&served.model, &served.engine, count, "messages", &mut wanted.sampling).await;
    fits.map_err(|fault| writer.placed(fault))?;
    // After this, nothing is left that could refuse the request before its calls begin.
    gateway.used_approvals.begin(&wanted.hosted.stored_approvals())?;
    gateway.observer.metrics.session(is_known);
    let usage = Usage { prompt: turn.ids.len() as u64, kept: turn.kept as u64, ..Usage::default() };
    permit.seen.prompt_ids(turn.ids.len(), turn.kept);
    let mut headers = defaults(&wanted.applied, !turn.stops.is_empty());
    if let Some(left_out) = left_out_header(&turn, &*writer) {
        headers.insert("x-rolecall-left-out", left_out);
    }
    if let Some(unkept) = names_header(not_enforced(&wanted, &turn)) {
        headers.insert("x-rolecall-not-enforced", unkept);
    }
    let new = turn.ids.len().saturating_sub(turn.kept);
    let session = format!("history={}; kept={}; new={new}", turn.history.name(), turn.kept);
    if let Ok(session) = HeaderValue::from_str(&session) {
        headers.insert("x-rolecall-session", session);
    }
    let (holds_calls, history, notes) = (turn.holds_calls, turn.history, std::mem::take(&mut turn.notes));
    if let Some(container) = hosted.as_ref().and_then(|hosted| hosted.container.as_ref()) {
        writer.contained(&container.id);
    }
    let (choices, is_streamed) = (wanted.choices, wanted.is_streamed);
    let ChatRequest { served, sampling, logprobs, .. } = &wanted;
    let order = Order { served, sampling, logprobs: *logprobs, choices, is_alone: choices == 1 };
    let waiting = permit.seen.time(Stage::Wait);
    let mut run = gateway.running.begin(owner, wanted.past.session());
    // The model replies to the results of what was approved. Until then, its turn was only made to check the request.
    let comes_first = hosted.as_ref().is_some_and(HostedCalls::comes_first);
    let usage = if comes_first { Usage::default() } else { usage };
    let begun = async {
        tokio::select! {
            biased;
            () = run.cancelled() => Err(cancelled()),
            begun = begin(&order, turn), if !comes_first => begun,
            () = async {}, if comes_first => Ok(Vec::new()),
        }
    };
    let replies = Replies::from(gateway.closing.or(begun).await??);
    drop(waiting);
    let wanted = Some(wanted);
    let exchange = Exchange {
        gateway,
        owner,
        wanted,
        writer,
        replies,
        choices,
        usage,
        holds_calls,
        history,
        notes,
        permit,
        run,
        hosted,
    };
    exchange.respond(is_streamed, headers).await
}

/// Answers a request whose prompts are no conversations.
pub async fn complete(
    gateway: Arc<Gateway>,
    owner: Owner,
    read: ReadTexts,
    body: String,
    permit: Permit,
) -> Result<Response, Fault> {
    let reader = Arc::clone(&gateway);
    let (mut completing, turns, writer, permit) = sized(gateway.size_of_work(body.len()), move || {
        // The texts of the prompts are encoded as they are read.
        let parsing = permit.seen.time(Stage::Parse);
        let (mut completing, writer) = read(&reader, &body)?;
        drop(parsing);
        permit.seen.model(&completing.served.name);
        let turns = completing.turns()?;
        Ok((completing, turns, writer, permit))
    })
    .await?;
    let prompt: usize = turns.iter().map(|turn| turn.ids.len()).sum();
    let longest = turns.iter().map(|turn| turn.ids.len()).max().unwrap_or_default();
    let (served, sampling) = (Arc::clone(&completing.served), &mut completing.sampling);
    context::fit(&served.model, &served.engine, longest, "prompt", sampling).await?;
    let has_stops = turns.iter().any(|turn| !turn.stops.is_empty());
    permit.seen.prompt_ids(prompt, 0);
    let usage = Usage { prompt: prompt as u64, ..Usage::default() };
    let choices = completing.choices;
    let CompletionRequest { served, sampling, logprobs, .. } = &completing;
    let order = Order { served, sampling, logprobs: *logprobs, choices, is_alone: turns.len() * choices == 1 };
    let waiting = permit.seen.time(Stage::Wait);
    let mut replies = Vec::new();
    for turn in turns {
        replies.extend(gateway.closing.or(begin(&order, turn)).await??);
    }
    drop(waiting);
    let replies = Replies::from(replies);
    let (wanted, holds_calls, history, notes) = (None, false, History::New, Vec::new());
    let (run, hosted) = (RunningTurn::default(), None);
    let mut headers = defaults(&completing.applied, has_stops);
    if let Some(as_text) = names_header(completing.as_text) {
        headers.insert("x-rolecall-as-text", as_text);
    }
    let exchange = Exchange {
        gateway,
        owner,
        wanted,
        writer,
        replies,
        choices,
        usage,
        holds_calls,
        history,
        notes,
        permit,
        run,
        hosted,
    };
    exchange.respond(completing.is_streamed, headers).await
}

/// Returns what the work for a conversation that goes on grows with: the new text, and unless the template
/// can be taken up where it ended, all ids.
fn size_of(wanted: &ChatRequest, found: &SessionTurn, covered: Overlap) -> usize {
    let new = wanted.instructions.iter().chain(&wanted.messages).skip(covered.count);
    // Calls and parts may be long.
    let new: usize = new.map(|message| message.plain_text().map_or(AT_ONCE, str::len)).sum();
    let ids = |session: &Session| if session.is_growing() { 0 } else { session.len() };
    new + found.past.session.as_ref().map_or(AT_ONCE + 1, ids)
}

/// Finds the conversation so far, and the request's messages that it has. `names` are the
/// digests of the messages' beginnings, with their numbers of messages.
pub(super) async fn find(
    gateway: &Gateway,
    owner: Owner,
    wanted: &ChatRequest,
    names: &[(usize, Chain)],
) -> Result<(Option<SessionTurn>, Overlap), Fault> {
    let model = &wanted.served.model;
    let count = |fault: &Fault| gateway.observer.metrics.store_fault(fault);
    let of_name =
        async |name: &String| gateway.sessions.find(owner, std::slice::from_ref(name), model).await.inspect_err(count);
    match &wanted.past {
        Past::Recognised => {}
        Past::New(name) => {
            let Some(found) = of_name(name).await? else { return Ok((None, Overlap::default())) };
            let sent = wanted.instructions.iter().chain(&wanted.messages);
            match Resend::of(sent, &found.past.messages, found.past.last.model == wanted.served.name)? {
                Resend::New => return Ok((Some(found), Overlap::default())),
                Resend::Repeated(count) => return Ok((Some(found), Overlap { count, are_first: false })),
                Resend::Instructed(count) => return Ok((Some(found), Overlap { count, are_first: true })),
                Resend::Another => {}
            }
        }
        Past::Known(name) => {
            let missing = || {
                let name = name.split_once(':').map_or(name.as_str(), |(_, name)| name);
                let message = format!("there is no response `{name}`");
                let help =
                    "it was deleted, or made with `store: false`, or is another key's: send the whole conversation";
                let help = Some(help.into());
                Fault { help, ..Fault::at("previous_response_id", FaultCode::PreviousResponseNotFound, message) }
            };
            return Ok((Some(of_name(name).await?.ok_or_else(missing)?), Overlap::default()));
        }
    }
    let digests: Vec<String> = names.iter().map(|(_, chain)| chain.name()).collect();
    let found = gateway.sessions.find(owner, &digests, model).await.inspect_err(count);
    // Without the store, what is in memory goes on, and anything else is rendered again.
    let found = found.unwrap_or_else(|_| gateway.sessions.recall(owner, &digests));
    let covered = found.as_ref().and_then(|found| names.get(found.name)).map_or(0, |(count, _)| *count);
    Ok((found, Overlap { count: covered, are_first: false }))
}

/// What replies to a prompt are wanted.
pub(super) struct Order<'a> {
    pub(super) served: &'a ServedModel,
    pub(super) sampling: &'a Sampling,
    /// The number of most likely tokens to report for each token.
    pub(super) logprobs: Option<u32>,
    pub(super) choices: usize,
    /// Whether the request has no other reply.
    pub(super) is_alone: bool,
}

/// Sends the prompt to the engine, once for each reply.
pub(super) async fn begin(order: &Order<'_>, mut turn: Turn) -> Result<Vec<LiveReply>, Fault> {
    let Order { served, sampling, choices, .. } = *order;
    let stop_ids: Vec<u32> = turn.stops.iter().map(|(id, _)| *id).collect();
    let stop_texts = match turn.text {
        Some(_) => {
            by_text::stop_texts(served, &stop_ids)?.into_iter().chain(served.stop_texts.iter().cloned()).collect()
        }
        None => Vec::new(),
    };
    let mut ask = Ask {
        ids: std::mem::take(&mut turn.ids),
        text: turn.text.take(),
        sampling: sampling.clone(),
        stop_ids,
        stop_texts,
        shape: turn.shape.take(),
        logprobs: order.logprobs,
        model: served.engine_model.clone(),
    };
    let mut replies = Vec::with_capacity(choices);
    let asks = (0..choices).map(|choice| {
        // The same seed would give the same reply.
        ask.sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(choice as u64));
        ask.clone()
    });
    for ask in asks {
        let generating = match order.is_alone {
            true => served.engine.generate(&ask).await?,
            false => served.engine.generate_when_read(ask),
        };
        let unsaid = order.logprobs.map(|_| PendingLogprobs::default());
        replies.push(LiveReply::new(&turn, generating, sampling, &served.stop_texts, served.model.decoder()?, unsaid));
    }
    Ok(replies)
}

/// Returns the error for a turn that a client cancelled before the reply began.
pub(super) fn cancelled() -> Fault {
    Fault::new(FaultCode::Cancelled, "a client cancelled the turn before its reply began")
}

/// The most bytes of a stream that are written together.
const AT_MOST: usize = 16 << 10;

impl Exchange {
    async fn respond(self, is_streamed: bool, headers: HeaderMap) -> Result<Response, Fault> {
        let mut response = match is_streamed {
            true => self.streamed().await?,
            false => self.whole().await?,
        };
        response.headers_mut().extend(headers);
        Ok(response)
    }

    /// Reads a piece of a reply, and writes what it says.
    async fn read(&mut self, (choice, piece): replies::NextPiece, out: &mut Frames) -> Result<(), Fault> {
        let Some(piece) = piece? else { return Ok(()) };
        let Exchange { replies, writer, permit, .. } = self;
        if let Some(reply) = replies.all.get_mut(choice) {
            let reading = permit.seen.time(Stage::ReadBack);
            writer.count(choice, reply.count_with(&piece));
            reply.take(&piece, &mut |step| match step {
                ReplyStep::Odds(odds) => writer.odds(choice, &odds),
                ReplyStep::TextOdds(odds) => writer.text_odds(choice, odds),
                ReplyStep::Event(event) => writer.event(choice, &event, out),
            })?;
            drop(reading);
            if reply.is_over() {
                reply.end().await;
            }
        }
        Ok(())
    }

    /// Waits for the next piece of any reply, and writes it. Returns false after the last.
    async fn step(&mut self, out: &mut Frames) -> Result<bool, Fault> {
        let waiting = self.replies.are_awaited().then(|| self.permit.seen.time(Stage::FirstToken));
        let found = tokio::select! {
            biased;
            () = self.run.cancelled() => {
                drop(waiting);
                self.cut(out).await?;
                return Ok(false);
            }
            found = self.replies.next() => found,
        };
        drop(waiting);
        let Some(found) = found else { return self.go_on(out).await };
        self.read(found, out).await?;
        Ok(true)
    }

    /// Ends the replies where they are. One that has no id yet is none.
    async fn cut(&mut self, out: &mut Frames) -> Result<(), Fault> {
        if self.replies.are_awaited() {
            return Err(cancelled());
        }
        for choice in 0..self.replies.all.len() {
            self.read((choice, Ok(Some(EnginePiece { end: Some(End::Length), ..EnginePiece::default() }))), out)
                .await?;
        }
        Ok(())
    }

    /// Takes a step, and writes what is there already, too.
    async fn advance(&mut self, out: &mut Frames) -> Result<bool, Fault> {
        if !self.step(out).await? {
            return Ok(false);
        }
        // A client gets what came at once at once, which takes one call of the system instead of many.
        let mut has_yielded = false;
        while out.len() < AT_MOST {
            match self.replies.next().now_or_never() {
                Some(Some(found)) => {
                    has_yielded = false;
                    self.read(found, out).await?;
                }
                Some(None) => return self.go_on(out).await,
                // Another task reads the connection, one piece at a time.
                None if !has_yielded => {
                    has_yielded = true;
                    yield_now().await;
                }
                None => break,
            }
        }
        Ok(true)
    }

    /// Stores what was said, and returns it. After this, the last events are written.
    async fn finish(&mut self) -> Result<Vec<WholeReply>, Fault> {
        for replies in self.replies.all.chunks(self.choices.max(1)) {
            let mut usage = Usage::default();
            replies.iter().for_each(|reply| reply.add_to(&mut usage));
            self.usage.add(&usage);
        }
        self.permit.seen.reply_ids(self.usage.reply);
        if let Some(wanted) = &self.wanted {
            let mut replies = self.replies.all.iter();
            replies.try_for_each(|reply| ignored_grammar::check(wanted, &self.notes, &reply.said, reply.is_cut()))?;
        }
        let said: Vec<WholeReply> = self.replies.all.iter().map(|reply| reply.said.clone()).collect();
        if let (Some(hosted), Some(wanted)) = (&self.hosted, &self.wanted) {
            hosted.remember(&self.gateway, self.owner, &wanted.names);
        }
        let results = self.hosted.as_ref().map_or(&[][..], HostedCalls::last_results);
        let response = self.writer.stored(&Done { said: &said, usage: &self.usage }, results);
        if let Some(wanted) = &self.wanted {
            for reply in &mut self.replies.all {
                let kept = reply.keep(&self.gateway, self.owner, wanted, response.clone()).await;
                kept.inspect_err(|fault| self.gateway.observer.metrics.store_fault(fault))?;
            }
            if let Some(name) = &wanted.forgets {
                self.gateway.sessions.forget(self.owner, name).await?;
            }
        }
        Ok(said)
    }

    /// Waits for the whole answer.
    async fn whole(mut self) -> Result<Response, Fault> {
        let mut unread = Frames::default();
        let opening = Opening { usage: &self.usage, holds_calls: self.holds_calls, history: self.history };
        self.writer.open(&opening);
        let gateway = Arc::clone(&self.gateway);
        let reading = async {
            while self.advance(&mut unread).await? {
                unread.take();
                // An engine that never pauses would keep the connection from being looked at, and a client that
                // leaves from being seen.
                consume_budget().await;
            }
            Ok::<(), Fault>(())
        };
        gateway.closing.or(reading).await??;
        let said = self.finish().await?;
        Ok(answer(&self.writer.whole(&Done { said: &said, usage: &self.usage })))
    }

    /// Returns the answer as a stream. The first ids are waited for, so that an engine that refuses the
    /// request gives an error with a status.
    ///
    /// A client that does not read for as long as the engine may pause is given up.
    async fn streamed(mut self) -> Result<Response, Fault> {
        let patience = self.gateway.limits.next_id;
        let mut out = Frames::default();
        let opening = Opening { usage: &self.usage, holds_calls: self.holds_calls, history: self.history };
        self.writer.open(&opening);
        self.writer.begin(&opening, &mut out);
        let begun = out.len();
        let gateway = Arc::clone(&self.gateway);
        let mut goes_on = true;
        let first = async {
            while goes_on && out.len() == begun {
                goes_on = self.step(&mut out).await?;
            }
            Ok::<(), Fault>(())
        };
        gateway.closing.or(first).await??;
        let (sender, receiver) = mpsc::channel::<String>(WAITING);
        tokio::spawn(async move {
            let reading = async {
                while goes_on {
                    if !out.is_empty() && sender.send_timeout(out.take(), patience).await.is_err() {
                        return Ok(false);
                    }
                    goes_on = tokio::select! {
                        () = sender.closed() => return Ok(false),
                        found = self.advance(&mut out) => found?,
                    };
                }
                Ok(true)
            };
            // The request was answered already, so that nobody else would report a panic.
            let read = guard_future(gateway.closing.or(reading)).await.map_err(Fault::from);
            match read.and_then(|read| read.and_then(|read| read)) {
                Ok(true) => {}
                // The client left.
                Ok(false) => return,
                Err(fault) => {
                    self.permit.seen.fault(fault.code);
                    self.writer.fault(&fault, &mut out);
                    let _ = sender.send_timeout(out.take(), patience).await;
                    return;
                }
            }
            let finished = guard_future(self.finish()).await.map_err(Fault::from);
            match finished.and_then(|finished| finished) {
                Ok(said) => {
                    let Exchange { replies, writer, usage, .. } = &mut self;
                    for (choice, reply) in replies.all.iter().enumerate() {
                        reply.stop(&mut |event| writer.event(choice, &event, &mut out));
                    }
                    writer.end(&Done { said: &said, usage }, &mut out);
                }
                Err(fault) => {
                    self.permit.seen.fault(fault.code);
                    self.writer.fault(&fault, &mut out);
                }
            }
            let _ = sender.send_timeout(out.take(), patience).await;
        });
        let body = stream::unfold(receiver, |mut receiver| async move {
            let text = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), receiver))
        });
        let mut response = Response::new(Body::from_stream(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// The most pieces that wait for a client to read them.
const WAITING: usize = 16;
