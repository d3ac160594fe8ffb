"""The servers that speak the wire formats of vLLM and SGLang: they follow grammars, and refuse nonsense."""

import json
import urllib.error
import urllib.request

import pytest
from conftest import Gateway, client_of
from passed import KINDS
from server import Server

TAG = json.dumps({"type": "structural_tag", "format": {"type": "grammar", "grammar": 'root ::= "<" [0-9]{3} ">"'}})
VLLM = {"prompt": [1, 504], "stream": True, "return_token_ids": True, "skip_special_tokens": False, "max_tokens": 20,
        "stream_options": {"include_usage": True}}
SGLANG = {"input_ids": [1, 504], "stream": True, "sampling_params": {"skip_special_tokens": False, "max_new_tokens": 20}}


@pytest.fixture(scope="module")
def servers(engine, weights):
    servers = {kind: Server(kind, engine.address, weights) for kind in KINDS if kind != "llama.cpp"}
    yield {kind: server.address for kind, server in servers.items()}
    for server in servers.values():
        server.stop()


def post(url: str, body: dict) -> tuple:
    """Returns the status, and the frames or the error."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = answer.read().decode().split("\n")
            assert lines[-3] == "data: [DONE]"
            return 200, [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_replies_follow_the_grammar(servers):
    # The first tokens are not what the model would write.
    status, frames = post(servers["vllm"] + "/v1/completions", VLLM | {"structured_outputs": {"structural_tag": TAG}})
    text = "".join(frame["choices"][0]["text"] for frame in frames[:-1])
    assert status == 200 and len(text) == 5 and text[1:4].isdigit() and frames[-2]["choices"][0]["finish_reason"] == "stop"
    body = SGLANG | {"sampling_params": SGLANG["sampling_params"] | {"structural_tag": TAG}}
    for kind in ("sglang", "sglang-incremental"):
        status, frames = post(servers[kind] + "/generate", body)
        text = "".join(frame["text"] for frame in frames) if kind != "sglang" else frames[-1]["text"]
        assert status == 200 and len(text) == 5 and text[1:4].isdigit()
        assert frames[-1]["meta_info"]["finish_reason"] == {"type": "stop", "matched": 2}


@pytest.mark.parametrize("change, field", [
    ({"nonsense": 1}, "nonsense"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": "5"}, "top_k"),
    ({"prompt": [1, 49152]}, "prompt"),
    ({"max_tokens": 100_000}, "input_tokens"),
    ({"stream_options": {"include_usage": True, "nonsense": 1}}, "stream_options.nonsense"),
    ({"structured_outputs": {"grammar": "root ::="}}, "structured_outputs.structural_tag"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs"),
])
def test_vllm_refuses_nonsense(servers, change, field):
    status, answer = post(servers["vllm"] + "/v1/completions", VLLM | change)
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, field, 400)


@pytest.mark.parametrize("change, why", [
    ({"nonsense": 1}, "nonsense"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": 0}, "top_k"),
    ({"max_new_tokens": 100_000}, "maximum context length"),
    ({"structural_tag": "{}"}, "Failed to compile structural_tag grammar"),
])
def test_sglang_refuses_nonsense(servers, change, why):
    status, (frame,) = post(servers["sglang"] + "/generate", SGLANG | {"sampling_params": SGLANG["sampling_params"] | change})
    error = frame.get("error") or frame["meta_info"]["finish_reason"]
    # It says so in the stream.
    assert status == 200 and why in error["message"] and (error.get("code") or error["status_code"]) == 400
    status, answer = post(servers["sglang"] + "/generate", SGLANG | {"nonsense": 1})
    assert status == 400 and "nonsense" in answer["error"]


def test_the_gateway_reads_both_kinds_of_sglangs_frames(servers, weights):
    answers = []
    for kind in ("sglang", "sglang-incremental"):
        gateway = Gateway("--model", weights, "--name", "plain", "--engine", servers[kind], "--engine-kind", "sglang",
                          "--store-at", "memory")
        answer = client_of(gateway).chat.completions.create(
            model="plain", messages=[{"role": "user", "content": "Draw \U0001f984."}], temperature=0, max_tokens=30,
            logprobs=True, top_logprobs=2)
        answers.append((answer.choices[0].model_dump(), answer.usage.completion_tokens))
        assert gateway.stop() == 0
    assert answers[0] == answers[1]
