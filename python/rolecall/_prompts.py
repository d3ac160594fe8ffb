"""The prompts that a renderer remembers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ._rolecall import Session


Key = tuple[int, ...]

#: The most positions by which prompts with the same key are told apart.
MAX_POSITIONS = 32


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

    __slots__ = ("key", "line", "count", "session", "tools")

    def __init__(self, key: Key, line: Line, session: Session, tools: Any) -> None:
        self.key = key
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

    def differs_at(self, ids: list[int]) -> int:
        """The first position at which the prompt has another id than this one of the same length."""
        own, first, end = self.line.ids, 0, self.count
        while end - first > 1:
            middle = (first + end) // 2
            if own[first:middle] == ids[first:middle]:
                first = middle
            else:
                end = middle
        return first


class Alike:
    """Two or more prompts with the same key, told apart by the ids at a few positions."""

    __slots__ = ("positions", "ids_at", "known")

    def __init__(self, first: Known) -> None:
        self.positions: list[int] = []
        #: The ids of a prompt at the positions.
        self.ids_at: Callable[[list[int]], Any] = _no_ids
        self.known: dict[Any, list[Known]] = {_no_ids(first.line.ids): [first]}

    def find(self, ids: list[int]) -> Known | None:
        for known in self.known.get(self.ids_at(ids), ()):
            if known.has(ids):
                return known
        return None

    def add(self, new: Known) -> None:
        """Add a prompt that is not known."""
        ids = new.line.ids
        same = self.known.setdefault(self.ids_at(ids), [])
        same.append(new)
        if len(same) > 1 and len(self.positions) < MAX_POSITIONS:
            self.positions.append(same[0].differs_at(ids))
            self.ids_at = itemgetter(*self.positions)
            every = [known for same in self.known.values() for known in same]
            self.known = {}
            for known in every:
                self.known.setdefault(self.ids_at(known.line.ids), []).append(known)

    def remove(self, old: Known) -> None:
        at = self.ids_at(old.line.ids)
        self.known[at].remove(old)
        if not self.known[at]:
            del self.known[at]


def _no_ids(_: list[int]) -> tuple[()]:
    return ()


class Prompts:
    """Prompts by their ids: at most ``most``, with at most ``most_ids`` ids. Ids that several prompts
    share count once. The least recently used are forgotten first."""

    def __init__(self, most: int, most_ids: int) -> None:
        self.most = most
        self.most_ids = most_ids
        self._ids = 0
        #: The most recently used prompts are last.
        self._known: OrderedDict[Known, None] = OrderedDict()
        #: Few prompts have the key of another one.
        self._by_key: dict[Key, Known | Alike] = {}
        # Ids may be objects with code of their own, which may use the memory.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, ids: list[int], session: Session, tools: Any) -> None:
        """Remember a prompt. The list belongs to the memory from now on."""
        if self.most < 1 or len(ids) > self.most_ids:
            return
        key = _key(ids)
        with self._lock:
            self._put(Known(key, Line(ids), session, tools), ids, len(ids))

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
            self._put(Known(key, line, session, known.tools), ids, len(new) if is_end else len(ids))

    def get(self, ids: list[int]) -> Known | None:
        """Find a prompt."""
        try:
            key = _key(ids)
            with self._lock:
                found = self._find(key, ids)
                if found is not None:
                    self._known.move_to_end(found)
        except TypeError:
            # An id that cannot be hashed is none.
            return None
        return found

    def _find(self, key: Key, ids: list[int]) -> Known | None:
        found = self._by_key.get(key)
        if type(found) is Alike:
            return found.find(ids)
        return found if found is not None and found.has(ids) else None

    def _put(self, new: Known, ids: list[int], count: int) -> None:
        new.line.prompts += 1
        self._ids += count
        old = self._find(new.key, ids)
        if old is not None:
            self._forget(old)
        self._known[new] = None
        others = self._by_key.setdefault(new.key, new)
        if others is not new:
            if type(others) is not Alike:
                others = self._by_key[new.key] = Alike(others)
            others.add(new)
        while len(self._known) > self.most or self._ids > self.most_ids:
            self._forget(next(iter(self._known)))

    def _forget(self, old: Known) -> None:
        del self._known[old]
        others = self._by_key[old.key]
        if type(others) is Alike:
            others.remove(old)
        if others is old or not others.known:
            del self._by_key[old.key]
        old.line.prompts -= 1
        if not old.line.prompts:
            self._ids -= len(old.line.ids)


def _key(ids: list[int]) -> Key:
    """What prompts with the same ids share. Others of the same length may share it, too."""
    # The last ids are often the template's.
    return (len(ids), *ids[:: len(ids) // 6 + 1], *ids[-32:-7:6])
