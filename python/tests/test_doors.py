"""Python gives the same answers as the command, and refuses what it would otherwise ignore.

The command is compared if it was built: ``ROLECALL_COMMAND``, or the newest one in the repository's ``target``.
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


@pytest.fixture(params=["small", "chatml", "plain"])
def folder(request, tmp_path):
    """The folder of a model, each of another kind."""
    small_model.write(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["chat_template"] = {"small": config["chat_template"], "chatml": CHATML, "plain": PLAIN}[request.param]
    config["eos_token"] = "<|endoftext|>"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_stops_and_ids_are_those_of_the_command(folder):
    model = rolecall.load(folder)
    encoded = model.encode(REQUEST["messages"])
    stops = model.stop_ids()
    assert model.tokenizer.token_id("<|endoftext|>") in stops
    if (path := command()) is None:
        return
    (folder / "request.json").write_text(json.dumps(REQUEST))
    for verb in ("encode", "render", "explain"):
        arguments = [path, verb, "--json", "--model", folder, folder / "request.json"]
        printed = subprocess.run(arguments, capture_output=True, check=True, text=True)
        answer = json.loads(printed.stdout)
        assert sorted(answer["stop_ids"]) == sorted(stops), verb
        if verb == "encode":
            assert answer["ids"] == encoded.ids.tolist()
        assert answer.get("account", {"leaves": []})["leaves"] == model.prompt(REQUEST["messages"]).account["leaves"]


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
