use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use rolecall::session::Session;
use rolecall_text::common_items;

/// The ids of a prompt, and the digits of them that engines get.
///
/// Most ids of a conversation that goes on were sent before. [`PromptIds::of_session`] takes their digits
/// over from the turn before, and writes only those of the others. It knows that ids are the same where
/// both sessions share them, and compares the others.
#[derive(Clone, Default)]
pub struct PromptIds {
    /// Each has more than twice as many ids as the next, so there are few, and ids are seldom written again.
    parts: Vec<IdRun>,
    len: usize,
    /// The session that has just these ids.
    session: Option<Session>,
}

/// Ids after each other.
#[derive(Clone, Debug)]
struct IdRun {
    /// Only the first `len` belong to the prompt.
    ids: Arc<[u32]>,
    len: usize,
    /// Their digits, with a comma before each id but the first of the prompt.
    digits: Bytes,
}

impl PromptIds {
    /// Returns the ids of a session. `known` is of a turn before.
    pub fn of_session(known: &PromptIds, session: &Session) -> PromptIds {
        let common = known.session.as_ref().map_or(0, |before| session.common_ids(before));
        let ids = PromptIds::after(known, common, |first| session.ids_from(first));
        PromptIds { session: Some(session.clone()), ..ids }
    }

    /// Returns ids of which the first `common` ones are those of `known`. `from` returns those after the
    /// first ones.
    fn after(known: &PromptIds, common: usize, from: impl Fn(usize) -> Vec<u32>) -> PromptIds {
        let mut end = 0;
        let sure = known.parts.iter().take_while(|part| {
            end += part.len;
            end <= common
        });
        let mut parts: Vec<IdRun> = sure.cloned().collect();
        let others = known.parts.iter().skip(parts.len());
        let start: usize = parts.iter().map(|part| part.len).sum();
        let after = from(start);
        let (len, mut rest) = (start + after.len(), &after[..]);
        for part in others {
            let same = common_items(&part.ids[..part.len], rest);
            let Some(kept) = part.cut(same) else { break };
            let is_whole = kept.len == part.len;
            parts.push(kept);
            rest = &rest[same..];
            if !is_whole {
                break;
            }
        }
        if !rest.is_empty() {
            let mut new = rest.len();
            while let Some(last) = parts.pop_if(|last| last.len <= 2 * new) {
                new += last.len;
            }
            parts.push(IdRun::new(&from(len - new), new == len));
        }
        PromptIds { parts, len, session: None }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the ids.
    pub fn to_vec(&self) -> Vec<u32> {
        self.slices().flatten().copied().collect()
    }

    /// Returns the number of ids at the start that are the same.
    pub fn common(&self, other: &PromptIds) -> usize {
        let (mut mine, mut theirs) = (self.slices(), other.slices());
        let (mut one, mut two): (&[u32], &[u32]) = (&[], &[]);
        let mut common = 0;
        loop {
            if one.is_empty() {
                one = mine.next().unwrap_or_default();
            }
            if two.is_empty() {
                two = theirs.next().unwrap_or_default();
            }
            let len = one.len().min(two.len());
            let is_shared = one.as_ptr() == two.as_ptr();
            let same = if is_shared { len } else { common_items(&one[..len], &two[..len]) };
            common += same;
            if same < len || len == 0 {
                return common;
            }
            (one, two) = (&one[len..], &two[len..]);
        }
    }

    fn slices(&self) -> impl Iterator<Item = &[u32]> {
        self.parts.iter().map(|part| &part.ids[..part.len])
    }

    /// Returns texts that together are the ids with commas between them.
    pub(super) fn digits(&self) -> impl Iterator<Item = Bytes> {
        self.parts.iter().map(|part| part.digits.clone())
    }
}

impl fmt::Debug for PromptIds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PromptIds").field("len", &self.len).field("parts", &self.parts.len()).finish()
    }
}

impl From<Vec<u32>> for PromptIds {
    fn from(ids: Vec<u32>) -> PromptIds {
        let part = (!ids.is_empty()).then(|| IdRun::new(&ids, true));
        PromptIds { len: ids.len(), parts: part.into_iter().collect(), session: None }
    }
}

impl IdRun {
    fn new(ids: &[u32], is_first: bool) -> IdRun {
        let mut text = Vec::with_capacity(7 * ids.len());
        let mut digits = itoa::Buffer::new();
        for (at, id) in ids.iter().enumerate() {
            if at > 0 || !is_first {
                text.push(b',');
            }
            text.extend_from_slice(digits.format(*id).as_bytes());
        }
        text.shrink_to_fit();
        IdRun { ids: ids.into(), len: ids.len(), digits: text.into() }
    }

    /// Returns the first `len` ids, or `None` if these are so few that writing them again is quicker than
    /// finding the end of their digits.
    fn cut(&self, len: usize) -> Option<IdRun> {
        if len == self.len {
            return Some(self.clone());
        }
        if len <= self.len / 2 {
            return None;
        }
        let comma = (1..=self.len - len)
            .try_fold(self.digits.len(), |end, _| self.digits[..end].iter().rposition(|byte| *byte == b','))?;
        Some(IdRun { ids: Arc::clone(&self.ids), len, digits: self.digits.slice(..comma) })
    }
}

#[cfg(test)]
mod tests {
    use rolecall_text::common_items;

    use super::PromptIds;

    fn text(ids: &PromptIds) -> String {
        let bytes: Vec<u8> = ids.digits().flat_map(|part| part.to_vec()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wanted(ids: &[u32]) -> String {
        ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn the_digits_are_those_of_the_ids_however_the_prompt_grew_or_changed() {
        let mut state = 7_u32;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        let (mut ids, mut known) = (Vec::new(), PromptIds::default());
        for _ in 0..3_000 {
            match random(8) {
                0 => ids.truncate(random(ids.len() + 1)),
                1 if !ids.is_empty() => {
                    let at = random(ids.len());
                    ids[at] ^= 1;
                }
                2 => ids.truncate(ids.len().saturating_sub(random(4))),
                _ => {}
            }
            let count = if random(20) == 0 { 500 } else { random(40) };
            ids.extend((0..count).map(|_| random(1 << 17) as u32));
            let common = random(common_items(&known.to_vec(), &ids) + 1);
            let before = known.clone();
            known = PromptIds::after(&known, common, |first| ids[first..].to_vec());
            assert_eq!(known.common(&before), common_items(&before.to_vec(), &ids));
            assert_eq!(before.common(&PromptIds::from(ids.clone())), common_items(&before.to_vec(), &ids));
            assert_eq!(known.to_vec(), ids);
            assert_eq!(known.len(), ids.len());
            assert_eq!(text(&known), wanted(&ids));
            assert!(known.parts.len() <= 20, "{} parts of {} ids", known.parts.len(), ids.len());
        }
        assert_eq!(text(&PromptIds::from(vec![0, u32::MAX])), "0,4294967295");
        assert_eq!(text(&PromptIds::from(Vec::new())), "");
    }

    #[test]
    fn digits_that_were_written_are_taken_over() {
        let ids: Vec<u32> = (0..1_000).collect();
        let first = PromptIds::from(ids.clone());
        // The last ids were the opening of a turn, which the template writes in another way now.
        let next: Vec<u32> = (0..990).chain([7, 8, 9]).collect();
        let second = PromptIds::after(&first, 0, |first| next[first..].to_vec());
        let parts: Vec<_> = second.digits().collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].as_ptr(), first.digits().next().unwrap_or_default().as_ptr());
        assert_eq!(text(&second), wanted(&next));
    }
}
