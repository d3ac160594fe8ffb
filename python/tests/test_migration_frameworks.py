"""The lines of docs/python-migration.md: old and new differ in their imports alone, and the new ones give the
recorded results of the old ones."""

import re
from pathlib import Path

import pytest
from interop_rows import Letters, judge, rows, same
from test_interop_lmflow import asked, is_accident, pieces
from test_interop_xtuner import merged, segments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-migration.md"


def block(name):
    """The lines of the page after a comment with this name."""
    found = re.findall(rf"<!-- {re.escape(name)} -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1, name
    return found[0]


def run(name, **given):
    exec(compile(block(name), f"{PAGE.name}: {name}", "exec"), given)
    return given


@pytest.mark.parametrize("framework", ["lmdeploy", "xtuner", "lmflow"])
def test_old_and_new_lines_differ_in_their_imports_alone(framework):
    def rest(lines):
        return [line for line in lines.splitlines() if not line.startswith("from ")]

    old, new = block(f"{framework}: old"), block(f"{framework}: new")
    assert rest(old) == rest(new) and old != new
    names = [set(re.findall(r"\w+", " ".join(re.findall("import (.*)", lines)))) for lines in (old, new)]
    assert names[0] == names[1]


def of(shared, system, op, template):
    return [row for row in rows(shared, system, op) if row["template"] == template]


def test_the_lines_for_lmdeploy(shared, record_property):
    def check(row, expected):
        same(run("lmdeploy: new", messages=row["conversation"])["prompt"], expected.get("prompt"))

    lists = [row for row in of(shared, "lmdeploy", "messages2prompt", "internlm2-chat-7b") if isinstance(row["conversation"], list)]
    judge(lists, check, record_property)


def test_a_class_of_ones_own_is_a_model_as_the_page_says():
    from rolecall.interop.lmdeploy import MODELS

    try:
        prompt = run("lmdeploy: class", messages=[{"role": "user", "content": "Hi"}])["prompt"]
    finally:
        MODELS.module_dict.pop("mine", None)
    assert prompt.text == "<|user|>Hi\n<|assistant|>"
    assert prompt.segments()[1]["origin"] == {"message": 0, "field": "content"}


def test_the_lines_for_xtuner(shared, record_property):
    def check(row, expected):
        sample = run("xtuner: new", messages=row["conversation"], tokenizer=Letters())["sample"]
        same(segments(sample["input_ids"], sample["labels"], row["options"]), merged(expected["segments"]))

    plain = [row for row in of(shared, "xtuner", "train", "internlm2_chat") if row["options"].get("version") == "v0.1.15"]
    judge(plain, check, record_property)


def test_the_lines_for_lmflow(shared, record_property):
    def check(row, expected):
        messages, system, _ = asked(row)
        tokenizer = Letters()
        turns = run("lmflow: new", messages=messages, system=system, tokenizer=tokenizer)["turns"]
        same([[pieces(tokenizer, part) for part in turn] for turn in turns], expected.get("turns"))

    judge([row for row in of(shared, "lmflow", "encode_conversation", "llama3") if not is_accident(row["expected"])], check,
          record_property)


def test_the_same_formats_are_models():
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    question = messages[:2]
    prompt = run("lmdeploy: model", messages=question)["prompt"]
    assert prompt == "<s>" + run("lmdeploy: new", messages=question)["prompt"]
    prompt = run("xtuner: model", messages=question)["prompt"]
    from rolecall.interop.xtuner import chat_inputs

    assert prompt == "<s>" + chat_inputs(question, "internlm2_chat")[0]["text"]
    prompt = run("lmflow: model", messages=messages)["prompt"]
    template = run("lmflow: new", messages=messages, system=None, tokenizer=Letters())["template"]
    assert prompt == template.text(messages, bos_token="<|begin_of_text|>")
