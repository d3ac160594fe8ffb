//! Finds the tokens that the literals of a format or template spell, including tokens that several
//! literals spell together.

use std::collections::{BTreeSet, HashSet};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use rolecall_render::ROLES;
use rolecall_render::jinja::{NodeContent, Writes};

/// The limit on the work of searching one template, counted in bytes read. The largest known
/// template uses a hundredth of it.
const MOST_WORK: usize = 1 << 25;
/// The work charged for each pair of a node and a search state, which has to be stored.
const PAIR: usize = 16;

/// Returns the indexes of the texts that some output of `writes` contains, or `None` if `writes` is
/// incomplete or too large to search.
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
    // A text may begin at any node.
    let mut open: Vec<(u32, StateID)> = (0..writes.nodes.len() as u32).map(|node| (node, start)).collect();
    let mut seen: HashSet<(u32, StateID)> = open.iter().copied().collect();
    while let Some((at, state)) = open.pop() {
        search.spend(PAIR)?;
        let node = &writes.nodes[at as usize];
        let ends = match &node.written {
            NodeContent::Nothing => vec![state],
            NodeContent::Text(text) => vec![search.read(state, text, true)?],
            // A role alone does not count as a literal.
            NodeContent::Role => {
                let mut ends = vec![state];
                for role in ROLES {
                    ends.push(search.read(state, role, false)?);
                }
                ends
            }
            NodeContent::Variable(name) => match value(name) {
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

    /// Reads a text starting from a state. Unless `alone` is set, only matches that began before
    /// this text count.
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
    // Long: a table of templates and the texts that they write.
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
            ("{% set t %}{% set e = 'end' %}<|{{ e }}|>{% endset %}{{ t }}", "<|end|>"),
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
            // A caller's value may be empty, which joins the text around it.
            ("<|{{ x }}end|>", "<|end|>"),
            // Strings that grow by appending to themselves.
            ("{% set e = '<|' %}{% for x in y %}{% set e = e ~ 'end' %}{% endfor %}{{ e ~ '|>' }}", "<|end|>"),
            (
                "{% set n = namespace(e='<') %}{% for x in '|d' %}{% set n.e = n.e ~ 'b' ~ '>' %}{% endfor %}{{ n.e }}",
                "<b>",
            ),
            // Lists, dicts and their items.
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
            // Filters, methods and functions that write their arguments.
            ("{{ 'X' | replace('X', '<|') }}end|>", "<|end|>"),
            ("{{ x | truncate(4, true, '<|') }}end|>", "<|end|>"),
            ("{{ x | wordwrap(9, wrapstring='<|') }}end|>", "<|end|>"),
            ("{{ x | indent('<|') }}end|>", "<|end|>"),
            ("{{ x | map('replace', 'X', '<|') | join }}end|>", "<|end|>"),
            ("{{ x | map(attribute='a', default='<|') | join }}end|>", "<|end|>"),
            ("{{ x | join(d='<|') }}end|>", "<|end|>"),
            ("{{ x | batch(2, '<|') | first | last }}end|>", "<|end|>"),
            ("{{ x | default(default_value='<|') }}end|>", "<|end|>"),
            ("{{ x | tojson(separators=('<|', 'end|>')) }}", "<|end|>"),
            ("{% filter replace('X', '<|') %}X{% endfilter %}end|>", "<|end|>"),
            ("{% set e | replace('X', '<|') %}X{% endset %}{{ e }}end|>", "<|end|>"),
            ("{{ 'X'.translate({88: '<|'}) }}end|>", "<|end|>"),
            ("{{ '{a}end|>'.format_map({'a': '<|'}) }}", "<|end|>"),
            ("{{ '%(a)send|>' % {'a': '<|'} }}", "<|end|>"),
            // Text that is cut out of a string at run time is not detected.
            ("{{ ' <| '.split()[0] }}end|>", ""),
            ("{{ namespace(a='<|').a }}end|>", "<|end|>"),
            ("{{ cycler('<|', 'x').next() }}end|>", "<|end|>"),
            ("{% set j = joiner('<|') %}{{ j() }}end|>", "<|end|>"),
            ("{{ joiner('<|')() }}end|>", "<|end|>"),
            ("{% for x in y %}{{ loop.cycle('<|', 'x') }}end|>{% endfor %}", "<|end|>"),
            ("{{ x | trim('<|') }}end|>{{ x.strip('<|') }}end|>{{ raise_exception('<|') }}end|>", ""),
            ("<|{{ x }}|>", ""),
            ("<{{ x }}>", ""),
            ("<|{{ x }} end|>", ""),
            ("b {{ '<' }} {{ '>' }}", ""),
            ("{# <|end|> #}", ""),
        ];
        for (source, wanted) in cases {
            assert_eq!(found(source, &texts).concat(), wanted, "{source}");
        }
        // Alternatives and parts in another order do not combine.
        assert!(found("{% if x %}<|{% else %}end|>{% endif %}", &texts).is_empty());
        assert!(found("end|><|", &texts).is_empty());
        // A role that is printed alone is not a literal.
        assert!(found("{{ m.role }}", &["user"]).is_empty());
        assert_eq!(found("{{ m.role }}:", &["user:"]), ["user:"]);
        assert_eq!(found("{{ eos_token }}\nx", &["</s>", "</s>\n"]), ["</s>\n"]);
    }
}
