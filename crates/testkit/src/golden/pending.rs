//! Operations that the library does not implement yet. Their rows are counted, and the pins fix the
//! counts.

use rolecall::conversation::json::Object;

use crate::Verdict;

/// Pending operations by system, each with the reason.
const WAITING: &[(&str, &str, &str)] = &[
    ("harmony", "harmony_render", "there is no format for harmony's own rendering yet"),
    ("mistral", "mistral_encode", "there is no format for this maker's own code yet"),
    ("mistral", "mistral_fim", "there is no format for this maker's own code yet"),
    ("native", "native_encode", "there is no format for these makers' own code yet"),
    ("media", "media", "images, audio and video are not written yet"),
    ("wire", "wire", "the gateway does not speak these routes yet"),
];

/// The keys that hold a row's expectation. A row may have the opinions of several references, a
/// verdict on what its reference does, or a server's recorded answer.
const EXPECTATIONS: [&str; 6] = ["expected", "expected_safe", "error", "opinions", "verdict", "response"];

/// Returns pending for a row of a known operation that has an expectation, and a failure for any
/// other row.
pub(super) fn run(row: &Object, system: &str, op: &str) -> Verdict {
    let known = WAITING.iter().find(|(waiting, operation, _)| *waiting == system && *operation == op);
    let Some((_, _, reason)) = known else {
        return Verdict::cannot_run(format!(
            "the operation `{op}` of the system `{system}`, which is unknown to conform"
        ));
    };
    match EXPECTATIONS.iter().any(|key| row.get(key).is_some()) {
        true => Verdict::Pending(reason),
        false => Verdict::cannot_run("the row has no expectation"),
    }
}
