"""Calls of tools by OpenAI's SDK. A model this small writes a valid call only because the grammar makes it."""

import json
from concurrent.futures import ThreadPoolExecutor

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 20},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 7},
                },
                "required": ["city", "unit", "days"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"words": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3}},
                "required": ["words"],
                "additionalProperties": False,
            },
        },
    },
]
USER = [{"role": "user", "content": "Will it rain in Paris this week?"}]


def check(call) -> None:
    arguments = json.loads(call.function.arguments)
    if call.function.name == "weather":
        assert set(arguments) == {"city", "unit", "days"}
        assert 1 <= len(arguments["city"]) <= 20 and arguments["unit"] in ("celsius", "fahrenheit")
        assert isinstance(arguments["days"], int) and 1 <= arguments["days"] <= 7
    else:
        assert call.function.name == "search" and set(arguments) == {"words"}
        assert len(arguments["words"]) <= 3 and all(len(word) <= 8 for word in arguments["words"])


def test_required_calls_fit_their_schema_for_fifty_seeds(openai):
    def ask(seed: int):
        answer = openai.chat.completions.create(
            model="tools", messages=USER, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
            seed=seed, temperature=1.0, max_tokens=300,
        )
        return answer.choices[0]

    # The engine answers four at a time.
    with ThreadPoolExecutor(4) as pool:
        choices = list(pool.map(ask, range(50)))
    for seed, choice in enumerate(choices):
        assert choice.finish_reason == "tool_calls", (seed, choice)
        assert len(choice.message.tool_calls) == 1
        check(choice.message.tool_calls[0])


def test_a_named_call_and_no_call(openai):
    given = dict(model="tools", messages=USER, tools=TOOLS, seed=1, max_tokens=300)
    named = openai.chat.completions.create(
        tool_choice={"type": "function", "function": {"name": "search"}}, parallel_tool_calls=False, **given)
    assert [call.function.name for call in named.choices[0].message.tool_calls] == ["search"]
    none = openai.chat.completions.create(tool_choice="none", **given)
    assert not none.choices[0].message.tool_calls


def test_a_streamed_call_adds_up_to_the_whole_one(openai):
    given = dict(model="tools", messages=USER, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
                 seed=3, temperature=0, max_tokens=300)
    whole = openai.chat.completions.create(**given).choices[0].message.tool_calls[0].function
    name, arguments = "", ""
    for chunk in openai.chat.completions.create(stream=True, **given):
        for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
    assert (name, arguments) == (whole.name, whole.arguments)


def test_fifty_turns_with_tools_send_only_what_is_new(openai, passed):
    messages, had = list(USER), []
    for turn in range(50):
        answer = openai.chat.completions.create(
            model="tools", messages=messages, tools=TOOLS, tool_choice="required" if turn % 2 == 0 else "none",
            parallel_tool_calls=False, seed=turn, max_tokens=120 if turn % 2 == 0 else 8,
        )
        (sent,) = passed()
        kept = answer.usage.prompt_tokens_details.kept_tokens
        assert sent.prompt[: len(had)] == had and kept == len(had), turn
        had = sent.prompt + sent.sampled
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if message.tool_calls:
            # Clients spell the arguments as they like.
            for call in messages[-1]["tool_calls"]:
                call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True)
            messages.append({"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "no<|im_end|>"})
        else:
            messages.append({"role": "user", "content": f"And on day {turn}?"})
