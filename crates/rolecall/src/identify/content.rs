//! Recognises a folder's model by what its files say.

use std::cmp::Reverse;

use rolecall_format::{Format, Identity, Registry};

use super::{Evidence, ModelFolder};

/// What the formats make of a folder.
#[derive(Default)]
pub(super) struct Recognised<'a> {
    /// The formats that fit best, all equally well.
    pub best: Vec<Likeness<'a>>,
    /// Formats that something in the folder speaks for, though something stronger speaks against them.
    pub others: Vec<Likeness<'a>>,
}

/// How a folder and a format's identity agree.
#[derive(Clone)]
pub(super) struct Likeness<'a> {
    pub format: &'a Format,
    pub template: Facet,
    pub tokens: Facet,
    pub architecture: Facet,
}

/// What a folder says to one question of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Facet {
    /// The identity does not ask.
    NotAsked,
    /// The folder does not tell.
    Silent,
    /// It says yes: to these texts.
    Holds(Vec<String>),
    /// It says no.
    Fails,
}

/// Compares a folder with every format. Formats that agree in all that is told come first, then the letters of their chat
/// template count, then those of their tokens, then the architecture.
pub(super) fn recognise<'a>(folder: &ModelFolder, registry: &'a Registry) -> Recognised<'a> {
    let all = registry.iter().map(|format| compare(folder, format));
    let told: Vec<Likeness<'a>> = all.filter(Likeness::is_supported).collect();
    let (mut best, mut others): (Vec<_>, Vec<_>) = told.into_iter().partition(|one| one.is_possible(folder));
    let Some(strength) = best.iter().map(Likeness::strength).max() else { return Recognised { best, others } };
    let (equal, weaker): (Vec<_>, Vec<_>) = best.into_iter().partition(|one| one.strength() == strength);
    best = equal;
    others.extend(weaker);
    Recognised { best, others }
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

    /// Whether anything speaks for the format.
    fn is_supported(&self) -> bool {
        self.facets().into_iter().any(Facet::holds)
    }

    /// Whether the folder may be the format's: weaker evidence never overrules a chat template that is not the format's.
    fn is_possible(&self, folder: &ModelFolder) -> bool {
        folder.template().is_none() || self.template.holds()
    }

    fn strength(&self) -> (Reverse<usize>, usize, usize, usize) {
        let fails = self.facets().into_iter().filter(|facet| **facet == Facet::Fails).count();
        (Reverse(fails), self.template.letters(), self.tokens.letters(), self.architecture.letters())
    }

    /// Whether the chat template speaks for it, and nothing that it asks is left open.
    pub fn is_told_by_template(&self) -> bool {
        self.template.holds() && !self.facets().contains(&&Facet::Silent)
    }

    /// What speaks for the format.
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
