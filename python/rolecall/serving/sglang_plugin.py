"""The plug-in for SGLang: ``--tool-call-parser rolecall`` and ``--reasoning-parser rolecall``.

SGLang calls :func:`register` by the entry point ``sglang.srt.plugins`` of the installed package. Without
an installed package, run ``python -m rolecall.serving.sglang_plugin`` with SGLang's arguments instead of
``python -m sglang.launch_server``. :mod:`rolecall.serving` says what was tested.

SGLang removes special tokens from the text of requests without tools. If the markers of a model's
reasoning are special tokens, such requests must have ``"skip_special_tokens": false``.
"""

from __future__ import annotations

import importlib
from typing import Any

import rolecall
from rolecall.serving._models import Answer, Call, model_of, split_of, tools_of, whole

__all__ = ["register"]


def register() -> None:
    """Add the parsers to those of SGLang."""
    calls = importlib.import_module("sglang.srt.function_call.function_call_parser")
    reasoning = importlib.import_module("sglang.srt.parser.reasoning_parser")
    calls.FunctionCallParser.ToolCallParserEnum["rolecall"] = _call_detector()
    reasoning.ReasoningParser.DetectorMap["rolecall"] = _reasoning_detector(reasoning)


def _call_detector() -> type:
    base: Any = importlib.import_module("sglang.srt.function_call.base_format_detector").BaseFormatDetector
    types: Any = importlib.import_module("sglang.srt.function_call.core_types")

    class RolecallDetector(base):  # type: ignore[misc]
        """Reads the calls of any model."""

        def __init__(self, tokenizer: Any = None) -> None:
            super().__init__()
            self._model = model_of(tokenizer)
            self._answer: Answer | None = None

        def _begin(self, tools: Any) -> Answer:
            # As in SGLang's own detectors, a call of an unknown tool is no call. Its text is kept.
            return Answer(self._model, tools_of(tools), policies={"unknown_names": "text"})

        def has_tool_call(self, text: str) -> bool:
            answer = Answer(self._model, None)
            return bool([*answer.push(text)[1], *answer.finish()[1]])

        def detect_and_parse(self, text: str, tools: Any) -> Any:
            answer = self._begin(tools)
            (content, parts), (more, last) = answer.push(text), answer.finish()
            calls = [
                types.ToolCallItem(tool_index=call.index, name=call.name, parameters=call.arguments)
                for call in whole([*parts, *last])
            ]
            return types.StreamingParseResult(normal_text=content + more, calls=calls)

        def parse_streaming_increment(self, new_text: str, tools: Any) -> Any:
            if self._answer is None:
                self._answer = self._begin(tools)
            return self._result(*self._answer.push(new_text))

        def finish(self, tools: Any) -> Any:
            return types.StreamingParseResult() if self._answer is None else self._result(*self._answer.finish())

        def _result(self, content: str, parts: list[Call]) -> Any:
            items = []
            for part in parts:
                while len(self.prev_tool_call_arr) <= part.index:
                    self.prev_tool_call_arr.append({"name": "", "arguments": ""})
                    self.streamed_args_for_tool.append("")
                known = self.prev_tool_call_arr[part.index]
                self.current_tool_id, self.current_tool_name_sent = part.index, True
                if part.name:
                    known["name"] = part.name
                    items.append(types.ToolCallItem(tool_index=part.index, name=part.name, parameters=""))
                if part.arguments:
                    known["arguments"] += part.arguments
                    self.streamed_args_for_tool[part.index] += part.arguments
                    items.append(types.ToolCallItem(tool_index=part.index, parameters=part.arguments))
            return types.StreamingParseResult(normal_text=content, calls=items)

        def supports_structural_tag(self) -> bool:
            # Not the older kind, which has a begin and an end around each call.
            return False

        def parses_required_natively(self) -> bool:
            return True

        def structure_info(self) -> Any:
            raise NotImplementedError("rolecall makes whole structural tags")

        def get_structural_tag(
            self,
            tools: Any = None,
            tool_choice: Any = "auto",
            thinking_mode: bool = False,
            parallel_tool_calls: bool = True,
        ) -> Any:
            name = getattr(getattr(tool_choice, "function", None), "name", None) or tool_choice
            options = {
                "tools": tools_of(tools),
                "tool_choice": name,
                "parallel_tool_calls": parallel_tool_calls is not False,
            }
            try:
                tag = importlib.import_module("xgrammar").StructuralTag
                if self._model.reasoning_split().markers is not None:
                    options["reasoning"] = "optional" if thinking_mode else "over"
                return tag.model_validate_json(self._model.grammar(**options).structural_tag())
            except (ImportError, rolecall.RolecallError):
                # Without a tag, calls are not restricted, and they are still read.
                return None

    return RolecallDetector


def _reasoning_detector(module: Any) -> type:
    base: Any = module.BaseReasoningFormatDetector
    result: Any = module.StreamingParseResult

    class RolecallReasoningDetector(base):  # type: ignore[misc]
        """Reads the reasoning of any model."""

        def __init__(
            self,
            stream_reasoning: bool = True,
            force_reasoning: bool | None = None,
            tokenizer: Any = None,
            continue_final_message: bool = False,
            previous_content: str = "",
            force_nonempty_content: bool = False,
        ) -> None:
            self._model = model_of(tokenizer)
            markers = self._model.reasoning_split().markers or ("<think>", "</think>")
            super().__init__(
                *markers,
                force_reasoning=bool(force_reasoning),
                stream_reasoning=stream_reasoning,
                continue_final_message=continue_final_message,
                previous_content=previous_content,
                force_nonempty_content=force_nonempty_content,
            )
            self._forced = force_reasoning
            self._split = self._begin()
            # Reasoning that is not streamed.
            self._kept = ""

        def _begin(self) -> Any:
            prompt = self._model.prompt([{"role": "user", "content": "Hi"}], add_generation_prompt=True).text
            if self.continue_final_message:
                return split_of(self._model, {}, prompt + self.previous_content)
            split = split_of(self._model, {}, prompt)
            opens = _is_open(split_of(self._model, {}, prompt))
            # The switches of the request are unknown here, but SGLang says whether they ask for reasoning.
            if self._forced is False and opens:
                return split_of(self._model, {}, "")
            if self._forced and not opens and split.markers:
                opened = split_of(self._model, {}, prompt + split.markers[0])
                return _Undecided(split, opened, split.markers[0])
            return split

        def detect_and_parse(self, text: str) -> Any:
            split = self._begin()
            (reasoning, rest, _), (more, last, _) = split.push(text), split.finish()
            return self._nonempty(reasoning + more, rest + last)

        def parse_streaming_increment(self, new_text: str) -> Any:
            return self._result(*self._split.push(new_text))

        def finish(self) -> Any:
            found = self._result(*self._split.finish())
            self._kept, kept = "", self._kept
            return self._nonempty(kept + found.reasoning_text, found.normal_text)

        def _result(self, reasoning: str, rest: str, _: str) -> Any:
            self._in_reasoning = not self._split.over
            if not self.stream_reasoning:
                self._kept += reasoning
                reasoning = ""
                if self._split.over:
                    reasoning, self._kept = self._kept, ""
            return result(normal_text=rest, reasoning_text=reasoning)

        def _nonempty(self, reasoning: str, rest: str) -> Any:
            if self._force_nonempty_content and not rest:
                reasoning, rest = "", reasoning
            return result(normal_text=rest, reasoning_text=reasoning)

    return RolecallReasoningDetector


def _is_open(split: Any) -> bool:
    """Report whether a splitter begins in reasoning."""
    is_over = split.over
    split.push("x")
    return not is_over and not split.over


class _Undecided:
    """A splitter of a reply that is reasoning, whether or not the model writes the marker that opens it."""

    def __init__(self, closed: Any, opened: Any, marker: str) -> None:
        self._closed, self._opened, self._marker = closed, opened, marker
        self._chosen: Any = None
        self._text = ""

    @property
    def over(self) -> bool:
        return self._chosen is not None and bool(self._chosen.over)

    def push(self, text: str) -> tuple[str, str, str]:
        if self._chosen is None:
            self._text += text
            begun = self._text.lstrip()
            if self._marker.startswith(begun):
                if begun != self._marker:
                    return "", "", ""
            is_marked = begun.startswith(self._marker)
            text, self._chosen = self._text, self._closed if is_marked else self._opened
        return self._chosen.push(text)  # type: ignore[no-any-return]

    def finish(self) -> tuple[str, str, str]:
        if self._chosen is None:
            self._chosen = self._opened
            parts = zip(self._chosen.push(self._text), self._chosen.finish())
            reasoning, rest, raw = (first + second for first, second in parts)
            return reasoning, rest, raw
        return self._chosen.finish()  # type: ignore[no-any-return]


if __name__ == "__main__":
    import runpy

    register()
    runpy.run_module("sglang.launch_server", run_name="__main__")
