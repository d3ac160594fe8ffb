"""LMDeploy's names: every row of the golden vectors, and what users may pass."""

import json
import threading

import pytest
import rolecall
from interop_rows import Excused, all_ops, judge, rows, same
from rolecall.interop import lmdeploy
from rolecall.interop.lmdeploy import MODELS, BaseChatTemplate, BaseModel, ChatTemplateConfig, best_match_model

OPS = {
    "messages2prompt", "document printed example", "get_prompt per user turn", "get_prompt", "chat-template json",
    "to_json", "best_match_model", "params",
}

RETURNS_NULL = "messages2prompt returns nothing for a list"
DOCUMENT = "the document has session length and sampling in a template; the released code refuses them"
NO_STOP = "the unreleased module has no stop word for a template; the release stops at the end of the answer"


def test_every_operation_of_the_vectors_is_tested(shared):
    assert all_ops(shared, "lmdeploy") == OPS


def messages2prompt(row, template, sequence_start, wanted):
    """Compare a prompt with the reference's, which is None where the reference returns nothing."""
    messages = row["conversation"]
    if wanted is not None:
        return same(template.messages2prompt(messages, sequence_start), wanted)
    # The texts of the messages in order, or a refusal of an unknown role.
    try:
        found = template.messages2prompt(messages, sequence_start)
    except rolecall.RenderError as error:
        assert error.code == "unknown_role" and {m["role"] for m in messages} - {"system", "user", "assistant"}
    else:
        same(found, "".join(message["content"] for message in messages))
    raise Excused(RETURNS_NULL)


def test_messages2prompt_rows(shared, record_property):
    def check(row, expected):
        template = MODELS.get(row["template"])()
        wanted = None if expected.get("returns_null") else expected.get("prompt", "a refusal")
        messages2prompt(row, template, row["options"]["sequence_start"], wanted)

    judge(rows(shared, "lmdeploy", "messages2prompt", "document printed example"), check, record_property)


def get_prompts(row, template):
    """The prompt of each user message as it arrives."""
    users = [message["content"] for message in row["conversation"] if message["role"] == "user"]
    return [template.get_prompt(user, sequence_start=at == 0) for at, user in enumerate(users)]


def test_get_prompt_rows(shared, record_property):
    def check(row, expected):
        same(get_prompts(row, MODELS.get(row["template"])()), expected["prompts"])

    judge(rows(shared, "lmdeploy", "get_prompt per user turn"), check, record_property)


def test_capability_rows(shared, record_property):
    def check(row, expected):
        options = row["options"]
        more = {"suffix_first": options["suffix_first"]} if "suffix_first" in options else {}
        # The vectors are those of the code; the document's class refuses other tasks.
        template = MODELS.get(row["template"])(capability=options["capability"], rules="reference", **more)
        (message,) = row["conversation"]
        same(template.get_prompt(message["content"], options.get("sequence_start", True)), expected.get("prompt"))
        if "stop_words" in expected:
            same(template.stop_words, expected["stop_words"])

    judge(rows(shared, "lmdeploy", "get_prompt"), check, record_property)


OF_THE_DOCUMENT = {"session_len", "top_p", "top_k", "temperature", "repetition_penalty", "suffix_first"}


def test_json_rows(shared, record_property, tmp_path):
    def check(row, expected):
        text = json.dumps(row["options"]["config"], ensure_ascii=False)
        path = tmp_path / "template.json"
        path.write_text(text, encoding="utf-8")
        config = ChatTemplateConfig.from_json(text)
        same(ChatTemplateConfig.from_json(str(path)), config)
        template = config.chat_template
        refused = OF_THE_DOCUMENT & row["options"]["config"].keys()
        if expected.get("error") == "TypeError" and any(f"'{key}'" in expected["message"] for key in refused):
            for key in refused:
                same(getattr(template, key), row["options"]["config"][key])
            raise Excused(DOCUMENT)
        assert "error" not in expected, f"expected a refusal: {expected['message']}"
        for key, wanted in expected["attributes"].items():
            same(getattr(template, key, None), wanted)
        excused = None
        for key, sequence_start in (("start", True), ("cont", False)):
            try:
                messages2prompt(row, config.chat_template, sequence_start, expected["messages2prompt"][key])
            except Excused as one:
                excused = one
        wanted = expected["get_prompt"]
        if isinstance(wanted, dict):
            with pytest.raises(rolecall.RolecallError):
                get_prompts(row, config.chat_template)
        else:
            same(get_prompts(row, config.chat_template), wanted)
        if excused:
            raise excused

    judge(rows(shared, "lmdeploy", "chat-template json"), check, record_property)


def test_to_json_and_best_match_rows(shared, record_property):
    def check(row, expected):
        if row["options"]["op"] == "to_json":
            config = ChatTemplateConfig.from_json(json.dumps(row["options"]["config"]))
            return same(config.to_json(), expected["json"])
        # If no rule fits, the reference inspects the model, which is not available here.
        return same(best_match_model(row["options"]["model_path"]), expected["template"])

    judge(rows(shared, "lmdeploy", "to_json", "best_match_model"), check, record_property)


def test_params_rows(shared, record_property):
    def check(row, expected):
        template = MODELS.get(row["template"])()
        found = {key: getattr(template, key, None) for key in expected}
        ending = [getattr(template, "eoa", "")]
        of_release = row["options"]["version"] != "v0.2.6" and expected["stop_words"] is None
        if of_release and found != expected and template.stop_words == ending:
            same({**found, "stop_words": None}, expected)
            raise Excused(NO_STOP)
        same(found, expected)

    judge(rows(shared, "lmdeploy", "params"), check, record_property)


USER = [{"role": "user", "content": "{hi} {0} %s"}]


def own(**more):
    return BaseChatTemplate(
        system="S:", eosys="\n", user="U:", eoh="\n", assistant="A:", eoa="\n", separator="|", **more
    )


@pytest.fixture
def registry(monkeypatch):
    """The registry, restored after the test."""
    monkeypatch.setattr(MODELS, "_modules", dict(MODELS.module_dict))
    return MODELS


def test_attributes_can_be_changed_between_calls():
    template = own(meta_instruction="be nice")
    assert template.messages2prompt(USER) == "S:be nice\nU:{hi} {0} %s\nA:"
    template.meta_instruction = None
    assert template.messages2prompt(USER) == "U:{hi} {0} %s\nA:"
    template.meta_instruction = ""
    template.user = "{user}"
    assert template.messages2prompt(USER) == "S:\n{user}{hi} {0} %s\nA:"
    assert template.get_prompt("x", sequence_start=False) == "|{user}x\nA:"
    template.capability = "completion"
    assert template.get_prompt("x") == "x"


def test_constructor_arguments_are_attributes_and_do_not_leak_between_objects():
    first = MODELS.get("internlm2")(session_len=7, top_p=0.1, stop_words=["x"], meta_instruction="M")
    other = MODELS.get("internlm2")()
    assert (first.session_len, first.top_p, first.stop_words, first.meta_instruction) == (7, 0.1, ["x"], "M")
    assert (other.session_len, other.stop_words) == (32768, ["<|im_end|>", "<|action_end|>"])
    other.stop_words.append("more")
    assert MODELS.get("internlm2")().stop_words == ["<|im_end|>", "<|action_end|>"]
    assert first.sampling_param == lmdeploy.SamplingParam(top_p=0.1, top_k=None, temperature=0.8, repetition_penalty=1.0)


def test_own_classes_render_through_their_own_methods(registry):
    @registry.register_module(name=["mine", "mine-chat"])
    class Mine(BaseModel):
        def __init__(self, greeting="Hello", **kwargs):
            super().__init__(**kwargs)
            self.greeting = greeting

        def get_prompt(self, prompt, sequence_start=True):
            return f"{self.greeting} {prompt} {sequence_start}"

        def messages2prompt(self, messages, sequence_start=True):
            return "|".join(message["content"] for message in messages)

    template = registry.get("mine-chat")(greeting="Hi", session_len=9)
    assert (template.get_prompt("you", False), template.session_len) == ("Hi you False", 9)
    assert ChatTemplateConfig("mine").chat_template.messages2prompt([{"content": "a"}, {"content": "b"}]) == "a|b"


def test_own_classes_can_change_the_texts_of_a_template(registry):
    @registry.register_module(name="short")
    class Short(registry.get("internlm2")):
        def __init__(self, meta_instruction=None, **kwargs):
            super().__init__(meta_instruction=meta_instruction, **kwargs)

    assert registry.get("short")().messages2prompt(USER) == (
        "<|im_start|>user\n{hi} {0} %s<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_class_without_methods_and_one_that_raises_fail_as_their_own_code_does(registry):
    registry.register_module(name="bare", module=type("Bare", (), {}))
    with pytest.raises(AttributeError, match="get_prompt"):
        registry.get("bare")().get_prompt("x")

    @registry.register_module()
    class Raising(BaseModel):
        def decorate_prompt(self, prompt, sequence_start=True):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        registry.get("Raising")().get_prompt("x")
    with pytest.raises(KeyError, match="own"):
        registry.get("Raising")().messages2prompt("x")


def test_a_class_without_code_of_its_own_is_a_model_like_its_template(registry):
    @registry.register_module(name="short")
    class Short(registry.get("internlm2")):
        def __init__(self, meta_instruction="Short.", **kwargs):
            super().__init__(meta_instruction=meta_instruction, **kwargs)

    for opened in ("short", "lmdeploy:short", Short, Short()):
        model = rolecall.load(opened)
        assert type(model) is rolecall.Model
        assert model.prompt(USER).text == "<s>" + Short().messages2prompt(USER)
    # A name of the library stays the library's.
    assert rolecall.load("vicuna").format.name == "vicuna"


def test_registrations_of_the_wrong_shape_are_refused(registry):
    with pytest.raises(KeyError, match="force=True"):
        registry.register_module(name="vicuna", module=BaseModel)
    assert registry.get("vicuna") is not BaseModel
    registry.register_module(name="vicuna", module=BaseModel, force=True)
    assert registry.get("vicuna") is BaseModel
    for name in (5, [5], {"a"}):
        with pytest.raises(TypeError):
            registry.register_module(name=name, module=BaseModel)
    with pytest.raises(TypeError):
        registry.register_module(name="x", module="not a class")
    with pytest.raises(TypeError):
        registry.register_module(name="x", force="yes", module=BaseModel)
    # One taken name of several registers none of them.
    with pytest.raises(KeyError):
        registry.register_module(name=["new", "llama2"], module=BaseModel)
    assert registry.get("new") is None and registry.get(None) is None and registry.get(["a"]) is None


LOOP = []
LOOP.append(LOOP)
BAD_MESSAGES = [
    None, 7, b"text", {"role": "user"}, [None], [[]], [{}], [{"content": "a"}], [{"role": 7, "content": "a"}],
    [{"role": "user", "content": object()}], [{"role": "user", "content": "\ud800"}], LOOP,
    [{"role": "narrator", "content": "a"}], [{"role": "user", "content": float("nan")}],
]


@pytest.mark.parametrize("messages", BAD_MESSAGES, ids=range(len(BAD_MESSAGES)))
@pytest.mark.parametrize("name", ["base", "llama2", "chatglm", "codellama"])
def test_bad_messages_are_refused_with_a_typed_error(name, messages):
    with pytest.raises(rolecall.RolecallError) as raised:
        MODELS.get(name)().messages2prompt(messages)
    assert raised.value.code and raised.value.help is not None or raised.value.message_index is not None


@pytest.mark.parametrize("prompt", [None, 7, b"x", ["a"], "\ud800"])
def test_bad_texts_are_refused_with_a_typed_error(prompt):
    with pytest.raises(rolecall.RolecallError) as raised:
        MODELS.get("llama2")().get_prompt(prompt)
    assert raised.value.code


@pytest.mark.parametrize("value", [5, ["a"], {"a": 1}, object(), b"x", "\ud800", 1.5, True])
@pytest.mark.parametrize("part", ["system", "meta_instruction", "user", "separator", "stop_words"])
def test_attributes_of_the_wrong_type_are_refused_with_a_typed_error(part, value):
    if part == "stop_words" and value == ["a"]:
        return
    template = own()
    setattr(template, part, value)
    with pytest.raises(rolecall.RolecallError) as raised:
        template.messages2prompt(USER)
    assert raised.value.code


BAD_JSON = [
    "", "x", "[]", "5", "null", "{}", '{"model_name": null}', '{"model_name": 5}', '{"model_name": "a", "bogus": 1}',
    '{"model_name": "a", "user": 5}', '{"model_name": "a", "stop_words": "x"}', '{"model_name": "a", "stop_words": [1]}',
    '{"model_name": "a", "session_len": -1}', '{"model_name": "a", "suffix_first": "yes"}', "[" * 100_000,
    '{"model_name": "a"', "\0", "a" * 5000, 7, None, b"{}", "\ud800",
]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_bad_files_are_refused_with_a_typed_error(text):
    with pytest.raises(rolecall.RolecallError) as raised:
        ChatTemplateConfig.from_json(text)
    assert raised.value.code and str(raised.value)


def test_paths_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(rolecall.FormatError):
        ChatTemplateConfig.from_json(tmp_path)
    with pytest.raises(rolecall.FormatError):
        ChatTemplateConfig.from_json(tmp_path / "missing.json")
    path = tmp_path / "latin.json"
    path.write_bytes('{"model_name": "é"}'.encode("latin-1"))
    with pytest.raises(rolecall.FormatError, match="UTF-8"):
        ChatTemplateConfig.from_json(str(path))


def test_null_fields_keep_the_registered_values_and_an_unknown_name_has_empty_texts():
    fields = {"model_name": "vicuna", "system": None, "user": "U:", "stop_words": None, "capability": None}
    template = ChatTemplateConfig.from_json(json.dumps(fields)).chat_template
    vicuna = MODELS.get("vicuna")()
    assert (template.user, template.eoh, template.stop_words) == ("U:", vicuna.eoh, vicuna.stop_words)
    template = ChatTemplateConfig("my own").chat_template
    assert type(template) is BaseChatTemplate and template.messages2prompt(USER) == "{hi} {0} %s"


@pytest.mark.parametrize("values", [{"system": 5}, {"stop_words": "x"}, {"stop_words": [1]}, {"top_p": "x"},
                                    {"system": object()}, {"suffix_first": True}, {"stop_words": LOOP}])
def test_a_config_of_the_wrong_type_is_refused_with_a_typed_error(values):
    with pytest.raises(rolecall.RolecallError) as raised:
        _ = ChatTemplateConfig("vicuna", **values).chat_template
    assert raised.value.code


def test_a_config_survives_its_file(tmp_path):
    config = ChatTemplateConfig("codellama", stop_words=["a", "\n", "中"], top_k=7, suffix_first=True, session_len=9)
    path = tmp_path / "own.json"
    text = config.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert ChatTemplateConfig.from_json(path) == ChatTemplateConfig.from_json(text) == config
    template = config.chat_template
    assert (template.top_k, template.suffix_first, template.session_len) == (7, True, 9)


def test_rounds_count_from_the_start_of_a_session():
    template = MODELS.get("chatglm")()
    texts = [template.get_prompt("a"), template.get_prompt("b", False), template.get_prompt("c", False)]
    assert [text.split("\n")[0] for text in texts] == ["[Round 1]", "[Round 2]", "[Round 3]"]
    assert template.get_prompt("d").startswith("[Round 1]")


def test_text_that_looks_like_a_template_stays_text():
    text = "{system}{{x}}{0}%(a)s</s>[INST]<FILL>\\n\0"
    for name in MODELS.module_dict:
        template = MODELS.get(name)()
        assert text in template.messages2prompt([{"role": "user", "content": text}])
        assert text in template.get_prompt(text)


def test_long_texts_and_many_messages_render():
    template = MODELS.get("internlm2")()
    text = "x{y}" * 500_000
    assert text in template.get_prompt(text)
    many = [{"role": ("user", "assistant")[at % 2], "content": str(at)} for at in range(20_000)]
    assert template.messages2prompt(many).count("<|im_end|>") == 20_001


def test_threads_get_the_same_prompts():
    names = list(MODELS.module_dict)
    expected = {name: MODELS.get(name)().messages2prompt(USER) for name in names}
    shared = {name: MODELS.get(name)() for name in names}
    wrong = []

    def work():
        for name in names * 5:
            if shared[name].messages2prompt(USER) != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_completion_is_the_text_whatever_a_class_does_with_it():
    class Decorating(BaseModel):
        def decorate_prompt(self, prompt, sequence_start=True):
            return f"<{prompt}>"

    assert Decorating(capability="completion").get_prompt("a") == "a"
    assert Decorating().get_prompt("a") == Decorating().messages2prompt("a") == "<a>"


@pytest.mark.parametrize("capability", [None, 5, ["chat"], "\ud800"])
def test_a_capability_of_the_wrong_type_is_refused(capability):
    for name in ("llama2", "codellama"):
        with pytest.raises(rolecall.RolecallError) as raised:
            MODELS.get(name)(capability=capability).get_prompt("a")
        assert raised.value.code
    with pytest.raises(rolecall.RequestError):
        best_match_model(capability if capability != ["chat"] else None)


def test_the_documents_class_refuses_other_tasks():
    for name in ("internlm", "internlm-chat-7b-8k"):
        template = MODELS.get(name)(capability="infilling")
        with pytest.raises(rolecall.RequestError, match=f"{type(template).__name__} has no capability of infilling"):
            template.get_prompt("a")
        chat = MODELS.get(name)().get_prompt("a")
        assert MODELS.get(name)(capability="infilling", rules="reference").get_prompt("a") == chat
        assert MODELS.get(name)(capability="completion").get_prompt("a") == "a"
    with pytest.raises(rolecall.RequestError, match="rules"):
        BaseModel(rules="none")


def test_the_documents_classes_and_their_arguments():
    base = lmdeploy.BaseTemplate(4096, 0.7, 5, 0.6, 1.1, "completion", ["x"])
    assert (base.session_len, base.top_p, base.top_k, base.temperature) == (4096, 0.7, 5, 0.6)
    assert (base.repetition_penalty, base.capability, base.stop_words) == (1.1, "completion", ["x"])
    chat, longer = lmdeploy.InternLMChat7B, lmdeploy.InternLMChat7B8K
    assert issubclass(longer, chat) and (chat().session_len, longer().session_len) == (2048, 8192)
    assert longer().get_prompt("a") == chat().get_prompt("a") and longer(session_len=9).session_len == 9
    assert lmdeploy.InternLM20B is MODELS.get("internlm-20b") and lmdeploy.InternLM20B().session_len == 4096
    assert "InternLM20B" in lmdeploy.__all__ and lmdeploy.InternLM20B().get_prompt("a") == "a"

    class Mine(longer):
        def __init__(self, session_len=16384, **kwargs):
            super().__init__(**kwargs)
            self.session_len = session_len

    assert (Mine().session_len, Mine().get_prompt("a")) == (16384, chat().get_prompt("a"))


def test_a_registry_imports_its_locations(tmp_path, monkeypatch):
    (tmp_path / "own_templates.py").write_text(
        "from own_registry import TEMPLATES\n"
        "from rolecall.interop.lmdeploy import BaseModel\n"
        "@TEMPLATES.register_module(name='mine')\n"
        "class Mine(BaseModel):\n"
        "    pass\n"
    )
    (tmp_path / "own_registry.py").write_text(
        "from rolecall.interop.lmdeploy import Registry\n"
        "TEMPLATES = Registry('templates', locations=['own_templates'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import own_registry

    assert own_registry.TEMPLATES.get("mine").__name__ == "Mine"
    missing = lmdeploy.Registry("templates", locations=["there_is_no_such_module"])
    with pytest.warns(UserWarning, match="there_is_no_such_module"):
        assert missing.get("mine") is None


def test_the_default_text_and_a_system_message():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    template = MODELS.get("internlm")()
    both = template.messages2prompt(messages, system_when="always")
    own = template.messages2prompt(messages)
    assert own.startswith("<|System|>:Be brief.\n<|User|>:Hi")
    assert both == f"<|System|>:{template.meta_instruction}\n{own}"
    with pytest.raises(rolecall.RolecallError, match="system-when"):
        template.messages2prompt(messages, system_when="none")
