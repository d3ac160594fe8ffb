use std::fmt;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// API keys, of which only digests are kept.
#[derive(Clone, Default)]
pub struct Keys(Option<Vec<[u8; 32]>>);

impl Keys {
    /// Reads keys from the text of a file: one per line. Empty lines and lines that begin with `#` are
    /// left out. Without any key, nobody may use the gateway.
    ///
    /// ```
    /// use rolecall_gateway::Keys;
    /// let keys = Keys::from_text("# the team\nsecret\n\nother\n");
    /// assert!(keys.allow(Some("secret")) && !keys.allow(Some("# the team")) && !keys.allow(None));
    /// assert!(!Keys::from_text("# none yet").allow(None));
    /// // Without a file, everybody may use it.
    /// assert!(Keys::default().allow(None));
    /// ```
    pub fn from_text(text: &str) -> Keys {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Keys(Some(lines.map(digest).collect()))
    }

    /// Reports whether a client may use the gateway. The time does not depend on which key it is.
    pub fn allow(&self, key: Option<&str>) -> bool {
        let Some(keys) = &self.0 else { return true };
        let Some(key) = key else { return false };
        let own = digest(key);
        let found = keys.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&own));
        found.into()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keys({:?})", self.0.as_ref().map(Vec::len))
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}
