use std::collections::BTreeMap;
use std::fmt;

use super::property::Compared;

/// The results of many conversations.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All conversations.
    pub conversations: usize,
    /// Conversations that gave a prompt, in the first form or in a simpler one.
    pub rendered: usize,
    /// Conversations that were refused in every form.
    pub never_rendered: usize,
    /// Forms that were refused on only one side, hostile or honest.
    pub one_refused: usize,
    /// Refused forms by their codes.
    pub refusals: BTreeMap<String, usize>,
    /// Control tokens that were checked.
    pub controls: usize,
    /// Honest prompts that have the reference's ids, and the number of these ids.
    pub honest: (usize, usize),
    /// Honest prompts that were compared run by run, because the tokenizer finds no control tokens
    /// in text.
    pub by_runs: usize,
    /// Honest prompts that may have other ids, by the reason.
    pub excused: BTreeMap<&'static str, usize>,
    /// Conversations in which a message decided what else the template writes, by subject.
    pub steered: BTreeMap<String, usize>,
    /// Failures by subject.
    pub failed: BTreeMap<String, usize>,
    /// The failures to show: for each subject the one with the smallest seed.
    pub failures: Vec<Failure>,
}

/// A conversation that forges a token, or whose honest twin has other ids than the reference's.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The subject's label.
    pub subject: String,
    /// The conversation's seed.
    pub seed: u64,
    /// How many simplifications were applied because the conversation was refused.
    pub simplicity: u32,
}

impl Summary {
    /// Counts a conversation whose properties all hold.
    pub fn add(&mut self, subject: &str, compared: &Compared) {
        self.rendered += 1;
        self.controls += compared.controls;
        match compared.excused {
            Some(why) => *self.excused.entry(why).or_default() += 1,
            None => {
                self.honest.0 += 1;
                self.honest.1 += compared.honest;
            }
        }
        self.by_runs += usize::from(compared.by_runs);
        if compared.steered {
            *self.steered.entry(subject.to_owned()).or_default() += 1;
        }
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, why: &str) {
        *self.refusals.entry(why.to_owned()).or_default() += 1;
    }

    /// Counts a conversation that failed.
    pub fn fail(&mut self, failure: Failure) {
        self.rendered += 1;
        *self.failed.entry(failure.subject.clone()).or_default() += 1;
        self.keep(failure);
    }

    fn keep(&mut self, failure: Failure) {
        match self.failures.iter_mut().find(|known| known.subject == failure.subject) {
            Some(known) if known.seed > failure.seed => *known = failure,
            Some(_) => {}
            None => self.failures.push(failure),
        }
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: Summary) {
        fn add<K: Ord>(to: &mut BTreeMap<K, usize>, from: BTreeMap<K, usize>) {
            from.into_iter().for_each(|(key, count)| *to.entry(key).or_default() += count);
        }
        self.conversations += other.conversations;
        self.rendered += other.rendered;
        self.never_rendered += other.never_rendered;
        self.one_refused += other.one_refused;
        self.controls += other.controls;
        self.honest.0 += other.honest.0;
        self.honest.1 += other.honest.1;
        self.by_runs += other.by_runs;
        add(&mut self.refusals, other.refusals);
        add(&mut self.excused, other.excused);
        add(&mut self.steered, other.steered);
        add(&mut self.failed, other.failed);
        other.failures.into_iter().for_each(|failure| self.keep(failure));
        self.failures.sort_by_key(|failure| failure.seed);
    }

    /// Reports whether at least one conversation was rendered and none failed.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.rendered > 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.rendered as f64 / self.conversations.max(1) as f64;
        writeln!(f, "{:>10} conversations, {} rendered ({share:.1} %)", self.conversations, self.rendered)?;
        writeln!(f, "{:>10} control ids compared, all on the template's own text", self.controls)?;
        writeln!(f, "{:>10} honest prompts with the reference's ids ({} ids)", self.honest.0, self.honest.1)?;
        writeln!(
            f,
            "{:>14} of them compared run by run: their tokenizer finds no control tokens in text",
            self.by_runs
        )?;
        for (why, count) in &self.excused {
            writeln!(f, "{count:>10} honest prompts with other ids: {why}")?;
        }
        let refusals: usize = self.refusals.values().sum();
        writeln!(
            f,
            "{refusals:>10} refusals (refused conversations are retried in a simpler form), {} of only one side:",
            self.one_refused
        )?;
        for (why, count) in &self.refusals {
            writeln!(f, "{count:>14} {why}")?;
        }
        let steered: usize = self.steered.values().sum();
        writeln!(
            f,
            "{steered:>10} steered: text in a message or a switch decided what else the template wrote, as its analysis predicts:"
        )?;
        by_name(f, &self.steered)?;
        if self.rendered == 0 {
            writeln!(f, "{:>10} FAILED: no conversation was rendered, so nothing was compared", 1)?;
        }
        if !self.failed.is_empty() {
            writeln!(f, "{:>10} FAILED:", self.failed.values().sum::<usize>())?;
            by_name(f, &self.failed)?;
        }
        writeln!(f, "{:>10} forged or different", self.failed.values().sum::<usize>())
    }
}

/// Writes the counts by format or template, added up over its tokenizers.
fn by_name(f: &mut fmt::Formatter<'_>, counts: &BTreeMap<String, usize>) -> fmt::Result {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (label, count) in counts {
        *named.entry(label.rsplit_once(" × ").map_or(label.as_str(), |(name, _)| name)).or_default() += count;
    }
    named.iter().try_for_each(|(name, count)| writeln!(f, "{count:>14} {name}"))
}
