"""The Responses API by OpenAI's SDK: turns that go on by the id of the one before."""

import json

import openai as sdk
import pytest
from test_tools import TOOLS

FLAT = [{"type": "function", **tool["function"]} for tool in TOOLS]


def test_three_turns_go_on_by_their_ids(openai, passed):
    first = openai.responses.create(model="plain", temperature=0, input="Say hello.", max_output_tokens=12)
    (sent,) = passed()
    had = sent.prompt + sent.sampled
    assert first.output_text
    second = openai.responses.create(model="plain", temperature=0, input="Again.", previous_response_id=first.id, max_output_tokens=12)
    (sent,) = passed()
    assert sent.prompt[: len(had)] == had
    had = sent.prompt + sent.sampled
    events = list(openai.responses.create(
        model="plain", temperature=0, input="And again.", previous_response_id=second.id, max_output_tokens=12, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    # It is incomplete if the limit ended it.
    assert events[-1].type in ("response.completed", "response.incomplete")
    third = events[-1].response
    (sent,) = passed()
    assert sent.prompt[: len(had)] == had and third.output_text == text
    assert openai.responses.retrieve(second.id).output_text == second.output_text


def test_a_response_can_be_continued_twice_and_deleted(openai, passed):
    first = openai.responses.create(model="plain", temperature=0, input="Say hello.", max_output_tokens=8)
    (sent,) = passed()
    had = sent.prompt + sent.sampled
    for text in ("One.", "Two."):
        openai.responses.create(model="plain", temperature=0, input=text, previous_response_id=first.id, max_output_tokens=8)
        (sent,) = passed()
        assert sent.prompt[: len(had)] == had
    openai.responses.delete(first.id)
    with pytest.raises(sdk.NotFoundError):
        openai.responses.retrieve(first.id)


def test_a_function_is_called_and_its_output_sent_back(openai):
    first = openai.responses.create(
        model="tools", input="Will it rain in Paris?", tools=FLAT, tool_choice="required", parallel_tool_calls=False,
        max_output_tokens=300,
    )
    call = next(item for item in first.output if item.type == "function_call")
    json.loads(call.arguments)
    second = openai.responses.create(
        model="tools", previous_response_id=first.id, tools=FLAT, tool_choice="none", max_output_tokens=12,
        temperature=0, input=[{"type": "function_call_output", "call_id": call.call_id, "output": "no rain"}],
    )
    assert second.output_text


def test_structured_output_fits_its_schema(openai):
    schema = {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
        "additionalProperties": False,
    }
    answer = openai.responses.create(
        model="tools", input="The capital of France?", max_output_tokens=100,
        text={"format": {"type": "json_schema", "name": "city", "schema": schema, "strict": True}},
    )
    assert set(json.loads(answer.output_text)) == {"city"}
