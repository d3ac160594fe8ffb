//! Compares turning conversations into ids and loss masks with Python's peers: transformers with a
//! tagged template, transformers with a rendering for each turn, and the package `renderers`.
//!
//!     cargo bench -p rolecall-benches --bench training [-- FOLDER]
//!
//! FOLDER contains `tokenizers/qwen3` and `templates`; the default is ../shared next to the project.
//! For a missing template, only the one written for this benchmark is used. The peers need a
//! `python3` with their packages, for example that of a virtual environment:
//!
//!     python3 -m venv peers
//!     peers/bin/pip install transformers==5.23.0 jinja2==3.1.6 renderers==0.1.12 httpx
//!     PATH="$PWD/peers/bin:$PATH" taskset -c 0 cargo bench -p rolecall-benches --bench training

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rolecall::loss::{self, LossPolicy};
use rolecall::model::{ModelPrompt, Purpose};
use rolecall::template::ModelTemplates;
use rolecall::{Model, Request};

mod conversations;
mod peers;

use peers::{Answer, Peers};

/// The numbers of messages of the groups of conversations, and the number of conversations in all
/// groups.
const MESSAGES: [usize; 3] = [3, 9, 20];
const CONVERSATIONS: usize = 1000;
const ROUNDS: usize = 3;
/// The number of measurements of rolecall in a round, which are short.
const PASSES: usize = 5;
/// The token that ends a turn.
const STOP: &str = "<|im_end|>";

/// A template, and the peers that make the same ids with it.
struct Case {
    name: &'static str,
    /// A file of the folder, or the template that was written for this benchmark.
    source: Result<&'static str, &'static str>,
    switches: &'static [(&'static str, &'static str)],
    peers: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case { name: "own, keeps reasoning", source: Err(OWN), switches: &[], peers: &["by tag", "by turns"] },
    Case {
        name: "own, drops reasoning",
        source: Err(OWN),
        switches: &[("keep_thinking", "false")],
        peers: &["renderers"],
    },
    Case {
        name: "trl--qwen3_training",
        source: Ok("trl--qwen3_training.jinja"),
        switches: &[],
        peers: &["by tag", "by turns"],
    },
    Case { name: "trl--qwen3", source: Ok("trl--qwen3.jinja"), switches: &[], peers: &["renderers"] },
];
const OWN: &str = include_str!("../templates/training.jinja");

fn main() {
    let folder = rolecall_benches::folder();
    let Some(tokenizer) = rolecall_benches::tokenizer_in(&folder) else { return };
    let groups = conversations::groups(MESSAGES, CONVERSATIONS);
    for case in &CASES {
        let source = match case.source {
            Err(own) => own.to_owned(),
            Ok(file) => match std::fs::read_to_string(folder.join("templates").join(file)) {
                Ok(source) => source,
                Err(_) => {
                    println!("{}: no {file} in {}\n", case.name, folder.join("templates").display());
                    continue;
                }
            },
        };
        let python = Peers::start(&tokenizer, &source, case.switches, &groups);
        match &python {
            Some(python) => println!("{}; {}", case.name, python.versions),
            None => println!("{}; no python3 with transformers found, so its columns are left out", case.name),
        }
        measure(case, Ours::new(&tokenizer, source, case, &groups), python);
        println!();
    }
    println!(
        "times in ms for each conversation, medians of {ROUNDS} rounds in which all take turns, on one thread each;"
    );
    println!(
        "rolecall: from parsed requests, with the derived mask; by its tags: with the mask of the template's tags;"
    );
    println!("from JSON: from the text of requests; by tag: `return_assistant_tokens_mask` of transformers; by turns:");
    println!("renderings up to each reply; renderers: `build_training_sample`; ×: time of the peer / time of rolecall");
}

/// The time of one contestant for each group, in each measurement.
struct Times<'a> {
    name: &'a str,
    /// The number of measurements in a round.
    passes: usize,
    run: Box<dyn FnMut(usize) -> Duration + 'a>,
    measured: Vec<[Duration; MESSAGES.len()]>,
}

impl<'a> Times<'a> {
    fn new(name: &'a str, passes: usize, run: impl FnMut(usize) -> Duration + 'a) -> Times<'a> {
        Times { name, passes, run: Box::new(run), measured: Vec::new() }
    }

    fn run_round(&mut self) {
        // The contestant before pushed the code and data of this one out of the caches.
        (self.run)(0);
        for _ in 0..self.passes {
            let mut times = [Duration::ZERO; MESSAGES.len()];
            for (group, time) in times.iter_mut().enumerate() {
                *time = (self.run)(group);
            }
            self.measured.push(times);
        }
    }

    /// Returns the median of the time for these groups.
    fn median(&self, groups: &[usize]) -> Duration {
        let sum = |times: &[Duration; MESSAGES.len()]| groups.iter().map(|group| times[*group]).sum();
        let mut sums: Vec<Duration> = self.measured.iter().map(sum).collect();
        sums.sort();
        sums[sums.len() / 2]
    }
}

fn measure(case: &Case, ours: Ours, python: Option<Peers>) {
    let has_tags = ours.source.contains("endgeneration");
    let peers: Vec<&str> = match &python {
        Some(python) => {
            case.peers.iter().copied().filter(|peer| python.names.iter().any(|known| known == peer)).collect()
        }
        None => Vec::new(),
    };
    let python = RefCell::new(python);
    for peer in &peers {
        if let Some(python) = &mut *python.borrow_mut() {
            ours.compare(peer, &python.answers(peer));
        }
    }
    let derived = LossPolicy::assistant();
    let mut tagged = LossPolicy::assistant();
    tagged.tagged = true;
    let mut contestants = vec![
        Times::new("rolecall", PASSES, |group| ours.time(group, &derived)),
        Times::new("from JSON", PASSES, |group| ours.time_from_json(group, &derived)),
    ];
    if has_tags {
        contestants.push(Times::new("by its tags", PASSES, |group| ours.time(group, &tagged)));
    }
    for peer in &peers {
        let python = &python;
        contestants.push(Times::new(peer, 1, move |group| {
            python.borrow_mut().as_mut().map(|python| python.time(peer, group)).unwrap_or_default()
        }));
    }
    for _ in 0..ROUNDS {
        contestants.iter_mut().for_each(Times::run_round);
    }
    print_times(&ours, &contestants, peers.len());
    ours.print_shares(&derived);
}

fn print_times(ours: &Ours, contestants: &[Times<'_>], peers: usize) {
    print!("{:>8} {:>13} {:>8}", "messages", "conversations", "ids");
    for contestant in contestants {
        print!(" {:>12}", contestant.name);
    }
    for peer in &contestants[contestants.len() - peers..] {
        print!(" {:>12}", format!("× {}", peer.name));
    }
    println!();
    let all: Vec<usize> = (0..MESSAGES.len()).collect();
    let rows = all.iter().map(|group| vec![*group]).chain([all.clone()]);
    for groups in rows {
        let count: usize = groups.iter().map(|group| ours.groups[*group].len()).sum();
        let ids: usize = groups.iter().map(|group| ours.ids(*group)).sum();
        let label = if groups.len() == 1 { MESSAGES[groups[0]].to_string() } else { "all".to_owned() };
        print!("{label:>8} {count:>13} {:>8}", ids / count);
        let times: Vec<f64> = contestants
            .iter()
            .map(|contestant| contestant.median(&groups).as_secs_f64() * 1e3 / count as f64)
            .collect();
        times.iter().for_each(|time| print!(" {time:>12.4}"));
        times[times.len() - peers..].iter().for_each(|time| print!(" {:>12.1}", time / times[0]));
        println!();
    }
}

/// A conversation as a request, as JSON text, and its ids and mask.
struct Input {
    request: Arc<Request>,
    text: String,
    sample: Sample,
}

/// What trains a model.
struct Sample {
    ids: Vec<u32>,
    mask: Vec<bool>,
}

struct Ours {
    model: Model,
    source: String,
    stop: u32,
    groups: Vec<Vec<Input>>,
}

impl Ours {
    fn new(tokenizer: &Path, source: String, case: &Case, groups: &[Vec<String>]) -> Ours {
        let templates = ModelTemplates::from_json(&source.as_str().into()).expect("a template");
        let mut builder = Model::builder().templates(templates).tokenizer(tokenizer).eos_token(STOP);
        for (name, value) in case.switches {
            builder = builder.option(*name, *value);
        }
        let model = builder.open().expect("a model");
        let stop = model.tokenizer().expect("it loads").token_id(STOP).expect("it has the token");
        let policy = LossPolicy::assistant();
        let input = |text: &String| {
            let request = Arc::new(Request::from_text(text).expect("a request"));
            let sample = sample(&model, &request, &policy);
            Input { request, text: text.clone(), sample }
        };
        let groups = groups.iter().map(|group| group.iter().map(input).collect()).collect();
        Ours { model, source, stop, groups }
    }

    /// Returns the number of ids of a group.
    fn ids(&self, group: usize) -> usize {
        self.groups[group].iter().map(|input| input.sample.ids.len()).sum()
    }

    fn time(&self, group: usize, policy: &LossPolicy) -> Duration {
        let start = Instant::now();
        for input in &self.groups[group] {
            black_box(sample(&self.model, &input.request, policy));
        }
        start.elapsed()
    }

    fn time_from_json(&self, group: usize, policy: &LossPolicy) -> Duration {
        let start = Instant::now();
        for input in &self.groups[group] {
            let request = Arc::new(Request::from_text(&input.text).expect("a request"));
            black_box(sample(&self.model, &request, policy));
        }
        start.elapsed()
    }

    /// Checks that a peer makes the same ids, and the same mask except for a line break after the
    /// token that stops the model.
    fn compare(&self, peer: &str, answers: &[Answer]) {
        let inputs: Vec<&Input> = self.groups.iter().flatten().collect();
        assert_eq!(answers.len(), inputs.len(), "{peer} answers each conversation");
        let (mut ids, mut counted, mut breaks) = (0, 0, 0);
        for (input, answer) in inputs.iter().zip(answers) {
            let Sample { ids: own, mask } = &input.sample;
            assert!(*own == answer.ids, "{peer}: the ids differ for {}", input.text);
            ids += own.len();
            for at in 0..own.len() {
                let is_break = at > 0 && own[at - 1] == self.stop && mask[at - 1];
                let is_more = answer.mask[at] && !mask[at];
                let is_right = answer.mask[at] == mask[at] || is_more && is_break;
                assert!(is_right, "{peer}: the mask of token {at} differs in {}", input.text);
                counted += usize::from(mask[at]);
                breaks += usize::from(is_more);
            }
        }
        println!(
            "{peer}: {ids} ids are equal; {counted} count in both masks, and {breaks} only in its own, after a stop"
        );
    }

    /// Prints how much of the time each step takes.
    fn print_shares(&self, policy: &LossPolicy) {
        let mut times = [Duration::ZERO; 4];
        for input in self.groups.iter().flatten() {
            let mut last = Instant::now();
            let mut lap = |time: &mut Duration| *time += std::mem::replace(&mut last, Instant::now()).elapsed();
            let [render, encode, replies, mask] = &mut times;
            let prompt = rendered(&self.model, &input.request);
            lap(render);
            let encoded = prompt.encode().expect("it encodes");
            lap(encode);
            let loss = prompt.loss(policy).expect("it has replies");
            lap(replies);
            black_box((encoded.ids(), loss::mask(&encoded, &loss).collect::<Vec<bool>>()));
            lap(mask);
        }
        let total: Duration = times.iter().sum();
        let shares = times.map(|time| 100.0 * time.as_secs_f64() / total.as_secs_f64());
        let [render, encode, replies, mask] = shares;
        println!(
            "of rolecall's time: rendering {render:.0} %, encoding {encode:.0} %, finding replies with their probes \
             {replies:.0} %, mask {mask:.0} %"
        );
    }
}

fn rendered(model: &Model, request: &Arc<Request>) -> ModelPrompt {
    model.prompt_for(Arc::clone(request), Purpose::Training).expect("it renders")
}

fn sample(model: &Model, request: &Arc<Request>, policy: &LossPolicy) -> Sample {
    let prompt = rendered(model, request);
    let encoded = prompt.encode().expect("it encodes");
    let loss = prompt.loss(policy).expect("it has replies");
    Sample { ids: encoded.ids(), mask: loss::mask(&encoded, &loss).collect() }
}
