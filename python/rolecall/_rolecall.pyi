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
    def session(
        self,
        messages: Sequence[Any] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **switches: Any,
    ) -> Session: ...
    def import_session(
        self,
        messages: Sequence[Any],
        *,
        seams: Literal["live", "whole"] | None = None,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **switches: Any,
    ) -> Session: ...
    def restore_session(self, saved: str) -> Session: ...
    def attribute(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        **switches: Any,
    ) -> Attributed: ...
    def is_prefix_stable(self, **switches: Any) -> bool: ...
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
class Session:
    @staticmethod
    def load(model: Model, saved: str) -> Session: ...
    @property
    def model(self) -> Model: ...
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def bytes(self) -> bytes: ...
    def bytes_of(self, first: int, end: int | None = None) -> bytes: ...
    @property
    def segments(self) -> list[dict[str, Any]]: ...
    @property
    def messages(self) -> list[dict[str, Any]]: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def reply(self) -> Reply | None: ...
    @property
    def branches(self) -> list[NDArray[np.uint32]]: ...
    def plan(self, messages: Any) -> Plan: ...
    def plan_with(
        self,
        messages: Any,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **switches: Any,
    ) -> Plan: ...
    def append(
        self, messages: Any | Plan, *, on_rewrite: Literal["refuse", "keep", "rewrite"] | None = None
    ) -> Delta: ...
    def open(self) -> Delta: ...
    def accept(
        self, ids: Sequence[int] | NDArray[Any], finish: Literal["stop", "length", "abort"] | None = None
    ) -> Reply: ...
    def parse(
        self,
        ids: Sequence[int] | NDArray[Any],
        *,
        prompt_ids: Sequence[int] | NDArray[Any] | None = None,
        finish: Literal["stop", "length", "abort"] | None = None,
    ) -> Reply: ...
    def next_turn(
        self,
        ids: Sequence[int] | NDArray[Any],
        messages: Any,
        *,
        finish: Literal["stop", "length", "abort"] | None = None,
        on_rewrite: Literal["refuse", "keep", "rewrite"] | None = None,
    ) -> tuple[Session, Delta, int]: ...
    def encode_sampled(self, text: str) -> NDArray[np.uint32]: ...
    def close(self) -> Delta: ...
    def truncate(self, *, turns: int | None = None, ids: int | None = None) -> Cut: ...
    def difference(self) -> Difference: ...
    def rollout(
        self,
        *,
        loss: Literal["assistant", "last", "chosen", "all"] | None = None,
        loss_weights: Mapping[str, float] | None = None,
        loss_roles: Mapping[str, float] | None = None,
        allow: Sequence[Literal["masked_stop", "no_loss"]] | None = None,
    ) -> Rollout: ...
    def fork(self) -> Session: ...
    def __copy__(self) -> Session: ...
    def __deepcopy__(self, memo: Any) -> Session: ...
    def save(self) -> str: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class Plan:
    @property
    def rewrite(self) -> dict[str, Any] | None: ...
    @property
    def is_stable(self) -> bool: ...

class Delta:
    @property
    def keep(self) -> int: ...
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def total(self) -> int: ...
    @property
    def segments(self) -> list[dict[str, Any]]: ...
    @property
    def proof(self) -> dict[str, Any]: ...
    @property
    def notes(self) -> list[dict[str, Any]]: ...
    def lists(self, first: int = 0) -> tuple[list[int], list[int], list[bool]]: ...
    def to_dict(self) -> dict[str, Any]: ...

class Reply:
    @property
    def message(self) -> dict[str, Any]: ...
    @property
    def message_index(self) -> int: ...
    @property
    def reading(self) -> dict[str, Any]: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def malformed(self) -> list[dict[str, Any]]: ...
    @property
    def keep(self) -> int: ...
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def segments(self) -> list[dict[str, Any]]: ...
    @property
    def calls(self) -> list[dict[str, Any]]: ...
    @property
    def bytes(self) -> bytes: ...
    @property
    def stop(self) -> int | None: ...
    @property
    def is_unfinished(self) -> bool: ...
    @property
    def in_reasoning(self) -> bool: ...
    @property
    def notes(self) -> list[dict[str, Any]]: ...
    def to_dict(self) -> dict[str, Any]: ...

class Cut:
    @property
    def dropped(self) -> tuple[int, int]: ...
    @property
    def before(self) -> int: ...
    @property
    def after(self) -> int: ...
    @property
    def delta(self) -> Delta: ...
    def to_dict(self) -> dict[str, Any]: ...

class Difference:
    @property
    def gaps(self) -> list[dict[str, Any]]: ...
    @property
    def stock(self) -> str: ...
    @property
    def has_stock_text(self) -> bool: ...
    @property
    def has_stock_ids(self) -> bool: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class Rollout:
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def weights(self) -> NDArray[np.float32]: ...
    @property
    def segments(self) -> list[dict[str, Any]]: ...
    @property
    def messages(self) -> list[dict[str, Any]]: ...
    @property
    def breaks(self) -> list[dict[str, Any]]: ...
    @property
    def notes(self) -> list[dict[str, Any]]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...

class Attributed:
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    @property
    def message_indices(self) -> NDArray[np.int32]: ...
    @property
    def sampled(self) -> NDArray[np.bool_]: ...
    @property
    def is_content(self) -> NDArray[np.bool_]: ...
    @property
    def replies(self) -> list[dict[str, Any]]: ...
    def __len__(self) -> int: ...
def apply_chat_template(
    model: Model,
    conversations: list[Any],
    shared: dict[str, Any],
    *,
    ids: bool,
    mask: bool = False,
    spans: bool = False,
) -> list[Any]: ...
