use std::sync::OnceLock;

use crate::{CallsInReasoning, Format, FormatPart, Slot, load};

/// The names and texts of the files in `formats/corrections/`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/corrections.rs"));

/// Returns the known corrections for families whose models deviate from their chat template.
///
/// ```
/// use rolecall_format::{Format, corrections};
/// assert!(corrections().iter().all(|correction| !correction.identity.template.is_empty()));
/// ```
pub fn corrections() -> &'static [Format] {
    static CORRECTIONS: OnceLock<Vec<Format>> = OnceLock::new();
    CORRECTIONS.get_or_init(|| {
        // A test loads every file, so all of them are valid.
        FILES.iter().filter_map(|(_, source)| load(source).ok()).collect()
    })
}

/// Returns the sources of the built-in corrections: file names and texts.
pub fn correction_sources() -> &'static [(&'static str, &'static str)] {
    FILES
}

impl Format {
    /// Applies every known correction for families with this chat template. Also returns their
    /// names.
    #[must_use]
    pub fn corrected(self, template: &str) -> (Format, Vec<&'static str>) {
        let fitting = corrections().iter().filter(|correction| correction.identity.fits_template(template));
        fitting.fold((self, Vec::new()), |(format, mut names), correction| {
            names.push(correction.name.as_str());
            (format.corrected_by(correction), names)
        })
    }

    /// Applies one correction. Its layouts replace those of the format, and its markers, the
    /// markers that may be missing, and its stop texts are added. A header removes the stop texts
    /// that begin with its own markers. Its treatment of calls in reasoning wins unless it is the
    /// default.
    #[must_use]
    pub fn corrected_by(mut self, correction: &Format) -> Format {
        debug_assert_eq!(correction.part, FormatPart::Correction, "expected a correction");
        self.habits.call_marks.extend(correction.habits.call_marks.iter().cloned());
        self.habits.may_omit.extend(correction.habits.may_omit.iter().cloned());
        self.habits.other_marks.extend(correction.habits.other_marks.iter().cloned());
        self.habits.trims |= correction.habits.trims;
        if correction.habits.calls_in_reasoning != CallsInReasoning::default() {
            self.habits.calls_in_reasoning = correction.habits.calls_in_reasoning;
        }
        let mut generation = (*self.generation).clone();
        if let Some(header) = &correction.habits.header {
            // A marker that begins or ends a message ends the turn only if the correction says so.
            generation.stop.retain(|stop| !header.begins(stop));
            self.habits.header = Some(header.clone());
        }
        generation.stop.extend(correction.generation.stop.iter().cloned());
        self.generation = generation.into();
        let mut layouts = Vec::new();
        for slot in Slot::ALL {
            // A correction declares no control tokens. The text it writes is plain text, like a
            // template's.
            let layout = correction.layout(slot).or_else(|| self.layout(slot));
            layouts.extend(layout.map(|layout| (slot, layout.pattern().to_vec())));
        }
        self.with_layouts(layouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_correction_loads_and_says_whose_and_from_where() {
        for (file, source) in correction_sources() {
            let correction = load(source).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(correction.part, FormatPart::Correction, "{file}");
            assert!(!correction.identity.template.is_empty(), "{file} needs `[identity] template`");
            assert!(!correction.sources.is_empty(), "{file} needs `[sources]`");
            assert!(correction.controls.is_empty(), "{file} declares control tokens");
        }
        assert_eq!(corrections().len(), correction_sources().len());
    }

    #[test]
    fn a_correction_is_for_its_own_family_alone() {
        let plain = |template: &str| Format::new("x").corrected(template);
        assert_eq!(plain("{{ messages }}"), (Format::new("x"), Vec::new()));
        let (corrected, names) = plain("{{ '<|start_header_id|>' }}Environment: ipython");
        assert_eq!(names, ["python-tag"]);
        assert_eq!(corrected.habits.call_marks, ["<|python_tag|>"]);
        assert_eq!(corrected.generation.stop, ["<|eom_id|>"]);
    }
}
