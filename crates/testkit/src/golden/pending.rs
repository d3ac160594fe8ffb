//! Operations that the library does not have yet. Their rows are counted, and the pins bound the counts.

use rolecall::conversation::json::Object;

use crate::Verdict;

/// What waits, by system and operation, and what it waits for.
const WAITING: &[(&str, &str, &str)] = &[
    ("stability", "stability", "the library does not compare the renderings of a growing conversation yet"),
    ("trl", "prefix_preserving", "the library does not compare the renderings of a growing conversation yet"),
    ("renderers", "train_mask", "templates have no loss masks yet"),
    ("renderers", "bridge", "there are no sessions yet"),
    ("renderers", "parse_ids", "replies are not held against this peer yet"),
    ("peer_outputs", "peer_outputs", "replies are not held against these peers yet"),
    ("harmony", "harmony_render", "harmony's own JSON is not read yet"),
    ("harmony", "harmony_parse", "harmony's own JSON is not written yet"),
    ("mistral", "mistral_encode", "there is no format for this maker's own code yet"),
    ("mistral", "mistral_fim", "there is no format for this maker's own code yet"),
    ("mistral", "mistral_parse", "there is no format for this maker's own code yet"),
    ("native", "native_encode", "there is no format for these makers' own code yet"),
    ("native", "native_parse", "there is no format for these makers' own code yet"),
];

/// Where a row says what the reference makes of it; several references may each have an opinion.
const EXPECTATIONS: [&str; 3] = ["expected", "error", "opinions"];

/// A row of a known operation is pending if it expects something; every other row fails.
pub(super) fn run(row: &Object, system: &str, op: &str) -> Verdict {
    let known = WAITING.iter().find(|(waiting, operation, _)| *waiting == system && *operation == op);
    let Some((_, _, reason)) = known else {
        return Verdict::cannot_run(format!(
            "the operation `{op}` of the system `{system}`, which conform does not know"
        ));
    };
    match EXPECTATIONS.iter().any(|key| row.get(key).is_some()) {
        true => Verdict::Pending(reason),
        false => Verdict::cannot_run("a row that expects nothing"),
    }
}
