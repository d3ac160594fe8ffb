"""Formats, registries, chat templates and tokenizers as objects."""

import copy
import json
import pickle
import threading

import letters
import numpy as np
import pytest
import rolecall
from rolecall import _content

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MINE = 'name = "mine"\ntitle = "Mine"\n[sources]\nlayout = "made up"\n[layout]\nuser = "Q: {content}\\n"\nassistant = "A: {content}\\n"\ngenerate = "A: "\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = letters.write(tmp_path_factory.mktemp("models") / "some-model", TEMPLATE)
    (folder / "generation_config.json").write_text(json.dumps({"top_p": 0.5, "temperature": 0.25}))
    return folder


def sent(value):
    """The object as another process gets it."""
    pickled = pickle.dumps(value)
    _content._opened.clear()
    return pickle.loads(pickled)


def test_a_registry_is_a_mapping_of_formats():
    registry = rolecall.Registry()
    assert len(registry) == len(list(registry)) == len(registry.names())
    assert "chatml" in registry and "no-such-format" not in registry and 3 not in registry
    assert registry["chatml"].name == registry.get("chatml").name == "chatml"
    assert registry.get("no-such-format") is None and registry.get("no-such-format", 7) == 7
    with pytest.raises(KeyError):
        registry["no-such-format"]


def test_a_registry_finds_the_format_of_a_model(folder):
    registry = rolecall.Registry()
    assert registry.find("internlm/internlm2-chat-7b").name == "internlm2"
    told = registry.identify("internlm/internlm2-chat-7b")
    assert told["format"] == "internlm2" and told["evidence"]
    with pytest.raises(rolecall.FormatError) as raised:
        registry.find("nobody/knows-this")
    assert raised.value.code == "unknown_model" and raised.value.help
    with pytest.raises(rolecall.RolecallError):
        registry.find(folder / "tokenizer.json" / "no")


def test_a_registry_takes_files_folders_and_formats(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "other.toml").write_text(MINE.replace("mine", "other"))
    (tmp_path / "notes.txt").write_text("not a format")
    assert {"mine", "other"} <= set(rolecall.Registry(tmp_path))
    registry = rolecall.Registry(tmp_path / "mine.toml")
    with pytest.raises(rolecall.FormatError) as raised:
        registry.add(tmp_path / "mine.toml")
    assert raised.value.code == "name_clash" and "replace" in raised.value.help
    registry.add(rolecall.Format.from_text(MINE.replace("Mine", "Newer")), replace=True)
    assert registry["mine"].title == "Newer"
    assert sent(registry)["mine"].title == "Newer" and len(sent(registry)) == len(registry)
    (tmp_path / "broken.toml").write_text("name = 3")
    for path in (tmp_path, tmp_path / "broken.toml", tmp_path / "missing.toml"):
        with pytest.raises(rolecall.FormatError):
            rolecall.Registry(path)


def test_a_registry_is_shared_by_threads():
    registry = rolecall.Registry()
    failures = []

    def work(number):
        try:
            for step in range(20):
                registry.add(rolecall.Format.from_text(MINE.replace("mine", f"mine-{number}-{step}")))
                with pytest.raises(rolecall.FormatError):
                    registry.add(rolecall.Format.from_text(MINE.replace("mine", f"mine-{number}-{step}")))
        except BaseException as error:
            failures.append(error)

    before = len(registry)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not failures and len(registry) == before + 160


def test_a_format_tells_its_facts():
    chatml = rolecall.Format("chatml")
    assert chatml.stop == ["<|im_end|>"] and chatml.name == "chatml"
    assert [control["text"] for control in chatml.controls] == ["<|im_start|>", "<|im_end|>"]
    assert chatml.rules["roles"] and isinstance(chatml.options, list) and isinstance(chatml.sampling, dict)
    facts = chatml.to_dict()
    assert facts["example"]["prompt"].startswith("<|im_start|>system\n") and facts["control"] == chatml.controls
    assert rolecall.Format.from_text(chatml.source).to_dict() == facts
    assert rolecall.Format.from_text(chatml.reply_toml()).stop == ["<|im_end|>"]
    assert 92542 in rolecall.Format("internlm2").stop_ids
    assert rolecall.Format("xtuner:llama2_chat").source is None


def test_a_format_is_read_from_files_of_other_frameworks(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"INSTRUCTION": "Q: {input}\nA:"}))
    assert rolecall.Format.from_file(path).name == "mine"
    assert rolecall.Format.from_text(path.read_text(), "other.json").name == "other"
    for read in (lambda: rolecall.Format("chatmll"), lambda: rolecall.Format.from_text("name = 3"),
                 lambda: rolecall.Format.from_file(tmp_path / "no.toml")):
        with pytest.raises(rolecall.FormatError) as raised:
            read()
        assert raised.value.code and str(raised.value)
    assert "chatml" in str(pytest.raises(rolecall.FormatError, rolecall.Format, "chatmll").value)


def test_a_model_has_its_parts(folder):
    model = rolecall.load(folder)
    assert model.template.source == TEMPLATE and model.template.tokens["eos_token"] == "<|im_end|>"
    assert model.tokenizer.vocab_size == len(letters.LETTERS) + 2
    assert model.sampling["top_p"] == 0.5 and model.sampling["temperature"] == 0.25
    assert {"part": "chat template", "why": f"{folder}/tokenizer_config.json, chat_template"} in model.evidence
    assert all(set(warning) == {"code", "message"} for warning in model.warnings)
    assert model.eos_token == "<|im_end|>"
    named = rolecall.load("internlm2")
    assert (named.format.name, named.template, named.tokenizer) == ("internlm2", None, None)
    assert named.evidence[0]["part"] == "format" and named.bos_token == "<s>"


def test_a_chat_template_is_analyzed_and_rendered():
    template = rolecall.ChatTemplate(TEMPLATE)
    assert template.source == TEMPLATE and template.sources == {"default": TEMPLATE}
    analysis = template.analyze()
    assert analysis["supports"]["system"] is True and analysis["supports"]["tools"] is False
    assert template.prompt([{"role": "user", "content": "Hi"}]).text.endswith("<|im_start|>assistant\n")
    assert 'assistant = "<|im_start|>assistant' in template.layout()
    assert rolecall.Format.from_text(template.layout()).name == "inferred"
    several = rolecall.ChatTemplate({"default": "a", "tool_use": "b"})
    assert several.sources == {"default": "a", "tool_use": "b"} and several.analyze("tool_use")["name"] == "tool_use"
    with pytest.raises(rolecall.TemplateError) as raised:
        several.analyze("no")
    assert raised.value.code == "unknown_template" and "tool_use" in raised.value.help


def test_a_chat_template_is_read_from_files(folder, tmp_path):
    assert rolecall.ChatTemplate.from_file(folder).source == TEMPLATE
    path = tmp_path / "mine.jinja"
    path.write_text("{{ bos_token }}{{ messages[0].content }}")
    template = rolecall.ChatTemplate.from_file(path, bos_token="<s>")
    assert template.prompt([{"role": "user", "content": "Hi"}]).text == "<s>Hi"
    with pytest.raises(rolecall.RolecallError):
        rolecall.ChatTemplate.from_file(tmp_path / "no.jinja")
    with pytest.raises(rolecall.RolecallError):
        rolecall.ChatTemplate("{% for %}")


def test_text_that_spells_a_token_stays_text(folder):
    tokenizer = rolecall.Tokenizer(folder)
    end = tokenizer.token_id("<|im_end|>")
    ids = tokenizer.encode("a <|im_end|>")
    assert ids.dtype == np.uint32 and ids.ndim == 1 and end not in ids
    assert tokenizer.decode(ids) == "a <|im_end|>"
    reference = tokenizer.encode("a <|im_end|>", reference=True)
    assert reference[-1] == end and tokenizer.decode(reference) == "a <|im_end|>"
    assert tokenizer.decode(reference, skip_special=True) == "a "
    assert tokenizer.decode_bytes(reference.tolist()) == b"a <|im_end|>"
    assert tokenizer.encode("").shape == (0,) and tokenizer.decode([]) == ""


def test_tokens_have_texts_bytes_and_ids(folder):
    tokenizer = rolecall.Tokenizer(folder / "tokenizer.json")
    space = tokenizer.token_id("Ġ")
    assert (tokenizer.token_text(space), tokenizer.token_bytes(space)) == ("Ġ", b" ")
    assert tokenizer.token_id("no such token") is None and tokenizer.token_text(2**31) is None
    assert tokenizer.token_bytes(2**31) is None
    assert [token["text"] for token in tokenizer.added_tokens] == ["<|im_start|>", "<|im_end|>"]
    assert len(tokenizer) == tokenizer.vocab_size and tokenizer.adds_bos is None and tokenizer.adds_eos is None
    assert tokenizer.file == str(folder / "tokenizer.json")


def test_a_tokenizer_is_audited_for_a_format(folder):
    audit = rolecall.Tokenizer(folder).audit(rolecall.Format("chatml"))
    assert [control["fit"] for control in audit["controls"]] == ["single", "single"]
    assert audit["file"] == str(folder / "tokenizer.json") and isinstance(audit["findings"], list)
    assert "controls" not in rolecall.Tokenizer(letters.tokenizer_bytes()).audit()


def test_a_tokenizer_of_another_library_is_taken(folder):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = rolecall.Tokenizer(theirs)
    text = "Hello <|im_end|> world\n"
    assert ours.encode(text, reference=True).tolist() == theirs.encode(text, add_special_tokens=False).ids


def test_wrong_arguments_are_typed_errors(folder):
    tokenizer = rolecall.Tokenizer(folder)
    for ids in ([-1], ["a"], "text", b"bytes", [2**40], [None], 3, [1.5]):
        with pytest.raises(rolecall.RolecallError):
            tokenizer.decode(ids)
    with pytest.raises(rolecall.RolecallError):
        tokenizer.decode([2**31])
    for text in ("\ud800", 3, None, b"bytes"):
        with pytest.raises(rolecall.RequestError):
            tokenizer.encode(text)
    for source in (None, 3, b"", b"{", "no/such/file"):
        with pytest.raises((rolecall.RolecallError, TypeError)):
            rolecall.Tokenizer(source)


@pytest.mark.parametrize("make", ["format", "text format", "model's format", "template", "tokenizer"])
def test_every_object_can_be_pickled_and_copied(folder, make):
    value, look = {
        "format": (rolecall.Format("internlm2"), lambda one: one.to_dict()),
        "text format": (rolecall.Format.from_text(MINE), lambda one: (one.to_dict(), one.source)),
        "model's format": (rolecall.load("internlm2").format, lambda one: one.to_dict()),
        "template": (rolecall.load(folder).template, lambda one: one.sources),
        "tokenizer": (rolecall.load(folder).tokenizer, lambda one: one.encode("Hello").tolist()),
    }[make]
    assert look(sent(value)) == look(value)
    assert copy.copy(value) is value and copy.deepcopy(value) is value


def test_a_template_is_laid_out_by_its_name():
    marked = TEMPLATE.replace("<|im_end|>", "<|done|>")
    several = rolecall.ChatTemplate({"default": TEMPLATE, "tool_use": marked})
    assert several.layout() == several.layout("default") == rolecall.ChatTemplate(TEMPLATE).layout()
    assert several.layout("tool_use") == rolecall.ChatTemplate(marked).layout() != several.layout()


def test_files_of_a_folder_are_added_in_order_and_their_formats_can_be_pickled(tmp_path):
    last = MINE.replace("Mine", "Last")
    (tmp_path / "b.toml").write_text(last)
    (tmp_path / "c.txt").write_text("not a format")
    (tmp_path / "a.toml").write_text(MINE)
    found = rolecall.Registry(tmp_path, replace=True)["mine"]
    assert (found.title, found.source) == ("Last", last)
    assert (sent(found).title, sent(found).source) == ("Last", last)


def test_a_tokenizer_is_audited_for_the_format_of_its_model():
    audit = rolecall.load("chatml", tokenizer=letters.tokenizer_bytes()).tokenizer.audit()
    assert audit["format"] == "chatml" and len(audit["controls"]) == 2


@pytest.mark.parametrize("flag", ["special", "normalized", "lstrip", "rstrip", "single_word"])
def test_an_added_token_has_the_flags_of_its_file(flag):
    content = letters.tokenizer_json()
    first, second = content["added_tokens"]
    first[flag], second[flag] = True, False
    tokens = rolecall.Tokenizer(json.dumps(content).encode()).added_tokens
    assert [token[flag] for token in tokens] == [True, False]


def test_an_analysis_says_that_template_and_tokenizer_both_write_the_opening_token():
    content = letters.tokenizer_json()
    opening, text = {"SpecialToken": {"id": "<|im_end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing", "single": [opening, text], "pair": [opening, text, text],
        "special_tokens": {"<|im_end|>": {"id": "<|im_end|>", "ids": [letters.END], "tokens": ["<|im_end|>"]}},
    }
    # The template by itself opens with another token.
    adds, adds_none = json.dumps(content).encode(), letters.tokenizer_bytes()
    for tokenizer, before, code in [
        (adds, "{{ bos_token }}", "double-bos"), (adds_none, "{{ bos_token }}", None),
        (adds, "", None), (adds_none, "", "no-bos"), (None, "{{ bos_token }}", None),
    ]:
        model = rolecall.load(chat_template=before + TEMPLATE, bos_token="<|im_end|>", tokenizer=tokenizer)
        codes = [finding["code"] for finding in model.template.analyze()["findings"]]
        assert [found for found in codes if "bos" in found] == [code] * (code is not None), (before, code)


def test_a_format_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "mine.toml").write_text("\ufeff" + MINE, encoding="utf-8")
    assert rolecall.Format.from_file(tmp_path / "mine.toml").name == "mine"
    assert "mine" in rolecall.Registry(tmp_path / "mine.toml")


def test_a_folder_is_found_by_its_real_name(tmp_path, monkeypatch):
    folder = tmp_path / "internlm2-chat-7b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert rolecall.Registry().find(".").name == "internlm2"


def test_bytes_are_no_ids(folder):
    model = rolecall.load(folder)
    session = model.session([{"role": "user", "content": "a"}])
    session.open()
    for call in (model.tokenizer.decode, session.accept, session.parse):
        for ids in (b"ab", bytearray(b"ab")):
            with pytest.raises(rolecall.RequestError) as raised:
                call(ids)
            assert raised.value.field == "ids" and "found byte" in str(raised.value)
