//! Recognizing a model by the contents of its folder.

use std::cmp::Reverse;

use rolecall_format::{Format, Identity, Registry};

use super::{Evidence, ModelFolder};

/// The formats that match a folder.
#[derive(Default)]
pub(super) struct FolderFormats<'a> {
    /// The formats that match best, all equally well.
    pub best: Vec<Likeness<'a>>,
    /// Formats with some supporting evidence, but stronger evidence against them.
    pub others: Vec<Likeness<'a>>,
}

/// How well a folder matches a format's identity.
#[derive(Clone)]
pub(super) struct Likeness<'a> {
    pub format: &'a Format,
    pub template: Facet,
    pub tokens: Facet,
    pub architecture: Facet,
}

/// The result of one question of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Facet {
    /// The identity does not ask.
    NotAsked,
    /// The folder has no answer.
    Silent,
    /// The folder matches, with these texts.
    Holds(Vec<String>),
    /// The folder does not match.
    Fails,
}

/// Compares a folder with every format.
///
/// Formats without mismatches rank first. Ties are broken by the length of the matching texts of
/// the chat template, then of the tokens, then of the architecture.
pub(super) fn recognise<'a>(folder: &ModelFolder, registry: &'a Registry) -> FolderFormats<'a> {
    let all = registry.iter().map(|format| compare(folder, format));
    let told: Vec<Likeness<'a>> = all.filter(Likeness::is_supported).collect();
    let (mut best, mut others): (Vec<_>, Vec<_>) = told.into_iter().partition(|one| one.is_possible(folder));
    let Some(strength) = best.iter().map(Likeness::strength).max() else { return FolderFormats { best, others } };
    let (equal, weaker): (Vec<_>, Vec<_>) = best.into_iter().partition(|one| one.strength() == strength);
    best = equal;
    others.extend(weaker);
    FolderFormats { best, others }
}

fn compare<'a>(folder: &ModelFolder, format: &'a Format) -> Likeness<'a> {
    let Identity { template, tokens, architectures, .. } = &format.identity;
    let template = match folder.template() {
        _ if template.is_empty() => Facet::NotAsked,
        None => Facet::Silent,
        Some(text) if format.identity.fits_template(text) => Facet::Holds(template.clone()),
        Some(_) => Facet::Fails,
    };
    let tokens = match tokens.iter().all(|token| folder.tokens.contains(token)) {
        _ if tokens.is_empty() => Facet::NotAsked,
        true => Facet::Holds(tokens.clone()),
        false if folder.has_all_tokens => Facet::Fails,
        false => Facet::Silent,
    };
    let architecture = match folder.architectures.iter().find(|name| architectures.contains(name)) {
        _ if architectures.is_empty() => Facet::NotAsked,
        Some(name) => Facet::Holds(vec![name.clone()]),
        None if folder.architectures.is_empty() => Facet::Silent,
        None => Facet::Fails,
    };
    Likeness { format, template, tokens, architecture }
}

impl Facet {
    pub fn holds(&self) -> bool {
        matches!(self, Facet::Holds(_))
    }

    fn letters(&self) -> usize {
        match self {
            Facet::Holds(texts) => texts.iter().map(|text| text.chars().count()).sum(),
            _ => 0,
        }
    }
}

impl Likeness<'_> {
    fn facets(&self) -> [&Facet; 3] {
        [&self.template, &self.tokens, &self.architecture]
    }

    /// Reports whether any evidence supports the format.
    fn is_supported(&self) -> bool {
        self.facets().into_iter().any(Facet::holds)
    }

    /// Reports whether the folder can be the format's. If the folder has a chat template that is
    /// not the format's, weaker evidence does not count.
    fn is_possible(&self, folder: &ModelFolder) -> bool {
        folder.template().is_none() || self.template.holds()
    }

    fn strength(&self) -> (Reverse<usize>, usize, usize, usize) {
        let fails = self.facets().into_iter().filter(|facet| **facet == Facet::Fails).count();
        (Reverse(fails), self.template.letters(), self.tokens.letters(), self.architecture.letters())
    }

    /// Reports whether the chat template matches and no question is left open.
    pub fn is_told_by_template(&self) -> bool {
        self.template.holds() && !self.facets().contains(&&Facet::Silent)
    }

    /// Returns the evidence for the format.
    pub fn evidence(&self) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        if let Facet::Holds(texts) = &self.template {
            evidence.push(Evidence::Template(texts.clone()));
        }
        if let Facet::Holds(tokens) = &self.tokens {
            evidence.push(Evidence::Tokens(tokens.clone()));
        }
        if let Facet::Holds(names) = &self.architecture {
            evidence.extend(names.first().cloned().map(Evidence::Architecture));
        }
        evidence
    }
}
