//! Measures the store: puts with 1 and 64 clients, and a conversation of 200 turns that is found and read.
//!
//! `cargo run --release -p rolecall-gateway --example store_speed -- FOLDER [redis://HOST:PORT]`

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use rolecall_gateway::{Bounds, Owner, Store, StoreConfig, StoredTurn};

/// The bytes of a turn.
const BODY: usize = 2000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder")?;
    let path = Path::new(&folder).join("store_speed");
    let bounds = Bounds::default();
    let mut places =
        vec![("memory", StoreConfig::Memory(bounds)), ("file", StoreConfig::Embedded { path: path.clone(), bounds })];
    if let Some(url) = arguments.next() {
        places.push(("redis", StoreConfig::Shared { url, most_age: bounds.most_age }));
    }
    for (name, config) in &places {
        let began = Instant::now();
        let store = Store::open(config).await?;
        let opened = began.elapsed();
        let one = puts(&store, 1, 500).await?;
        let many = puts(&store, 64, 200).await?;
        let (find, chain) = reads(&store).await?;
        println!("{name}: open {opened:.1?}, puts/s with 1 client {one:.0}, with 64 {many:.0}");
        println!("{name}: of 200 turns: find p50 {:.1?} p99 {:.1?}", find.0, find.1);
        println!("{name}: of 200 turns: chain p50 {:.1?} p99 {:.1?}", chain.0, chain.1);
        store.close().await;
    }
    let began = Instant::now();
    let store = Store::open(&places[1].1).await?;
    println!("file: open {} bytes {:.1?}", std::fs::metadata(&path)?.len(), began.elapsed());
    store.close().await;
    Ok(())
}

/// Returns how many turns are put in a second.
async fn puts(store: &Store, clients: u32, each: u32) -> Result<f64, Box<dyn Error>> {
    let owner = Owner::of_key("speed");
    let began = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut turn = StoredTurn::first(vec![1; BODY]);
                for at in 0..each {
                    let names = [format!("response:{clients}-{client}-{at}"), format!("session:{clients}-{client}")];
                    store.put(&owner, &turn, &names).await?;
                    turn = StoredTurn::after(&turn.id, vec![1; BODY]);
                }
                Ok::<(), rolecall_gateway::StoreFault>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(f64::from(clients * each) / began.elapsed().as_secs_f64())
}

type Times = (Duration, Duration);

/// Returns p50 and p99 of finding a conversation and of reading it.
async fn reads(store: &Store) -> Result<(Times, Times), Box<dyn Error>> {
    let owner = Owner::of_key("speed");
    let mut turn = StoredTurn::first(vec![1; BODY]);
    for at in 0..200 {
        store.put(&owner, &turn, &[format!("response:{at}")]).await?;
        if at < 199 {
            turn = StoredTurn::after(&turn.id, vec![1; BODY]);
        }
    }
    let names = ["history:a".to_owned(), "history:b".to_owned(), "response:199".to_owned()];
    let (mut finds, mut chains) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let began = Instant::now();
        let (_, id) = store.find(&owner, &names).await?.ok_or("not found")?;
        finds.push(began.elapsed());
        let began = Instant::now();
        let chain = store.chain(&owner, &id).await?.ok_or("not found")?;
        chains.push(began.elapsed());
        assert_eq!(chain.len(), 200);
    }
    Ok((times(finds), times(chains)))
}

fn times(mut times: Vec<Duration>) -> Times {
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
