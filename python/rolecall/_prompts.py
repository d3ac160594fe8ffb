"""The prompts that a renderer remembers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from ._rolecall import Session


class Line:
    """The ids of a conversation as it grows. Its prompts are beginnings of it, and share it."""

    __slots__ = ("ids", "prompts")

    def __init__(self, ids: list[int]) -> None:
        #: Ids are only ever appended.
        self.ids = ids
        #: How many remembered prompts share the line.
        self.prompts = 0


class Known:
    """A prompt that was rendered, and the session that awaits the reply to it."""

    __slots__ = ("line", "count", "session", "tools")

    def __init__(self, line: Line, session: Session, tools: Any) -> None:
        self.line = line
        self.count = len(line.ids)
        self.session = session
        self.tools = tools

    def has(self, ids: list[int]) -> bool:
        """Whether the prompt consists of these ids. All of them are compared."""
        if len(ids) != self.count:
            return False
        own = self.line.ids
        # The line may be longer, or become longer meanwhile.
        return own == ids or (len(own) > self.count and own[: self.count] == ids)


class Prompts:
    """Prompts by their ids: at most ``most``, with at most ``most_ids`` ids. Ids that several prompts
    share count once. The least recently used are forgotten first."""

    def __init__(self, most: int, most_ids: int) -> None:
        self.most = most
        self.most_ids = most_ids
        self._ids = 0
        self._known: OrderedDict[tuple[int, ...], Known] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, ids: list[int], session: Session, tools: Any) -> None:
        """Remember a prompt. The list belongs to the memory from now on."""
        if self.most < 1 or len(ids) > self.most_ids:
            return
        with self._lock:
            self._add(_key(ids), Known(Line(ids), session, tools), len(ids))

    def extend(self, known: Known, new: list[int], ids: list[int], session: Session) -> None:
        """Remember a prompt that continues another one with new ids. ``ids`` has all of them."""
        if self.most < 1 or len(ids) > self.most_ids:
            return
        key = _key(ids)
        with self._lock:
            line = known.line
            is_end = line.prompts > 0 and len(line.ids) == known.count
            if is_end:
                line.ids += new
            else:
                # Another prompt continues it in another way, or it was forgotten since.
                line = Line(ids.copy())
            self._add(key, Known(line, session, known.tools), len(new) if is_end else len(ids))

    def get(self, ids: list[int]) -> Known | None:
        """Find a prompt."""
        try:
            key = _key(ids)
            with self._lock:
                known = self._known.get(key)
                if known is not None:
                    self._known.move_to_end(key)
        except TypeError:
            # An id that cannot be hashed is none.
            return None
        return known if known is not None and known.has(ids) else None

    def _add(self, key: tuple[int, ...], new: Known, ids: int) -> None:
        new.line.prompts += 1
        self._ids += ids
        old = self._known.pop(key, None)
        self._known[key] = new
        if old is not None:
            self._forget(old)
        while len(self._known) > self.most or self._ids > self.most_ids:
            self._forget(self._known.popitem(last=False)[1])

    def _forget(self, old: Known) -> None:
        old.line.prompts -= 1
        if not old.line.prompts:
            self._ids -= len(old.line.ids)


def _key(ids: list[int]) -> tuple[int, ...]:
    """Some of the ids of a prompt, by which it is looked up."""
    return (len(ids), *ids[:: len(ids) // 8 + 1], *ids[-16:])
