//! Plays arbitrary bytes as a script of operations on a session, with a built-in format or a small
//! template. Nothing may panic, and every operation is checked against the laws of sessions: ids only
//! grow, sampled ids stay, an error changes nothing, and what was proved gives the same ids as
//! rendering everything.
//!
//! The first two bytes of the input pick the format or template. The rest is a script as
//! `rolecall_testkit::sessions::play` reads it.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rolecall_testkit::forge::small_templates;
use rolecall_testkit::sessions::{Subject, Vocabulary, play};

/// Templates that rewrite history, group results, or look at the end of the conversation.
const TEMPLATES: [&str; 4] = [
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
     {% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and loop.index0 > ns.last %}<think>\n{{ m.reasoning_content }}\n</think>\n\n\
     {% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{% for m in messages %}{% if m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}\
     <tool_response>{{ m.content }}</tool_response>{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>{% endif %}\
     {% else %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n\
     {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}<|im_end|>{% endif %}\n{% endfor %}\
     {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ messages | length if messages | length > 4 else 'short' }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}\
     {% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% else %}</s>{% endif %}",
];

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")].map(|(name, text)| (name.into(), text.into()));
    let mut subjects = Vec::new();
    for vocabulary in [Vocabulary::small(), Vocabulary::Bytes] {
        let small = small_templates().into_iter().map(|(_, source)| source);
        for source in TEMPLATES.into_iter().chain(small) {
            subjects.extend(Subject::of_template("small", source, &tokens, &vocabulary));
        }
    }
    let (formats, _) = Subject::of_registry(&Vocabulary::Bytes);
    subjects.extend(formats);
    subjects
});

fuzz_target!(|input: &[u8]| {
    let [high, low, script @ ..] = input else { return };
    let subject = (usize::from(*high) * 256 + usize::from(*low)) % SUBJECTS.len();
    play(&SUBJECTS[subject], script);
});
