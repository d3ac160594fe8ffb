"""An engine that the gateway starts itself: llama.cpp's server in this interpreter's package xllamacpp."""

import os
import pathlib
import signal
import sys
import time

import openai as sdk
import pytest
from conftest import Gateway

# How long anything may take.
LIMIT = 60

# A server that ends sooner than this after its start is not started again.
LEAST_RUN = 30


@pytest.fixture
def gateway(weights):
    options = ["--local-python", sys.executable, "--local-context", "4096", "--local-parallel", "2", "--store-at", "memory"]
    gateway = Gateway("--model", weights, "--name", "plain", "--engine", f"local:{weights}", *options)
    yield gateway
    gateway.kill()
    assert "panicked" not in "".join(gateway.log)


def client(gateway):
    return sdk.OpenAI(base_url=gateway.address + "/v1", api_key="none", max_retries=0, timeout=LIMIT)


def ask(gateway):
    message = {"role": "user", "content": "Say hello."}
    return client(gateway).chat.completions.create(model="plain", messages=[message], max_tokens=8, temperature=0)


def engine_of(gateway):
    """The number of the gateway's only child."""
    tasks = pathlib.Path(f"/proc/{gateway.process.pid}/task").iterdir()
    (child,) = [child for task in tasks for child in (task / "children").read_text().split()]
    return int(child)


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_for(what, is_so):
    limit = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < limit, f"{what} did not come to pass"
        time.sleep(0.05)


def until_it_answers(gateway):
    """Asks until the engine has read its model, and returns the answer and the codes of the errors before."""
    codes, limit = set(), time.monotonic() + LIMIT
    while time.monotonic() < limit:
        try:
            return ask(gateway), codes
        except sdk.APIStatusError as fault:
            assert fault.status_code in (502, 503), fault
            codes.add(fault.code)
            time.sleep(0.05)
    raise AssertionError(f"no answer but {codes}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_engine_ends_with_the_gateway(gateway, number):
    answer, _ = until_it_answers(gateway)
    assert answer.choices[0].message.content
    engine = engine_of(gateway)
    assert is_alive(engine)
    gateway.process.send_signal(number)
    assert gateway.process.wait(LIMIT) == (-number if number == signal.SIGKILL else 0)
    wait_for("the end of the engine", lambda: not is_alive(engine))


def test_an_engine_that_is_killed_is_started_again(gateway):
    start = time.monotonic()
    first, _ = until_it_answers(gateway)
    engine = engine_of(gateway)
    time.sleep(max(0, start + LEAST_RUN + 1 - time.monotonic()))
    # In the midst of a reply.
    message = {"role": "user", "content": "Count to a thousand."}
    stream = client(gateway).chat.completions.create(model="plain", messages=[message], max_tokens=2000, stream=True)
    next(stream)
    os.kill(engine, signal.SIGKILL)
    with pytest.raises(sdk.APIError) as fault:
        for _ in stream:
            pass
    assert fault.value.code in ("engine_died", "engine_down"), fault.value
    again, codes = until_it_answers(gateway)
    # The last one is llama.cpp's own, as long as it loads the model.
    assert codes <= {"engine_died", "engine_down", "engine_refused"}, codes
    assert again.choices[0].message.content == first.choices[0].message.content
    assert engine_of(gateway) != engine
