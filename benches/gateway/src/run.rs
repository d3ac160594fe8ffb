//! The benchmark from its start to its end.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::Outcome;
use crate::client::Client;
use crate::conversations::{Chat, Filling, Template, head, once, text};
use crate::figures::{Figures, quantile};
use crate::grpc::{Prompt, message};
use crate::load::{self, Script, check, fresh};
use crate::process::{Process, wait_for};
use crate::{steady, turns};

/// The cores: one for the load and the stand-in, one for the gateway that is measured.
const LOAD_CORE: usize = 0;
const GATEWAY_CORE: usize = 1;

/// The ports of the stand-in that answers at once, and of the slow one. Those of the gateways follow.
const PORTS: [u16; 2] = [47300, 47310];

/// The stand-in and the gateways.
struct Servers {
    _engine: Process,
    engine: String,
    /// The last is smg.
    gateways: Vec<Gateway>,
}

/// A gateway in front of the stand-in.
struct Gateway {
    name: &'static str,
    address: String,
    process: Process,
    /// Whether it speaks gRPC with the stand-in, and has no sessions.
    is_smg: bool,
}

/// The programs.
struct Programs<'a> {
    model: &'a str,
    rolecall: &'a str,
    smg: &'a str,
}

const CASES: [(&str, Chat); 3] = [
    ("1 message", Chat { messages: 1, words: 20, ids: 16, is_streamed: false }),
    ("1 message, streamed", Chat { messages: 1, words: 20, ids: 50, is_streamed: true }),
    ("200 messages", Chat { messages: 200, words: 50, ids: 16, is_streamed: false }),
];

const AT_ONCE: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(1);

/// Runs all parts, or those that are named: `gateways`, `turns`, `streams`.
pub async fn run(model: &str, rolecall: &str, smg: &str, only: &[&str]) -> Outcome<()> {
    let programs = Programs { model, rolecall, smg };
    let is_wanted = |part: &str| only.is_empty() || only.contains(&part);
    if is_wanted("gateways") || is_wanted("turns") {
        let servers = start(&programs, PORTS[0], 0).await?;
        compare(&servers).await?;
        if is_wanted("gateways") {
            gateways(&servers).await?;
        }
        if is_wanted("turns") {
            for words in [50, 500] {
                conversations(&servers, words).await?;
            }
        }
    }
    if is_wanted("streams") {
        let servers = start(&programs, PORTS[1], steady::PAUSE).await?;
        streams(&servers).await?;
    }
    Ok(())
}

async fn start(programs: &Programs<'_>, port: u16, pause: u64) -> Outcome<Servers> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let Programs { model, rolecall, smg } = programs;
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let arguments = words(format!("stand-in {port} {model} {pause}"));
    let stand_in = Process::start(LOAD_CORE, &own, &arguments, "rolecall-bench-engine.log")?;
    wait_for(port).await?;
    let file = std::env::temp_dir().join(format!("rolecall-bench-{port}.redb")).to_string_lossy().into_owned();
    // A store of an earlier run would know its conversations.
    let _ = std::fs::remove_file(&file);
    let mut gateways = Vec::new();
    for (at, name, store) in [(1, "rolecall", "memory"), (2, "rolecall, file", file.as_str())] {
        let arguments = words(format!(
            "serve --model {model} --name model --engine http://127.0.0.1:{port} --engine-kind sglang \
             --listen 127.0.0.1:{} --store-at {store}",
            port + at
        ));
        let process = Process::start(GATEWAY_CORE, rolecall, &arguments, &format!("rolecall-bench-{at}.log"))?;
        gateways.push(Gateway { name, address: format!("127.0.0.1:{}", port + at), process, is_smg: false });
    }
    let arguments = words(format!(
        "launch --host 127.0.0.1 --port {} --worker-urls grpc://127.0.0.1:{port} --model-path {model} \
         --policy round_robin --log-level warn --max-concurrent-requests 4096 --prometheus-port {}",
        port + 3,
        port + 4
    ));
    let process = Process::start(GATEWAY_CORE, smg, &arguments, "rolecall-bench-smg.log")?;
    gateways.push(Gateway { name: "smg", address: format!("127.0.0.1:{}", port + 3), process, is_smg: true });
    for at in 1..=3 {
        wait_for(port + at).await?;
    }
    let servers = Servers { _engine: stand_in, engine: format!("127.0.0.1:{port}"), gateways };
    reply_with_words(&servers).await?;
    // A gateway may listen before it has its tokenizer.
    let short = CASES[0].1.unseen();
    for gateway in &servers.gateways {
        let mut tries = 0;
        while let Err(error) = once(&gateway.address, &short, &Filling::default()).await {
            tries += 1;
            if tries == 300 {
                return Err(format!("{} does not answer: {error}", gateway.name).into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(servers)
}

/// Makes the stand-in reply with ids of words.
async fn reply_with_words(servers: &Servers) -> Outcome<()> {
    let body = format!("{{\"model\":\"model\",\"text\":\"{}\"}}", text(1000, 40));
    let answer = post(&servers.gateways[0].address, "/tokenize", &body).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let ids = answer.get("tokens").ok_or("expected `tokens`")?;
    post(&servers.engine, "/reply", &ids.to_string()).await?;
    Ok(())
}

/// Compares the ids that the gateways send to the engine.
async fn compare(servers: &Servers) -> Outcome<()> {
    let again = CASES[2].1.again().1;
    let all =
        [("1 message", CASES[0].1.unseen()), ("200 messages", CASES[2].1.unseen()), ("200 messages, again", again)];
    for (name, template) in all {
        let filling = Filling { fresh: fresh(), round: fresh(), said: text(2000, 10), ..Filling::default() };
        servers.send_to_all(&template, &filling).await?;
        let (one, other) = (servers.http_ids().await?, servers.grpc_ids().await?);
        match one == other {
            true => println!("{name}: {} ids are equal", one.len()),
            false => {
                let at = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
                println!("{name}: {} and {} ids, which differ from number {at} on", one.len(), other.len());
            }
        }
    }
    println!();
    Ok(())
}

/// Measures the gateways and the stand-in in turn.
async fn gateways(servers: &Servers) -> Outcome<()> {
    println!(
        "{:<20} {:>7}  {:<15} {:>8} {:>8} {:>8} {:>7}   {:>6} {:>6} {:>6}",
        "case", "at once", "gateway", "rate/s", "+p50", "+p99", "CPU", "× rate", "× p50", "× p99"
    );
    for (name, chat) in CASES {
        let script = Script::of(chat.unseen());
        servers.send_to_all(&script.next, &Filling::default()).await?;
        let alone = servers.alone().await?;
        for at_once in AT_ONCE {
            let mut own: [Vec<Figures>; 2] = Default::default();
            let mut all: Vec<Vec<Figures>> = vec![Vec::new(); servers.gateways.len()];
            for _ in 0..ROUNDS {
                for (own, figures) in own.iter_mut().zip(alone.measure(at_once).await?) {
                    own.push(figures);
                }
                for (all, Gateway { address, process, .. }) in all.iter_mut().zip(&servers.gateways) {
                    all.push(load::run(address, &script, at_once, TIME, Some(process)).await?);
                }
            }
            let own = own.map(Figures::middle);
            let all: Vec<Figures> = all.into_iter().map(Figures::middle).collect();
            print_rows(name, at_once, &own, &all, servers, |figures| &figures.whole);
            if chat.is_streamed {
                print_rows("  to the first text", at_once, &own, &all, servers, |figures| &figures.first);
            }
        }
    }
    println!();
    Ok(())
}

/// Prints the stand-in alone and the gateways, which are compared with the last, smg.
fn print_rows(
    name: &str,
    at_once: usize,
    own: &[Figures; 2],
    all: &[Figures],
    servers: &Servers,
    times: fn(&Figures) -> &Vec<f64>,
) {
    let row = |gateway: &str| format!("{name:<20} {at_once:>7}  {gateway:<15}");
    for (wire, own) in ["engine, HTTP", "engine, gRPC"].iter().zip(own) {
        let [half, most] = [0.5, 0.99].map(|part| quantile(times(own), part));
        println!("{} {:>8.0} {half:>8.3} {most:>8.3}", row(wire), own.rate);
    }
    let added = |figures: &Figures, gateway: &Gateway| {
        let own = &own[usize::from(gateway.is_smg)];
        [0.5, 0.99].map(|part| quantile(times(figures), part) - quantile(times(own), part))
    };
    let (Some(peer), Some(last)) = (all.last(), servers.gateways.last()) else { return };
    let theirs = added(peer, last);
    for (figures, gateway) in all.iter().zip(&servers.gateways) {
        let [half, most] = added(figures, gateway);
        let ratios = match gateway.is_smg {
            true => String::new(),
            false => {
                let rate = figures.rate / peer.rate;
                format!("   {rate:>6.1} {:>6.1} {:>6.1}", theirs[0] / half, theirs[1] / most)
            }
        };
        let row = row(gateway.name);
        println!("{row} {:>8.0} {half:>8.3} {most:>8.3} {:>7.3}{ratios}", figures.rate, figures.processor);
    }
}

/// Measures a turn of a conversation of 200 messages.
async fn conversations(servers: &Servers, words: usize) -> Outcome<()> {
    let chat = Chat { messages: 200, words, ids: 16, is_streamed: true };
    servers.send_to_all(&chat.unseen(), &Filling::default()).await?;
    let count = servers.http_ids().await?.len();
    let alone = servers.alone().await?;
    let mut own: [Vec<Figures>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (own, figures) in own.iter_mut().zip(alone.measure(1).await?) {
            own.push(figures);
        }
    }
    let own = own.map(Figures::middle);
    println!("a turn of 200 messages of {words} words, {count} ids, one at a time");
    println!(
        "{:<15} {:<21} {:>9} {:>8} {:>9} {:>8} {:>8}   {:>6} {:>6}",
        "gateway", "how it is sent", "first p50", "p99", "whole p50", "p99", "CPU", "×", "× smg"
    );
    let mut rows = Vec::new();
    for gateway in &servers.gateways {
        let own = &own[usize::from(gateway.is_smg)];
        let ways = turns::ways(&chat, &gateway.address, !gateway.is_smg).await;
        for turn in turns::measure(&gateway.address, &ways, ROUNDS, TIME, &gateway.process).await? {
            let added = |times: fn(&Figures) -> &Vec<f64>| {
                [0.5, 0.99].map(|part| quantile(times(&turn.figures), part) - quantile(times(own), part))
            };
            let (first, whole) = (added(|figures| &figures.first), added(|figures| &figures.whole));
            rows.push((gateway.name, turn.name, first, whole, turn.figures.processor));
        }
    }
    let unseen = |gateway: &str| {
        let row = rows.iter().find(|(of, name, ..)| *of == gateway && *name == "unseen");
        row.map_or(f64::NAN, |(_, _, first, ..)| first[0])
    };
    for (gateway, name, first, whole, processor) in &rows {
        let (own, smg) = (unseen(gateway) / first[0], unseen("smg") / first[0]);
        println!(
            "{gateway:<15} {name:<21} {:>9.3} {:>8.3} {:>9.3} {:>8.3} {processor:>8.3}   {own:>6.1} {smg:>6.1}",
            first[0], first[1], whole[0], whole[1],
        );
    }
    println!();
    Ok(())
}

/// Measures many slow streams.
async fn streams(servers: &Servers) -> Outcome<()> {
    println!(
        "{:<15} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>11} {:>7} {:>8} {:>8} {:>6}",
        "gateway", "idle MiB", "10 s", "end", "most", "end/10 s", "KiB/stream", "whole", "+p50", "+p99", "CPU s"
    );
    for Gateway { name, address, process, .. } in &servers.gateways {
        let found = steady::run(address, process).await?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{name:<15} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.2}   {:>11.1} {:>7} {:>8.1} {:>8.1} {:>6.1}",
            mib(found.idle),
            mib(found.at_ten),
            mib(found.at_end),
            mib(found.most),
            found.at_end as f64 / found.at_ten as f64,
            found.most.saturating_sub(found.idle) as f64 / 1024.0 / 1000.0,
            found.whole,
            quantile(&found.added, 0.5),
            quantile(&found.added, 0.99),
            found.processor.as_secs_f64(),
        );
    }
    println!();
    Ok(())
}

/// The stand-in, asked directly with what the gateways last sent.
struct Alone {
    address: String,
    http: Script,
    grpc: Bytes,
}

impl Alone {
    /// Measures both wire formats.
    async fn measure(&self, at_once: usize) -> Outcome<[Figures; 2]> {
        Ok([
            load::run(&self.address, &self.http, at_once, TIME, None).await?,
            load::run_grpc(&self.address, self.grpc.clone(), at_once, TIME).await?,
        ])
    }
}

impl Servers {
    async fn send_to_all(&self, template: &Template, filling: &Filling) -> Outcome<()> {
        for gateway in &self.gateways {
            once(&gateway.address, template, filling).await?;
        }
        Ok(())
    }

    async fn alone(&self) -> Outcome<Alone> {
        let (http, grpc) = self.last().await?;
        let http = Script::of(Template::new("/generate", std::str::from_utf8(&http)?));
        Ok(Alone { address: self.engine.clone(), http, grpc })
    }

    /// Returns the last requests that the stand-in got, by HTTP and by gRPC.
    async fn last(&self) -> Outcome<(Vec<u8>, Bytes)> {
        let http = post(&self.engine, "/last/http", "").await?;
        Ok((http, post(&self.engine, "/last/grpc", "").await?.into()))
    }

    async fn http_ids(&self) -> Outcome<Vec<u32>> {
        let body: Value = serde_json::from_slice(&self.last().await?.0)?;
        Ok(serde_json::from_value(body.get("input_ids").ok_or("expected `input_ids`")?.clone())?)
    }

    async fn grpc_ids(&self) -> Outcome<Vec<u32>> {
        let prompt: Prompt = message(&self.last().await?.1)?;
        Ok(prompt.tokenized.unwrap_or_default().input_ids)
    }
}

async fn post(address: &str, path: &str, body: &str) -> Outcome<Vec<u8>> {
    let mut client = Client::open(address).await?;
    let answer = client.send(format!("{}{body}", head(path, body.len())).as_bytes()).await?;
    check(&answer, &client)?;
    Ok(client.body)
}
