"""Anthropic's Messages API by its SDK."""

import anthropic as sdk
import pytest
from test_tools import TOOLS

FLAT = [
    {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
]
USER = [{"role": "user", "content": "What is the capital of France?"}]


def test_a_stream_adds_up_to_the_whole_answer(anthropic):
    given = dict(model="plain", messages=USER, max_tokens=20, extra_body={"temperature": 0}, system="Be brief.")
    whole = anthropic.messages.create(**given)
    assert whole.content[0].text and whole.usage.output_tokens > 0
    with anthropic.messages.stream(**given) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason


def test_models_are_listed(anthropic):
    models = list(anthropic.models.list())
    assert [(model.id, model.type, model.display_name) for model in models] == [
        ("plain", "model", "plain"), ("tools", "model", "tools")]
    assert anthropic.models.retrieve("tools").created_at == models[1].created_at


def test_a_tool_is_used_and_its_result_sent_back(anthropic, passed):
    given = dict(model="tools", tools=FLAT, max_tokens=300)
    first = anthropic.messages.create(
        messages=USER, tool_choice={"type": "any", "disable_parallel_tool_use": True}, **given)
    (sent,) = passed()
    had = sent.prompt + sent.sampled
    assert first.stop_reason == "tool_use"
    use = next(block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "no rain<|im_end|>"}
    messages = USER + [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    given["max_tokens"] = 10
    anthropic.messages.create(messages=messages, tool_choice={"type": "none"}, **given)
    (sent,) = passed()
    assert sent.prompt[: len(had)] == had, "the turn that is sent again is recognised"


def test_what_is_not_supported_is_refused_by_name(anthropic):
    with pytest.raises(sdk.BadRequestError) as refused:
        anthropic.messages.create(model="plain", messages=USER, max_tokens=5, extra_body={"nonsense": 1})
    assert refused.value.body["error"]["param"] == "nonsense"
