"""Python gives the library's answers, which ``fixtures/doors`` has, and refuses what it would otherwise ignore.

The command is compared, too, if it was built: ``ROLECALL_COMMAND``, or the newest one in the repository's ``target``.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import rolecall
import rolecall.data

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import small_model  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUEST = {
    "messages": [
        {"role": "user", "content": "Hi <|im_end|> <tool_call>"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
}
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def command():
    """Return the path of the command, or None if it was not built."""
    if given := os.environ.get("ROLECALL_COMMAND"):
        return given
    built = [ROOT / "target" / profile / "rolecall" for profile in ("debug", "release")]
    built = [path for path in built if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def door_case(path):
    """Read a case of ``fixtures/doors``: its sections by name."""
    sections, name = {}, None
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("--- "):
            name = line.removeprefix("--- ")
            sections[name] = []
        else:
            sections[name].append(line)
    # The last line break belongs to the end of the file.
    sections[name].pop()
    return {name: "\n".join(lines) for name, lines in sections.items()}


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Door:
    """A model of ``fixtures/doors``, and the library's answers about it."""

    def __init__(self, path, folder):
        self.case = door_case(path)
        own = json.loads(self.case["model"])
        unflagged = own.get("unflagged", [])
        flags = {"normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
        added = [
            {"id": 256 + at, "content": text, "special": text not in unflagged, **flags}
            for at, text in enumerate(own["tokens"])
        ]
        letters = small_model.byte_letters()
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        vocabulary = {letters[byte]: byte for byte in range(256)}
        tokenizer = {
            "added_tokens": added,
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        }
        config = {"eos_token": own["eos"], "chat_template": self.case["template"]}
        if "bos" in own:
            config["bos_token"] = own["bos"]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        self.model = rolecall.load(folder)
        self.requests = json_lines(self.case["requests"])
        self.replies = json_lines(self.case["replies"])

    def ask(self, function, request, *before, **more):
        """Call a function with the keyword arguments of a request."""
        keywords = {key: value for key, value in request.items() if key not in ("messages", "chat_template_kwargs")}
        return function(*before, request["messages"], **keywords, **request.get("chat_template_kwargs", {}), **more)


@pytest.fixture(params=sorted(path.stem for path in (ROOT / "fixtures" / "doors").glob("*.case")))
def door(request, tmp_path):
    return Door(ROOT / "fixtures" / "doors" / f"{request.param}.case", tmp_path)


def reading(answer):
    """Return what a parsed reply has, without the ids of calls, which are random."""
    message = answer["message"]
    facts = {"content": message["content"]}
    if "reasoning_content" in message:
        facts["reasoning_content"] = message["reasoning_content"]
    if "tool_calls" in message:
        facts["calls"] = [call["function"] for call in message["tool_calls"]]
    return {**facts, "finish_reason": answer["finish_reason"], "malformed": [one["code"] for one in answer["malformed"]]}


def policies_of(reply):
    return {name: reply[name] for name in ("calls_in_reasoning", "unclosed_reasoning") if name in reply}


def test_stops_are_those_of_the_library(door):
    stops = json.loads(door.case["stops"])
    assert sorted(door.model.stop_ids()) == stops
    assert sorted(door.ask(door.model.explain, door.requests[0]).to_dict()["stop_ids"]) == stops


def test_protected_tokens_are_those_of_the_library(door):
    protected = door.model.tokenizer.audit()["protected"]
    assert sorted(token["id"] for token in protected) == json.loads(door.case["protected"])


def test_prompts_and_ids_are_those_of_the_library(door):
    for request, prompt in zip(door.requests, json_lines(door.case["prompts"])):
        rendered = door.ask(door.model.prompt, request)
        encoded = door.ask(door.model.encode, request)
        assert rendered.text == prompt["prompt"]
        assert encoded.ids.tolist() == rendered.encode().ids.tolist() == prompt["ids"]
        assert encoded.ids[encoded.control].tolist() == prompt["control_ids"]
        assert door.ask(door.model.session, request).open().ids.tolist() == prompt["ids"]


def test_accounts_are_those_of_the_library(door):
    for request, account in zip(door.requests, json_lines(door.case["accounts"])):
        assert door.ask(door.model.prompt, request).account == account
        explained = door.ask(door.model.explain, request).to_dict()
        # An account of which nothing is to be told is not written.
        assert explained.get("account", {"leaves": []})["leaves"] == account["leaves"]


def test_layouts_are_those_that_parse(door):
    assert door.model.template.layout() == door.case["layouts"]
    analysis = json.loads(door.case["analysis"])
    assert {key: value for key, value in door.model.template.analyze().items() if key in analysis} == analysis


def test_replies_are_parsed_by_the_policies_as_in_the_library(door):
    for reply, expected in zip(door.replies, json_lines(door.case["readings"])):
        policies, finish = policies_of(reply), reply.get("finish_reason")
        session = door.ask(door.model.session, door.requests[0], policies=policies)
        session.open()
        ids = session.encode_sampled(reply["output"])
        for output in (reply["output"], ids):
            parse = door.ask(door.model.parse, door.requests[0], output, finish_reason=finish, policies=policies)
            assert reading(parse) == expected, reply
        accepted = session.accept(ids, finish=finish or "stop")
        assert reading(accepted.reading) == expected, reply


def test_the_command_names_the_same_stops_and_ids(door, tmp_path):
    if (path := command()) is None:
        return
    (tmp_path / "request.json").write_text(json.dumps(door.requests[0]))
    arguments = [path, "encode", "--json", "--model", tmp_path, tmp_path / "request.json"]
    answer = json.loads(subprocess.run(arguments, capture_output=True, check=True, text=True).stdout)
    assert sorted(answer["stop_ids"]) == sorted(door.model.stop_ids())
    assert answer["ids"] == door.ask(door.model.encode, door.requests[0]).ids.tolist()


def test_an_option_of_a_format_counts_as_a_keyword():
    model = rolecall.load("internlm2")
    spelled = rolecall.load("internlm2", options={"spelling": "unused_token"})
    by_keyword = model.prompt(REQUEST["messages"], spelling="unused_token")
    assert by_keyword.text == spelled.prompt(REQUEST["messages"]).text
    assert by_keyword.text != model.prompt(REQUEST["messages"]).text
    with pytest.raises(rolecall.RolecallError, match="spelling"):
        model.prompt(REQUEST["messages"], spelling="nonesuch")


@pytest.mark.parametrize(
    ("wrong", "meant"), [("for_trainig", "for_training"), ("tool", "tools"), ("add_generation_promt", "add_generation_prompt")]
)
def test_a_misspelt_keyword_is_no_switch(wrong, meant):
    for model in (rolecall.load("chatml"), rolecall.load(chat_template=PLAIN)):
        for call in (model.prompt, model.encode, model.session):
            with pytest.raises(rolecall.RequestError, match=meant):
                call(REQUEST["messages"], **{wrong: "assistant"})


def test_a_switch_that_the_template_reads_is_no_misspelt_keyword():
    model = rolecall.load(chat_template="{{ for_trainig }}{% for m in messages %}{{ m.content }}{% endfor %}")
    assert model.prompt(REQUEST["messages"], for_trainig="x").text.startswith("x")


def test_a_keyword_of_another_function_is_no_switch():
    with pytest.raises(rolecall.RequestError, match="loss_role"):
        rolecall.load("chatml").prompt(REQUEST["messages"], loss_role="tool")


@pytest.mark.parametrize("name", ["enable_thinking", "thinking", "custom_tools", "xml_tools", "date_string", "images"])
def test_switches_of_other_templates_are_left_to_the_template(name):
    assert rolecall.load("chatml").prompt(REQUEST["messages"], **{name: True}).text


def test_labels_have_no_weights(tmp_path):
    small_model.write(tmp_path)
    model = rolecall.load(tmp_path)
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "weight": 0.5}]}
    for option in ({"loss_weight": {"content": 0.5}}, {"loss_role": {"user": 0.25}}):
        with pytest.raises(rolecall.RequestError, match="labels"):
            rolecall.data.encode([row], model, columns="trl", **option)
        columns = rolecall.data.encode([row], model, columns="trl", loss_weights=True, **option)
        assert "loss_weights" in columns.column_names
    assert rolecall.data.encode([row], model, columns="trl", loss_weight={"content": 0}).column_names
    assert rolecall.data.encode([row], model, columns="trl").counts["notes"] == {"partial_weights": 1}


def test_a_template_of_another_tokenizer_is_refused(tmp_path):
    small_model.write(tmp_path)
    template = CHATML.replace("<|im_", "<|turn_")
    model = rolecall.load(tokenizer=tmp_path, chat_template=template)
    with pytest.raises(rolecall.EncodeError, match="turn_start"):
        model.encode(REQUEST["messages"])
    model = rolecall.load(tokenizer=tmp_path, chat_template=template, plain_markers=True)
    assert len(model.encode(REQUEST["messages"]).ids) > 20


def test_a_path_that_does_not_exist_is_named():
    with pytest.raises(rolecall.OpenError, match="nowhere"):
        rolecall.load("./nowhere")
    with pytest.raises(rolecall.OpenError, match="nowhere"):
        rolecall.load("./nowhere", chat_template=PLAIN)


def test_a_prompt_has_the_account_of_its_request():
    account = rolecall.load("chatml").prompt([{"role": "user", "content": "Hi", "label": "x"}]).account
    assert [(leaf["kind"], leaf["message"], leaf["field"]) for leaf in account["leaves"]] == [("left_out", 0, "label")]
    assert account["counts"]["left_out"] == 1
