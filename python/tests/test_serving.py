"""The plug-ins for vLLM and SGLang, with stand-ins for the engines' base classes and types.

The stand-ins have the names and signatures that the plug-ins use, and the tests call the plug-ins in the
order in which the engines do.
"""

import importlib
import json
import sys
import types

import pytest
import rolecall
from test_stream import TEMPLATE, TOOLS, letters

OPENING = TEMPLATE.replace("{% if add_generation_prompt %}<|im_start|>assistant\n",
                           "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and "
                           "not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}")
ANSWER = """Let me look <b>.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Žilina \\u0041", "days": 3}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>"""
REASONING = "It is <b> “späť” 🙂.\n\nYes"


class Tokenizer:
    """A tokenizer of bytes and control tokens, as far as the plug-ins use one."""

    special = ["<|im_start|>", "<|im_end|>"]

    def get_vocab(self):
        vocabulary = {letter: byte for byte, letter in letters().items()}
        return vocabulary | {text: 256 + at for at, text in enumerate(self.special)}

    def encode(self, text, add_special_tokens=False):
        ids = []
        while text:
            at, found = min(((text.find(token), token) for token in self.special if token in text),
                            default=(len(text), ""))
            ids += [*text[:at].encode(), *([256 + self.special.index(found)] if found else [])]
            text = text[at + len(found):]
        return ids

    def decode(self, ids, skip_special_tokens=False):
        found, special = b"", self.special
        for id in ids:
            found += bytes([id]) if id < 256 else b"" if skip_special_tokens else special[id - 256].encode()
        return found.decode(errors="replace")


class Marked(Tokenizer):
    """The same, in which the markers of reasoning are tokens too."""

    special = [*Tokenizer.special, "<think>", "</think>"]


@pytest.fixture(params=["opened by the model", "opened by the prompt"])
def template(request, tmp_path, monkeypatch):
    source = TEMPLATE if request.param == "opened by the model" else OPENING
    path = tmp_path / "chat_template.jinja"
    path.write_text(source)
    monkeypatch.setenv("ROLECALL_MODEL", str(path))
    return source


def reply_of(template, reasoning, answer):
    opening = "" if template is OPENING else "<think>\n"
    if reasoning is None:
        # Without reasoning, a prompt that opened it must see it closed.
        return ("\n</think>\n\n" if template is OPENING else "") + answer
    return f"{opening}{reasoning}\n</think>\n\n{answer}"


class Fields:
    """A stand-in for a pydantic model."""

    model_fields = {}

    def __init__(self, **values):
        assert set(values) <= set(self.model_fields), (type(self), values)
        for name, default in self.model_fields.items():
            setattr(self, name, values.get(name, [] if default is list else default))


def fields(kind, /, **defaults):
    return type(kind, (Fields,), {"model_fields": defaults})


class Request:
    def __init__(self, tools=TOOLS, tool_choice="auto", **others):
        self.tools, self.tool_choice = tools, tool_choice
        self.skip_special_tokens, self.structured_outputs, self.response_format = True, None, None
        self.parallel_tool_calls, self.chat_template_kwargs = True, None
        self.__dict__.update(others)


@pytest.fixture
def vllm(monkeypatch):
    """Imports the plug-in against stand-ins of vLLM 0.33's modules."""

    class Registry(dict):
        def register_module(self, name=None, force=True, module=None):
            self[name] = module

    class ToolParser:
        def __init__(self, tokenizer, tools=None):
            self.prev_tool_call_arr, self.streamed_args_for_tool = [], []
            self.current_tool_id, self.current_tool_name_sent = -1, False
            self.model_tokenizer, self.tools = tokenizer, tools or []

    class ReasoningParser:
        def __init__(self, tokenizer, *args, **kwargs):
            self.model_tokenizer = tokenizer

        @property
        def vocab(self):
            return self.model_tokenizer.get_vocab()

    def module(name, **members):
        made = types.ModuleType(name)
        made.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, made)

    for package in ("vllm", "vllm.entrypoints", "vllm.entrypoints.generate", "vllm.entrypoints.generate.base"):
        module(package, __path__=[])
    module("vllm.entrypoints.generate.base.protocol",
           DeltaMessage=fields("DeltaMessage", role=None, content=None, reasoning=None, tool_calls=list),
           DeltaToolCall=fields("DeltaToolCall", id=None, type=None, index=None, function=None),
           DeltaFunctionCall=fields("DeltaFunctionCall", name=None, arguments=None),
           FunctionCall=fields("FunctionCall", id=None, name=None, arguments=None),
           ToolCall=fields("ToolCall", id=None, type="function", function=None),
           ExtractedToolCallInformation=fields("Extracted", tools_called=None, tool_calls=None, content=None))
    module("vllm.tool_parsers", ToolParser=ToolParser, ToolParserManager=Registry())
    module("vllm.reasoning", ReasoningParser=ReasoningParser, ReasoningParserManager=Registry())
    module("vllm.sampling_params", StructuredOutputsParams=fields("Params", structural_tag=None))
    monkeypatch.delitem(sys.modules, "rolecall.serving.vllm_plugin", raising=False)
    yield importlib.import_module("rolecall.serving.vllm_plugin")
    sys.modules.pop("rolecall.serving.vllm_plugin", None)


def pieces(text, at):
    return [piece for piece in (text[:at], text[at:]) if piece]


class VllmStream:
    """What vLLM does with one streamed choice, as far as the plug-ins see it."""

    def __init__(self, plugin, prompt, tokenizer, request, reads_reasoning=True):
        self.request, self.tokenizer = request, tokenizer
        self.tools = plugin.ToolParserManager["rolecall"](tokenizer, request.tools)
        self.reasoning = None
        if reads_reasoning:
            self.reasoning = plugin.ReasoningParserManager["rolecall"](tokenizer, model_config=None)
        else:
            self.tools.skip_reasoning_parsing = True
        self.ended = not reads_reasoning
        self.found = {"reasoning": "", "content": "", "calls": {}}
        if self.reasoning is not None:
            ids = tokenizer.encode(prompt)
            self.reasoning.set_prompt_token_ids(ids)
            self.ended = self.reasoning.is_reasoning_end(ids)
            if not self.ended:
                self.reasoning.adjust_initial_state_from_prompt(ids)

    def take(self, delta):
        if delta is None:
            return
        assert delta.content or delta.reasoning or delta.tool_calls
        self.found["reasoning"] += delta.reasoning or ""
        self.found["content"] += delta.content or ""
        for call in delta.tool_calls:
            known = self.found["calls"].setdefault(call.index, [None, None, ""])
            if call.id is not None:
                # A call begins once.
                assert known == [None, None, ""] and call.type == "function" and call.function.name
                known[:2] = call.id, call.function.name
            known[2] += call.function.arguments

    def read_tools(self, text):
        self.take(self.tools.extract_tool_calls_streaming("", text, text, [], [], [], self.request))

    def push(self, text):
        if self.ended:
            return self.read_tools(text)
        delta = self.reasoning.extract_reasoning_streaming("", text, text, [], [], [])
        if self.reasoning.has_engine_confirmed_reasoning_end():
            self.ended = True
            flushed = self.reasoning.finish_streaming()
            rest = ((delta and delta.content) or "") + ((flushed and flushed.content) or "")
            if delta is not None and delta.reasoning:
                self.found["reasoning"] += delta.reasoning
            return self.read_tools(rest)
        self.take(delta)

    def finish(self):
        if self.reasoning is not None and not self.ended:
            self.take(self.reasoning.finish_streaming())
        self.take(self.tools.finish_streaming())
        assert self.tools.get_remaining_unstreamed_args() == ""
        arguments = [call["arguments"] for call in self.tools.prev_tool_call_arr]
        assert arguments == self.tools.streamed_args_for_tool
        return self.found


def expected(found):
    calls = [(name, json.loads(arguments)) for _, name, arguments in found["calls"].values()]
    assert len({id for id, *_ in found["calls"].values()}) == len(calls)
    return found["reasoning"], found["content"], calls


CALLS = [("get_weather", {"city": "Žilina A", "days": 3}), ("get_weather", {"city": "Oslo"})]


def prompt_of(template, **switches):
    return rolecall.load(chat_template=template).prompt(
        [{"role": "user", "content": "Hi"}], tools=TOOLS, add_generation_prompt=True, **switches).text


@pytest.mark.parametrize("reasoning", [REASONING, None])
def test_vllm_streams_cut_at_every_place(vllm, template, reasoning):
    reply, prompt, tokenizer = reply_of(template, reasoning, ANSWER), prompt_of(template), Tokenizer()
    for at in range(len(reply) + 1):
        stream = VllmStream(vllm, prompt, tokenizer, Request())
        for piece in pieces(reply, at):
            stream.push(piece)
        assert expected(stream.finish()) == (reasoning or "", "Let me look <b>.", CALLS), (at, reply[:at])
    stream = VllmStream(vllm, prompt, tokenizer, Request())
    for letter in reply:
        stream.push(letter)
    assert expected(stream.finish()) == (reasoning or "", "Let me look <b>.", CALLS)


def test_vllm_whole_replies(vllm, template):
    for reasoning in (REASONING, None):
        reply = reply_of(template, reasoning, ANSWER)
        parser = vllm.RolecallReasoningParser(Tokenizer(), model_config=None)
        found, content = parser.extract_reasoning(reply, Request())
        assert found == reasoning
        extracted = vllm.RolecallToolParser(Tokenizer(), TOOLS).extract_tool_calls(content, Request())
        assert extracted.tools_called and extracted.content == "Let me look <b>."
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in extracted.tool_calls]
        assert calls == CALLS and all(call.type == "function" and call.id for call in extracted.tool_calls)
    plain = vllm.RolecallToolParser(Tokenizer(), TOOLS).extract_tool_calls("Hi <b>", Request())
    assert (plain.tools_called, plain.tool_calls, plain.content) == (False, [], "Hi <b>")


def test_vllm_a_cut_reply_loses_nothing(vllm, template):
    prompt, tokenizer = prompt_of(template), Tokenizer()
    reply = reply_of(template, REASONING, ANSWER)
    for end in range(len(reply)):
        stream = VllmStream(vllm, prompt, tokenizer, Request())
        for letter in reply[:end]:
            stream.push(letter)
        found = stream.finish()
        assert REASONING.startswith(found["reasoning"]) or found["reasoning"].startswith(REASONING)
        # What is no call is text: the letters of an unfinished marker too.
        if end < reply.index("</think>"):
            said = found["reasoning"] + found["content"]
            start = 0 if template is OPENING or end < len("<think>") else len("<think>")
            assert said.strip() == reply[start:end].strip(), (end, said)


def test_vllm_without_a_reasoning_parser_reasoning_is_content(vllm, template):
    reply = reply_of(template, REASONING, ANSWER)
    raw, prompt = reply[:reply.index("Let me")], prompt_of(template)
    for at in range(len(reply) + 1):
        stream = VllmStream(vllm, prompt, Tokenizer(), Request(), reads_reasoning=False)
        for piece in pieces(reply, at):
            stream.push(piece)
        assert expected(stream.finish()) == ("", raw + "Let me look <b>.", CALLS), at
    parser = vllm.RolecallToolParser(Tokenizer(), TOOLS)
    parser.skip_reasoning_parsing = True
    assert parser.extract_tool_calls(reply, Request()).content == raw + "Let me look <b>."


def test_vllm_a_prompt_may_close_the_reasoning(vllm, tmp_path, monkeypatch):
    path = tmp_path / "chat_template.jinja"
    path.write_text(OPENING)
    monkeypatch.setenv("ROLECALL_MODEL", str(path))
    prompt = prompt_of(OPENING, enable_thinking=False)
    assert prompt.endswith("</think>\n\n")
    stream = VllmStream(vllm, prompt, Tokenizer(), Request())
    assert stream.ended
    stream.push(ANSWER)
    assert expected(stream.finish()) == ("", "Let me look <b>.", CALLS)
    # Without the prompt, the switches say it.
    parser = vllm.RolecallReasoningParser(Tokenizer(), chat_template_kwargs={"enable_thinking": False})
    assert parser.extract_reasoning(ANSWER, Request()) == (None, ANSWER)


@pytest.mark.parametrize("tokenizer", [Tokenizer(), Marked()])
def test_vllm_finds_the_end_of_reasoning_in_ids(vllm, template, tokenizer):
    parser = vllm.RolecallReasoningParser(tokenizer)
    assert (parser.reasoning_start_str, parser.reasoning_end_str) == ("<think>", "</think>")
    prompt, reply = tokenizer.encode(prompt_of(template)), tokenizer.encode(reply_of(template, REASONING, "Hi"))
    rest = tokenizer.encode("\n\nHi")
    ends = []
    assert not parser.is_reasoning_end(prompt)
    for at, id in enumerate(reply):
        ids = prompt + reply[:at + 1]
        if parser.is_reasoning_end_streaming(ids, [id]):
            ends.append(at + 1)
    assert ends == [len(reply) - len(rest)]
    assert parser.is_reasoning_end(prompt + reply[:ends[0]])
    assert not parser.is_reasoning_end(prompt + reply[:ends[0] - 3])
    assert parser.extract_content_ids(reply) == rest
    assert parser.count_reasoning_tokens(reply) == ends[0]
    assert parser.extract_content_ids(reply[:10]) == []
    assert parser.count_reasoning_tokens(reply[:20]) == 20
    assert parser.count_reasoning_tokens(tokenizer.encode("Hi")) == (2 if template is OPENING else 0)


def test_vllm_requests_keep_their_markers(vllm, template):
    tools, reasoning = vllm.RolecallToolParser(Tokenizer(), TOOLS), vllm.RolecallReasoningParser(Tokenizer())
    assert not tools.adjust_request(Request()).skip_special_tokens
    assert tools.adjust_request(Request(tools=None)).skip_special_tokens
    assert tools.adjust_request(Request(tool_choice="none")).skip_special_tokens
    assert not reasoning.adjust_request(Request(tools=None)).skip_special_tokens
    assert tools.adjust_request(Request()).structured_outputs is None
    named = types.SimpleNamespace(type="function", function=types.SimpleNamespace(name="get_weather"))
    for choice in ("required", named):
        request = tools.adjust_request(Request(tool_choice=choice, response_format={"type": "text"}))
        tag = json.loads(request.structured_outputs.structural_tag)
        assert tag["type"] == "structural_tag" and "get_weather" in json.dumps(tag)
        assert "<think>" not in json.dumps(tag) and request.response_format is None
    own = tools.adjust_request(Request(tool_choice="required", structured_outputs="own"))
    assert own.structured_outputs == "own"


def test_vllm_tools_in_other_shapes(vllm, template):
    flat = [{"type": "function", **TOOLS[0]["function"]}, {"type": "web_search"}]

    class Dumped:
        def model_dump(self, exclude_none):
            return flat[0]

    for offered in (flat, [Dumped()], TOOLS, None, [{"type": "function", "name": "\ud800"}]):
        extracted = vllm.RolecallToolParser(Tokenizer()).extract_tool_calls(ANSWER, Request(tools=offered))
        assert len(extracted.tool_calls) == 2


class SglangResult:
    def __init__(self, normal_text=None, reasoning_text=None):
        self.normal_text, self.reasoning_text = normal_text or "", reasoning_text or ""


@pytest.fixture
def sglang(monkeypatch):
    """Registers the plug-in with stand-ins of SGLang 0.5's modules."""

    class BaseFormatDetector:
        def __init__(self):
            self.prev_tool_call_arr, self.streamed_args_for_tool = [], []
            self.current_tool_id, self.current_tool_name_sent = -1, False

    class BaseReasoningFormatDetector:
        def __init__(self, think_start_token, think_end_token, think_excluded_tokens=None, force_reasoning=False,
                     stream_reasoning=True, tool_start_token=None, continue_final_message=False, previous_content="",
                     thinks_internally=False, reasoning_default="always", force_nonempty_content=False,
                     tool_start_at_line_start=False):
            self.think_start_token, self.think_end_token = think_start_token, think_end_token
            self.stream_reasoning, self._force_nonempty_content = stream_reasoning, force_nonempty_content
            self.continue_final_message, self.previous_content = continue_final_message, previous_content
            self._in_reasoning = force_reasoning

    calls = types.SimpleNamespace(ToolCallParserEnum={})
    reasoning = types.SimpleNamespace(DetectorMap={})
    members = {
        "sglang.srt.function_call.function_call_parser": {"FunctionCallParser": calls},
        "sglang.srt.function_call.base_format_detector": {"BaseFormatDetector": BaseFormatDetector},
        "sglang.srt.function_call.core_types": {
            "ToolCallItem": fields("ToolCallItem", tool_index=None, name=None, parameters=None),
            "StreamingParseResult": fields("StreamingParseResult", normal_text="", calls=list)},
        "sglang.srt.parser.reasoning_parser": {
            "ReasoningParser": reasoning, "StreamingParseResult": SglangResult,
            "BaseReasoningFormatDetector": BaseReasoningFormatDetector},
    }
    for name in ("sglang", "sglang.srt", "sglang.srt.function_call", "sglang.srt.parser", *members):
        made = types.ModuleType(name)
        made.__dict__.update(members.get(name, {"__path__": []}))
        monkeypatch.setitem(sys.modules, name, made)
    from rolecall.serving import sglang_plugin

    sglang_plugin.register()
    return calls.ToolCallParserEnum["rolecall"], reasoning.DetectorMap["rolecall"]


def sglang_stream(sglang, chunks, **options):
    """What SGLang does with one streamed choice."""
    calls, reasoning = sglang[0](tokenizer=Tokenizer()), sglang[1](tokenizer=Tokenizer(), **options)
    found = {"reasoning": "", "content": "", "calls": {}}

    def take(result):
        found["content"] += result.normal_text
        for item in result.calls:
            known = found["calls"].setdefault(item.tool_index, [item.tool_index, None, ""])
            if item.name:
                assert known[1] is None
                known[1] = item.name
            known[2] += item.parameters

    def parse(result):
        found["reasoning"] += result.reasoning_text
        if result.normal_text:
            take(calls.parse_streaming_increment(result.normal_text, TOOLS))

    for chunk in chunks:
        parse(reasoning.parse_streaming_increment(chunk))
    parse(reasoning.finish())
    take(calls.finish(TOOLS))
    assert [call["arguments"] for call in calls.prev_tool_call_arr] == calls.streamed_args_for_tool
    return found


@pytest.mark.parametrize("options", [{}, {"stream_reasoning": False}, {"force_reasoning": True}])
def test_sglang_streams_cut_at_every_place(sglang, template, options):
    reply = reply_of(template, REASONING, ANSWER)
    for at in range(len(reply) + 1):
        found = sglang_stream(sglang, pieces(reply, at), **options)
        assert expected(found) == (REASONING, "Let me look <b>.", CALLS), at
    assert expected(sglang_stream(sglang, reply, **options)) == (REASONING, "Let me look <b>.", CALLS)


def test_sglang_replies_without_reasoning(sglang, template):
    assert expected(sglang_stream(sglang, list(ANSWER), force_reasoning=False)) == ("", "Let me look <b>.", CALLS)


def test_sglang_forced_reasoning_may_lack_its_opening_marker(sglang, template):
    reply = f"{REASONING}\n</think>\n\n{ANSWER}"
    for at in range(0, len(reply), 7):
        found = sglang_stream(sglang, pieces(reply, at), force_reasoning=True)
        assert expected(found) == (REASONING, "Let me look <b>.", CALLS)
    assert sglang_stream(sglang, ["<thi"], force_reasoning=True)["reasoning"] == "<thi"


def test_sglang_whole_replies(sglang, template):
    detector, calls = sglang[1](tokenizer=Tokenizer()), sglang[0](tokenizer=Tokenizer())
    result = detector.detect_and_parse(reply_of(template, REASONING, ANSWER))
    assert result.reasoning_text == REASONING and calls.has_tool_call(result.normal_text)
    assert not calls.has_tool_call("Hi <tool")
    parsed = calls.detect_and_parse(result.normal_text, TOOLS)
    assert parsed.normal_text == "Let me look <b>."
    assert [(call.name, json.loads(call.parameters)) for call in parsed.calls] == CALLS
    # A call of an unknown tool is text.
    unknown = calls.detect_and_parse(ANSWER.replace("get_weather", "other"), TOOLS)
    assert unknown.calls == [] and "other" in unknown.normal_text
    kept = sglang[1](tokenizer=Tokenizer(), force_nonempty_content=True)
    only = kept.detect_and_parse(reply_of(template, REASONING, "")[:-len("\n</think>\n\n")])
    assert (only.reasoning_text, only.normal_text) == ("", REASONING)


def test_sglang_continues_a_message(sglang, template):
    detector = sglang[1](tokenizer=Tokenizer(), continue_final_message=True, previous_content="<think>\nIt")
    result = detector.detect_and_parse(" is\n</think>\n\nHi")
    assert (result.reasoning_text.strip(), result.normal_text) == ("is", "Hi")


def test_sglang_structural_tags(sglang, template, monkeypatch):
    detector = sglang[0](tokenizer=Tokenizer())
    assert detector.parses_required_natively() and not detector.supports_structural_tag()
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    assert detector.get_structural_tag(TOOLS, "required") is None
    tag = types.SimpleNamespace(model_validate_json=json.loads)
    monkeypatch.setitem(sys.modules, "xgrammar", types.SimpleNamespace(StructuralTag=tag))
    named = types.SimpleNamespace(function=types.SimpleNamespace(name="get_weather"))
    for choice in ("required", named):
        assert "get_weather" in json.dumps(detector.get_structural_tag(TOOLS, choice))


def test_a_tokenizer_without_a_model_is_refused_by_name(sglang, monkeypatch):
    monkeypatch.delenv("ROLECALL_MODEL", raising=False)
    with pytest.raises(rolecall.RolecallError, match="ROLECALL_MODEL"):
        sglang[0]()


def test_the_model_comes_from_the_tokenizer(sglang, tmp_path, monkeypatch):
    monkeypatch.delenv("ROLECALL_MODEL", raising=False)
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {letter: byte for byte, letter in letters().items()}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.add_special_tokens({"additional_special_tokens": Tokenizer.special})
    tokenizer.chat_template = TEMPLATE
    found = sglang[1](tokenizer=tokenizer).detect_and_parse(reply_of(TEMPLATE, REASONING, "Hi"))
    assert (found.reasoning_text, found.normal_text) == (REASONING, "Hi")
    from rolecall.serving._models import model_of

    assert model_of(tokenizer) is model_of(tokenizer)
