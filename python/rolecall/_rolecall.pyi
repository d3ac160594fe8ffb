from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, overload

import numpy as np
from numpy.typing import NDArray

from .events import Event
from .streams import EventStream

__version__: str

_Piece: TypeAlias = str | int | Sequence[int] | NDArray[np.integer[Any]]
_FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "abort"]
_Reasoning: TypeAlias = Literal["off", "optional", "required", "over"]
_Language: TypeAlias = Literal["structural-tag", "lark", "gbnf"]

class _Policies(TypedDict, total=False):
    calls_in_reasoning: Literal["draft", "unclosed", "call"]
    unknown_names: Literal["pass", "text"]
    text_after_calls: Literal["content", "report"]
    strict_json: bool
    check_schema: bool
    max_calls: int
    cap: int
    id_seed: int
    id_form: Literal["call", "nine"]

class _Completion(TypedDict, total=False):
    id: str
    model: str
    created: int

class OutputParser:
    def push(self, piece: _Piece, /) -> list[Any]: ...
    def finish(self, finish_reason: _FinishReason = "stop") -> list[Any]: ...
    def reading(self) -> dict[str, Any]: ...
    def message(self) -> dict[str, Any]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def finished(self) -> bool: ...

class ReasoningSplit:
    @property
    def over(self) -> bool: ...
    @property
    def markers(self) -> tuple[str, str] | None: ...
    def push(self, text: str, /) -> tuple[str, str, str]: ...
    def finish(self, finish_reason: _FinishReason = "stop") -> tuple[str, str, str]: ...

class Grammar:
    def structural_tag(self) -> str: ...
    def lark(self) -> str: ...
    def gbnf(self) -> str: ...
    def notes(self, language: _Language = "structural-tag") -> list[str]: ...

class FrameworkPrompt:
    @property
    def text(self) -> str: ...
    @property
    def stop(self) -> list[str]: ...
    @property
    def generated(self) -> list[tuple[int, int]]: ...
    def turns(
        self, loss: str | None = None
    ) -> list[tuple[str, int | None, list[tuple[str | None, str, Any, bool]]]]: ...
    def pairs(self) -> list[dict[str, Any]]: ...

class FrameworkTemplate:
    @staticmethod
    def named(name: str, *, bos: Sequence[str] | None = None, eos: str | None = None) -> FrameworkTemplate: ...
    @staticmethod
    def xtuner(
        fields: Mapping[str, Any], *, bos: Sequence[str] = ..., eos: str | None = "</s>"
    ) -> FrameworkTemplate: ...
    @staticmethod
    def lmflow(
        fields: Mapping[str, Any], *, bos: Sequence[str] = ..., eos: str | None = "</s>"
    ) -> FrameworkTemplate: ...
    @staticmethod
    def lmdeploy(fields: Mapping[str, Any], *, like: str | None = None) -> FrameworkTemplate: ...
    @staticmethod
    def jinja(source: str, *, tokens: Sequence[tuple[str, str]]) -> FrameworkTemplate: ...
    @property
    def stop(self) -> list[str]: ...
    def render(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        purpose: str = "answer",
        add_generation_prompt: bool | None = None,
        bos: bool = True,
        options: Sequence[tuple[str, str]] = ...,
    ) -> FrameworkPrompt: ...
    def chat_inputs(
        self,
        messages: Sequence[Any],
        *,
        options: Sequence[tuple[str, str]] = ...,
        remembers: Callable[[FrameworkPrompt], bool] | None = None,
    ) -> list[FrameworkPrompt]: ...

def framework_data(framework: str) -> list[tuple[str, str]]: ...
def lmdeploy_config(text: str) -> dict[str, Any]: ...
def lmdeploy_match(path: str) -> str | None: ...

class Encoded:
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def spans(self) -> NDArray[np.uint64]: ...
    @property
    def control(self) -> NDArray[np.bool_]: ...
    @property
    def notes(self) -> list[str]: ...
    def __len__(self) -> int: ...

class Prompt:
    @property
    def text(self) -> str: ...
    def segments(self) -> list[dict[str, Any]]: ...
    def encode(self) -> Encoded: ...
    def parser(
        self, *, policies: _Policies | None = None, completion: _Completion | None = None
    ) -> OutputParser: ...
    def grammar(
        self,
        *,
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool = True,
        reasoning: _Reasoning = "off",
    ) -> Grammar: ...

class Explanation:
    def text(self, *, color: bool = True, width: int | None = None) -> str: ...
    def html(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

class Model:
    def __init__(
        self,
        model: str | PathLike[str] | Any | None = None,
        *,
        format: str | None = None,
        template: str | PathLike[str] | None = None,
        chat_template: str | Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        tokenizer: str | PathLike[str] | bytes | Any | None = None,
        tokenizer_config: Mapping[str, Any] | None = None,
        bos_token: str | Sequence[str] | None = None,
        eos_token: str | None = None,
        template_name: str | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
        bos: Literal["auto", "template", "tokenizer", "none"] | None = None,
        rules: Literal["enforce", "reference"] | None = None,
        tool_calls: Literal["as-given", "as-wanted"] | None = None,
        protect: Literal["control", "all-added"] | None = None,
        now: str | datetime | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    def stop_ids(self) -> list[int]: ...
    def prompt(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | None = None,
        **switches: Any,
    ) -> Prompt: ...
    def encode(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | None = None,
        **switches: Any,
    ) -> Encoded: ...
    def explain(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | None = None,
        mask: bool = False,
        **switches: Any,
    ) -> Explanation: ...
    def parse(
        self,
        reply: _Piece,
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        finish_reason: _FinishReason = "stop",
        continue_final_message: bool | None = None,
        policies: _Policies | None = None,
        **switches: Any,
    ) -> dict[str, Any]: ...
    def parser(
        self,
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        continue_final_message: bool | None = None,
        policies: _Policies | None = None,
        completion: _Completion | None = None,
        prompt_tail: str | None = None,
        after_reasoning: bool = False,
        **switches: Any,
    ) -> OutputParser: ...
    def reasoning_split(
        self,
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        continue_final_message: bool | None = None,
        prompt_tail: str | None = None,
        **switches: Any,
    ) -> ReasoningSplit: ...
    @overload
    def parse_stream(
        self,
        chunks: Iterable[_Piece] | AsyncIterable[_Piece],
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        finish_reason: _FinishReason | Callable[[], str] = "stop",
        continue_final_message: bool | None = None,
        policies: _Policies | None = None,
        as_openai: Literal[False] = False,
        **switches: Any,
    ) -> EventStream[Event]: ...
    @overload
    def parse_stream(
        self,
        chunks: Iterable[_Piece] | AsyncIterable[_Piece],
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        finish_reason: _FinishReason | Callable[[], str] = "stop",
        continue_final_message: bool | None = None,
        policies: _Policies | None = None,
        as_openai: Literal[True],
        id: str | None = None,
        model: str | None = None,
        created: int | None = None,
        **switches: Any,
    ) -> EventStream[dict[str, Any]]: ...
    def grammar(
        self,
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool = True,
        reasoning: _Reasoning = "off",
        continue_final_message: bool | None = None,
        **switches: Any,
    ) -> Grammar: ...


class Columns:
    @property
    def column_names(self) -> list[str]: ...
    @property
    def counts(self) -> dict[str, Any]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

def encode_rows(
    batch: Any, model: Model, options: Mapping[str, Any], watch: Callable[[dict[str, Any]], None] | None
) -> Columns: ...
