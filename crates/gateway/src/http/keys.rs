use std::fmt::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// API keys, of which only digests are kept. Clones share them.
#[derive(Clone, Default)]
pub struct Keys(Arc<RwLock<Option<Vec<Digest>>>>);

/// The SHA-256 digest of a key.
type Digest = [u8; 32];

/// A line of a file with keys that is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    /// The line, from 1.
    pub line: usize,
}

impl Keys {
    /// Reads keys from the text of a file: one per line, either the key itself or `sha256:` with its
    /// digest in hexadecimal. Empty lines and lines that begin with `#` are left out. Without any key,
    /// nobody may use the gateway.
    ///
    /// ```
    /// use rolecall_gateway::Keys;
    /// let other = Keys::line_of("other");
    /// let keys = Keys::read(&format!("# the team\nsecret\n\n{other}\n"))?;
    /// assert!(keys.allow(Some("secret")) && keys.allow(Some("other")));
    /// assert!(!keys.allow(Some("# the team")) && !keys.allow(Some(&other)) && !keys.allow(None));
    /// assert!(!Keys::read("# none yet")?.allow(None));
    /// // Without a file, everybody may use it.
    /// assert!(Keys::default().allow(None));
    /// # Ok::<(), rolecall_gateway::KeyFault>(())
    /// ```
    pub fn read(text: &str) -> Result<Keys, KeyFault> {
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let digests = lines.map(|(line, key)| match key.strip_prefix(MARK) {
            Some(written) => written_digest(written).ok_or(KeyFault { line }),
            None => Ok(digest(key)),
        });
        Ok(Keys(Arc::new(RwLock::new(Some(digests.collect::<Result<_, _>>()?)))))
    }

    /// Returns the line that stands for a key in a file and does not reveal it.
    pub fn line_of(key: &str) -> String {
        let mut line = MARK.to_owned();
        for byte in digest(key) {
            // Writing to a string does not fail.
            let _ = write!(line, "{byte:02x}");
        }
        line
    }

    /// Replaces the keys, for all clones.
    pub fn replace(&self, keys: &Keys) {
        let new = keys.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Returns the number of keys, or `None` if everybody may use the gateway.
    pub fn count(&self) -> Option<usize> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Vec::len)
    }

    /// Reports whether a client may use the gateway. The time does not depend on which key it is.
    pub fn allow(&self, key: Option<&str>) -> bool {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = &*keys else { return true };
        let Some(key) = key else { return false };
        let own = digest(key);
        let found = keys.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&own));
        found.into()
    }
}

/// What a digest in a file begins with.
const MARK: &str = "sha256:";

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keys({:?})", self.count())
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The line may be a key, so it is not shown.
        write!(formatter, "expected `{MARK}` with 64 hexadecimal digits in line {}", self.line)
    }
}

impl std::error::Error for KeyFault {}

fn digest(key: &str) -> Digest {
    Sha256::digest(key.as_bytes()).into()
}

/// Reads a digest in hexadecimal.
fn written_digest(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::{KeyFault, Keys};

    #[test]
    fn a_damaged_digest_is_refused_by_its_line_and_not_shown() {
        for wrong in
            ["sha256:", "sha256:00", &format!("sha256:{}g", "0".repeat(63)), &format!("sha256:+{}", "0".repeat(63))]
        {
            let fault = Keys::read(&format!("one\n{wrong}\n")).map(|_| ()).expect_err("it is no digest");
            assert_eq!(fault, KeyFault { line: 2 });
            assert!(!fault.to_string().contains("0000"), "{fault}");
        }
    }

    #[test]
    fn replaced_keys_count_for_all_clones() {
        let keys = Keys::read("old").expect("it is a key");
        let clone = keys.clone();
        keys.replace(&Keys::read("new\nnewer").expect("they are keys"));
        assert!(clone.allow(Some("new")) && !clone.allow(Some("old")));
        assert_eq!(format!("{clone:?}"), "Keys(Some(2))");
    }
}
