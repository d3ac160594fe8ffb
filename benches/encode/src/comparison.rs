//! The ids of all libraries, compared with rolecall's. Differences are printed, and the libraries are
//! measured all the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::documents::cut;
use crate::model::Model;
use crate::peers::{Encoder, Library};

/// Prints how the ids compare, and returns the libraries that encode.
pub fn compare(model: &Model, libraries: &[Library], text: &str) -> Vec<Library> {
    let documents = cut(text, 8 << 10);
    let mut ours = match Library::Rolecall.load(model) {
        Ok(ours) => ours,
        Err(error) => {
            println!("{:<16} rolecall does not load it: {error}", model.name);
            return Vec::new();
        }
    };
    let mut encoding = vec![Library::Rolecall];
    for library in libraries.iter().copied().filter(|library| *library != Library::Rolecall) {
        let outcome = match library.load(model) {
            Ok(mut peer) => {
                encoding.push(library);
                catch_unwind(AssertUnwindSafe(|| differences(&mut *ours, &mut *peer, &documents))).unwrap_or_else(
                    |_| {
                        encoding.pop();
                        "it panics".to_owned()
                    },
                )
            }
            Err(error) => format!("not measured: {}", error.chars().take(110).collect::<String>()),
        };
        println!("{:<16} {:<12} {outcome}", model.name, library.name());
    }
    encoding
}

fn differences(ours: &mut dyn Encoder, peer: &mut dyn Encoder, documents: &[&str]) -> String {
    let mut different = 0;
    let mut first = String::new();
    for (at, document) in documents.iter().enumerate() {
        let (our_ids, peer_ids) = (ours.ids(document), peer.ids(document));
        if our_ids == peer_ids {
            continue;
        }
        different += 1;
        if first.is_empty() {
            first = difference(ours, our_ids, peer_ids, at);
        }
    }
    match different {
        0 => format!("equal in all {} documents", documents.len()),
        _ => format!("DIFFERENT in {different} of {} documents; {first}", documents.len()),
    }
}

/// Describes the first difference of a document.
fn difference(
    ours: &dyn Encoder,
    our_ids: Result<Vec<u32>, String>,
    peer_ids: Result<Vec<u32>, String>,
    document: usize,
) -> String {
    let (our_ids, peer_ids) = match (our_ids, peer_ids) {
        (Ok(our_ids), Ok(peer_ids)) => (our_ids, peer_ids),
        (Err(error), _) => return format!("the first: document {document}, rolecall: {error}"),
        (_, Err(error)) => return format!("the first: document {document}, the peer: {error}"),
    };
    let at = our_ids.iter().zip(&peer_ids).take_while(|(a, b)| a == b).count();
    let some = |ids: &[u32]| ids.iter().skip(at).take(4).copied().collect::<Vec<u32>>();
    let decode = |ids: &[u32]| ours.decode(ids).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (our_part, peer_part) = (some(&our_ids), some(&peer_ids));
    format!(
        "the first: document {document}, id {at}, rolecall {our_part:?} {:?}, the peer {peer_part:?} {:?}",
        decode(&our_part).unwrap_or_default(),
        decode(&peer_part).unwrap_or_default()
    )
}
