from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__version__: str

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
        reply: str | Sequence[int],
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        **switches: Mapping[str, Any] | Any,
    ) -> dict[str, Any]: ...
