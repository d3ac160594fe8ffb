use std::ops::Range;

use super::site::{Change, Site};

/// A file with its mutations, all switched off, and where each was written.
pub struct InstrumentedSource {
    pub text: String,
    /// The mutations with their byte ranges in the new text. A mutation may occur more than once.
    pub written: Vec<(u32, Range<usize>)>,
}

/// Writes a source file in which each site checks whether its mutation is on.
pub fn instrument(source: &str, mut sites: Vec<(u32, &Site)>) -> InstrumentedSource {
    sites.sort_by_key(|(id, site)| (site.range.start, usize::MAX - site.range.end, *id));
    // Insertions come before sites that begin at the same position.
    sites.sort_by_key(|(_, site)| (site.range.start, !site.range.is_empty()));
    let mut writer = Instrumenter { source, out: InstrumentedSource { text: String::new(), written: Vec::new() } };
    writer.copy(0..source.len(), &sites);
    writer.out
}

struct Instrumenter<'a> {
    source: &'a str,
    out: InstrumentedSource,
}

impl Instrumenter<'_> {
    fn put(&mut self, text: &str) {
        self.out.text.push_str(text);
    }

    /// Copies a range of the source with the sites in it.
    fn copy(&mut self, range: Range<usize>, sites: &[(u32, &Site)]) {
        let mut at = range.start;
        let mut rest = sites;
        while let Some(((id, site), others)) = rest.split_first() {
            let count = others.iter().take_while(|(_, other)| other.range.start < site.range.end).count();
            let (inner, after) = others.split_at(count);
            self.put(&self.source[at..site.range.start]);
            self.site(*id, site, inner);
            at = site.range.end;
            rest = after;
        }
        self.put(&self.source[at..range.end]);
    }

    /// Copies a part of a site in parentheses, with the inner sites that lie in this part.
    fn part(&mut self, range: &Range<usize>, inner: &[(u32, &Site)]) {
        self.put("(");
        self.bare(range, inner);
        self.put(")");
    }

    fn bare(&mut self, range: &Range<usize>, inner: &[(u32, &Site)]) {
        let is_own = |site: &Site| range.start <= site.range.start && site.range.end <= range.end;
        let own: Vec<(u32, &Site)> = inner.iter().filter(|(_, site)| is_own(site)).copied().collect();
        self.copy(range.clone(), &own);
    }

    fn site(&mut self, id: u32, site: &Site, inner: &[(u32, &Site)]) {
        let start = self.out.text.len();
        let on = format!("crate::mutant_switch::is_on({id})");
        match &site.change {
            Change::Operator { left, right, old, new } => {
                self.put(&format!("(if {on} {{ "));
                for (operator, next) in [(*new, " } else { "), (old.as_str(), " })")] {
                    // The target of an assignment must not be in parentheses.
                    match operator.ends_with('=') && !matches!(operator, "==" | "!=" | "<=" | ">=") {
                        true => self.bare(left, inner),
                        false => self.part(left, inner),
                    }
                    self.put(&format!(" {operator} "));
                    self.part(right, inner);
                    self.put(next);
                }
            }
            Change::Condition(true) => {
                self.put(&format!("({on} || "));
                self.part(&site.range, inner);
                self.put(")");
            }
            Change::Condition(false) => {
                self.put(&format!("(!{on} && "));
                self.part(&site.range, inner);
                self.put(")");
            }
            Change::Not(operand) => {
                self.put(&format!("(if {on} {{ "));
                self.part(operand, inner);
                self.put(" } else { !");
                self.part(operand, inner);
                self.put(" })");
            }
            Change::Number { new } => {
                self.put(&format!("(if {on} {{ {new} }} else {{ "));
                self.part(&site.range, inner);
                self.put(" })");
            }
            Change::End(by) => {
                self.put(&format!("(if {on} {{ "));
                self.part(&site.range, inner);
                self.put(&format!("{by} }} else {{ "));
                self.part(&site.range, inner);
                self.put(" })");
            }
            Change::Drop => {
                self.put(&format!("if !{on} {{ "));
                self.copy(site.range.clone(), inner);
                self.put(" }");
            }
            Change::Return(value) => self.put(&format!(" if {on} {{ return {value}; }}")),
        }
        self.out.written.push((id, start..self.out.text.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::site::sites;
    use super::instrument;

    #[test]
    fn every_site_is_written_and_the_result_is_rust() {
        let source = "fn f(a: usize, mut b: usize) -> usize {\n    b += a * 2;\n    go(a + 1, &[b]);\n    \
                      if !(a < b) && b == 3 { 0 } else { x[a..b + 1].len() }\n}\n";
        let sites = sites("x.rs", source).unwrap();
        let numbered = sites.iter().enumerate().map(|(number, site)| (number as u32, site)).collect();
        let written = instrument(source, numbered);
        syn::parse_file(&written.text).unwrap();
        for (number, site) in sites.iter().enumerate() {
            assert!(written.text.contains(&format!("is_on({number})")), "{number}: {site:?}");
        }
        assert_eq!(written.text.lines().next(), source.lines().next().map(|_| {
            "fn f(a: usize, mut b: usize) -> usize { if crate::mutant_switch::is_on(0) { return 0; } if crate::mutant_switch::is_on(1) { return 1; }"
        }));
    }
}
