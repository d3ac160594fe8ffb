"""Sending models to other processes.

A pickled model is the content of its files, compressed. A process that has opened it keeps it by its
digest, so that the next pickle of the same model gives the same object at once.
"""

from __future__ import annotations

import pickle
from typing import Any

from .errors import OpenError

_MOST_MODELS = 8
"""How many models a process keeps. The one that was asked for longest ago is dropped first."""

_LARGEST = 2**31
"""The most bytes of content. The largest known models have 40 MB."""

_opened: dict[str, Any] = {}
"""The models by their digest. Single operations of a dict need no lock, and a lock could be held in
another thread when the process is forked."""


def compress(content: bytes) -> tuple[str, int, bytes]:
    """Return the digest, the size and the compressed form of a model's content."""
    import hashlib
    import zlib

    # The fastest level: the others save a tenth and take three times as long.
    return hashlib.sha256(content).hexdigest(), len(content), zlib.compress(content, 1)


def reduce(model: Any, sent: tuple[str, int, bytes], protocol: int, code: Any = None) -> tuple[Any, ...]:
    """Return how a model is pickled. From protocol 5, its content can be passed without a copy.

    The code of a template is pickled as the object that it is.
    """
    digest, size, compressed = sent
    # A copy in this process, and in those that are forked from it, is this model.
    _keep(_key(digest, code), model)
    content = pickle.PickleBuffer(compressed) if protocol >= 5 else compressed
    return restore, (digest, size, content, *(() if code is None else (code,)))


def restore(digest: str, size: int, compressed: Any, code: Any = None) -> Any:
    """Return the model with this digest. Its content is only read if the process does not have it."""
    key = _key(digest, code)
    if isinstance(key, str) and (model := _opened.get(key)) is not None:
        return _keep(key, model)
    content = _decompress(digest, size, compressed)

    from ._rolecall import Model

    return _keep(key, Model._from_bytes(content, code))


def _key(digest: str, code: Any) -> str:
    """What identifies a model. Its content does not hold the code."""
    return digest if code is None else f"{digest} {getattr(code, 'identity', None)}"


def _keep(digest: str, model: Any) -> Any:
    kept = _opened.pop(digest, model)
    _opened[digest] = kept
    while len(_opened) > _MOST_MODELS:
        try:
            del _opened[next(iter(_opened))]
        except (KeyError, StopIteration, RuntimeError):
            # Another thread has just changed it.
            continue
    return kept


def _decompress(digest: str, size: int, compressed: Any) -> bytes:
    import hashlib
    import zlib

    if not isinstance(size, int) or not 0 <= size <= _LARGEST:
        raise _damaged(f"expected a size of at most {_LARGEST} bytes, found {size!r}")
    reader = zlib.decompressobj()
    try:
        # One byte more than expected, so that a longer content is noticed and not all of it is read.
        content = reader.decompress(compressed, size + 1)
    except (zlib.error, TypeError, BufferError) as error:
        raise _damaged(f"it cannot be decompressed: {error}") from None
    if len(content) != size or not reader.eof:
        raise _damaged(f"it does not have {size} bytes")
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged("it has another digest")
    return content


def _damaged(why: str) -> OpenError:
    return OpenError(
        f"the content of the model is damaged: {why}",
        code="damaged_content",
        help="pickle the model again where it was opened",
    )
