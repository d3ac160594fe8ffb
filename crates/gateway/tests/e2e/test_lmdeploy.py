"""LMDeploy's own Python client with its defaults: every method."""

import importlib.util
import logging
import pathlib
import sys
import types

import pytest

HELLO = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="session")
def client_class():
    """The class of the client, from its file in the package: importing the package itself needs a GPU's libraries."""
    package = pathlib.Path(importlib.util.find_spec("lmdeploy").origin).parent
    stand_in, utils = types.ModuleType("lmdeploy"), types.ModuleType("lmdeploy.utils")
    utils.get_logger = logging.getLogger
    sys.modules |= {"lmdeploy": stand_in, "lmdeploy.utils": utils}
    spec = importlib.util.spec_from_file_location("api_client", package / "serve/openai/api_client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.APIClient


@pytest.fixture(scope="session")
def client(gateway, client_class):
    return client_class(gateway.address)


def test_the_models(client):
    assert client.available_models == ["plain", "tools"]


def test_chat_completions(client, passed, ids_of):
    (whole,) = client.chat_completions_v1(model="plain", messages=HELLO, temperature=0, max_tokens=12)
    (sent,) = passed()
    assert sent.prompt == ids_of("plain", {"messages": HELLO})
    assert whole["choices"][0]["message"]["content"]
    chunks = list(client.chat_completions_v1(model="plain", messages=HELLO, temperature=0, max_tokens=12, stream=True))
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert text == whole["choices"][0]["message"]["content"]


def test_messages_that_are_a_text_are_the_users(client, passed, ids_of):
    (whole,) = client.chat_completions_v1(model="plain", messages=HELLO[0]["content"], max_tokens=3)
    assert "error" not in whole
    (sent,) = passed()
    assert sent.prompt == ids_of("plain", {"messages": HELLO})


def test_completions(client):
    given = dict(model="plain", prompt="The capital of France is", temperature=0, max_tokens=6)
    (whole,) = client.completions_v1(**given)
    assert whole["choices"][0]["text"]
    chunks = list(client.completions_v1(stream=True, **given))
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])
    assert text == whole["choices"][0]["text"]


def test_interactive_turns(client, passed, ids_of):
    said = [output for output in client.chat_interactive_v1(HELLO[0]["content"], session_id=5, interactive_mode=True,
                                                            request_output_len=8, temperature=0.01)]
    assert said[-1]["text"] and said[-1]["finish_reason"] in ("stop", "length")
    passed()
    texts = [text for text, tokens, reason in client.chat("And of Spain?", session_id=5, request_output_len=8, stream=True)]
    assert "".join(texts)
    (sent,) = passed()
    whole = ids_of("plain", {"messages": HELLO})
    assert sent.prompt[: len(whole)] == whole and len(sent.prompt) > len(whole) + 8
    assert client.end_session(5) is None
    for text, tokens, reason in client.chat("And of Spain?", session_id=5, request_output_len=2):
        assert reason == "length"
    (sent,) = passed()
    assert sent.prompt == ids_of("plain", {"messages": [{"role": "user", "content": "And of Spain?"}]})
    client.end_session(5)


def test_encode(client, gateway, ids_of):
    ids, length = client.encode("The capital")
    assert length == len(ids) and ids
    many, lengths = client.encode(["The capital", " of France"])
    assert many[0] == ids and lengths == [len(each) for each in many]
    ids, length = client.encode(HELLO[0]["content"], do_preprocess=True)
    assert ids == ids_of("plain", {"messages": HELLO}) and length == len(ids)
    # Text never becomes a control token.
    forged, _ = client.encode("<|im_end|>")
    assert len(forged) > 1


def test_a_conversation_that_is_too_long_ends_with_length(client):
    long = "word " * 20000
    (output,) = client.chat_interactive_v1(long, session_id=9, interactive_mode=True)
    assert (output["text"], output["tokens"], output["finish_reason"]) == ("", 0, "length")
    assert output["input_tokens"] > 10000
    # Its turn is not kept.
    (output,) = client.chat_interactive_v1("Hi", session_id=9, interactive_mode=True, request_output_len=2)
    assert output["tokens"] > 0 and output["history_tokens"] == 0
    client.end_session(9)
