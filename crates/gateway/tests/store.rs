//! The store of conversations: the same laws in memory, in a file, and in Redis; then what can go wrong
//! with the file and with the server.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic to fail")]

use std::collections::HashSet;
use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rolecall_gateway::{Bounds, Fault, Owner, Store, StoreConfig, StoreFault, StoredTurn, TurnId};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

// ---------------------------------------------------------------- in each place

#[test]
fn a_turn_is_found_by_its_names_with_all_turns_before_it() {
    everywhere(DAY, async |store| {
        let (owner, chain) = (owner(), put_chain(&store, &owner(), "a", 5).await);
        let wanted = names(&["nothing", "a:3", "a:4"]);
        assert_eq!(store.find(&owner, &wanted).await.unwrap(), Some((1, chain[3].id.clone())));
        assert_eq!(store.chain(&owner, &chain[4].id).await.unwrap(), Some(chain.clone()));
        assert_eq!(store.chain(&owner, &chain[0].id).await.unwrap(), Some(vec![chain[0].clone()]));
        assert_eq!(store.find(&owner, &names(&["nothing"])).await.unwrap(), None);
        assert_eq!(store.find(&owner, &[]).await.unwrap(), None);
        assert_eq!(chain[4].id.root(), chain[0].id);
    });
}

#[test]
fn a_body_of_any_bytes_comes_back() {
    everywhere(DAY, async |store| {
        for body in [Vec::new(), vec![0; 3], (0..=255).collect(), vec![7; 300_000]] {
            let turn = StoredTurn::first(body);
            store.put(&owner(), &turn, &[]).await.unwrap();
            assert_eq!(store.chain(&owner(), &turn.id).await.unwrap(), Some(vec![turn]));
        }
    });
}

#[test]
fn a_name_moves_to_the_turn_that_was_put_last() {
    everywhere(DAY, async |store| {
        let first = StoredTurn::first(b"1".to_vec());
        let second = StoredTurn::after(&first.id, b"2".to_vec());
        let other = StoredTurn::first(b"other".to_vec());
        for turn in [&first, &second, &other] {
            store.put(&owner(), turn, &names(&["session:7", "session:7"])).await.unwrap();
            let found = store.find(&owner(), &names(&["session:7"])).await.unwrap();
            assert_eq!(found, Some((0, turn.id.clone())));
        }
        assert_eq!(store.chain(&owner(), &second.id).await.unwrap(), Some(vec![first, second]));
    });
}

#[test]
fn two_continuations_of_one_turn_fork() {
    everywhere(DAY, async |store| {
        let first = StoredTurn::first(b"1".to_vec());
        store.put(&owner(), &first, &[]).await.unwrap();
        let forks = ["left", "right"].map(|body| StoredTurn::after(&first.id, body.into()));
        for fork in &forks {
            store.put(&owner(), fork, &[]).await.unwrap();
        }
        for fork in forks {
            let chain = store.chain(&owner(), &fork.id).await.unwrap();
            assert_eq!(chain, Some(vec![first.clone(), fork]));
        }
    });
}

#[test]
fn nobody_else_finds_reads_continues_moves_or_forgets_anything() {
    everywhere(DAY, async |store| {
        let (mine, other) = (owner(), Owner::of_key("other"));
        let chain = put_chain(&store, &mine, "a", 2).await;
        assert_eq!(store.find(&other, &names(&["a:1"])).await.unwrap(), None);
        assert_eq!(store.chain(&other, &chain[1].id).await.unwrap(), None);
        assert!(store.forget(&other, "a:1").await.unwrap().is_none());
        let forged = StoredTurn::after(&chain[1].id, b"forged".to_vec());
        assert_eq!(store.put(&other, &forged, &names(&["a:1"])).await, Err(StoreFault::Gone));
        // The same name is another one.
        let theirs = StoredTurn::first(b"theirs".to_vec());
        store.put(&other, &theirs, &names(&["a:1"])).await.unwrap();
        assert_eq!(store.find(&mine, &names(&["a:1"])).await.unwrap(), Some((0, chain[1].id.clone())));
        assert!(store.forget(&other, "a:1").await.unwrap().is_some());
        assert_eq!(store.chain(&mine, &chain[1].id).await.unwrap(), Some(chain));
    });
}

#[test]
fn a_turn_whose_parent_is_not_stored_is_refused() {
    everywhere(DAY, async |store| {
        let lost = StoredTurn::first(b"1".to_vec());
        let turn = StoredTurn::after(&lost.id, b"2".to_vec());
        assert_eq!(store.put(&owner(), &turn, &names(&["a"])).await, Err(StoreFault::Gone));
        let wrong = StoredTurn { parent: None, ..turn };
        assert_eq!(store.put(&owner(), &wrong, &names(&["a"])).await, Err(StoreFault::Gone));
        assert_eq!(store.find(&owner(), &names(&["a"])).await.unwrap(), None);
    });
}

#[test]
fn a_turn_that_is_put_again_stays_as_it_was() {
    everywhere(DAY, async |store| {
        let chain = put_chain(&store, &owner(), "a", 2).await;
        store.put(&owner(), &chain[0], &names(&["again"])).await.unwrap();
        assert_eq!(store.find(&owner(), &names(&["again"])).await.unwrap(), Some((0, chain[0].id.clone())));
        assert_eq!(store.chain(&owner(), &chain[1].id).await.unwrap(), Some(chain));
    });
}

#[test]
fn what_no_name_leads_to_is_removed_when_a_name_is_forgotten() {
    everywhere(DAY, async |store| {
        let chain = put_chain(&store, &owner(), "a", 3).await;
        let fork = StoredTurn::after(&chain[0].id, b"fork".to_vec());
        store.put(&owner(), &fork, &names(&["fork"])).await.unwrap();
        // Others continue it.
        assert!(store.forget(&owner(), "a:1").await.unwrap().is_some());
        assert!(store.forget(&owner(), "a:1").await.unwrap().is_none());
        assert_eq!(store.chain(&owner(), &chain[2].id).await.unwrap(), Some(chain.clone()));
        // Only the fork is left.
        assert!(store.forget(&owner(), "a:2").await.unwrap().is_some());
        assert_eq!(store.chain(&owner(), &chain[2].id).await.unwrap(), None);
        assert_eq!(store.chain(&owner(), &chain[1].id).await.unwrap(), None);
        assert_eq!(store.chain(&owner(), &fork.id).await.unwrap(), Some(vec![chain[0].clone(), fork.clone()]));
        assert!(
            store.forget(&owner(), "a:0").await.unwrap().is_some()
                && store.forget(&owner(), "fork").await.unwrap().is_some()
        );
        assert_eq!(store.chain(&owner(), &chain[0].id).await.unwrap(), None);
    });
}

#[test]
fn conversations_that_nobody_uses_end_with_their_age() {
    everywhere(Duration::from_secs(2), async |store| {
        let used = put_chain(&store, &owner(), "used", 2).await;
        let idle = put_chain(&store, &owner(), "idle", 2).await;
        let until = Instant::now() + Duration::from_millis(3000);
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(300)).await;
            store.find(&owner(), &names(&["used:1"])).await.unwrap().unwrap();
        }
        assert_eq!(store.find(&owner(), &names(&["idle:0", "idle:1"])).await.unwrap(), None);
        assert_eq!(store.chain(&owner(), &idle[1].id).await.unwrap(), None);
        // All of its names live on, and not only the one that was used.
        assert_eq!(store.find(&owner(), &names(&["used:0"])).await.unwrap(), Some((0, used[0].id.clone())));
        assert_eq!(store.chain(&owner(), &used[1].id).await.unwrap(), Some(used));
    });
}

#[test]
fn puts_at_the_same_time_are_all_kept() {
    everywhere(DAY, async |store| {
        let first = StoredTurn::first(b"1".to_vec());
        store.put(&owner(), &first, &[]).await.unwrap();
        let tasks: Vec<_> = (0..200)
            .map(|at| {
                let (store, turn) = (store.clone(), StoredTurn::after(&first.id, vec![at; 100]));
                tokio::spawn(async move {
                    store.put(&owner(), &turn, &[format!("turn:{at}")]).await.unwrap();
                    turn
                })
            })
            .collect();
        for (at, task) in tasks.into_iter().enumerate() {
            let turn = task.await.unwrap();
            let found = store.find(&owner(), &[format!("turn:{at}")]).await.unwrap();
            assert_eq!(found, Some((0, turn.id.clone())));
            assert_eq!(store.chain(&owner(), &turn.id).await.unwrap(), Some(vec![first.clone(), turn]));
        }
    });
}

#[test]
fn a_name_leads_to_the_turn_with_the_largest_number() {
    in_memory_and_in_a_file(Bounds::default(), async |store| {
        let first = StoredTurn::first(b"1".to_vec());
        let start = store.put(&owner(), &first, &names(&["name"])).await.unwrap();
        let tasks: Vec<_> = (0..50)
            .map(|at| {
                let (store, turn) = (store.clone(), StoredTurn::after(&first.id, vec![at; 100]));
                tokio::spawn(async move { (store.put(&owner(), &turn, &names(&["name"])).await.unwrap(), turn.id) })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await.unwrap());
        }
        all.sort_by_key(|(number, _)| *number);
        assert!(start < all[0].0 && all.windows(2).all(|two| two[0].0 < two[1].0));
        let (last, id) = all.pop().unwrap();
        assert_eq!(store.find(&owner(), &names(&["name"])).await.unwrap(), Some((0, id)));
        let gone = store.forget(&owner(), "name").await.unwrap().unwrap();
        let again = StoredTurn::first(b"2".to_vec());
        assert!(last < gone && gone <= store.put(&owner(), &again, &names(&["name"])).await.unwrap());
    });
}

#[test]
fn faults_have_a_status_a_code_and_help() {
    let faults = [
        (StoreFault::Down(String::new()), 503, "store_down"),
        (StoreFault::Full(String::new()), 507, "store_full"),
        (StoreFault::Damaged(String::new()), 500, "store_damaged"),
        (StoreFault::Locked(String::new()), 503, "store_locked"),
        (StoreFault::Version(String::new()), 500, "store_version"),
        (StoreFault::TooLarge { bytes: 2, most: 1 }, 413, "conversation_too_large"),
        (StoreFault::Gone, 409, "conversation_gone"),
        (StoreFault::Refused(String::new()), 500, "store_refused"),
    ];
    for (fault, status, code) in faults {
        let fault = Fault::from(fault);
        assert_eq!((fault.status, fault.code.name()), (status, code));
        assert!(fault.help.is_some() && fault.retry_after.is_some() == (status == 503));
    }
}

// ---------------------------------------------------------------- bounds

#[test]
fn the_least_recently_used_conversations_make_space() {
    in_memory_and_in_a_file(Bounds { most_bytes: 200_000, most_age: DAY }, async |store| {
        let mut all = Vec::new();
        for at in 0..8 {
            all.push(put_sized(&store, &format!("{at}"), 4, 3000).await);
        }
        // 16 KiB of turns and some names each.
        store.chain(&owner(), &all[0][3].id).await.unwrap().unwrap();
        for at in 8..14 {
            all.push(put_sized(&store, &format!("{at}"), 4, 3000).await);
        }
        let mut kept = Vec::new();
        for (at, chain) in all.iter().enumerate() {
            let found = store.find(&owner(), &[format!("{at}:3")]).await.unwrap();
            let read = store.chain(&owner(), &chain[3].id).await.unwrap();
            assert_eq!(found.is_some(), read.is_some());
            if let Some(read) = read {
                assert_eq!(&read, chain);
                kept.push(at);
            }
        }
        assert_eq!(kept, [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "the one that was read stays, and the last ones");
    });
}

#[test]
fn a_name_that_moved_outlives_the_conversation_that_had_it() {
    in_memory_and_in_a_file(Bounds { most_bytes: 100_000, most_age: DAY }, async |store| {
        let first = StoredTurn::first(vec![1; 3000]);
        let second = StoredTurn::first(vec![2; 3000]);
        for turn in [&first, &second] {
            store.put(&owner(), turn, &names(&["shared"])).await.unwrap();
        }
        for at in 0..40 {
            put_sized(&store, &format!("{at}"), 1, 3000).await;
            let found = store.find(&owner(), &names(&["shared"])).await.unwrap();
            assert_eq!(found, Some((0, second.id.clone())), "{at}");
        }
        assert_eq!(store.chain(&owner(), &first.id).await.unwrap(), None, "it made space");
    });
}

#[test]
fn a_conversation_larger_than_the_bound_is_refused_and_the_others_stay() {
    in_memory_and_in_a_file(Bounds { most_bytes: 100_000, most_age: DAY }, async |store| {
        let small = put_sized(&store, "small", 2, 1000).await;
        let huge = StoredTurn::first(vec![1; 200_000]);
        let refused = store.put(&owner(), &huge, &names(&["huge", "small:0"])).await;
        assert!(matches!(refused, Err(StoreFault::TooLarge { bytes: 200_000.., most: 100_000 })), "{refused:?}");
        assert_eq!(store.find(&owner(), &names(&["huge"])).await.unwrap(), None);
        assert_eq!(store.find(&owner(), &names(&["small:0"])).await.unwrap(), Some((0, small[0].id.clone())));
        // One that grows is never its own victim.
        let mut chain = vec![StoredTurn::first(vec![2; 3000])];
        let mut full = None;
        for at in 0..100 {
            match store.put(&owner(), &chain[at], &[]).await {
                Ok(_) => chain.push(StoredTurn::after(&chain[at].id, vec![2; 3000])),
                Err(fault) => {
                    full = Some(fault);
                    break;
                }
            }
        }
        assert!(matches!(full, Some(StoreFault::TooLarge { .. })), "{full:?}");
        chain.pop();
        assert!(chain.len() > 20);
        let last = chain.last().unwrap().id.clone();
        assert_eq!(store.chain(&owner(), &last).await.unwrap(), Some(chain));
    });
}

#[test]
fn a_file_stays_within_three_times_its_bytes() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        for size in [100, 1500, 3000, 30_000] {
            let path = folder.path().join(format!("{size}"));
            let most_bytes = 8 << 20;
            let store = embedded(&path, Bounds { most_bytes, most_age: DAY }).await.unwrap();
            let puts = 24 * 1024 * 1024 / (size + 400);
            let tasks: Vec<_> = (0..16)
                .map(|task| {
                    let store = store.clone();
                    tokio::spawn(async move {
                        for at in 0..puts.min(16_000) / 64 {
                            put_sized(&store, &format!("{task}:{at}"), 4, size).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            store.close().await;
            let bytes = fs::metadata(&path).unwrap().len();
            println!("{size} bytes a turn: {bytes} bytes");
            assert!(bytes <= 3 * most_bytes, "{size}: {bytes}");
        }
    });
}

// ---------------------------------------------------------------- the file

#[test]
fn a_file_keeps_its_turns() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = embedded(&path, Bounds::default()).await.unwrap();
        let chain = put_chain(&store, &owner(), "a", 5).await;
        store.close().await;
        for name in ["a:1", "nothing"] {
            assert!(matches!(store.find(&owner(), &names(&[name])).await, Err(StoreFault::Down(_))));
        }
        assert!(matches!(store.put(&owner(), &chain[0], &[]).await, Err(StoreFault::Down(_))));
        let store = embedded(&path, Bounds::default()).await.unwrap();
        assert_eq!(store.find(&owner(), &names(&["a:4"])).await.unwrap(), Some((0, chain[4].id.clone())));
        assert_eq!(store.chain(&owner(), &chain[4].id).await.unwrap(), Some(chain));
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["store"]);
    });
}

#[test]
fn names_are_found_in_a_file_however_many_there_were() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = embedded(&path, Bounds::default()).await.unwrap();
        let mut turns = Vec::new();
        // The filter of names is made again on the way.
        for count in [70_000, 1, 70_000, 1, 140_000, 1] {
            let turn = StoredTurn::first(Vec::new());
            let own: Vec<String> = (0..count).map(|number| format!("{} {number}", turns.len())).collect();
            store.put(&owner(), &turn, &own).await.unwrap();
            turns.push((turn.id, own));
            are_found(&store, &turns).await;
        }
        store.close().await;
        let store = embedded(&path, Bounds::default()).await.unwrap();
        are_found(&store, &turns).await;
        assert!(store.forget(&owner(), "0 5").await.unwrap().is_some());
        assert_eq!(store.find(&owner(), &names(&["0 5"])).await.unwrap(), None);
    });

    async fn are_found(store: &Store, turns: &[(TurnId, Vec<String>)]) {
        for (id, own) in turns {
            for name in own.iter().step_by(own.len() / 10 + 1).chain(own.last()) {
                let wanted = ["nothing".to_owned(), name.clone()];
                assert_eq!(store.find(&owner(), &wanted).await.unwrap(), Some((1, id.clone())), "{name}");
            }
        }
    }
}

#[test]
fn a_file_has_one_gateway() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = embedded(&path, Bounds::default()).await.unwrap();
        let second = embedded(&path, Bounds::default()).await;
        assert!(matches!(second, Err(StoreFault::Locked(_))), "{second:?}");
        store.close().await;
        embedded(&path, Bounds::default()).await.unwrap();
    });
}

#[test]
fn a_path_that_cannot_be_used_is_refused() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        for path in [folder.path().join("missing/store"), folder.path().to_owned()] {
            let opened = embedded(&path, Bounds::default()).await;
            assert!(matches!(opened, Err(StoreFault::Refused(_))), "{opened:?}");
        }
    });
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        for text in ["", "key = 1\n", &"x".repeat(100_000)] {
            let path = folder.path().join("other");
            fs::write(&path, text).unwrap();
            let opened = embedded(&path, Bounds::default()).await;
            assert!(matches!(opened, Err(StoreFault::Damaged(_))), "{opened:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    });
}

#[test]
fn what_a_killed_process_left_of_a_new_file_does_not_matter() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        for left in [vec![], vec![0; 100], vec![0; 1 << 20]] {
            let path = folder.path().join(format!("store{}", left.len()));
            fs::write(path.with_extension("new"), left).unwrap();
            let store = embedded(&path, Bounds::default()).await.unwrap();
            put_chain(&store, &owner(), "a", 2).await;
        }
    });
}

#[test]
fn a_truncated_file_is_reported() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        let (bytes, ids) = written(folder.path()).await;
        let path = folder.path().join("cut");
        let mut seen = Vec::new();
        for at in 0..60 {
            let length = if at < 20 { at * 37 } else { bytes.len() * (at - 20) / 40 };
            fs::write(&path, &bytes[..length]).unwrap();
            seen.push(used(&path, &ids).await);
        }
        assert!(seen.iter().all(|seen| *seen == Seen::Refused), "{seen:?}");
    });
}

#[test]
fn changed_bytes_are_reported_or_do_not_matter() {
    in_runtime(async {
        let folder = TempDir::new().unwrap();
        let (bytes, ids) = written(folder.path()).await;
        let path = folder.path().join("changed");
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap()
        };
        let (mut refused, mut whole) = (0, 0);
        for round in 0..150 {
            let mut changed = bytes.clone();
            // The header, then anywhere.
            let range = if round < 50 { 512 } else { bytes.len() };
            for _ in 0..1 + next() % 3 {
                let at = next() % range;
                changed[at] ^= u8::try_from(1 + next() % 255).unwrap();
            }
            fs::write(&path, &changed).unwrap();
            match used(&path, &ids).await {
                Seen::Refused => refused += 1,
                Seen::Whole => whole += 1,
            }
        }
        println!("{refused} refused, {whole} whole");
        assert!(refused > 50);
    });
}

#[test]
fn no_turn_is_lost_when_the_process_is_killed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let mut reported: Vec<(TurnId, String)> = Vec::new();
    for round in 0..25_u64 {
        let mut child = child("a_process_that_writes", &path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        let reader =
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| sender.send(line).unwrap()));
        // Sometimes it is killed while it opens the file.
        if round % 5 != 4 {
            let mut turns = 0;
            while turns < 6 {
                let found = report(&receiver.recv_timeout(Duration::from_secs(60)).unwrap());
                turns += usize::from(found.is_some());
                reported.extend(found);
            }
        }
        std::thread::sleep(Duration::from_millis(round * 7 % 50));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        reported.extend(receiver.try_iter().filter_map(|line| report(&line)));
    }
    assert!(reported.len() > 100, "{}", reported.len());
    println!("{} turns were reported", reported.len());
    in_runtime(async {
        let store = embedded(&path, Bounds::default()).await.unwrap();
        for (id, name) in reported {
            let found = store.find(&owner(), std::slice::from_ref(&name)).await.unwrap();
            assert_eq!(found, Some((0, id.clone())), "{name}");
            let chain = store.chain(&owner(), &id).await.unwrap().unwrap();
            assert_eq!(chain.last().unwrap().body, body_of(&name));
        }
    });
}

/// Not a test of its own: the process that [`no_turn_is_lost_when_the_process_is_killed`] kills.
#[test]
fn a_process_that_writes() {
    let Some(path) = child_path() else { return };
    in_runtime(async {
        let store = embedded(&path, Bounds::default()).await.unwrap();
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut parent: Option<TurnId> = None;
                    for at in 0..10_000 {
                        let name = format!("{}-{task}-{at}", std::process::id());
                        let body = body_of(&name);
                        let turn = match &parent {
                            Some(parent) => StoredTurn::after(parent, body),
                            None => StoredTurn::first(body),
                        };
                        store.put(&owner(), &turn, std::slice::from_ref(&name)).await.unwrap();
                        // In one write, past the capture of the test's output.
                        std::io::stdout().write_all(format!("durable {} {name}\n", turn.id).as_bytes()).unwrap();
                        parent = (at % 20 != 19).then_some(turn.id);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_full_disk_is_reported_and_the_store_goes_on_when_there_is_space() {
    let folder = TempDir::new().unwrap();
    let script = "mount -t tmpfs -o size=6m tmpfs \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    let can = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg("true")
        .stderr(Stdio::null())
        .status();
    if !can.is_ok_and(|status| status.success()) {
        return say_skipped("no full disk was tried, because this system lets us mount none");
    }
    let run = command
        .arg(std::env::current_exe().unwrap())
        .args(["store::a_process_on_a_small_disk", "--exact", "--nocapture"])
        .env("ROLECALL_STORE", folder.path().join("store"))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && output.contains("it went on"), "{output}{}", String::from_utf8_lossy(&run.stderr));
}

/// Not a test of its own: what [`a_full_disk_is_reported_and_the_store_goes_on_when_there_is_space`] runs.
#[test]
fn a_process_on_a_small_disk() {
    let Some(path) = child_path() else { return };
    in_runtime(async {
        let ballast = path.with_extension("ballast");
        fs::write(&ballast, vec![1; 2 << 20]).unwrap();
        let store = embedded(&path, Bounds::default()).await.unwrap();
        let mut kept = Vec::new();
        for round in 0..3 {
            let fault = loop {
                let turn = StoredTurn::first(vec![2; 50_000]);
                match store.put(&owner(), &turn, &[]).await {
                    Ok(_) => kept.push(turn),
                    Err(fault) => break fault,
                }
                assert!(kept.len() < 1000);
            };
            assert!(matches!(fault, StoreFault::Full(_)), "{fault:?}");
            // It stays like this, and what was kept can be read if the database can be opened.
            let again = store.put(&owner(), &StoredTurn::first(vec![2; 50_000]), &[]).await;
            assert!(again.is_err(), "{again:?}");
            if round == 2 {
                break;
            }
            fs::write(&ballast, vec![1; (1 - round) << 20]).unwrap();
            tokio::time::sleep(Duration::from_millis(1100)).await;
            for turn in &kept {
                assert_eq!(store.chain(&owner(), &turn.id).await.unwrap(), Some(vec![turn.clone()]));
            }
            let turn = StoredTurn::first(vec![2; 50_000]);
            store.put(&owner(), &turn, &[]).await.unwrap();
            kept.push(turn);
        }
        println!("it went on with {} turns", kept.len());
    });
}

// ---------------------------------------------------------------- Redis

#[test]
fn redis_may_disappear_and_return() {
    in_runtime(async {
        let Some(mut redis) = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
        let store = redis.store(DAY).await;
        let chain = put_chain(&store, &owner(), "a", 3).await;
        redis.kill();
        for _ in 0..3 {
            let began = Instant::now();
            let found = store.find(&owner(), &names(&["a:1"])).await;
            assert!(matches!(found, Err(StoreFault::Down(_))), "{found:?}");
            let put = store.put(&owner(), &chain[0], &[]).await;
            assert!(matches!(put, Err(StoreFault::Down(_))), "{put:?}");
            assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        }
        redis.run();
        // A connection that was being made when it returned may still fail.
        let returned = Instant::now();
        while store.find(&owner(), &[]).await.is_err() {
            assert!(returned.elapsed() < Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(store.chain(&owner(), &chain[2].id).await.unwrap(), Some(chain.clone()));
        let more = StoredTurn::after(&chain[2].id, b"more".to_vec());
        store.put(&owner(), &more, &[]).await.unwrap();
        // It is there, but does not answer.
        redis.signal("STOP");
        let began = Instant::now();
        let found = store.find(&owner(), &names(&["a:1"])).await;
        assert!(matches!(found, Err(StoreFault::Down(_))), "{found:?}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        redis.signal("CONT");
        assert_eq!(store.find(&owner(), &names(&["a:1"])).await.unwrap(), Some((0, chain[1].id.clone())));
    });
}

#[test]
fn several_gateways_share_one_redis() {
    in_runtime(async {
        let Some(redis) = Redis::start(&[]) else { return };
        let (one, two) = (redis.store(DAY).await, redis.store(DAY).await);
        let chain = put_chain(&one, &owner(), "a", 2).await;
        let more = StoredTurn::after(&chain[1].id, b"more".to_vec());
        two.put(&owner(), &more, &names(&["a:1"])).await.unwrap();
        assert_eq!(one.find(&owner(), &names(&["a:1"])).await.unwrap(), Some((0, more.id.clone())));
        assert_eq!(one.chain(&owner(), &more.id).await.unwrap().unwrap().len(), 3);
    });
}

#[test]
fn the_address_of_redis_has_the_password_and_the_database() {
    in_runtime(async {
        let Some(redis) = Redis::start(&["--requirepass", "hunter2"]) else { return };
        let open = |url: String| async move { Store::open(&StoreConfig::Shared { url, most_age: DAY }).await };
        let address = format!("127.0.0.1:{}", redis.port);
        let three = open(format!("redis://:hunter2@{address}/3")).await.unwrap();
        let four = open(format!("redis://:hunter2@{address}/4")).await.unwrap();
        put_chain(&three, &owner(), "a", 1).await;
        assert!(three.find(&owner(), &names(&["a:0"])).await.unwrap().is_some());
        assert!(four.find(&owner(), &names(&["a:0"])).await.unwrap().is_none());
        for url in [format!("redis://{address}"), format!("redis://:wrong@{address}"), "http://example".to_owned()] {
            let opened = open(url.clone()).await;
            assert!(matches!(opened, Err(StoreFault::Refused(_))), "{url}: {opened:?}");
        }
        let free = free_port();
        let opened = open(format!("redis://127.0.0.1:{free}")).await;
        assert!(matches!(opened, Err(StoreFault::Down(_))), "{opened:?}");
        let shown = format!("{:?}", StoreConfig::Shared { url: "redis://:hunter2@host".into(), most_age: DAY });
        assert!(!shown.contains("hunter2"), "{shown}");
    });
}

#[test]
fn a_redis_without_memory_is_full_and_goes_on_later() {
    in_runtime(async {
        let Some(redis) = Redis::start(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]) else { return };
        let store = redis.store(DAY).await;
        let mut kept: Vec<String> = Vec::new();
        let fault = loop {
            let name = format!("{}", kept.len());
            match store.put(&owner(), &StoredTurn::first(vec![1; 50_000]), std::slice::from_ref(&name)).await {
                Ok(_) => kept.push(name),
                Err(fault) => break fault,
            }
            assert!(kept.len() < 1000);
        };
        assert!(matches!(fault, StoreFault::Full(_)), "{fault:?}");
        assert!(store.find(&owner(), &kept[..1]).await.unwrap().is_some());
        for name in &kept {
            assert!(store.forget(&owner(), name).await.unwrap().is_some());
        }
        store.put(&owner(), &StoredTurn::first(vec![1; 50_000]), &[]).await.unwrap();
    });
}

#[test]
fn a_redis_that_evicts_keeps_conversations_whole() {
    in_runtime(async {
        let Some(redis) = Redis::start(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]) else { return };
        let store = redis.store(DAY).await;
        let mut all = Vec::new();
        for at in 0..100 {
            // Redis may evict a conversation between its turns, of which the second then has no parent.
            match try_put_sized(&store, &format!("{at}"), 2, 20_000).await {
                Ok(chain) => all.push((at, chain)),
                Err(fault) => assert!(matches!(fault, StoreFault::Gone), "{fault:?}"),
            }
        }
        let mut kept = 0;
        for (at, chain) in &all {
            let found = store.find(&owner(), &[format!("{at}:1")]).await.unwrap();
            if let Some((_, id)) = found {
                assert_eq!(store.chain(&owner(), &id).await.unwrap().as_ref(), Some(chain));
                kept += 1;
            }
        }
        assert!((1..100).contains(&kept), "{kept}");
    });
}

#[test]
fn foreign_values_in_redis_are_reported() {
    in_runtime(async {
        let Some(redis) = Redis::start(&[]) else { return };
        let store = redis.store(DAY).await;
        let chain = put_chain(&store, &owner(), "a", 2).await;
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let keys: Vec<String> = redis::cmd("KEYS").arg("rolecall:*:c:*").query_async(&mut connection).await.unwrap();
        for key in keys {
            let fields: Vec<String> = redis::cmd("HKEYS").arg(&key).query_async(&mut connection).await.unwrap();
            for field in fields.iter().filter(|field| field.starts_with('t')) {
                let mut set = redis::cmd("HSET");
                set.arg(&key).arg(field).arg("nonsense").query_async::<()>(&mut connection).await.unwrap();
            }
        }
        let read = store.chain(&owner(), &chain[1].id).await;
        assert!(matches!(read, Err(StoreFault::Damaged(_))), "{read:?}");
        redis::cmd("FLUSHDB").query_async::<()>(&mut connection).await.unwrap();
        assert_eq!(store.chain(&owner(), &chain[1].id).await.unwrap(), None);
    });
}

// ---------------------------------------------------------------- how

/// Runs a test in memory, in a file, and in Redis if it is installed.
fn everywhere<F: Future<Output = ()>>(most_age: Duration, test: impl Fn(Store) -> F) {
    in_memory_and_in_a_file(Bounds { most_age, ..Bounds::default() }, &test);
    in_runtime(async {
        let Some(redis) = Redis::start(&[]) else { return };
        test(redis.store(most_age).await).await;
    });
}

fn in_memory_and_in_a_file<F: Future<Output = ()>>(bounds: Bounds, test: impl Fn(Store) -> F) {
    in_runtime(async {
        test(Store::open(&StoreConfig::Memory(bounds)).await.unwrap()).await;
        let folder = TempDir::new().unwrap();
        test(embedded(&folder.path().join("store"), bounds).await.unwrap()).await;
    });
}

fn in_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

async fn embedded(path: &Path, bounds: Bounds) -> Result<Store, StoreFault> {
    Store::open(&StoreConfig::Embedded { path: path.to_owned(), bounds }).await
}

fn owner() -> Owner {
    Owner::of_key("mine")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Puts a conversation, with the names `name:0` and so on.
async fn put_chain(store: &Store, owner: &Owner, name: &str, turns: usize) -> Vec<StoredTurn> {
    let mut chain: Vec<StoredTurn> = Vec::new();
    for at in 0..turns {
        let body = format!("{name} {at}").into_bytes();
        let turn = match chain.last() {
            Some(last) => StoredTurn::after(&last.id, body),
            None => StoredTurn::first(body),
        };
        store.put(owner, &turn, &[format!("{name}:{at}")]).await.unwrap();
        chain.push(turn);
    }
    chain
}

async fn put_sized(store: &Store, name: &str, turns: usize, size: usize) -> Vec<StoredTurn> {
    try_put_sized(store, name, turns, size).await.unwrap()
}

async fn try_put_sized(store: &Store, name: &str, turns: usize, size: usize) -> Result<Vec<StoredTurn>, StoreFault> {
    let mut chain: Vec<StoredTurn> = Vec::new();
    for at in 0..turns {
        let body = vec![u8::try_from(at).unwrap(); size];
        let turn = match chain.last() {
            Some(last) => StoredTurn::after(&last.id, body),
            None => StoredTurn::first(body),
        };
        store.put(&owner(), &turn, &[format!("{name}:{at}")]).await?;
        chain.push(turn);
    }
    Ok(chain)
}

/// Returns the bytes of a file with some conversations, and their last turns.
async fn written(folder: &Path) -> (Vec<u8>, Vec<TurnId>) {
    let path = folder.join("written");
    let store = embedded(&path, Bounds::default()).await.unwrap();
    let mut ids = Vec::new();
    for at in 0..10 {
        ids.push(put_sized(&store, &format!("{at}"), 10, 500 + at * 700).await.pop().unwrap().id);
    }
    store.close().await;
    (fs::read(&path).unwrap(), ids)
}

#[derive(Debug, PartialEq)]
enum Seen {
    /// It could not be opened, or not be read or written.
    Refused,
    /// Everything was there.
    Whole,
}

/// Opens a file that may be damaged and uses it. What it says must be true.
async fn used(path: &Path, ids: &[TurnId]) -> Seen {
    let began = Instant::now();
    let opened = embedded(path, Bounds::default()).await;
    let seen = match &opened {
        Err(StoreFault::Damaged(_) | StoreFault::Version(_)) => Seen::Refused,
        Err(fault) => panic!("{fault:?}"),
        Ok(store) => read(store, ids).await,
    };
    if let Ok(store) = opened {
        store.close().await;
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    seen
}

async fn read(store: &Store, ids: &[TurnId]) -> Seen {
    for (at, id) in ids.iter().enumerate() {
        match store.find(&owner(), &[format!("{at}:9")]).await {
            Ok(found) => assert_eq!(found, Some((0, id.clone()))),
            Err(StoreFault::Damaged(_)) => return Seen::Refused,
            Err(fault) => panic!("{fault:?}"),
        }
        match store.chain(&owner(), id).await {
            Ok(chain) => {
                let chain = chain.unwrap();
                assert_eq!(chain.len(), 10);
                for (turn, stored) in chain.iter().enumerate() {
                    assert_eq!(stored.body, vec![u8::try_from(turn).unwrap(); 500 + at * 700]);
                }
            }
            Err(StoreFault::Damaged(_)) => return Seen::Refused,
            Err(fault) => panic!("{fault:?}"),
        }
    }
    match store.put(&owner(), &StoredTurn::first(vec![1; 10_000]), &names(&["new"])).await {
        Ok(_) => Seen::Whole,
        Err(StoreFault::Damaged(_)) => Seen::Refused,
        Err(fault) => panic!("{fault:?}"),
    }
}

/// Runs a test of this file in a process of its own.
fn child(test: &str, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("store::{test}"), "--exact", "--nocapture"]).env("ROLECALL_STORE", path);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn child_path() -> Option<PathBuf> {
    std::env::var_os("ROLECALL_STORE").map(PathBuf::from)
}

/// Reads `durable ID NAME`. The last line may be cut.
fn report(line: &str) -> Option<(TurnId, String)> {
    // The first line follows the harness's own text.
    let (_, line) = line.split_once("durable ")?;
    let (id, name) = line.split_once(' ')?;
    Some((TurnId::of_text(id)?, name.to_owned()))
}

fn body_of(name: &str) -> Vec<u8> {
    name.as_bytes().repeat(1 + name.len() * 7 % 90)
}

/// A server of Redis, which ends with the test.
struct Redis {
    folder: TempDir,
    port: u16,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Redis {
    fn start(arguments: &[&str]) -> Option<Redis> {
        let can = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            say_skipped("nothing was tried with Redis, because there is no redis-server");
            return None;
        }
        let arguments = names(arguments);
        let mut redis = Redis { folder: TempDir::new().unwrap(), port: free_port(), arguments, process: None };
        redis.run();
        Some(redis)
    }

    fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        command.arg(self.folder.path()).args(&self.arguments).stdout(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < until, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    async fn store(&self, most_age: Duration) -> Store {
        let url = format!("redis://127.0.0.1:{}", self.port);
        Store::open(&StoreConfig::Shared { url, most_age }).await.unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reports what is not tested here, where `rolecall_testkit::say_skipped` reports it.
fn say_skipped(what: &str) {
    // If stderr is closed, there is nowhere else to report to.
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
    let Some(record) = std::env::var_os("ROLECALL_SKIPPED") else { return };
    let thread = std::thread::current();
    let line = format!("store {}\t{what}\n", thread.name().unwrap_or_default());
    let mut record = fs::OpenOptions::new().append(true).create(true).open(record).unwrap();
    record.write_all(line.as_bytes()).unwrap();
}

/// Returns a port that no other test of this process got.
fn free_port() -> u16 {
    static TAKEN: std::sync::Mutex<Option<HashSet<u16>>> = std::sync::Mutex::new(None);
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if TAKEN.lock().unwrap().get_or_insert_default().insert(port) {
            return port;
        }
    }
}
