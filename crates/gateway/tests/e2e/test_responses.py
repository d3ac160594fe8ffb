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


MCP = {"type": "mcp", "server_label": "own", "allowed_tools": ["echo.it"]}
CHOICE = {"type": "mcp", "server_label": "own", "name": "echo.it"}


def test_a_tool_of_an_mcp_server_runs_and_its_items_go_back(openai, passed):
    ask = dict(model="tools", tools=[{**MCP, "require_approval": "never"}], temperature=0, max_output_tokens=200)
    ask |= dict(parallel_tool_calls=False)
    question = {"role": "user", "content": "Say hello."}
    events = list(openai.responses.create(**ask, input=[question], tool_choice=CHOICE, stream=True))
    kinds = [event.type for event in events]
    for kind in ("mcp_list_tools.completed", "mcp_call.in_progress", "mcp_call_arguments.done", "mcp_call.completed"):
        assert "response." + kind in kinds
    answer = events[-1].response
    listed, call = (next(item for item in answer.output if item.type == kind) for kind in ("mcp_list_tools", "mcp_call"))
    assert [tool.name for tool in listed.tools] == ["echo.it"] and listed.tools[0].input_schema["type"] == "object"
    json.loads(call.arguments)
    assert call.output.startswith("echo.it {") and call.status == "completed" and call.error is None
    had = passed()[-1].prompt
    # What the SDK's objects say is the same conversation.
    openai.responses.create(**ask | dict(max_output_tokens=8), tool_choice="none",
                            input=[question, *answer.output, {"role": "user", "content": "Again."}])
    (sent,) = passed()
    assert sent.prompt[: len(had)] == had


def test_a_call_of_an_mcp_server_waits_for_approval(openai):
    ask = dict(model="tools", tools=[MCP], max_output_tokens=200, temperature=0)
    asked = openai.responses.create(**ask, input="Say hello.", tool_choice=CHOICE, parallel_tool_calls=False)
    request = asked.output[-1]
    assert request.type == "mcp_approval_request" and request.name == "echo.it"
    response = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    answer = openai.responses.create(**ask, previous_response_id=asked.id, input=[response], tool_choice="none")
    assert answer.output[0].type == "mcp_call" and answer.output[0].approval_request_id == request.id
    assert answer.output_text
