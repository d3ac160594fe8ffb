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

/// Returns which answer an item is of, if the gateway made its id.
pub fn answer_of(item_id: &str) -> Option<&str> {
    let (start, index) = item_id.rsplit_once('_')?;
    let (_, own) = start.split_once('_')?;
    (own.len() == 32 && index.bytes().all(|byte| byte.is_ascii_digit())).then_some(own)
}
