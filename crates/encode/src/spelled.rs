//! Which tokens the literals of a format or template spell, also where several of them meet.

use std::collections::{BTreeSet, HashSet};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use rolecall_render::ROLES;
use rolecall_render::jinja::{Writes, Written};

/// Bytes that are read to find the tokens of one template; the largest known takes a hundredth.
const MOST_WORK: usize = 1 << 25;
/// What a place with a state of the search costs, in such bytes: it is remembered.
const PAIR: usize = 16;

/// The texts that some output holds, by their places in the list; none where what may be written is not known whole.
pub(crate) fn spelled<'v>(
    writes: &Writes,
    texts: &[&str],
    value: impl Fn(&str) -> Option<&'v str>,
) -> Option<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    if texts.is_empty() {
        return Some(found);
    }
    if !writes.is_complete {
        return None;
    }
    let automaton = NFA::builder().match_kind(MatchKind::Standard).build(texts).ok()?;
    let start = automaton.start_state(Anchored::No).ok()?;
    let mut search = Search { automaton: &automaton, found: &mut found, work: 0 };
    // Each node may begin a text; what comes before it is somebody else's.
    let mut open: Vec<(u32, StateID)> = (0..writes.nodes.len() as u32).map(|node| (node, start)).collect();
    let mut seen: HashSet<(u32, StateID)> = open.iter().copied().collect();
    while let Some((at, state)) = open.pop() {
        search.spend(PAIR)?;
        let node = &writes.nodes[at as usize];
        let ends = match &node.written {
            Written::Nothing => vec![state],
            Written::Text(text) => vec![search.read(state, text, true)?],
            // A role alone is nobody's literal.
            Written::Role => {
                let mut ends = vec![state];
                for role in ROLES {
                    ends.push(search.read(state, role, false)?);
                }
                ends
            }
            Written::Variable(name) => match value(name) {
                Some(text) => vec![state, search.read(state, text, false)?],
                None => vec![state],
            },
        };
        for end in ends.into_iter().filter(|end| *end != start) {
            search.spend(node.next.len())?;
            for next in &node.next {
                if seen.insert((*next, end)) {
                    open.push((*next, end));
                }
            }
        }
    }
    Some(found)
}

struct Search<'a> {
    automaton: &'a NFA,
    found: &'a mut BTreeSet<usize>,
    work: usize,
}

impl Search<'_> {
    fn spend(&mut self, work: usize) -> Option<()> {
        self.work += work;
        (self.work <= MOST_WORK).then_some(())
    }

    /// Reads a text from a state on. Without `alone`, only what began before the text counts.
    fn read(&mut self, mut state: StateID, text: &str, alone: bool) -> Option<StateID> {
        self.spend(text.len())?;
        for (at, byte) in text.bytes().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, byte);
            if self.automaton.is_match(state) {
                for number in 0..self.automaton.match_len(state) {
                    let pattern = self.automaton.match_pattern(state, number);
                    if alone || self.automaton.pattern_len(pattern) > at + 1 {
                        self.found.insert(pattern.as_usize());
                    }
                }
            }
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use rolecall_render::ChatTemplate;

    use super::spelled;

    fn found(source: &str, texts: &[&'static str]) -> Vec<&'static str> {
        let writes = ChatTemplate::compile(source, Vec::new()).unwrap().writes().unwrap();
        let value = |name: &str| (name == "eos_token").then_some("</s>");
        spelled(&writes, texts, value).unwrap().into_iter().map(|at| texts[at]).collect()
    }

    #[test]
    fn literals_are_joined_as_a_template_joins_them() {
        let texts = ["<|end|>", "<|user|>", "<b>"];
        let cases = [
            ("<|end|>", "<|end|>"),
            ("{{ '<|end|>' }}", "<|end|>"),
            ("{{ '<|' ~ 'end' ~ '|>' }}", "<|end|>"),
            ("{{ '<|' 'end' '|>' }}", "<|end|>"),
            ("{{ '<|' + 'end|>' }}", "<|end|>"),
            ("<|{{ 'end' }}|>", "<|end|>"),
            ("<|{% if x %}end{% else %}user{% endif %}|>", "<|end|><|user|>"),
            ("{% for x in y %}<|{% endfor %}{% if z %}end|>{% endif %}", "<|end|>"),
            ("{% set e = 'end' %}{{ '<|' ~ e ~ '|>' }}", "<|end|>"),
            ("{% set n = namespace(e='end') %}{{ '<|' ~ n.e ~ '|>' }}", "<|end|>"),
            ("{% set e %}end{% endset %}<|{{ e }}|>", "<|end|>"),
            ("{% set e = {'a': 'end'} %}<|{{ e[x] }}|>", "<|end|>"),
            ("{% for e in ['end', 'b'] %}<|{{ e }}|>{% endfor %}", "<|end|>"),
            ("{% macro m(e) %}<|{{ e }}|>{% endmacro %}{{ m('end') }}", "<|end|>"),
            ("{{ '<|%s|>' % 'end' }}", "<|end|>"),
            ("{{ '<|{}|>'.format('end') }}", "<|end|>"),
            ("{{ '<|%s|>' | format('end') }}", "<|end|>"),
            ("{{ ['<|', 'end', '|>'] | join }}", "<|end|>"),
            ("{{ ''.join(['<|', 'end', '|>']) }}", "<|end|>"),
            ("{{ ('<|' ~ 'end' ~ '|>') | trim }}", "<|end|>"),
            ("{{ x.replace('<|end|>', '') }}", "<|end|>"),
            ("{% if '<|end|>' in x %}a{% endif %}", "<|end|>"),
            ("{% if '<|' ~ 'end|>' in x %}a{% endif %}", "<|end|>"),
            ("{{ f(a='<|end|>') }}", "<|end|>"),
            ("{{ {'<|end|>': 1} }}", "<|end|>"),
            ("{{ '<|' + m.role + '|>' }}", "<|user|>"),
            ("{{ '<|' + m['role'] + '|>' }}", "<|user|>"),
            ("{% set r = m.role %}<|{{ r }}|>", "<|user|>"),
            // A value of the caller's may be empty, and what is beside it is then joined.
            ("<|{{ x }}end|>", "<|end|>"),
            // What is added to itself, a piece at a time.
            ("{% set e = '<|' %}{% for x in y %}{% set e = e ~ 'end' %}{% endfor %}{{ e ~ '|>' }}", "<|end|>"),
            (
                "{% set n = namespace(e='<') %}{% for x in '|d' %}{% set n.e = n.e ~ 'b' ~ '>' %}{% endfor %}{{ n.e }}",
                "<b>",
            ),
            // Lists, dicts and what is taken out of them.
            ("<|{{ ['end', 'x'] | first }}|>", "<|end|>"),
            ("{% set l = ['x'] + ['end'] %}<|{{ l | last }}|>", "<|end|>"),
            ("{% set d = {'a': {'b': 'end'}} %}<|{{ d['a']['b'] }}|>", "<|end|>"),
            ("{% set d = {'a': ['end']} %}<|{{ d.a[0] }}|>", "<|end|>"),
            ("{% set d = dict(a='end') %}<|{{ d.a }}|>", "<|end|>"),
            ("{% for k, v in {'a': 'end'}.items() %}<|{{ v }}|>{% endfor %}", "<|end|>"),
            ("{% for k, v in [('a', 'end')] %}<|{{ v }}|>{% endfor %}", "<|end|>"),
            ("{% set a, b = x or ('<|', 'end|>') %}{{ a ~ b }}", "<|end|>"),
            ("<|{{ x.get('a', 'end') }}|>", "<|end|>"),
            // Format strings and macros.
            ("{% set f = '<|%s|>' %}{{ f % 'end' }}", "<|end|>"),
            ("{% set f = '<|{}|>' %}{{ f.format('end') }}", "<|end|>"),
            ("{{ m('end') }}{% macro m(e) %}<|{{ e }}|>{% endmacro %}", "<|end|>"),
            (
                "{% macro m(e) %}{{ n(e) }}{% endmacro %}{% macro n(e) %}<|{{ e }}|>{% endmacro %}{{ m('end') }}",
                "<|end|>",
            ),
            ("{% macro m() %}<|{{ caller() }}|>{% endmacro %}{% call m() %}end{% endcall %}", "<|end|>"),
            ("<|{{ messages[0][key] }}|>", "<|user|>"),
            ("<|{{ 'xx'.replace('x', 'end') }}|>", "<|end|>"),
            ("<|{{ x }}|>", ""),
            ("<{{ x }}>", ""),
            ("<|{{ x }} end|>", ""),
            ("b {{ '<' }} {{ '>' }}", ""),
            ("{# <|end|> #}", ""),
        ];
        for (source, wanted) in cases {
            assert_eq!(found(source, &texts).concat(), wanted, "{source}");
        }
        // Not of two alternatives, not of what comes in another order.
        assert!(found("{% if x %}<|{% else %}end|>{% endif %}", &texts).is_empty());
        assert!(found("end|><|", &texts).is_empty());
        // A role that is printed alone is no literal.
        assert!(found("{{ m.role }}", &["user"]).is_empty());
        assert_eq!(found("{{ m.role }}:", &["user:"]), ["user:"]);
        assert_eq!(found("{{ eos_token }}\nx", &["</s>", "</s>\n"]), ["</s>\n"]);
    }
}
