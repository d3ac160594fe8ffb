"""The parts of models that other libraries hold in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .errors import OpenError

# What every tokenizer of transformers may name. Other names are a model's own.
_USUAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def parts(value: Any, argument: str = "model") -> dict[str, Any]:
    """Return the parts of an object: ``name``, ``tokenizer`` (the bytes of its file) and ``tokenizer_config``.

    If only its tokenizer is asked for, there is no chat template.

    The object is a tokenizer of transformers, with a backend of ``tokenizers`` or a sentencepiece file, a processor
    with such a tokenizer, or a ``tokenizers.Tokenizer``. ``tokenizer_config`` has the keys of the file of that name.
    """
    found = _parts(value, argument)
    if argument != "model":
        found["tokenizer_config"].pop("chat_template", None)
    return found


def _parts(value: Any, argument: str) -> dict[str, Any]:
    if callable(getattr(value, "to_str", None)) and hasattr(value, "token_to_id"):
        return {"name": "tokenizer", "tokenizer": tokenizer_json(value), "tokenizer_config": {}}
    inner = getattr(value, "tokenizer", None)
    if inner is not None and hasattr(inner, "special_tokens_map"):
        found = _parts(inner, argument)
        if getattr(value, "chat_template", None) is not None:
            found["tokenizer_config"]["chat_template"] = _template(value.chat_template)
        return found
    if hasattr(value, "special_tokens_map"):
        config = tokenizer_config(value)
        name = getattr(value, "name_or_path", None) or type(value).__name__
        backend = getattr(value, "backend_tokenizer", None)
        if backend is not None and hasattr(backend, "to_str"):
            return {"name": str(name), "tokenizer": tokenizer_json(backend), "tokenizer_config": config}
        file = getattr(value, "vocab_file", None)
        if isinstance(file, (str, os.PathLike)) and os.path.isfile(file):
            with open(file, "rb") as opened:
                content = opened.read()
            return {"name": str(name), "tokenizer": content, "tokenizer_config": _slow_config(value, config)}
    found = type(value)
    raise OpenError(
        f"expected a path, a name or a tokenizer, found {found.__module__}.{found.__qualname__}",
        code="wrong_type",
        field=argument,
        help="pass a tokenizer of transformers with a backend of `tokenizers` or a sentencepiece file, "
        "or a tokenizers.Tokenizer",
    )


def tokenizer_json(backend: Any) -> bytes:
    """Return the ``tokenizer.json`` of a ``tokenizers.Tokenizer``."""
    return backend.to_str().encode()


def tokenizer_config(tokenizer: Any) -> dict[str, Any]:
    """Return what a tokenizer of transformers names, with the keys of a ``tokenizer_config.json``."""
    config: dict[str, Any] = {}
    own = {}
    for name, token in tokenizer.special_tokens_map.items():
        if isinstance(token, (list, tuple)):  # transformers 4: additional_special_tokens
            config[name] = [str(one) for one in token]
        elif name in _USUAL:
            config[name] = str(token)
        else:
            own[name] = str(token)
    if own:
        config["model_specific_special_tokens"] = own
    extra = getattr(tokenizer, "extra_special_tokens", None)
    if isinstance(extra, (list, tuple)) and extra:
        config["extra_special_tokens"] = [str(token) for token in extra]
    control = getattr(tokenizer, "chat_control_tokens", None)
    if control is not None:
        config["chat_control_tokens"] = [str(token) for token in control]
    template = getattr(tokenizer, "chat_template", None)
    if template is not None:
        config["chat_template"] = _template(template)
    return config


def _slow_config(tokenizer: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Add what a sentencepiece file does not say."""
    config["added_tokens_decoder"] = {
        str(number): {
            "content": token.content,
            "special": token.special,
            "normalized": token.normalized,
            "lstrip": token.lstrip,
            "rstrip": token.rstrip,
            "single_word": token.single_word,
        }
        for number, token in tokenizer.added_tokens_decoder.items()
    }
    for name in ("legacy", "add_prefix_space", "add_bos_token", "add_eos_token"):
        value = getattr(tokenizer, name, None)
        if isinstance(value, bool):
            config[name] = value
    return config


def _template(template: Any) -> Any:
    """Return a ``chat_template`` as its file has it: a str, or templates by name."""
    if isinstance(template, Mapping):
        return {str(name): str(source) for name, source in template.items()}
    if isinstance(template, (list, tuple)):
        return [{"name": str(one["name"]), "template": str(one["template"])} for one in template]
    return str(template)
