"""The store of conversations behind a running gateway: Redis disappears and returns, gateways share it, a
disk is full, a file is damaged or in use, and the gateway is killed between and within turns.

Every turn is checked at the engine: the prompt is what the engine has of the conversation, and then the
library's ids of the new turn.
"""

import copy
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import conftest
import openai as sdk
import pytest
from conftest import Gateway
from engine import Engine
from proxy import Proxy

# How long anything may take. Only a gateway that hangs comes near it.
LIMIT = 120

WAYS = ["previous_response_id", "session_id", "sent again"]

# The ids of <|im_start|> and <|im_end|>.
START, END = 1, 2


@pytest.fixture(scope="module")
def proxy(weights):
    """A proxy in front of an engine of llama.cpp."""
    engine = Engine(weights)
    yield Proxy(engine.address)
    engine.stop()


@pytest.fixture(scope="module")
def turn_of(ids_of):
    """Returns the library's ids of a turn of the user and the opening of the reply; with `is_first`, with the
    system's turn before it."""
    known = {}

    def turn(text: str, is_first: bool = False) -> list:
        if text not in known:
            known[text] = ids_of("plain", {"messages": [{"role": "user", "content": text}]})
        whole = known[text]
        return whole if is_first else whole[whole.index(START, 1):]

    return turn


class Started(Gateway):
    """A gateway in front of the proxy. Its start has a limit, and it may be refused."""

    def __init__(self, proxy, weights, store, *more):
        super().__init__("--model", weights, "--name", "plain", "--engine", proxy.address, "--store-at", str(store), *more)

    def start(self):
        watchdog = threading.Timer(LIMIT, lambda: self.process.kill())
        watchdog.start()
        try:
            super().start()
        finally:
            watchdog.cancel()

    def client(self, key="none"):
        return sdk.OpenAI(base_url=self.address + "/v1", api_key=key, max_retries=0, timeout=LIMIT)


@pytest.fixture
def start(proxy, weights):
    """Starts gateways, which are killed after the test. None of them may have panicked."""
    gateways = []

    def start(store, *more):
        gateways.append(Started(proxy, weights, store, *more))
        return gateways[-1]

    yield start
    for gateway in gateways:
        gateway.kill()
        assert "panicked" not in "".join(gateway.log)


class Talk:
    """A conversation, one way to continue it, and the ids that the engine has of it."""

    def __init__(self, way, proxy, turn_of):
        self.way, self.proxy, self.turn_of = way, proxy, turn_of
        self.had, self.messages, self.last = [], [], None
        self.session = f"session {random.random()}"

    def ask(self, client, text, **more):
        """Sends a turn, and returns the answer."""
        given = {"model": "plain", "temperature": 0, **more}
        if self.way == "previous_response_id":
            given = {"max_output_tokens": 8, **given}
            return client.responses.create(input=text, previous_response_id=self.last, **given)
        message = {"role": "user", "content": text}
        given = {"max_tokens": 8, **given}
        if self.way == "session_id":
            return client.chat.completions.create(messages=[message], extra_body={"session_id": self.session}, **given)
        return client.chat.completions.create(messages=[*self.messages, message], **given)

    def prompt(self, text):
        """The prompt of the next turn: what the engine has, and the new turn."""
        if not self.had:
            return self.turn_of(text, is_first=True)
        turn = self.turn_of(text, is_first=True)
        newline = turn[turn.index(END) + 1]
        return self.had + ([] if self.had[-1] == END else [END]) + [newline] + self.turn_of(text)

    def say(self, client, text, **more):
        """Takes a turn, and checks the ids that the engine received."""
        self.proxy.take()
        answer = self.ask(client, text, **more)
        (sent,) = self.proxy.take()
        assert sent.prompt == self.prompt(text)
        if self.way == "previous_response_id":
            assert answer.rolecall["kept_tokens"] == len(self.had)
            self.last = answer.id
        else:
            assert answer.usage.prompt_tokens_details.kept_tokens == len(self.had)
            said = {"role": "assistant", "content": answer.choices[0].message.content}
            self.messages = [*self.messages, {"role": "user", "content": text}, said]
        self.had = sent.prompt + sent.sampled

    def fork(self):
        return copy.copy(self)


@pytest.fixture
def talk(proxy, turn_of):
    return lambda way: Talk(way, proxy, turn_of)


def refused(ask, status, code):
    """Checks that a request gets an error with a status and a code."""
    with pytest.raises(sdk.APIStatusError) as fault:
        ask()
    assert (fault.value.status_code, fault.value.code) == (status, code), fault.value
    return fault.value


def until(works):
    """Repeats something until the store works again."""
    limit = time.monotonic() + LIMIT
    while True:
        try:
            return works()
        except sdk.APIStatusError as fault:
            assert fault.code.startswith("store_") and time.monotonic() < limit, fault
            time.sleep(0.05)


def begin(client, talk, most=2000):
    """Begins a long reply to a response, and returns its stream and its id."""
    stream = iter(talk.ask(client, "Count to a thousand.", max_output_tokens=most, stream=True))
    unfinished = next(stream).response.id
    next(event for event in stream if event.type == "response.output_text.delta")
    return stream, unfinished


# ---------------------------------------------------------------- Redis


class Redis:
    """A server of Redis that keeps everything it confirmed."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.address = folder, f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder),
                   "--appendonly", "yes", "--appendfsync", "always"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        limit = time.monotonic() + LIMIT
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < limit, "redis-server does not answer"
            time.sleep(0.02)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    if not shutil.which("redis-server"):
        pytest.skip("NOT TESTED with Redis: there is no redis-server")
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.kill()


@pytest.mark.parametrize("fault", ["is killed", "hangs"])
def test_redis_disappears_and_returns(start, talk, redis, proxy, fault):
    gateway = start(redis.address)
    client = gateway.client()
    answered, session, plain = talks = [talk(way) for way in WAYS]
    for each in talks:
        each.say(client, "One.")
        each.say(client, "Two.")
    redis.process.send_signal(signal.SIGKILL if fault == "is killed" else signal.SIGSTOP)
    proxy.take()
    for each in (answered, session):
        fault_of = refused(lambda: each.ask(client, "Three."), 503, "store_down")
        assert fault_of.response.headers["retry-after"] == "1"
    refused(lambda: client.responses.retrieve(answered.last), 503, "store_down")
    # What has a name is not generated without the store, except the first turn.
    assert proxy.take() == []
    new = talk("previous_response_id")
    refused(lambda: new.ask(client, "One."), 503, "store_down")
    # A stream has begun when the store fails: it has an error instead of its end.
    *_, error, failed = new.ask(client, "One.", stream=True)
    assert (error.type, error.code, failed.type) == ("error", "store_down", "response.failed")
    assert new.ask(client, "One.", store=False).output_text
    # A conversation that the client has goes on, with the ids that the engine has.
    plain.say(client, "Three.")
    if fault == "is killed":
        redis.process.wait()
        redis.start()
    else:
        redis.process.send_signal(signal.SIGCONT)
    until(lambda: client.responses.retrieve(answered.last))
    for each in talks:
        each.say(client, "Three.")
    # The turns that were taken meanwhile are stored now.
    gateway.kill()
    gateway.start()
    for each in talks:
        each.say(gateway.client(), "Two.")
    for each in (talk(way) for way in WAYS):
        each.say(gateway.client(), "One.")


KEYS = ("key-one", "key-two")


@pytest.fixture
def pair(start, redis, tmp_path):
    """Two gateways that share one Redis."""
    keys = tmp_path / "keys"
    keys.write_text("\n".join(KEYS))
    return [start(redis.address, "--keys", str(keys)) for _ in range(2)]


def test_gateways_that_share_redis_go_on_with_each_others_conversations(pair, talk, proxy):
    own, other = [[gateway.client(key) for gateway in pair] for key in KEYS]
    answered, session, plain = talks = [talk(way) for way in WAYS]
    for turn, text in enumerate(["One.", "Two.", "Three.", "Two.", "One."]):
        for each in talks:
            each.say(own[turn % 2], text)
    # Forks from one response, begun on different gateways and continued on the other.
    forks = [answered.fork(), answered.fork()]
    for turn in range(2):
        for at, fork in enumerate(forks):
            fork.say(own[(at + turn) % 2], ["Three.", "Two."][at])
    # Whoever has another key sees nothing of it.
    for client in other:
        refused(lambda: answered.ask(client, "Three."), 400, "previous_response_not_found")
        refused(lambda: client.responses.retrieve(answered.last), 404, "response_not_found")
        refused(lambda: client.responses.delete(answered.last), 404, "response_not_found")
        assert plain.ask(client, "Three.").usage.prompt_tokens_details.kept_tokens == 0
    stranger = talk("session_id")
    stranger.session = session.session
    stranger.say(other[0], "Three.")
    stranger.say(other[1], "Two.")
    for each in talks:
        each.say(own[0], "Two.")


def test_a_turn_that_redis_must_not_have_goes_on_where_it_was_taken(pair, talk):
    client = pair[0].client(KEYS[0])
    session = talk("session_id")
    session.say(client, "One.")
    session.say(client, "Two.", store=False)
    session.say(client, "Three.")
    # The last one is stored, with all before it.
    other = pair[1].client(KEYS[0])
    session.say(other, "Two.")
    # Elsewhere nobody knows of a turn that is not stored, and a later turn there is the last one for all.
    elsewhere = session.fork()
    session.say(client, "One.", store=False)
    session.say(client, "Two.", store=False)
    elsewhere.say(other, "Three.")
    elsewhere.say(client, "One.")


def test_what_one_gateway_deletes_or_ends_is_gone_in_all(pair, talk):
    one, two = [gateway.client(KEYS[0]) for gateway in pair]
    answered = talk("previous_response_id")
    # The second gateway has it in memory when the first one deletes it.
    answered.say(two, "One.")
    one.responses.delete(answered.last)
    for client in (one, two):
        refused(lambda: answered.ask(client, "Two."), 400, "previous_response_not_found")
        refused(lambda: client.responses.retrieve(answered.last), 404, "response_not_found")

    def interact(client, prompt, **more):
        body = {"prompt": prompt, "session_id": 77, "interactive_mode": True, "request_output_len": 8, "model": "plain"}
        return client.post("/chat/interactive", body=body | more, cast_to=object)

    assert interact(two, "One.")["history_tokens"] == 0
    assert interact(two, "Two.")["history_tokens"] > 0
    interact(one, "", interactive_mode=False, request_output_len=0)
    for client in (two, one):
        assert interact(client, "Three.")["history_tokens"] == 0
        interact(client, "", interactive_mode=False, request_output_len=0)


def test_a_gateway_goes_on_when_another_one_is_killed_within_a_turn(pair, talk):
    killed, other = pair
    dying, living = [gateway.client(KEYS[0]) for gateway in pair]
    answered, session = talk("previous_response_id"), talk("session_id")
    for each in (answered, session):
        each.say(dying, "One.")
    begun = answered.fork()
    # Three replies at the same time, two of them on the gateway that is killed.
    _, unfinished = begin(dying, answered)
    next(iter(session.ask(dying, "Count to a thousand.", max_tokens=2000, stream=True)))
    stream, begun.last = begin(living, begun, most=100)
    killed.kill()
    assert [event.type for event in stream][-1] in ("response.completed", "response.incomplete")
    for each in (answered, session):
        each.say(living, "Two.")
    killed.start()
    for client in (dying, living):
        ask = lambda: client.responses.create(model="plain", input="Two.", previous_response_id=unfinished)
        refused(ask, 400, "previous_response_not_found")
        assert begun.ask(client, "Two.").rolecall["kept_tokens"] > len(begun.had)
    for each in (answered, session):
        each.say(dying, "Three.")


# ---------------------------------------------------------------- one file


# A template that writes no tools makes this a large answer to store, and a short prompt.
LARGE = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "description": "x" * 300_000}]


class SmallDisk:
    """A disk of 16 MiB, of memory."""

    def __init__(self, folder):
        self.folder, self.ballast = folder, folder / "ballast"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"NOT TESTED with a full disk: this system lets us mount none: {done.stderr.strip()}")

    def fill(self, _):
        with pytest.raises(OSError), self.ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    def free(self, _):
        self.ballast.unlink()

    def remove(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)


class SmallFiles:
    """A limit on the length of files."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def fill(self, gateway):
        self.limit(gateway, (self.folder / "store.redb").stat().st_size)

    def free(self, gateway):
        self.limit(gateway, resource.RLIM_INFINITY)

    def limit(self, gateway, length):
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (length, resource.RLIM_INFINITY))

    def remove(self):
        pass


@pytest.fixture(params=[SmallDisk, SmallFiles])
def disk(request, tmp_path, monkeypatch):
    disk = request.param(tmp_path / "small")
    # The limit on files ends programs that do not ignore its signal, and Python's children do not.
    wrapper = tmp_path / "rolecall"
    wrapper.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec '{shutil.which(conftest.ROLECALL)}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr(conftest, "ROLECALL", str(wrapper))
    yield disk
    disk.remove()


def test_a_full_disk_is_reported_and_the_gateway_goes_on_when_there_is_space(disk, start, talk):
    gateway = start(disk.folder / "store.redb")
    client = gateway.client()
    talks = [talk(way) for way in WAYS]
    for each in talks:
        each.say(client, "One.")
    new = talk("previous_response_id")
    kept = []
    for _ in range(2):
        disk.fill(gateway)
        while True:
            try:
                kept.append(new.ask(client, "One.", tools=LARGE, tool_choice="none").id)
            except sdk.APIStatusError as fault:
                assert (fault.status_code, fault.code) == (507, "store_full"), fault
                break
            assert len(kept) < 100
        # A conversation that the client has goes on.
        talks[2].say(client, "Two.")
        for each in talks[:2]:
            before = each.fork()
            try:
                each.say(client, "Two.")
            except sdk.APIStatusError as fault:
                assert fault.code.startswith("store_"), fault
                vars(each).update(vars(before))
        disk.free(gateway)
        until(lambda: new.ask(client, "One.", tools=LARGE, tool_choice="none"))
        for each in talks:
            each.say(client, "Three.")
    gateway.kill()
    gateway.start()
    client = gateway.client()
    for each in talks:
        each.say(client, "One.")
    for id in kept:
        assert client.responses.retrieve(id).id == id


def test_a_small_store_forgets_the_oldest_and_refuses_what_is_larger_than_all_of_it(start, talk, tmp_path):
    gateway = start(tmp_path / "store.redb", "--store-bytes", "64KiB")
    client = gateway.client()
    old, large, plain = talk("previous_response_id"), talk("previous_response_id"), talk("sent again")
    old.say(client, "One.")
    metadata = {str(at): "x" * 512 for at in range(16)}
    for turn in range(10):
        try:
            large.last = large.ask(client, "One.", metadata=metadata).id
        except sdk.APIStatusError as fault:
            assert (fault.status_code, fault.code) == (413, "conversation_too_large"), fault
            break
    assert 1 < turn < 9
    # The turns that were finished are still there, and a new conversation makes space for itself.
    assert client.responses.retrieve(large.last).id == large.last
    new = talk("previous_response_id")
    for _ in range(2):
        new.last = new.ask(client, "One.", metadata=metadata).id
    # What is in memory is not forgotten before the gateway ends.
    gateway.kill()
    gateway.start()
    client = gateway.client()
    refused(lambda: old.ask(client, "Two."), 400, "previous_response_not_found")
    refused(lambda: client.responses.retrieve(old.last), 404, "response_not_found")
    assert client.responses.retrieve(new.last).id == new.last
    plain.say(client, "One.")
    plain.say(client, "Two.")


def test_a_file_has_one_gateway(start, talk, tmp_path):
    path = tmp_path / "store.redb"
    first = start(path)
    answered = talk("previous_response_id")
    answered.say(first.client(), "One.")
    with pytest.raises(AssertionError, match=r"error\[store_locked\]"):
        start(path)
    answered.say(first.client(), "Two.")
    first.kill()
    second = start(path)
    answered.say(second.client(), "Three.")


def test_forks_survive_sigkill_between_and_within_turns(start, talk, tmp_path):
    gateway = start(tmp_path / "store.redb")
    trunk = talk("previous_response_id")
    trunk.say(gateway.client(), "One.")
    forks = [trunk.fork(), trunk.fork()]
    for turn, texts in enumerate([("Two.", "Three."), ("One.", "One."), ("Three.", "Two.")]):
        for fork, text in zip(forks, texts):
            fork.say(gateway.client(), text)
        _, unfinished = begin(gateway.client(), forks[turn % 2])
        gateway.kill()
        gateway.start()
        client = gateway.client()
        refused(lambda: client.responses.retrieve(unfinished), 404, "response_not_found")
        for each in (trunk, *forks):
            assert client.responses.retrieve(each.last).id == each.last
    trunk.say(gateway.client(), "Two.")


@pytest.fixture(scope="module")
def written(proxy, weights, turn_of, tmp_path_factory):
    """The bytes of a file with three conversations, and these."""
    path = tmp_path_factory.mktemp("written") / "store.redb"
    gateway = Started(proxy, weights, path)
    talks = [Talk(way, proxy, turn_of) for way in WAYS]
    for each in talks:
        each.say(gateway.client(), "One.")
        each.say(gateway.client(), "Two.")
    assert gateway.stop() == 0
    return path.read_bytes(), talks


def tried(start, folder, talks, contents):
    """Starts a gateway with each of some files that may be damaged, and goes on with the conversations.
    Returns for each file whether the damage was reported."""
    alone = threading.Lock()

    def is_reported(numbered):
        number, content = numbered
        path = folder / f"store-{number}.redb"
        path.write_bytes(content)
        try:
            gateway = start(path)
        except AssertionError as said:
            assert "error[store_damaged]" in str(said) or "error[store_version]" in str(said), (number, said)
            assert "panicked" not in str(said), (number, said)
            return True
        reported = False
        # The proxy must see one turn at a time.
        with alone:
            for each in talks:
                each = each.fork()
                try:
                    each.say(gateway.client(), "Three.")
                except sdk.APIStatusError as fault:
                    assert fault.code in ("store_damaged", "damaged_session"), (number, fault)
                    reported = True
        gateway.kill()
        return reported

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(is_reported, enumerate(contents)))


def described(content):
    """How many bytes the header of a redb file says that the file has. There may be more, which are not in use:
    a file that grew in its last transactions is not always cut again."""
    page, opening, most, whole, last = struct.unpack_from("<5I", content, 12)
    return page * (1 + whole * (opening + most) + (opening + last if last else 0))


def test_a_truncated_file_is_reported(start, written, tmp_path):
    content, talks = written
    end = described(content)
    lengths = [0, 1, 100, 511, 512, 4095, 4096, 8192, 65536]
    lengths += [end * part // 10 for part in range(1, 10)] + [end - 4096, end - 1]
    whole = [content[:end], content[:end] + bytes(1 << 21), content]
    reported = tried(start, tmp_path, talks, [*(content[:length] for length in lengths), *whole])
    assert reported == [True] * len(lengths) + [False] * len(whole)


def test_overwritten_bytes_are_reported_or_do_not_matter(start, written, tmp_path):
    content, talks = written
    chance = random.Random(1)
    contents = []
    # Much of the file is empty, or was replaced by later pages.
    used = [at for at, byte in enumerate(content) if byte]
    for length in [1, 16, 256] * 4:
        damaged = bytearray(content)
        at = chance.choice(used)
        damaged[at:at + length] = chance.randbytes(len(damaged[at:at + length]))
        contents.append(bytes(damaged))
    # What is in use for certain: the header, an answer, and the ids of all turns.
    certain = [bytes(length) + content[length:] for length in (9, 320)]
    for text in (talks[0].last.encode(), b'"ids":[', b'"kept":'):
        assert text in content
        certain.append(content.replace(text, bytes(len(text))))
    reported = tried(start, tmp_path, talks, [*certain, *contents])
    assert reported[:len(certain)] == [True] * len(certain)
