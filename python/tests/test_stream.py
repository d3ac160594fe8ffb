"""Replies in pieces: the parser, streams, and OpenAI's chunks."""

import asyncio
import gc
import json
import pickle
import threading
import weakref

import numpy as np
import pytest
import rolecall
from rolecall import events

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]
USER = [{"role": "user", "content": "Weather?"}]
TEMPLATE = """{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% if m.content or not loop.first %}{{ '\\n' }}{% endif %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
REPLY = """<think>
It is “späť” 🙂.
</think>

Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Žilina \\u0041", "days": 3}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call><|im_end|>
"""


def letters():
    """GPT-2's characters for bytes: each byte is a token."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    added = iter(range(256, 512))
    return {byte: chr(byte) if byte in kept else chr(next(added)) for byte in range(256)}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A chat template with reasoning and calls, and a tokenizer of single bytes and two control tokens."""
    folder = tmp_path_factory.mktemp("streaming")
    added = [
        {"id": 256 + at, "content": text, "special": True, "normalized": False, "lstrip": False,
         "rstrip": False, "single_word": False}
        for at, text in enumerate(["<|im_start|>", "<|im_end|>"])
    ]
    tokenizer = {
        "version": "1.0", "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {letter: byte for byte, letter in letters().items()}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return rolecall.load(folder)


def ids_of(text):
    parts = text.split("<|im_end|>")
    ids = list(parts[0].encode())
    for part in parts[1:]:
        ids += [257, *part.encode()]
    return ids


def summed(found):
    """What events add up to, by kind and in order."""
    total = []
    for event in found:
        if isinstance(event, (events.Content, events.Reasoning)):
            key = (event.type,)
        elif isinstance(event, (events.Arguments, events.Code)):
            key = (event.type, event.index)
        else:
            total.append(event)
            continue
        if total and isinstance(total[-1], list) and total[-1][0] == key:
            total[-1][1] += event.text
        else:
            total.append([key, event.text])
    return total


def sums(model, chunks, **arguments):
    stream = model.parse_stream(chunks, USER, tools=TOOLS, **arguments)
    return summed(stream), stream.parser.reading()


def test_a_reply_has_its_reasoning_text_and_calls(model):
    reading = model.parse(REPLY, USER, tools=TOOLS)
    message = reading["message"]
    assert message["reasoning_content"] == "It is “späť” 🙂."
    assert message["content"] == "Let me look."
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])]
    assert calls == [("get_weather", {"city": "Žilina A", "days": 3}), ("get_weather", {"city": "Oslo"})]
    assert reading["finish_reason"] == "tool_calls" and reading["malformed"] == []


def test_the_events_are_typed(model):
    found = summed(model.parse_stream([REPLY], USER, tools=TOOLS))
    kinds = [event[0][0] if isinstance(event, list) else event.type for event in found]
    assert kinds == ["reasoning", "content", "call_started", "arguments", "call_finished",
                     "call_started", "arguments", "call_finished", "stop"]
    started = [event for event in found if isinstance(event, events.CallStarted)]
    assert [(event.index, event.name) for event in started] == [(0, "get_weather"), (1, "get_weather")]
    assert found[-1] == events.Stop("stop")


def test_text_split_at_every_place_gives_the_same_sum(model):
    whole = sums(model, [REPLY])
    assert whole[1] == model.parse(REPLY, USER, tools=TOOLS)
    for at in range(len(REPLY) + 1):
        assert sums(model, [REPLY[:at], REPLY[at:]]) == whole, at
    assert sums(model, list(REPLY)) == whole


def test_ids_split_at_every_place_give_the_same_sum(model):
    ids = ids_of(REPLY)
    whole = sums(model, [ids])
    assert whole[1]["message"] == model.parse(REPLY, USER, tools=TOOLS)["message"]
    for at in range(len(ids) + 1):
        assert sums(model, [ids[:at], np.array(ids[at:], dtype=np.uint32)]) == whole, at
    assert sums(model, ids) == whole
    assert sums(model, iter(np.array(ids))) == whole


def test_the_text_of_a_control_token_ends_no_reply_of_ids(model):
    # As ids, only the control token itself is a marker.
    spelled = list(b"a<|im_end|>b") + [257]
    assert model.parse(spelled)["message"]["content"] == "a<|im_end|>b"
    assert model.parse("a<|im_end|>")["message"]["content"] == "a"


def test_without_messages_the_reply_answers_an_ordinary_user(model):
    assert model.parse("Hi<|im_end|>") == model.parse("Hi<|im_end|>", [{"role": "user", "content": "Hi"}])
    assert model.parse(ids_of("Hi<|im_end|>")) == model.parse("Hi<|im_end|>")
    assert model.parse(REPLY, tools=TOOLS) == model.parse(REPLY, USER, tools=TOOLS)


def test_tools_give_types_even_if_the_format_cannot_offer_them():
    chatml = rolecall.load("chatml")
    assert chatml.parse("Hi<|im_end|>", tools=TOOLS)["message"]["content"] == "Hi"
    assert [event.type for event in chatml.parse_stream(["Hi"], tools=TOOLS)] == ["content", "stop"]


def test_a_prompts_own_parser_continues_what_the_prompt_opened(model):
    messages = [*USER, {"role": "assistant", "content": "It is"}]
    prompt = model.prompt(messages, continue_final_message=True)
    parser = prompt.parser()
    found = [*parser.push(" sunny.<|im_end|>"), *parser.finish()]
    assert found == [events.Content(" sunny."), events.Stop("stop")]
    assert model.parse(" sunny.<|im_end|>", messages, continue_final_message=True)["message"]["content"] == " sunny."


@pytest.mark.parametrize("reason", ["length", "abort"])
def test_a_cut_reply_says_so(model, reason):
    cut = REPLY[:REPLY.index("Oslo")]
    reading = model.parse(cut, USER, tools=TOOLS, finish_reason=reason)
    assert reading["finish_reason"] == reason
    found = list(model.parse_stream(list(cut), USER, tools=TOOLS, finish_reason=lambda: reason))
    finished = [event.whole for event in found if isinstance(event, events.CallFinished)]
    assert finished == [True, False]
    assert found[-1] == events.Stop(reason)
    with pytest.raises(rolecall.RequestError) as raised:
        model.parse("Hi", finish_reason="gone")
    assert raised.value.field == "finish_reason"


def test_a_parser_says_what_it_has_so_far(model):
    parser = model.parser(USER, tools=TOOLS)
    assert parser.reading() == {"message": {"role": "assistant", "content": ""}, "finish_reason": None, "malformed": []}
    half = REPLY.index("Let") + 3
    parser.push(REPLY[:half])
    assert parser.reading()["message"]["content"] == "Let"
    assert parser.reading()["finish_reason"] is None and not parser.finished
    parser.push(REPLY[half:])
    parser.finish()
    assert parser.finished and parser.reading() == model.parse(REPLY, USER, tools=TOOLS)
    message = parser.message()
    assert message["role"] == "assistant" and len(message["tool_calls"]) == 2
    assert "Žilina" in model.prompt([*USER, message], tools=TOOLS).text


def test_a_cut_call_is_no_message(model):
    parser = model.parser(USER, tools=TOOLS)
    parser.push(REPLY[:REPLY.index("Oslo")])
    parser.finish("length")
    with pytest.raises(rolecall.ParseError) as raised:
        parser.message()
    assert raised.value.code == "cut_call" and "arguments" in str(raised.value)


def test_text_and_ids_do_not_mix_and_a_reply_ends_once(model):
    parser = model.parser()
    parser.push("Hi")
    with pytest.raises(rolecall.ParseError) as raised:
        parser.push([1])
    assert raised.value.code == "mixed_reply"
    assert parser.push("!") == [events.Content("!")]
    assert parser.finish() == [events.Stop("stop")]
    for use in (lambda: parser.push("a"), parser.finish):
        with pytest.raises(rolecall.ParseError) as raised:
            use()
        assert raised.value.code == "reply_ended"
    parser = model.parser()
    parser.push([65])
    with pytest.raises(rolecall.ParseError):
        parser.push("a")


def test_an_unknown_id_changes_nothing(model):
    parser = model.parser()
    for bad in ([66, 4_000_000], [66, -1], [66, "a"], [66, None], [66, 1.5], [2 ** 40], -1, 2 ** 32):
        with pytest.raises(rolecall.RolecallError):
            parser.push(bad)
    assert parser.push([65]) == [events.Content("A")]
    assert parser.reading()["message"]["content"] == "A"


@pytest.mark.parametrize("piece", [None, 1.5, b"Hi", bytearray(b"Hi"), {"a": 1}, object(), True, ["a"], "\ud800", [[1]]])
def test_pieces_of_other_types_are_refused_and_the_parser_goes_on(model, piece):
    parser = model.parser()
    parser.push("a")
    with pytest.raises(rolecall.RequestError):
        parser.push(piece)
    assert parser.push("b") == [events.Content("b")]
    # The same in a stream: the events before it have arrived.
    seen = []
    with pytest.raises(rolecall.RequestError):
        for event in model.parse_stream(["a", piece, "b"]):
            seen.append(event)
    assert seen == [events.Content("a")]


@pytest.mark.parametrize("chunks", [b"Hi", bytearray(b"Hi"), memoryview(b"Hi"), "Hi", 7, None, object()])
def test_chunks_of_other_types_are_refused_at_once(model, chunks):
    with pytest.raises(rolecall.RequestError) as raised:
        model.parse_stream(chunks)
    assert raised.value.field == "chunks" and raised.value.help


def test_empty_pieces_say_nothing(model):
    assert [event.type for event in model.parse_stream(["", "", "Hi", ""])] == ["content", "stop"]
    assert [event.type for event in model.parse_stream([[], ids_of("Hi"), []])] == ["content", "stop"]
    assert [event.type for event in model.parse_stream([])] == ["stop"]


LATE_IDS = """{%- for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]{% elif m.tool_calls %}[TOOL_CALLS] [
{%- for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}
{%- if not loop.last %}, {% endif %}{% endfor %}]</s>{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"""


def test_an_id_that_follows_the_arguments_is_the_only_one_in_openais_chunks():
    model = rolecall.load(chat_template=LATE_IDS, eos_token="</s>")
    reply = '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abc123DEF"}, {"name": "g", "arguments": {}}]</s>'
    expected = [(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in model.parse(reply, policies={"id_seed": 7})["message"]["tool_calls"]]
    assert expected[0] == ("abc123DEF", "f", '{"a": 1}') and len(expected) == 2
    for chunks in ([reply], list(reply)):
        calls = {}
        for chunk in model.parse_stream(chunks, as_openai=True, policies={"id_seed": 7}):
            for delta in chunk["choices"][0]["delta"].get("tool_calls", []):
                # OpenAI's own client appends the texts of all chunks, ids too.
                call = calls.setdefault(delta["index"], ["", "", ""])
                function = delta.get("function", {})
                for at, more in enumerate([delta.get("id"), function.get("name"), function.get("arguments")]):
                    call[at] += more or ""
        assert [tuple(call) for _, call in sorted(calls.items())] == expected
    # Events come as soon as they are known, and the id follows.
    late = [event.id for event in model.parse_stream([reply]) if isinstance(event, events.CallFinished)]
    assert late == ["abc123DEF", None]


def closing(chunks, log):
    try:
        yield from chunks
    finally:
        log.append("closed")


async def closing_async(chunks, log):
    try:
        for chunk in chunks:
            await asyncio.sleep(0)
            yield chunk
    finally:
        log.append("closed")


def test_a_loop_that_ends_early_closes_the_source(model):
    log = []
    for _ in model.parse_stream(closing(["a", "b"], log)):
        break
    assert log == ["closed"]
    # With the stream kept, it ends when asked to.
    log.clear()
    stream = model.parse_stream(closing(["a", "b"], log))
    assert next(stream) == events.Content("a")
    assert log == []
    assert next(stream) == events.Content("b")
    stream.close()
    assert log == ["closed"] and list(stream) == []
    log.clear()
    with model.parse_stream(closing(["a"], log)) as stream:
        next(stream)
    assert log == ["closed"]


class Source:
    """An iterator that is no generator."""

    def __init__(self, chunks):
        self.chunks, self.closed = iter(chunks), 0

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.chunks)

    def close(self):
        self.closed += 1


def test_a_source_that_was_never_read_is_closed_too(model):
    source = Source(["a"])
    with model.parse_stream(source):
        pass
    assert source.closed


def test_an_open_file_stays_open(model, tmp_path):
    path = tmp_path / "chunks.txt"
    path.write_text("a\nb\n")
    with path.open() as file:
        for _ in model.parse_stream(file):
            break
        assert not file.closed


def test_an_error_of_the_source_passes_through(model):
    log = []

    def failing():
        yield "a"
        raise KeyError("own")

    stream = model.parse_stream(closing(failing(), log))
    assert next(stream) == events.Content("a")
    with pytest.raises(KeyError, match="own"):
        next(stream)
    assert log == ["closed"]
    # What has arrived is still there.
    assert stream.parser.finish("abort") == [events.Stop("abort")]
    assert stream.parser.reading()["message"]["content"] == "a"


def test_asynchronous_chunks_give_asynchronous_events(model):
    log = []

    async def read():
        stream = model.parse_stream(closing_async(list(REPLY), log), USER, tools=TOOLS)
        return [event async for event in stream], stream.parser.reading()

    found, reading = asyncio.run(read())
    assert (summed(found), reading) == sums(model, [REPLY]) and log == ["closed"]


def test_an_asynchronous_loop_that_ends_early_closes_the_source(model):
    log = []

    async def read():
        async with model.parse_stream(closing_async(["a", "b"], log)) as stream:
            async for event in stream:
                assert event == events.Content("a")
                break
        assert log == ["closed"]
        log.clear()
        async for _ in model.parse_stream(closing_async(["a", "b"], log)):
            break
        # The event loop closes a generator that was dropped.
        await asyncio.sleep(0.01)
        assert log == ["closed"]
        log.clear()
        stream = model.parse_stream(closing_async(["a", "b"], log))
        assert await stream.__anext__() == events.Content("a")
        await stream.aclose()
        assert log == ["closed"]

        async def failing():
            yield "a"
            raise KeyError("own")

        with pytest.raises(KeyError, match="own"):
            async for _ in model.parse_stream(failing()):
                pass

    asyncio.run(read())


def test_a_cancelled_task_closes_the_source(model):
    log = []

    async def endless():
        try:
            while True:
                yield "a"
                await asyncio.sleep(0.001)
        finally:
            log.append("closed")

    async def read():
        async for _ in model.parse_stream(endless()):
            pass

    async def main():
        task = asyncio.create_task(read())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.01)
        assert log == ["closed"]

    asyncio.run(main())


def test_the_wrong_loop_is_refused(model):
    async def over_plain():
        async for _ in model.parse_stream(["a"]):
            pass

    with pytest.raises(rolecall.RequestError, match="use `for`"):
        asyncio.run(over_plain())
    with pytest.raises(rolecall.RequestError, match="use `async for`"):
        iter(model.parse_stream(closing_async([], [])))


def test_a_source_may_use_the_same_parser_and_stream(model):
    def chunks():
        yield "a"
        inner.append(stream.parser.push("b"))
        yield "c"
        with pytest.raises(ValueError, match="already executing"):
            next(stream)
        stream.parser.finish()

    inner = []
    stream = model.parse_stream(chunks())
    with pytest.raises(rolecall.ParseError):
        list(stream)
    assert inner == [[events.Content("b")]]
    assert stream.parser.reading()["message"]["content"] == "abc"


def test_an_iterable_of_ids_may_use_the_same_parser(model):
    parser = model.parser()

    def ids():
        yield 65
        assert parser.push([66]) == [events.Content("B")]
        yield 67

    assert parser.push(ids()) == [events.Content("AC")]
    assert parser.reading()["message"]["content"] == "BAC"


def test_threads_share_a_parser_and_no_piece_is_lost(model):
    parser, found = model.parser(), []

    def push():
        for _ in range(200):
            found.extend(parser.push("ab" * 400))
            found.extend(parser.push("ab"))

    threads = [threading.Thread(target=push) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parser.finish()
    said = "".join(event.text for event in found)
    assert len(said) == 8 * 200 * 802
    content = parser.reading()["message"]["content"]
    assert len(content) == len(said) and set(content) == {"a", "b"} and "aa" not in content


def test_events_behave_as_values():
    event = events.CallStarted(0, "call_1", "f")
    assert event == events.CallStarted(0, "call_1", "f") != events.CallStarted(1, "call_1", "f")
    assert events.Content("a") != events.Reasoning("a")
    assert pickle.loads(pickle.dumps(event)) == event and len({event, event}) == 1
    with pytest.raises(AttributeError):
        event.name = "g"
    match event:
        case events.CallStarted(index, id, name):
            assert (index, id, name) == (0, "call_1", "f")
    assert event.to_dict() == {"type": "call_started", "index": 0, "id": "call_1", "name": "f"}
    assert events.Malformed((1, 2), "expected", "why").to_dict()["span"] == [1, 2]
    assert events.CallFinished(0, True).to_dict() == {"type": "call_finished", "index": 0, "whole": True}


def test_malformed_output_is_reported_and_kept(model):
    found = list(model.parse_stream(["<tool_call>\n{\"name\": 7}\n</tool_call>"], USER, tools=TOOLS))
    malformed = [event for event in found if isinstance(event, events.Malformed)]
    assert malformed and malformed[0].code and malformed[0].span[0] <= malformed[0].span[1]
    said = "".join(event.text for event in found if isinstance(event, events.Content))
    assert '{"name": 7}' in said


def test_policies(model):
    unknown = REPLY.replace("get_weather", "other")
    assert len(model.parse(unknown, USER, tools=TOOLS)["message"]["tool_calls"]) == 2
    refused = model.parse(unknown, USER, tools=TOOLS, policies={"unknown_names": "text"})
    assert "tool_calls" not in refused["message"] and "other" in refused["message"]["content"]
    one = model.parse(REPLY, USER, tools=TOOLS, policies={"max_calls": 1})
    assert len(one["message"]["tool_calls"]) == 1
    ids = [model.parse(REPLY, USER, tools=TOOLS, policies={"id_seed": seed})["message"]["tool_calls"][0]["id"]
           for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]
    nine = model.parse(REPLY, USER, tools=TOOLS, policies={"id_form": "nine"})["message"]["tool_calls"][0]["id"]
    assert len(nine) == 9
    checked = model.parse(REPLY.replace("3", '"x"'), USER, tools=TOOLS, policies={"check_schema": True})
    assert [one["code"] for one in checked["malformed"]] == ["schema"]


@pytest.mark.parametrize("policies", [
    7, [], {"max_calls": -1}, {"max_calls": "one"}, {"strict_json": 1}, {"unknown_names": "drop"}, {"id_seed": 1.5},
    {"calls_in_reasoning": None}, {"maxcalls": 1}, {"cap": 2 ** 80}, {"id_form": 9}, {"check_schema": "yes"},
])
def test_bad_policies_are_refused_by_name(model, policies):
    for use in (lambda: model.parse("Hi", policies=policies), lambda: model.parser(policies=policies),
                lambda: model.parse_stream(["Hi"], policies=policies),
                lambda: model.prompt(USER).parser(policies=policies)):
        with pytest.raises(rolecall.RequestError) as raised:
            use()
        assert raised.value.field.startswith("policies")


@pytest.mark.parametrize("arguments", [
    {"finish_reason": 7}, {"finish_reason": "\ud800"}, {"finish_reason": b"stop"}, {"policies": "none"},
])
def test_bad_arguments_of_parse_are_refused_by_name(model, arguments):
    with pytest.raises(rolecall.RequestError) as raised:
        model.parse("Hi", **arguments)
    assert raised.value.field == next(iter(arguments))


@pytest.mark.parametrize("arguments", [
    {"completion": []}, {"completion": {"id": 7}}, {"completion": {"created": None}}, {"prompt_tail": 7},
    {"prompt_tail": "\ud800"}, {"prompt_tail": b"a"},
])
def test_bad_arguments_of_parser_are_refused_by_name(model, arguments):
    with pytest.raises(rolecall.RequestError) as raised:
        model.parser(**arguments)
    assert raised.value.field in ("completion", "id", "created", "prompt_tail")


def message_of(reading):
    message = reading["message"]
    calls = [(call.get("function") or call["code_interpreter"]) for call in message.get("tool_calls", [])]
    return message.get("reasoning_content") or "", message["content"], calls


def test_golden_outputs_cut_anywhere_and_at_the_end_of_their_reasoning_give_the_same_message(root):
    path = root.parent / "shared" / "golden" / "outputs.jsonl"
    if not path.exists():
        pytest.skip("../shared is missing, so no golden row was compared")
    models, reasoned = {}, 0
    for number, line in enumerate(path.read_text().splitlines()):
        row = json.loads(line)
        parts = {"bos_token": row["bos_token"] or "", "eos_token": row["eos_token"] or ""}
        key = (row["template"], *parts.values())
        if key not in models:
            source = (path.parent.parent / "templates" / row["template"]).read_text()
            models[key] = rolecall.load(chat_template=source, **parts)
        model, output = models[key], row["options"]["output"]
        about = {"tools": row["tools"], "prompt_tail": row["options"]["prompt"]}
        at = number * 7919 % (len(output) + 1)
        pieces = [output[:at], output[at:]]

        def parsed(pieces, **options):
            parser = model.parser(**about, **options)
            for piece in pieces:
                parser.push(piece)
            parser.finish()
            return message_of(parser.reading())

        whole = parsed([output])
        assert parsed(pieces) == whole, (row["id"], at)
        split = model.reasoning_split(**about)
        found = [*(split.push(piece) for piece in pieces), split.finish()]
        reasoning, rest, raw = ("".join(part) for part in zip(*found))
        assert raw + rest == output, (row["id"], at)
        more, content, calls = parsed([rest], after_reasoning=True)
        assert (reasoning + more, content, calls) == whole, (row["id"], at)
        reasoned += bool(reasoning)
    assert reasoned > 20


def merged(chunks):
    """A message from OpenAI's chunks, as a client merges them."""
    message = {"content": "", "tool_calls": {}}
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        for call in delta.get("tool_calls", []):
            known = message["tool_calls"].setdefault(call["index"], {"name": "", "arguments": "", "id": None})
            known["id"] = call.get("id") or known["id"]
            known["name"] += call["function"].get("name", "")
            known["arguments"] += call["function"].get("arguments", "")
    return message


def test_openai_chunks_add_up_wherever_the_text_is_split(model):
    policies = {"id_seed": 1}
    of = lambda chunks: merged(model.parse_stream(  # noqa: E731
        chunks, USER, tools=TOOLS, as_openai=True, policies=policies))
    whole = of([REPLY])
    assert whole["content"] == "Let me look." and len(whole["tool_calls"]) == 2
    for at in range(len(REPLY)):
        assert of([REPLY[:at], REPLY[at:]]) == whole, at


def test_openai_chunks_have_the_shape_of_the_sdk(model):
    ChatCompletionChunk = pytest.importorskip("openai.types.chat").ChatCompletionChunk
    for finish_reason, expected in (("stop", "tool_calls"), ("length", "length")):
        reply = REPLY if finish_reason == "stop" else REPLY[:-20]
        chunks = list(model.parse_stream(list(reply), USER, tools=TOOLS, as_openai=True, finish_reason=finish_reason))
        parsed = [ChatCompletionChunk.model_validate(chunk, strict=True) for chunk in chunks]
        assert parsed[0].choices[0].delta.role == "assistant"
        assert [chunk.choices[0].finish_reason for chunk in parsed] == [None] * (len(parsed) - 1) + [expected]
        assert len({(chunk.id, chunk.created, chunk.model) for chunk in parsed}) == 1
        assert parsed[0].id.startswith("chatcmpl-") and parsed[0].model == model.name and parsed[0].created > 1.7e9
        # The SDK's dump is the dict: nothing is extra except the reasoning.
        for chunk, one in zip(chunks, parsed):
            if "reasoning_content" not in chunk["choices"][0]["delta"]:
                assert one.to_dict(exclude_unset=True, mode="json") == chunk


def test_openai_chunks_have_the_callers_fields(model):
    chunks = list(model.parse_stream(["Hi"], as_openai=True, id="chatcmpl-7", model="mine", created=5))
    assert {(chunk["id"], chunk["model"], chunk["created"]) for chunk in chunks} == {("chatcmpl-7", "mine", 5)}
    first, second = (list(model.parse_stream([REPLY], tools=TOOLS, as_openai=True)) for _ in range(2))
    assert first[0]["id"] != second[0]["id"]
    assert merged(first)["tool_calls"][0]["id"] != merged(second)["tool_calls"][0]["id"]
    for bad in ({"id": 7}, {"model": b"m"}, {"created": "now"}, {"created": 2 ** 70}):
        with pytest.raises(rolecall.RequestError) as raised:
            model.parse_stream(["Hi"], as_openai=True, **bad)
        assert raised.value.field == next(iter(bad))


def test_a_stream_leaves_no_cycle(model):
    gc.collect()
    gc.disable()
    try:
        stream = model.parse_stream(["a", "b"])
        alive = weakref.ref(stream)
        next(stream)
        del stream
        assert alive() is None
    finally:
        gc.enable()


def test_memory_is_flat_over_many_parsers_and_bad_pieces(model):
    resource = pytest.importorskip("resource")
    bad = [None, b"a", [4_000_000], object(), 1.5, "\ud800"]

    def work(times):
        for at in range(times):
            parser = model.parser()
            parser.push("a")
            try:
                parser.push(bad[at % len(bad)])
            except rolecall.RolecallError:
                pass
            parser.finish()
            stream = model.parse_stream(["a"])
            next(stream)

    work(2_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(20_000)
    # In KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


def test_memory_is_the_replys_over_many_pushes(model):
    resource = pytest.importorskip("resource")
    parser = model.parser()
    for _ in range(10_000):
        parser.push("ab")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):
        parser.push("ab")
    # In KiB. The reply itself has 200 KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048
    assert len(parser.reading()["message"]["content"]) == 220_000


def test_policies_of_json_and_of_text_after_calls(model):
    loose = '<tool_call>\n{"name": "ping", "arguments": {"a": 1,}}\n</tool_call><|im_end|>'
    for policies, is_read in [(None, True), ({"strict_json": False}, True), ({"strict_json": True}, False)]:
        malformed = model.parse(loose, policies=policies)["malformed"]
        assert ("bad_value" not in [one["code"] for one in malformed]) == is_read, malformed
    after = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>\nmore<|im_end|>'
    for word, count in [("content", 0), ("report", 1)]:
        read = model.parse(after, policies={"text_after_calls": word})
        assert read["message"]["content"].strip() == "more" and len(read["malformed"]) == count
