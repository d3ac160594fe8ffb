use std::sync::OnceLock;

use crate::{CallsInReasoning, Format, FormatPart, Slot, load};

/// The files of `formats/corrections/`, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/corrections.rs"));

/// What is known of families whose models write otherwise than their chat template.
///
/// ```
/// use rolecall_format::{Format, corrections};
/// assert!(corrections().iter().all(|correction| !correction.identity.template.is_empty()));
/// ```
pub fn corrections() -> &'static [Format] {
    static CORRECTIONS: OnceLock<Vec<Format>> = OnceLock::new();
    CORRECTIONS.get_or_init(|| {
        // A test loads every file; a broken one never ships.
        FILES.iter().filter_map(|(_, source)| load(source).ok()).collect()
    })
}

/// The sources of the corrections that come with the library: file name and text.
pub fn correction_sources() -> &'static [(&'static str, &'static str)] {
    FILES
}

impl Format {
    /// The same format with every correction that is known for a family with this chat template; the names of those beside it.
    #[must_use]
    pub fn corrected(self, template: &str) -> (Format, Vec<&'static str>) {
        let fitting = corrections().iter().filter(|correction| correction.identity.fits_template(template));
        fitting.fold((self, Vec::new()), |(format, mut names), correction| {
            names.push(correction.name.as_str());
            (format.corrected_by(correction), names)
        })
    }

    /// The same format as one correction has it: its layouts in place of the own ones, its marks, habits and stop texts beside them.
    #[must_use]
    pub fn corrected_by(mut self, correction: &Format) -> Format {
        debug_assert_eq!(correction.part, FormatPart::Correction, "only a correction corrects");
        self.habits.call_marks.extend(correction.habits.call_marks.iter().cloned());
        if correction.habits.calls_in_reasoning != CallsInReasoning::default() {
            self.habits.calls_in_reasoning = correction.habits.calls_in_reasoning;
        }
        let mut generation = (*self.generation).clone();
        generation.stop.extend(correction.generation.stop.iter().cloned());
        self.generation = generation.into();
        let mut layouts = Vec::new();
        for slot in Slot::ALL {
            // A correction declares no control tokens: what it writes is text, as what a template writes is.
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
