"""Training data: rows of conversations in, columns of token ids out.

:func:`encode` takes an Arrow table or record batch (of pyarrow, datasets, polars, Daft, ...), a dict of
columns, or a list of rows, and returns the same kind of object with token ids, loss masks, weights and
lengths. It runs in ``datasets.map``, Ray Data, Daft and Spark without another line of code.

>>> import rolecall.data
>>> model = rolecall.load("path/to/model")
>>> rows = [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}, {}]
>>> columns = rolecall.data.encode(rows, model, max_tokens=4096).to_dict()
>>> columns["loss_mask"][0].tolist()
[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]
>>> columns["ids"][1], columns["error"][1]["code"]
(None, 'missing_field')
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._rolecall import Columns, encode_rows

if TYPE_CHECKING:
    from ._rolecall import Model

__all__ = ["Columns", "Progress", "encode", "encoder"]

T = TypeVar("T")

Words = str | Iterable[str]


def encode(
    batch: Any,
    model: Model,
    *,
    for_training: Literal["assistant", "last", "chosen", "tagged", "all"] | None = "assistant",
    loss_weight: Mapping[str, float] | Words | None = (),
    loss_role: Mapping[str, float] | Words | None = (),
    edges: Literal["any", "strict"] | None = None,
    final_stop: Literal["append", "warn", "refuse"] | None = None,
    allow: Words | None = (),
    max_tokens: int | None = None,
    truncate: Literal["right", "left", "oldest"] | None = None,
    samples: Literal["whole", "turns", "auto"] | None = None,
    pack: int | None = None,
    loss_weights: bool = False,
    shape: str | None = None,
    json_column: str | None = None,
    strict: bool = False,
    reference_encoding: bool = False,
    columns: Literal["rolecall", "trl"] = "rolecall",
    threads: int | None = None,
    progress: bool | Progress = False,
) -> Any:
    """Encode rows of conversations.

    ``batch`` is anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, a mapping from names to
    columns, or a list of rows. Texts, structs and lists are read where they are, without JSON text in
    between. A row is a conversation in one of the shapes that the command reads (``openai``, ``harmony``,
    ``sharegpt``, ``alpaca``, ``completion``, ``preference``, ``instances``, ``xtuner``), by its column names, or in the
    ``shape`` that you name. Columns such as ``messages`` and ``tools`` may hold JSON text instead, and
    ``json_column`` names a column whose texts are whole rows.

    In columns, null stands for a key that is not there, because every row has every column and every
    struct every field. Only a null ``content`` of a message stays null, as OpenAI's API writes it for
    messages that call tools. In a dict of columns of Python objects, nulls are kept if the objects of the
    column differ in their keys, which they never do in Arrow's. Otherwise a null that may have been meant
    (in tools or arguments) is removed with a warning, and counted as ``unclear_nulls``.

    The result has the type of ``batch``: a pyarrow table or record batch, a dict of lists, and otherwise
    :class:`Columns`, which any Arrow library can read. ``datasets.map`` always gets a table, because it
    would guess the types of a dict from the first rows. The columns:

    ================== ============== ===========================================================
    ``row``            uint64         the index of the row in ``batch``
    ``id``             string         the ``id`` of the row, if it has one
    ``side``           string         ``chosen`` or ``rejected``, for the two rows of a preference pair
    ``ids``            list of uint32 the token ids
    ``loss_mask``      list of uint8  1 for each id that carries loss; only with ``for_training``
    ``loss_weights``   list of float  the weight of each id; with ``loss_weights`` or other weights than 0, 1
    ``length``         uint32         the number of ids
    ``truncated_from`` uint64         the number of ids before truncation, if the row was truncated
    ``account``        list of struct what became of the parts of the conversation that the ids do not have as
                                      they were given: ``kind``, ``how``, ``count``, ``message``, ``field``,
                                      ``why``, ``remedy``; an empty reply has the kind ``empty_reply``
    ``error``          struct         ``code``, ``message``, ``message_index``, ``field``; null for good rows
    ================== ============== ===========================================================

    A row that cannot be encoded has an ``error`` and no ids. It never ends the call. With
    ``columns="trl"``, ``input_ids`` and ``labels`` (-100 for ids without loss) of int64 take the place of
    ``ids`` and ``loss_mask``, as TRL's ``SFTTrainer`` reads them. Labels have no weights, so a weight other
    than 0 and 1 is refused; rows whose messages have one are counted in the note ``partial_weights``.

    The options are those of ``rolecall encode --jsonl``:

    - ``for_training``: whose text carries loss, or None for prompts that a model is to answer.
    - ``loss_weight``: weights of parts of replies, ``{"reasoning": 0}``; ``loss_role``: other roles whose
      text carries loss, ``"tool"``, ``"tool:turn"`` or ``{"tool": 0.5}``.
    - ``edges``: whether a token carries loss if ``any`` or all (``strict``) of its bytes do.
    - ``final_stop``: what to do if no stop token follows the last reply.
    - ``allow``: ``"masked-stop"``, ``"no-loss"``, ``"null-word"``, which are otherwise errors of a row.
    - ``max_tokens`` and ``truncate``: the most ids of a sample, and how to shorten a longer one.
    - ``samples``: one sample for each conversation (``whole``) or reply (``turns``), or as many as the
      template needs so that each reply follows what the server saw (``auto``).
    - ``pack``: put samples in sequences of at most this many ids. A row of the result is then a sequence:
      ``rows`` names its samples, and ``position_ids``, ``cu_seqlens`` and ``max_seqlen`` say where they
      are (for TRL: ``seq_lengths``). The rows of one call are packed together.
    - ``strict``: refuse a row of which a part is left out, changed or written in part, but by design, or in
      which a reply is empty.
    - ``reference_encoding``: encode as transformers does: text that spells a control token becomes that
      token, which is unsafe for text of users.

    ``threads`` is the number of threads, by default one for each core. The GIL is released while they
    work, and Ctrl-C ends the call. Use 1 where the engine runs several workers. ``progress`` writes a
    line to stderr now and then; a :class:`Progress` goes on over several calls.

    Raises :class:`rolecall.RequestError` if an option or the type of ``batch`` is wrong, and
    :class:`rolecall.TokenizerError` if the model has no tokenizer.

    >>> columns = encode({"prompt": ["Hi"], "completion": ["Hello"]}, rolecall.load("path/to/model"), columns="trl")
    >>> columns["labels"][0].tolist()
    [-100, -100, -100, -100, -100, -100, -100, -100, -100, 301, 706, -100]
    """
    if not isinstance(columns, str) or columns not in ("rolecall", "trl"):
        found = f"`{columns}`" if isinstance(columns, str) else type(columns).__name__
        raise _refused("columns", f"expected `columns` to be `rolecall` or `trl`, found {found}")
    parts, roles = _weights("loss_weight", loss_weight), _weights("loss_role", loss_role)
    partial = {"loss_weight": _partial(parts), "loss_role": _partial(roles)}
    for field, text in partial.items():
        if text is not None and columns == "trl" and not loss_weights:
            raise _refused(
                field,
                f"expected a weight of 0 or 1 with `columns=\"trl\"`, found `{text}`: TRL's trainers read `labels`, which "
                "have no weights; `loss_weights=True` writes the weights for a trainer of your own",
            )
    options = {
        "for_training": for_training,
        "loss_weight": parts,
        "loss_role": roles,
        "edges": edges,
        "final_stop": final_stop,
        "allow": _words("allow", allow),
        "max_tokens": max_tokens,
        "truncate": truncate,
        "samples": samples,
        "pack": pack,
        "shape": shape,
        "strict": strict,
        "reference_encoding": reference_encoding,
        # As the command does, weights are written wherever an option gives one other than 0 and 1.
        "loss_weights": any(partial.values()) or loss_weights,
        "json_column": json_column,
        "trl": columns == "trl",
        "threads": threads,
    }
    watch = None
    if progress:
        line = progress if isinstance(progress, Progress) else Progress()
        watch = line.begin()
    encoded = encode_rows(batch, model, options, watch)
    if unclear := encoded.counts["notes"].get("unclear_nulls"):
        # Python says a warning once for each place.
        warnings.warn(
            f"{unclear} of {len(encoded)} rows have nulls in tools or arguments that were read as keys that "
            "are not there, because Arrow pads objects with them; pass a list of rows, or JSON text, to keep them",
            stacklevel=2,
        )
    return _like(batch, encoded)


def encoder(model: Model, **options: Any) -> Callable[[T], T]:
    """Return a function that encodes batches, for engines that send it to their workers.

    It takes the options of :func:`encode`, and can be pickled. Each worker has one copy of the model. By
    default it uses one thread, because engines run a worker for each core.

    >>> encode_batch = encoder(rolecall.load("path/to/model"), columns="trl")
    >>> encode_batch({"prompt": ["Hi"], "completion": ["Hello"]})["labels"][0].tolist()[-3:]
    [301, 706, -100]

    In datasets: ``dataset.map(encode_batch, batched=True, remove_columns=dataset.column_names)``.
    """
    return _Encoder(model, {"threads": 1, **options})


class _Encoder:
    def __init__(self, model, options):
        self.model, self.options = model, options

    def __call__(self, batch):
        return encode(batch, self.model, **self.options)


class Progress:
    """A line on stderr that says how many rows are done, over one or several calls of :func:`encode`.

    ``rows``, ``refused`` and ``tokens`` are the counts so far. On a terminal the line is rewritten four
    times a second; elsewhere a new one is written every ten seconds, and one at the end of a call.

    >>> line = Progress()
    >>> line.add({"rows": 10_000, "refused": 3})
    >>> print(line)
    10,000 conversations, 3 refused, .../s, 0 tokens/s
    """

    def __init__(self, file=None):
        self.rows = self.refused = self.tokens = 0
        self._file = file
        self._begun = time.monotonic()
        self._drawn = self._begun

    def begin(self) -> Callable[[Mapping[str, Any]], None]:
        """Return a function that takes the counts of a call so far, and draws the line."""
        before = self.rows, self.refused, self.tokens

        def show(counts):
            self.rows, self.refused, self.tokens = (
                count + counts.get(name, 0)
                for count, name in zip(before, ("rows", "refused", "tokens"), strict=True)
            )
            self._show()

        return show

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add the counts of a batch that was encoded elsewhere: ``rows``, ``refused`` and ``tokens``."""
        self.begin()(counts)

    def __str__(self):
        took = max(time.monotonic() - self._begun, 1e-3)
        refused = f", {self.refused:,} refused" if self.refused else ""
        return (
            f"{self.rows:,} conversations{refused}, {round(self.rows / took):,}/s, "
            f"{round(self.tokens / took):,} tokens/s"
        )

    def _show(self):
        file = self._file or sys.stderr
        terminal = getattr(file, "isatty", lambda: False)()
        now = time.monotonic()
        if now - self._drawn < (0.25 if terminal else 10):
            return
        self._drawn = now
        file.write(f"\r\x1b[K{self}" if terminal else f"{self}\n")
        file.flush()

    def end(self):
        """Write the last line."""
        file = self._file or sys.stderr
        terminal = getattr(file, "isatty", lambda: False)()
        file.write(f"\r\x1b[K{self}\n" if terminal else f"{self}\n")
        file.flush()


def _like(batch: Any, encoded: Columns) -> Any:
    """Return the columns as an object of the batch's kind."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(batch, pyarrow.Table):
        return pyarrow.table(encoded)
    if pyarrow is not None and isinstance(batch, pyarrow.RecordBatch):
        table = pyarrow.table(encoded).combine_chunks()
        batches = table.to_batches()
        if len(batches) > 1:
            raise _refused("batch", "the result does not fit one record batch: pass a table, or fewer rows")
        return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=table.schema)
    if pyarrow is not None and type(batch).__module__.partition(".")[0] == "datasets":
        # Of a dict, datasets guesses the types from the first rows, in which no error may occur.
        return pyarrow.table(encoded)
    if not hasattr(batch, "__arrow_c_stream__") and not hasattr(batch, "__arrow_c_array__") and hasattr(batch, "keys"):
        return encoded.to_dict()
    return encoded


def _weights(argument: str, given: Mapping[str, float] | Words | None) -> list[str]:
    if not isinstance(given, Mapping):
        return _words(argument, given)
    try:
        return [f"{name}={_spelling(float(weight))}" for name, weight in given.items()]
    except (TypeError, ValueError, OverflowError) as error:
        raise _refused(argument, f"expected a dict of numbers by name: {error}") from None


def _spelling(weight: float) -> str:
    # All digits, but 1 and not 1.0, so that a message shows what was written.
    return f"{weight:.0f}" if weight.is_integer() else repr(weight)


def _words(argument: str, given: Words | None) -> list[str]:
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    words = list(given) if isinstance(given, Iterable) else [given]
    for word in words:
        if not isinstance(word, str):
            found = type(word).__name__
            raise _refused(argument, f"expected a str or several, found {found}")
    return words


def _partial(texts: list[str]) -> str | None:
    """Return the first text with a weight other than 0 and 1."""
    return next(filter(_is_partial, texts), None)


def _is_partial(text: str) -> bool:
    try:
        return float(text.partition("=")[2] or 1) not in (0, 1)
    except ValueError:
        return False


def _refused(field: str, message: str):
    from .errors import RequestError

    return RequestError(message, code="bad_argument", field=field)
