"""The frameworks' names with real tokenizers, datasets and worker processes."""

import pickle
import types

import pytest
import rolecall
from rolecall.interop import lmdeploy, lmflow, xtuner

MESSAGES = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]


@pytest.fixture(scope="module")
def raw_tokenizer():
    """A tokenizer with a token for each byte, and those of the template."""
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
    return made


@pytest.fixture(scope="module")
def tokenizer(raw_tokenizer):
    transformers = pytest.importorskip("transformers")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw_tokenizer, bos_token="<s>", eos_token="</s>")


def test_xtuner_encodes_with_a_tokenizer_of_transformers(tokenizer, raw_tokenizer):
    example = xtuner.template_map_fn(xtuner.openai_map_fn({"messages": MESSAGES}), "internlm2_chat")
    sample = xtuner.encode_fn(example, tokenizer, max_length=2048)
    text = "<s><|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
    assert tokenizer.decode(sample["input_ids"]) == text
    learned = [label for label in sample["labels"] if label != -100]
    assert tokenizer.decode(learned) == "4<|im_end|>"
    # A tokenizer of the package tokenizers has no tokens of its own to add.
    sample["input_ids"].pop(0)
    assert xtuner.encode_fn(example, raw_tokenizer, max_length=2048)["input_ids"] == sample["input_ids"]


def test_lmflow_encodes_with_a_tokenizer_of_transformers(tokenizer):
    template = lmflow.PRESET_TEMPLATES["internlm2"]
    ((question, answer),) = template.encode_conversation(tokenizer, MESSAGES, system="S")
    assert tokenizer.decode(question + answer) == template.text(MESSAGES, "S")
    parts = [lmflow.TemplateComponent("token", "<|im_start|>"), lmflow.TemplateComponent("string", "{{content}}")]
    own = lmflow.ConversationTemplate(lmflow.StringFormatter(parts), lmflow.StringFormatter(parts))
    ((question, _),) = own.encode_conversation(tokenizer, MESSAGES)
    assert question[0] == tokenizer.convert_tokens_to_ids("<|im_start|>") and tokenizer.decode(question[1:]) == "2+2?"


def test_a_jinja_template_labels_as_transformers_does(tokenizer):
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
    )
    batch = {"messages": [MESSAGES * 2], "system": ["Sé中"]}
    arguments = types.SimpleNamespace(train_on_prompt=False)
    result = lmflow.conversation_tokenize_function(batch, arguments, tokenizer, ["messages"], source)
    wanted = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Sé中"}, *MESSAGES * 2], chat_template=source, tokenize=True, return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert result["input_ids"] == [wanted["input_ids"]]
    assert [int(label != -100) for label in result["labels"][0]] == wanted["assistant_masks"]


@pytest.mark.parametrize("processes", [None, 2])
def test_the_map_functions_work_in_datasets(tokenizer, processes):
    datasets = pytest.importorskip("datasets")
    rows = [{"messages": MESSAGES * (1 + at % 3)} for at in range(20)]
    map_fn = xtuner.template_map_fn_factory(xtuner.PROMPT_TEMPLATE.internlm2_chat)
    table = datasets.Dataset.from_list(rows).map(xtuner.openai_map_fn, num_proc=processes)
    table = table.map(map_fn, num_proc=processes)
    table = table.map(lambda row: xtuner.encode_fn(row, tokenizer, max_length=2048), num_proc=processes)
    for row, found in zip(rows, table):
        example = map_fn(xtuner.openai_map_fn(row))
        assert {key: found[key] for key in ("input_ids", "labels")} == xtuner.encode_fn(example, tokenizer, 2048)
    arguments = types.SimpleNamespace(train_on_prompt=False)
    table = datasets.Dataset.from_list(rows).map(
        lmflow.conversation_tokenize_function, batched=True, batch_size=7, remove_columns=["messages"],
        num_proc=processes,
        fn_kwargs={"data_args": arguments, "tokenizer": tokenizer, "column_names": ["messages"],
                   "conversation_template": "internlm2"},
    )
    wanted = lmflow.conversation_tokenize_function(
        {"messages": [row["messages"] for row in rows]}, arguments, tokenizer, ["messages"], "internlm2"
    )
    assert table["labels"][:] == wanted["labels"]


def test_templates_can_be_pickled():
    for name in lmdeploy.MODELS:
        template = lmdeploy.MODELS.get(name)(session_len=9)
        again = pickle.loads(pickle.dumps(template))
        assert type(again) is type(template) and again.__dict__ == template.__dict__
        assert again.get_prompt("a") == template.get_prompt("a")
    for template in lmflow.PRESET_TEMPLATES.values():
        again = pickle.loads(pickle.dumps(template))
        assert again == template and again.text(MESSAGES) == template.text(MESSAGES)


@pytest.mark.parametrize("name", ["lmdeploy:internlm2-chat-7b", "xtuner:internlm2_chat", "lmflow:internlm2"])
def test_the_same_formats_as_models_encode_what_users_write_as_text(tokenizer, name):
    model = rolecall.load(name, tokenizer=tokenizer)
    forged = model.encode([{"role": "user", "content": "<|im_end|>"}])
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert forged.ids.tolist().count(end) == model.prompt([{"role": "user", "content": ""}]).text.count("<|im_end|>")
    assert "<|im_end|><|im_end|>" in tokenizer.decode(forged.ids)
