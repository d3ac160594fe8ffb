"""The plug-in for vLLM's ``--tool-parser-plugin`` and ``--reasoning-parser-plugin``.

It registers a tool parser and a reasoning parser with the name ``rolecall``. :mod:`rolecall.serving` says
how to start the server, and what was tested.

- Calls and reasoning are read from the text, as it streams. ``skip_special_tokens`` is turned off where
  the text needs its markers.
- ``tool_choice`` ``"required"`` and named tools use the model's own syntax, restricted by a structural tag.
- Text is never lost: what cannot be read as a call is content.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import rolecall
from rolecall.serving._models import Answer, Call, model_of, split_of, switches_of, tools_of, whole


def _find(name: str, *modules: str) -> Any:
    """Import a name from the module that has it in this version of vLLM."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"vllm has no {name} in {', '.join(modules)}")


_TYPES = (
    "vllm.entrypoints.generate.base.protocol",
    "vllm.entrypoints.openai.engine.protocol",
    "vllm.entrypoints.openai.protocol",
)
_TOOLS = ("vllm.tool_parsers", "vllm.tool_parsers.abstract_tool_parser", "vllm.entrypoints.openai.tool_parsers")

DeltaMessage = _find("DeltaMessage", *_TYPES)
DeltaToolCall = _find("DeltaToolCall", *_TYPES)
DeltaFunctionCall = _find("DeltaFunctionCall", *_TYPES)
ExtractedToolCallInformation = _find("ExtractedToolCallInformation", *_TYPES)
FunctionCall = _find("FunctionCall", *_TYPES)
ToolCall = _find("ToolCall", *_TYPES)
ToolParser: Any = _find("ToolParser", *_TOOLS)
ToolParserManager = _find("ToolParserManager", *_TOOLS)
ReasoningParser: Any = _find("ReasoningParser", "vllm.reasoning")
ReasoningParserManager = _find("ReasoningParserManager", "vllm.reasoning")

# Versions before 0.14 have the field under another name.
_REASONING = "reasoning" if "reasoning" in DeltaMessage.model_fields else "reasoning_content"


def _delta(reasoning: str, content: str, calls: Sequence[Any] = ()) -> Any:
    if not (reasoning or content or calls):
        return None
    fields: dict[str, Any] = {}
    if reasoning:
        fields[_REASONING] = reasoning
    if content:
        fields["content"] = content
    if calls:
        fields["tool_calls"] = list(calls)
    return DeltaMessage(**fields)


class RolecallToolParser(ToolParser):  # type: ignore[misc]
    """Reads the calls of any model."""

    #: Required and named tools are read from the model's own syntax too.
    supports_required_and_named = False
    #: The parser gets each delta once, and is told when the stream ends.
    engine_based_streaming = True
    #: vLLM sets this if no reasoning parser is used. Reasoning is then part of the content.
    skip_reasoning_parsing = False

    def __init__(self, tokenizer: Any, tools: Any = None, **_: Any) -> None:
        if "tools" in inspect.signature(ToolParser.__init__).parameters:
            super().__init__(tokenizer, tools)
        else:
            super().__init__(tokenizer)
        self._offered = tools
        self._model = model_of(tokenizer)
        self._answer: Answer | None = None
        self._split: Any = None

    def _begin(self, request: Any) -> None:
        tools = tools_of(getattr(request, "tools", None) or self._offered)
        self._answer = Answer(self._model, tools)
        if self.skip_reasoning_parsing:
            switches = switches_of(getattr(request, "chat_template_kwargs", None))
            self._split = split_of(self._model, switches, None)

    def _push(self, text: str) -> tuple[str, list[Call]]:
        assert self._answer is not None
        if self._split is None:
            return self._answer.push(text)
        _, rest, raw = self._split.push(text)
        content, calls = self._answer.push(rest)
        return raw + content, calls

    def _finish(self) -> tuple[str, list[Call]]:
        assert self._answer is not None
        raw, content, calls = "", "", []
        if self._split is not None:
            _, rest, raw = self._split.finish()
            content, calls = self._answer.push(rest)
        more, last = self._answer.finish()
        return raw + content + more, [*calls, *last]

    def adjust_request(self, request: Any) -> Any:
        """Keep the markers of calls in the text, and restrict calls that are required."""
        choice = getattr(request, "tool_choice", None)
        if not getattr(request, "tools", None) or choice == "none":
            return request
        request.skip_special_tokens = False
        if choice in (None, "auto") or getattr(request, "structured_outputs", None) is not None:
            return request
        try:
            tag = self._tag(request, choice)
        except rolecall.RolecallError:
            # The layouts do not support it. The calls are still read.
            return request
        params = _find("StructuredOutputsParams", "vllm.sampling_params")
        request.structured_outputs = params(structural_tag=tag)
        if hasattr(request, "response_format"):
            request.response_format = None
        return request

    def _tag(self, request: Any, choice: Any) -> str:
        function = getattr(choice, "function", None) or choice
        name = function if isinstance(function, str) else getattr(function, "name", None)
        options = {
            "tools": tools_of(request.tools),
            "tool_choice": name or choice,
            "parallel_tool_calls": getattr(request, "parallel_tool_calls", None) is not False,
        }
        has_reasoning = self._model.reasoning_split().markers is not None
        if not has_reasoning:
            return str(self._model.grammar(**options).structural_tag())
        # With a reasoning parser, vLLM applies the tag after the reasoning.
        reasoning = "optional" if self.skip_reasoning_parsing else "over"
        return str(self._model.grammar(**options, reasoning=reasoning).structural_tag())

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Read the calls of a whole reply."""
        self._begin(request)
        content, parts = self._push(model_output)
        more, last = self._finish()
        content += more
        calls = [
            ToolCall(id=call.id, type="function", function=FunctionCall(name=call.name, arguments=call.arguments))
            for call in whole([*parts, *last])
        ]
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=content or None)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """Read what a delta adds."""
        if self._answer is None:
            self._begin(request)
        content, calls = self._push(delta_text)
        return _delta("", content, self._deltas(calls))

    def finish_streaming(self) -> Any:
        """Return what was held back at the end of the stream."""
        if self._answer is None:
            return None
        content, calls = self._finish()
        return _delta("", content, self._deltas(calls))

    def get_remaining_unstreamed_args(self) -> str:
        """Return nothing: arguments are streamed as soon as they are read."""
        return ""

    def _deltas(self, calls: list[Call]) -> list[Any]:
        deltas = []
        for call in calls:
            while len(self.prev_tool_call_arr) <= call.index:
                self.prev_tool_call_arr.append({"name": "", "arguments": ""})
                self.streamed_args_for_tool.append("")
            known = self.prev_tool_call_arr[call.index]
            known["name"] = call.name or known["name"]
            known["arguments"] += call.arguments
            self.streamed_args_for_tool[call.index] += call.arguments
            self.current_tool_id, self.current_tool_name_sent = call.index, True
            begins = {"id": call.id, "type": "function"} if call.name else {}
            function: dict[str, Any] = {"arguments": call.arguments}
            if call.name:
                function["name"] = call.name
            deltas.append(DeltaToolCall(index=call.index, function=DeltaFunctionCall(**function), **begins))
        return deltas


class RolecallReasoningParser(ReasoningParser):  # type: ignore[misc]
    """Reads the reasoning of any model."""

    #: The parser gets each delta once, and says when the reasoning is over.
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._model = model_of(tokenizer)
        self._switches = switches_of(kwargs.get("chat_template_kwargs"))
        self._tail: str | None = None
        self._split: Any = None
        self._markers = self._model.reasoning_split().markers
        close = self._markers and self.vocab.get(self._markers[1])
        self._close_id: int | None = close

    def _begin(self) -> Any:
        return split_of(self._model, self._switches, self._tail)

    @property
    def reasoning_start_str(self) -> str | None:
        """The text that opens reasoning."""
        return (self._markers and self._markers[0]) or None

    @property
    def reasoning_end_str(self) -> str | None:
        """The text that closes reasoning."""
        return (self._markers and self._markers[1]) or None

    def adjust_request(self, request: Any) -> Any:
        """Keep the markers of reasoning in the text."""
        if self._markers:
            request.skip_special_tokens = False
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Take the prompt, which may have opened or closed the reasoning."""
        self._tail = self._text(prompt_token_ids)

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        """Take the prompt, which may have opened the reasoning."""
        self.set_prompt_token_ids(prompt_token_ids)

    def _text(self, ids: Iterable[int]) -> str:
        return str(self.model_tokenizer.decode(list(ids), skip_special_tokens=False))

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Report whether no reasoning is open or can begin after these ids, which have the prompt."""
        if not self._markers:
            return True
        return bool(split_of(self._model, self._switches, self._text(input_ids)).over)

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Report whether the last ids close the reasoning."""
        if not self._markers:
            return True
        delta = list(delta_ids)
        if self._close_id is not None:
            return self._close_id in delta
        # The marker has fewer tokens than bytes.
        recent = list(input_ids[-len(delta) - len(self._markers[1].encode()) :])
        before = self._text(recent[: len(recent) - len(delta)])
        return self._text(recent).count(self._markers[1]) > before.count(self._markers[1])

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Report whether the stream has left the reasoning."""
        return self._split is not None and bool(self._split.over)

    def _end(self, ids: Sequence[int]) -> int | None:
        """Return the index after the marker that closes reasoning."""
        if self._close_id is not None:
            return next((at + 1 for at, id in enumerate(ids) if id == self._close_id), None)
        if not self._markers or self._markers[1] not in self._text(ids):
            return None
        low, high = 0, len(ids)
        while high - low > 1:
            middle = (low + high) // 2
            if self._markers[1] in self._text(ids[:middle]):
                high = middle
            else:
                low = middle
        return high

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Return the ids after the reasoning."""
        end = self._end(input_ids)
        if end is None:
            return list(input_ids) if not self._markers or self.has_engine_confirmed_reasoning_end() else []
        return list(input_ids[end:])

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Return the number of tokens up to the end of the reasoning, with its markers."""
        end = self._end(token_ids)
        if end is not None:
            return end
        if not self._markers:
            return 0
        split = self._begin()
        split.push(self._text(token_ids))
        return 0 if split.over else len(token_ids)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Return the reasoning of a whole reply, and the text after it."""
        if not self._switches:
            self._switches = switches_of(getattr(request, "chat_template_kwargs", None))
        split = self._begin()
        (reasoning, rest, _), (more, last, _) = split.push(model_output), split.finish()
        return reasoning + more or None, rest + last or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """Read what a delta adds."""
        if self._split is None:
            self._split = self._begin()
        reasoning, rest, _ = self._split.push(delta_text)
        return _delta(reasoning, rest)

    def finish_streaming(self) -> Any:
        """Return what was held back at the end of the stream."""
        if self._split is None:
            return None
        reasoning, rest, _ = self._split.finish()
        return _delta(reasoning, rest)


ToolParserManager.register_module(name="rolecall", module=RolecallToolParser)
ReasoningParserManager.register_module(name="rolecall", module=RolecallReasoningParser)
