"""XTuner's names: every row of the golden vectors, and what users may pass."""

import copy
import json
import pickle
import threading

import pytest
import rolecall
from interop_rows import Letters, all_ops, judge, rows, same
from rolecall.interop import xtuner
from rolecall.interop.xtuner import (
    PROMPT_TEMPLATE,
    SYSTEM_TEMPLATE,
    ConfigDict,
    chat_inputs,
    encode_fn,
    openai_map_fn,
    stop_words,
    template_map_fn,
    template_map_fn_factory,
)


def test_every_operation_of_the_vectors_is_tested(shared):
    assert all_ops(shared, "xtuner") == {"chat", "train"}


def template_of(row):
    return None if row["template"] == "(none)" else PROMPT_TEMPLATE[row["template"]]


def opening(options):
    """The texts of the opening tokens for a class of tokenizers."""
    name = options.get("tokenizer_class", "")
    if name == "ChatGLMTokenizer":
        return ["#64790", "#64792"]
    return [] if name.lower().startswith("qwen") else [options["bos"]]


def test_chat_rows(shared, record_property):
    def check(row, expected):
        options = row["options"]
        inputs = chat_inputs(
            row["conversation"], template_of(row), bos_token=opening(options), eos_token=options["eos"],
            bot_name=options.get("bot_name", "BOT"), system_template=options.get("system_template"),
            max_new_tokens=options.get("max_new_tokens"),
        )
        same(inputs, expected["model_inputs"])
        same([] if template_of(row) is None else stop_words(template_of(row)), expected["stop_words"])

    judge(rows(shared, "xtuner", "chat"), check, record_property)


def segments(ids, labels, options):
    """The encoded text in the vectors' notation."""
    names = {1: options["bos"], 2: options["eos"]}
    found = []
    for id, label in zip(ids, labels, strict=True):
        assert label in (id, -100)
        loss = label != -100
        if id < Letters.first:
            found.append({"special": names.get(id, f"#{id}"), "loss": loss})
        elif found and "text" in found[-1] and found[-1]["loss"] == loss:
            found[-1]["text"] += chr(id - Letters.first)
        else:
            found.append({"text": chr(id - Letters.first), "loss": loss})
    return found


def merged(segments):
    """Join neighbouring texts, which the vectors keep separate if they are encoded separately."""
    found = []
    for segment in copy.deepcopy(segments):
        if found and "text" in segment and "text" in found[-1] and found[-1]["loss"] == segment["loss"]:
            found[-1]["text"] += segment["text"]
        elif segment.get("text") != "":
            found.append(segment)
    return found


def test_training_rows(shared, record_property):
    def check(row, expected):
        options = row["options"]
        example = openai_map_fn({"messages": row["conversation"]})
        if "conversation" in expected:
            same(example["conversation"], expected["conversation"])
        # The dataset goes through Arrow, so each step gets plain values.
        written = template_map_fn(json.loads(json.dumps(example)), template_of(row))
        if "pairs" in expected:
            own = ("input", "output", "need_eos_token", "sep")
            same([{key: pair[key] for key in own} for pair in written["conversation"]], expected["pairs"])
        for pair, learned in zip(written["conversation"], options.get("output_with_loss", [])):
            pair["output_with_loss"] = learned
        tokenizer = type(options.get("tokenizer_class", "Letters"), (Letters,), {})()
        encoded = encode_fn(
            written, tokenizer, max_length=options.get("max_length", 1 << 20),
            input_ids_with_output=options.get("input_ids_with_output", True),
        )
        same(segments(encoded["input_ids"], encoded["labels"], options), merged(expected["segments"]))

    judge(rows(shared, "xtuner", "train"), check, record_property)


PAIR = {"system": "", "input": "{input} {0} %s", "output": "{output}"}
OWN = dict(SYSTEM="S:{system}\n", INSTRUCTION="{{Q}}{round}: {input}\n", SUFFIX="<e>", SUFFIX_AS_EOS=True, SEP="\n")


def test_templates_have_items_and_attributes_and_can_be_added(monkeypatch):
    template = PROMPT_TEMPLATE.internlm_chat
    assert template is PROMPT_TEMPLATE["internlm_chat"] and template.SUFFIX == template["SUFFIX"] == "<eoa>"
    assert template.get("ABSENT", 1) == 1 and "SUFFIX" in template
    with pytest.raises(AttributeError, match="INSTRUCTION"):
        _ = PROMPT_TEMPLATE.internlm_chat.ABSENT
    with pytest.raises(KeyError):
        PROMPT_TEMPLATE["absent"]
    monkeypatch.setitem(PROMPT_TEMPLATE, "mine", xtuner.ConfigDict(OWN))
    assert template_map_fn({"conversation": [PAIR]}, "mine")["conversation"][0]["output"] == "{output}<e>"
    assert type(pickle.loads(pickle.dumps(PROMPT_TEMPLATE))) is type(copy.deepcopy(PROMPT_TEMPLATE)) is xtuner.ConfigDict


def test_the_fields_can_be_formatted_by_hand():
    template, system = PROMPT_TEMPLATE.internlm2_chat, SYSTEM_TEMPLATE.lawyer
    by_hand = template.SYSTEM.format(system=system) + template.INSTRUCTION.format(input="{x}", round=1)
    (turn,) = chat_inputs([{"role": "user", "content": "{x}"}], template, system_template="lawyer")
    assert turn["text"] == by_hand


def test_braces_and_other_keys_are_kept_and_the_example_is_not_changed():
    pair = {**PAIR, "id": 7, "output_with_loss": False}
    example = {"conversation": [pair, dict(pair)], "other": 1}
    before = copy.deepcopy(example)
    first, second = template_map_fn(example, OWN)["conversation"]
    assert example == before
    assert first["input"] == "{Q}1: {input} {0} %s\n" and second["input"] == "{Q}2: {input} {0} %s\n"
    assert first["output"] == "{output}<e>" and first["id"] == 7 and first["output_with_loss"] is False
    assert (first["need_eos_token"], first["sep"]) == (False, "\n")


def test_none_is_like_a_missing_value():
    pairs = [{"system": None, "input": None, "output": None}, {}]
    written = template_map_fn({"conversation": pairs}, OWN)["conversation"]
    assert [pair["input"] for pair in written] == ["{Q}1: \n", "{Q}2: \n"]
    encoded = encode_fn(
        {"conversation": [{**written[0], "output_with_loss": None, "need_eos_token": None, "sep": None}]}, Letters(), 99
    )
    assert encoded["labels"][-1] == 2 and encoded["input_ids"][0] == 1


def test_the_map_function_can_be_sent_to_workers():
    map_fn = template_map_fn_factory(PROMPT_TEMPLATE.qwen_chat)
    example = {"conversation": [PAIR]}
    assert pickle.loads(pickle.dumps(map_fn))(example) == map_fn(example) == template_map_fn_factory("qwen_chat")(example)


BAD_TEMPLATES = [
    None, 5, [], {}, "absent", {"INSTRUCTION": 5}, {"INSTRUCTION": "no place"}, {"INSTRUCTION": "{input}", "SUFIX": "x"},
    {"INSTRUCTION": "{input"}, {"INSTRUCTION": "{nput}"}, {"INSTRUCTION": "{input}", "SUFFIX_AS_EOS": "yes"},
    {"INSTRUCTION": "{input}", "STOP_WORDS": "x"}, {"INSTRUCTION": "{input}", "SEP": object()},
    {"INSTRUCTION": "{input}", "SYSTEM": "\ud800{system}"}, {5: "x"},
]


@pytest.mark.parametrize("template", BAD_TEMPLATES, ids=range(len(BAD_TEMPLATES)))
def test_bad_templates_are_refused_with_a_typed_error(template):
    with pytest.raises(rolecall.RolecallError) as raised:
        template_map_fn({"conversation": [PAIR]}, template)
    assert raised.value.code and raised.value.help


BAD_EXAMPLES = [
    None, 5, "x", {"conversation": None}, {"conversation": 5}, {"conversation": "x"}, {"conversation": [None]},
    {"conversation": [{"input": 5}]}, {"conversation": [{"input": "a", "output": b"x"}]},
    {"conversation": [{"input": "\ud800"}]},
]


@pytest.mark.parametrize("example", BAD_EXAMPLES, ids=range(len(BAD_EXAMPLES)))
def test_bad_examples_are_refused_with_a_typed_error(example):
    with pytest.raises(rolecall.RolecallError) as raised:
        template_map_fn(example, OWN)
    assert raised.value.code and raised.value.help


BAD_MESSAGES = [
    None, 5, "text", [None], [{}], [{"role": "user"}], [{"role": 5, "content": "a"}], [{"role": "tool", "content": "a"}],
    [{"role": "user", "content": ["a"]}], [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "loss": 1}],
]


@pytest.mark.parametrize("messages", BAD_MESSAGES, ids=range(len(BAD_MESSAGES)))
def test_bad_messages_are_refused_with_a_typed_error(messages):
    with pytest.raises(rolecall.RequestError) as raised:
        openai_map_fn({"messages": messages})
    assert raised.value.code and raised.value.help


def test_a_system_text_without_a_place_for_it_is_refused():
    with pytest.raises(rolecall.RenderError) as raised:
        template_map_fn({"conversation": [{**PAIR, "system": "S"}]}, dict(INSTRUCTION="{input}"))
    assert raised.value.code


def test_encode_fn_refuses_what_it_cannot_encode():
    two = template_map_fn({"conversation": [PAIR, PAIR]}, OWN)
    with pytest.raises(rolecall.RequestError, match="one pair"):
        encode_fn(two, Letters(), 99, input_ids_with_output=False)
    for length in (-1, None, 1.5, True, "9"):
        with pytest.raises(rolecall.RequestError):
            encode_fn(two, Letters(), length)
    with pytest.raises(rolecall.RequestError, match="several|one"):
        encode_fn({"conversation": [{"input": "<image><image>", "output": "x"}]}, Letters(), 9, with_image_token=True)
    assert encode_fn(two, Letters(), 0) == {"input_ids": [], "labels": []}


def test_an_image_has_its_own_id():
    pair = {"input": "a<image>b", "output": "c", "need_eos_token": False}
    with_image = encode_fn({"conversation": [pair]}, Letters(), 99, with_image_token=True)
    letter = Letters.first
    assert with_image["input_ids"] == [1, letter + ord("a"), -200, letter + ord("b"), letter + ord("c")]
    assert len(encode_fn({"conversation": [pair]}, Letters(), 99)["input_ids"]) == 11


def test_an_error_in_a_callers_function_is_the_callers():
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]

    def length(text):
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        chat_inputs(messages, OWN, max_new_tokens=5, length=length)


def test_threads_get_the_same_pairs():
    examples = {name: {"conversation": [PAIR, PAIR]} for name in PROMPT_TEMPLATE}
    expected = {name: template_map_fn(example, name) for name, example in examples.items()}
    wrong = []

    def work():
        for name in list(examples) * 5:
            if template_map_fn(examples[name], name) != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_texts_and_many_pairs_are_written():
    text = "{x}" * 500_000
    (pair,) = template_map_fn({"conversation": [{"input": text, "output": text}]}, OWN)["conversation"]
    assert pair["input"].count("{x}") == 500_000
    assert len(template_map_fn({"conversation": [PAIR] * 5_000}, OWN)["conversation"]) == 5_000


def test_the_history_is_dropped_when_it_reaches_the_length():
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant", "user")]
    template = dict(INSTRUCTION="{input}")
    # BOS, x, x and EOS are four tokens.
    kept, dropped = (chat_inputs(messages, template, max_new_tokens=limit)[1] for limit in (5, 4))
    assert kept == {"text": "<s>xx</s>x", "add_special_tokens": False}
    assert dropped == {"text": "x", "add_special_tokens": True}


def test_a_preset_system_text_names_the_bot_and_gives_way_to_the_conversations_own():
    user = {"role": "user", "content": "a"}
    (turn,) = chat_inputs([user], PROMPT_TEMPLATE.moss_sft, system_template="moss_sft", bot_name="Rob{}")
    assert "name is Rob{}." in turn["text"] and "bot_name" not in turn["text"]
    own = [{"role": "system", "content": "S"}, user]
    assert chat_inputs(own, PROMPT_TEMPLATE.moss_sft, system_template="moss_sft")[0]["text"].startswith("S\n")
    for name in ("absent", 5, ["moss_sft"], {}):
        with pytest.raises(rolecall.RolecallError) as raised:
            chat_inputs([user], system_template=name)
        assert raised.value.code and raised.value.help


@pytest.mark.parametrize("name", ["bos_token", "eos_token", "bot_name"])
@pytest.mark.parametrize("value", [5, [5], "\ud800"])
def test_tokens_of_the_wrong_type_are_refused(name, value):
    with pytest.raises(rolecall.RequestError) as raised:
        chat_inputs([{"role": "user", "content": "a"}], OWN, **{name: value})
    assert raised.value.field == name


def test_the_table_of_models_has_each_template_with_its_footnote(shared):
    table = json.loads((shared / "facts/xtuner_model_table.json").read_text(encoding="utf-8"))["rows"]
    assert list(xtuner.MODEL_TEMPLATES) == [row["model"] for row in table]
    for row in table:
        for name in (row["model"], row["model"].lower(), f"/models/{row['model'].split('/')[1]}/"):
            found = xtuner.template_of(name)
            assert (found, found.footnote is not None) == (row["template"], row["starred"])
        assert found == xtuner.MODEL_TEMPLATES[row["model"]] and found in PROMPT_TEMPLATE
    copied = pickle.loads(pickle.dumps(xtuner.template_of("Qwen/Qwen-7B")))
    assert copied == "default" and copied.footnote
    with pytest.raises(rolecall.FormatError, match="no model `gpt-2`"):
        xtuner.template_of("gpt-2")


def test_the_tokenizers_eos_token_stops_the_model_too():
    class Letters:
        eos_token = "</s>"

    assert stop_words("internlm_chat", Letters()) == ["<eoa>", "</s>"]
    assert stop_words("internlm_chat", Letters(), more=["\n"]) == ["\n", "<eoa>", "</s>"]
    assert stop_words(dict(INSTRUCTION="{input}", STOP_WORDS=["</s>"]), Letters()) == ["</s>"]
    Letters.eos_token = None
    assert stop_words("internlm_chat", Letters()) == ["<eoa>"]


def test_a_template_as_a_dict_is_a_format_and_a_model(tmp_path):
    fields = dict(INSTRUCTION="Q: {input}\nA:", SUFFIX="<eoa>", SUFFIX_AS_EOS=True, STOP_WORDS=["<eoa>"])
    hello = [{"role": "user", "content": "{input}?"}]
    assert rolecall.Format(fields).stop[0] == "<eoa>"
    assert rolecall.Format(PROMPT_TEMPLATE.internlm_chat).stop[0] == "<eoa>"
    for model in (rolecall.load(fields), rolecall.load(format=fields), rolecall.load(ConfigDict(fields))):
        assert model.prompt(hello).text == "<s>Q: {input}?\nA:"
    with pytest.raises(rolecall.FormatError, match="no `{input}`"):
        rolecall.Format(dict(INSTRUCTION="Q"))
    with pytest.raises(rolecall.OpenError, match="no `{input}`"):
        rolecall.load(dict(INSTRUCTION="Q"))
    with pytest.raises(rolecall.RolecallError):
        rolecall.load({})
    # A file of several templates, and one that is named like a built-in format.
    several = tmp_path / "several.py"
    several.write_text("import os\na = dict(INSTRUCTION='A: {input}')\nb = dict(INSTRUCTION='B: {input}')\n")
    assert rolecall.load(f"{several}:b").prompt(hello).text == "<s>B: {input}?"
    assert rolecall.Format.from_file(f"{several}:a").name == "a"
    with pytest.raises(rolecall.OpenError, match="expected one template, found 2"):
        rolecall.load(several)
    named = tmp_path / "vicuna.py"
    named.write_text("vicuna = dict(INSTRUCTION='Q: {input} A:')")
    assert rolecall.load(named).prompt(hello).text == "<s>Q: {input}? A:"
