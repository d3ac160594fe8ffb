"""Checks of the values that callers pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import RequestError


def wrong_type(what: str, expected: str, found: object, *, help: str | None = None) -> RequestError:
    """Return the error for a value of the wrong type."""
    help = help or f"pass {expected}"
    message = f"expected {expected}, found {type(found).__name__}"
    return RequestError(message, code="wrong_type", field=what, help=help)


def text(what: str, value: object) -> str:
    """Return a str, or raise the error that names it."""
    if not isinstance(value, str):
        raise wrong_type(what, "a str", value)
    return value


def word(what: str, value: object) -> str:
    """Return a short str of characters, such as a token, or raise the error that names it."""
    value = text(what, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        message, help = "the text has a surrogate, which is not a character", "remove it"
        raise RequestError(message, code="wrong_type", field=what, help=help) from None
    return value


def mapping(what: str, value: object) -> Mapping[str, Any]:
    """Return a mapping, or raise the error that names it."""
    if not isinstance(value, Mapping):
        raise wrong_type(what, "a dict", value)
    return value


def items(what: str, value: object) -> list[Any]:
    """Return the items of a list, tuple or other sequence, or raise the error that names it."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong_type(what, "a list", value)
    return list(value)


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text, without the tokens that the tokenizer adds around it.

    The tokenizer is one of transformers, one of the package tokenizers, or anything that encodes like them.
    """
    encoded = tokenizer.encode(text, add_special_tokens=False)
    return list(getattr(encoded, "ids", encoded))
