//! Templates of our own: each shows a way in which turns are written.

use rolecall_testkit::sessions::{Subject, Vocabulary};

const CALLS: &str = "{% for c in m.tool_calls or [] %}<tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}";

/// The names and sources.
fn sources() -> Vec<(&'static str, String)> {
    let turns = |body: &str| {
        format!(
            "{{% for m in messages %}}{body}{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
        )
    };
    vec![
        (
            "own: turns",
            turns(&format!("<|im_start|>{{{{ m.role }}}}\n{{{{ m.content or '' }}}}{CALLS}<|im_end|>\n")),
        ),
        (
            "own: the reply's end is text",
            "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}".to_owned(),
        ),
        (
            "own: the next role stops the model",
            "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}".to_owned(),
        ),
        (
            "own: earlier reasoning is dropped",
            format!(
                "{{% set ns = namespace(last=0) %}}{{% for m in messages %}}{{% if m.role == 'user' %}}{{% set ns.last = loop.index0 %}}{{% endif %}}{{% endfor %}}{}",
                turns(
                    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}<think>\n\
                     {{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"
                )
            ),
        ),
        (
            "own: reasoning is kept",
            turns(
                "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n\
                 </think>\n\n{% endif %}{{ m.content }}<|im_end|>\n",
            ),
        ),
        (
            "own: grouped results",
            turns(&format!(
                "{{% if m.role == 'tool' %}}{{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}}<|im_start|>user{{% endif %}}\n\
                 <tool_response>\n{{{{ m.content }}}}\n</tool_response>{{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}}<|im_end|>\n\
                 {{% endif %}}{{% else %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content or '' }}}}{CALLS}<|im_end|>\n{{% endif %}}"
            )),
        ),
        (
            "own: every third turn",
            turns("<|im_start|>{{ m.role }}{{ ' again' if loop.index0 % 3 == 2 else '' }}\n{{ m.content }}<|im_end|>\n"),
        ),
        (
            "own: the length in the header",
            format!(
                "<|im_start|>system\n{{% if messages | length > 4 %}}long{{% else %}}short{{% endif %}}<|im_end|>\n{}",
                turns("<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n")
            ),
        ),
        (
            "own: tools before the last question",
            turns(
                "{% if loop.last and tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n\
                 {{ m.content }}<|im_end|>\n",
            ),
        ),
        (
            "own: a final end",
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>\
             {% else %}</s>{% endif %}"
                .to_owned(),
        ),
        (
            "own: content is trimmed",
            turns("<|im_start|>{{ m.role }}\n{{ (m.content or '') | trim }}<|im_end|>\n"),
        ),
    ]
}

/// Returns the templates with a vocabulary.
pub fn subjects(vocabulary: &Vocabulary) -> Vec<Subject> {
    let tokens = [("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "<|im_end|>".to_owned())];
    let open = |(name, source): (&str, String)| Subject::of_template(name, &source, &tokens, vocabulary);
    sources().into_iter().map(|source| open(source).unwrap()).collect()
}
