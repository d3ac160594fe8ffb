use crate::clock::random;

/// Returns what the ids of an answer and of its items have in common.
pub fn new() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// Returns the id of an answer.
pub fn answer_id(own: &str) -> String {
    format!("resp_{own}")
}

/// Returns the id of an item.
pub fn item_id(kind: &str, own: &str, index: usize) -> String {
    format!("{kind}_{own}_{index}")
}

/// Returns the id of an item of one of an answer's replies: of a later one, its kind has the number.
pub fn reply_item_id(kind: &str, round: usize, own: &str, index: usize) -> String {
    match round {
        0 => item_id(kind, own, index),
        round => item_id(&format!("{kind}{round}"), own, index),
    }
}

/// Returns which answer an item is of, if the gateway made its id.
pub fn answer_of(item_id: &str) -> Option<&str> {
    parts_of(item_id).map(|(_, own)| own)
}

/// Returns which reply an item is of, if the gateway made its id: the number of the reply, and its answer.
pub fn reply_of(item_id: &str) -> Option<String> {
    let (kind, own) = parts_of(item_id)?;
    Some(format!("{}_{own}", kind.trim_start_matches(|c: char| !c.is_ascii_digit())))
}

/// Returns the kind of an item, if the gateway made its id.
pub fn kind_of(item_id: &str) -> Option<&str> {
    parts_of(item_id).map(|(kind, _)| kind.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn parts_of(item_id: &str) -> Option<(&str, &str)> {
    let (start, index) = item_id.rsplit_once('_')?;
    let (kind, own) = start.split_once('_')?;
    (own.len() == 32 && index.bytes().all(|byte| byte.is_ascii_digit())).then_some((kind, own))
}
