//! Reviewed reasons for parts of inferred layouts that are not verified, and pinned counts.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

/// A part of a template's turn.
type Place = (String, String);

/// The contents of `fixtures/inference.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reviewed {
    /// For each part, how many templates have each outcome.
    pub counts: BTreeMap<(String, String), usize>,
    /// For each template and part, the outcome and the reason.
    pub reasons: BTreeMap<Place, (String, String)>,
}

impl Reviewed {
    /// Parses the file. Returns a description of the first mistake.
    ///
    /// ```
    /// use rolecall_testkit::Reviewed;
    /// let text = "[counts.content]\nverified = 2\n[[reviewed]]\noutcome = \"no\"\nparts = [\"calls\"]\nreason = \"it raises an error\"\ntemplates = [\"a.jinja\"]\n";
    /// let reviewed = Reviewed::parse(text).unwrap();
    /// assert_eq!(reviewed.counts.len(), 1);
    /// assert_eq!(reviewed.reasons.len(), 1);
    /// ```
    pub fn parse(text: &str) -> Result<Reviewed, String> {
        let table = DeTable::parse(text).map_err(|error| error.to_string())?.into_inner();
        let mut reviewed = Reviewed::default();
        let tables = |key: &str| table.get(key).map(|value| value.get_ref());
        if let Some(DeValue::Table(counts)) = tables("counts") {
            for (part, outcomes) in counts {
                let DeValue::Table(outcomes) = outcomes.get_ref() else { return Err("expected a table".into()) };
                for (outcome, count) in outcomes {
                    let count = match count.get_ref() {
                        DeValue::Integer(count) => count.as_str().parse().ok(),
                        _ => None,
                    };
                    let key = (part.get_ref().to_string(), outcome.get_ref().to_string());
                    reviewed.counts.insert(key, count.ok_or("expected a count")?);
                }
            }
        }
        let Some(DeValue::Array(entries)) = tables("reviewed") else { return Ok(reviewed) };
        for entry in entries {
            let DeValue::Table(entry) = entry.get_ref() else { return Err("expected a table".into()) };
            let (outcome, reason) = (text_of(entry, "outcome")?, text_of(entry, "reason")?);
            for part in texts_of(entry, "parts")? {
                for template in texts_of(entry, "templates")? {
                    let place = (template, part.clone());
                    if reviewed.reasons.insert(place.clone(), (outcome.clone(), reason.clone())).is_some() {
                        return Err(format!("{}: {} has two reasons", place.0, place.1));
                    }
                }
            }
        }
        Ok(reviewed)
    }

    /// Compares the file with the outcomes found. Returns a line for each difference.
    pub fn differences(&self, found: &BTreeMap<Place, (String, bool)>) -> Vec<String> {
        let mut wrong = Vec::new();
        for ((template, part), (outcome, is_refused)) in found {
            let place = (template.clone(), part.clone());
            let known = self.reasons.get(&place).is_some_and(|(known, reason)| known == outcome && !reason.is_empty());
            match outcome.as_str() {
                "write only" => wrong.push(format!("{template}: {part} is written but not read")),
                "read only" | "no" if !known => wrong.push(format!("{template}: {part} is {outcome} without a reason")),
                "no" if !is_refused => wrong.push(format!("{template}: {part} is not found, but not refused either")),
                _ => {}
            }
        }
        let places: BTreeSet<&Place> = found.keys().collect();
        for (place, (outcome, _)) in &self.reasons {
            if !places.contains(place) || found.get(place).is_some_and(|(found, _)| found != outcome) {
                wrong.push(format!("{}: {} is no longer {outcome}", place.0, place.1));
            }
        }
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for ((_, part), (outcome, _)) in found {
            *counts.entry((part.clone(), outcome.clone())).or_default() += 1;
        }
        for key in counts.keys().chain(self.counts.keys()).collect::<BTreeSet<_>>() {
            let (pinned, found) = (self.counts.get(key).copied(), counts.get(key).copied());
            if pinned.unwrap_or_default() != found.unwrap_or_default() {
                let (pinned, found) = (pinned.unwrap_or_default(), found.unwrap_or_default());
                wrong.push(format!("{}: {} is pinned as {pinned}, and is {found}", key.0, key.1));
            }
        }
        wrong
    }
}

fn text_of(entry: &DeTable<'_>, key: &str) -> Result<String, String> {
    match entry.get(key).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => Ok(text.to_string()),
        _ => Err(format!("expected a text for `{key}`")),
    }
}

fn texts_of(entry: &DeTable<'_>, key: &str) -> Result<Vec<String>, String> {
    let Some(DeValue::Array(values)) = entry.get(key).map(|value| value.get_ref()) else {
        return Err(format!("expected a list for `{key}`"));
    };
    let texts = values.iter().map(|value| match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(format!("expected texts in `{key}`")),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(outcome: &str, is_refused: bool) -> BTreeMap<Place, (String, bool)> {
        [(("a.jinja".to_owned(), "calls".to_owned()), (outcome.to_owned(), is_refused))].into()
    }

    fn file(outcome: &str) -> Reviewed {
        let counts = format!("[counts.calls]\n\"{outcome}\" = 1\n");
        let reason = format!(
            "[[reviewed]]\noutcome = \"{outcome}\"\nparts = [\"calls\"]\nreason = \"so\"\ntemplates = [\"a.jinja\"]\n"
        );
        Reviewed::parse(&format!("{counts}{reason}")).unwrap()
    }

    #[test]
    fn a_part_that_is_not_verified_needs_a_reason_that_still_applies() {
        assert_eq!(file("read only").differences(&found("read only", false)), Vec::<String>::new());
        assert_eq!(file("no").differences(&found("no", true)), Vec::<String>::new());
        assert_eq!(file("no").differences(&found("no", false)).len(), 1);
        assert_eq!(file("write only").differences(&found("write only", false)).len(), 1);
        // The reason is stale, and both counts are wrong.
        assert_eq!(file("read only").differences(&found("verified", false)).len(), 3);
        assert_eq!(Reviewed::default().differences(&found("read only", false)).len(), 2);
    }
}
