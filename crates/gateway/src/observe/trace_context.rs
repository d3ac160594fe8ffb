//! The place of a request in a trace. Source: W3C's recommendation Trace Context, version 00.

use axum::http::HeaderMap;

use crate::clock::random;

/// The place of a request in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: u128,
    /// The span of the caller, if there is one.
    pub parent: Option<u64>,
    pub span: u64,
    /// Whether the caller wants the trace to be recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Goes on with the trace of the caller, or begins a new one.
    pub fn of(headers: &HeaderMap) -> TraceContext {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(read);
        let span = some_random();
        match given {
            Some((trace, parent, is_sampled)) => TraceContext { trace, parent: Some(parent), span, is_sampled },
            None => {
                let trace = u128::from(some_random()) << 64 | u128::from(some_random());
                TraceContext { trace, parent: None, span, is_sampled: true }
            }
        }
    }
}

/// Returns a random number that is not zero, which no id may be.
pub fn some_random() -> u64 {
    random().max(1)
}

/// Reads `00-TRACE-PARENT-FLAGS`. Later versions may have more after that.
fn read(text: &str) -> Option<(u128, u64, bool)> {
    let mut parts = text.trim().split('-');
    let version = hex(parts.next()?, 2)?;
    let trace = hex(parts.next()?, 32).filter(|trace| *trace != 0)?;
    let parent = hex(parts.next()?, 16).filter(|parent| *parent != 0)?;
    let flags = hex(parts.next()?, 2)?;
    let is_known = version != 0xff && (version != 0 || parts.next().is_none());
    is_known.then_some((trace, u64::try_from(parent).ok()?, flags & 1 == 1))
}

fn hex(text: &str, length: usize) -> Option<u128> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == length && text.bytes().all(is_hex)).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_traceparent_is_read_as_the_recommendation_says() {
        let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let known = Some((0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331, true));
        assert_eq!(read(&format!("00-{trace}-{parent}-01")), known);
        assert_eq!(read(&format!("00-{trace}-{parent}-00")).map(|(.., is_sampled)| is_sampled), Some(false));
        // A later version may have more.
        assert_eq!(read(&format!("01-{trace}-{parent}-01-more")), known);
        for wrong in [
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("00-{trace}-{parent}"),
            format!("00-+{}-{parent}-01", &trace[1..]),
            String::new(),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
