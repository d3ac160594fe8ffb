"""What survives: the gateway is killed, and started again."""

import openai as sdk
import pytest
from conftest import Gateway, client_of


@pytest.fixture
def mortal(kind, proxy, weights, tmp_path):
    gateway = Gateway("--model", weights, "--name", "plain", "--engine", proxy.address, "--engine-kind", kind,
                      "--store-at", str(tmp_path / "sessions.redb"))
    yield gateway
    gateway.kill()


def test_a_finished_turn_survives_sigkill(mortal, passed):
    had, previous = [], None
    for turn in range(4):
        answer = client_of(mortal).responses.create(
            model="plain", temperature=0, input=f"Turn {turn}.", previous_response_id=previous, max_output_tokens=8)
        (sent,) = passed()
        assert sent.prompt[: len(had)] == had
        had, previous = sent.prompt + sent.sampled, answer.id
        mortal.kill()
        mortal.start()
    # Within a turn: what was not finished is not there, and what was is.
    stream = client_of(mortal).responses.create(
        model="plain", temperature=0, input="Tell a long story.", previous_response_id=previous, max_output_tokens=500, stream=True)
    unfinished = next(iter(stream)).response.id
    mortal.kill()
    mortal.start()
    passed()
    with pytest.raises(sdk.APIStatusError):
        client_of(mortal).responses.create(model="plain", temperature=0, input="Go on.", previous_response_id=unfinished)
    client_of(mortal).responses.create(model="plain", temperature=0, input="Go on.", previous_response_id=previous, max_output_tokens=4)
    (sent,) = passed()
    assert sent.prompt[: len(had)] == had


def test_sigterm_drains(mortal):
    stream = client_of(mortal).chat.completions.create(
        model="plain", messages=[{"role": "user", "content": "Tell a story."}], max_tokens=60, stream=True)
    chunks = [next(iter(stream))]
    mortal.process.terminate()
    chunks += list(stream)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert mortal.process.wait(30) == 0
