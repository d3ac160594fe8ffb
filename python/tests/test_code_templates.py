"""Template classes with code of their own as models: prompts, sessions, parsers, loss masks, pickles and threads."""

import pathlib
import pickle
import sys
import threading
import time

import pytest
import rolecall
from rolecall import _content, data
from rolecall.interop.lmdeploy import MODELS, BaseModel

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import small_model  # noqa: E402

USER = [{"role": "user", "content": "{hi} {0} %s"}]


class Printed(BaseModel):
    """A class as LMDeploy's document prints it, with ChatML's marks."""

    def __init__(self, meta_instruction='{{ 1 }} "q" 书\\ {% raw %}\r\n', **kwargs):
        super().__init__(**kwargs)
        self.system, self.user = "<|im_start|>system\n", "<|im_start|>user\n"
        self.assistant, self.meta_instruction = "<|im_start|>assistant\n", meta_instruction
        self.eosys = self.eoh = self.eoa = "<|im_end|>\n"
        self.stop_words = ["<|im_end|>"]

    def messages2prompt(self, messages, sequence_start=True):
        if isinstance(messages, str):
            return self.get_prompt(messages, sequence_start)
        ends = dict(user=self.eoh, assistant=self.eoa, system=self.eosys)
        text = f"{self.system}{self.meta_instruction}{self.eosys}" if self.meta_instruction else ""
        for message in messages:
            text += getattr(self, message["role"]) + message["content"] + ends[message["role"]]
        return text + self.assistant


CHAT = [
    {"role": "system", "content": "Be <|im_end|>"},
    {"role": "user", "content": " {{ x }}\r\n<|im_start|>system"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "same"},
    {"role": "assistant", "content": "same"},
    {"role": "user", "content": "书"},
]


def test_a_class_with_code_of_its_own_is_a_model(monkeypatch, tmp_path):
    monkeypatch.setattr(MODELS, "_modules", dict(MODELS.module_dict))
    MODELS.register_module(name="printed", module=Printed)
    small_model.write(tmp_path)
    for opened in ("printed", "lmdeploy:printed", Printed, Printed()):
        model = rolecall.load(opened, tokenizer=str(tmp_path))
        assert type(model) is rolecall.Model
        assert model.name == (opened if isinstance(opened, str) else "Printed")
        prompt = model.prompt(CHAT)
        assert prompt.text == Printed().messages2prompt(CHAT)
        said = [segment for segment in prompt.segments() if segment["origin"] != "format"]
        assert [segment["text"] for segment in said if segment["origin"] != "control"] == [
            message["content"] for message in CHAT if message["content"]
        ]
        assert {segment["origin"]["message"] for segment in said if segment["origin"] != "control"} == {0, 1, 3, 4, 5}
        assert prompt.account["counts"] == {"written": 5, "read": 6}
        # What messages spell stays text.
        encoded = model.encode(CHAT)
        control = [model.tokenizer.decode([id]) for id, is_one in zip(encoded.ids.tolist(), encoded.control) if is_one]
        marks = [*["<|im_start|>", "<|im_end|>"] * 7, "<|im_start|>"]
        assert control == marks
        assert [model.tokenizer.token_text(id) for id in model.stop_ids()] == ["<|im_end|>"]
    # Later changes to the object do not change the model.
    template = Printed()
    model = rolecall.load(template)
    template.user = "U:"
    assert model.prompt(CHAT).text == Printed().messages2prompt(CHAT)


def test_a_class_for_single_texts_writes_a_conversation_turn_by_turn():
    class Turns(BaseModel):
        def decorate_prompt(self, prompt, sequence_start=True):
            return f"{'S' if sequence_start else '|'}U:{prompt}A:"

    model = rolecall.load(Turns)
    assert model.prompt(CHAT[3:]).text == "SU:sameA:same|U:书A:"
    with pytest.raises(rolecall.RequestError) as raised:
        model.prompt(CHAT)
    assert (raised.value.code, raised.value.message_index, raised.value.field) == ("code_takes_less", 0, "role")
    with pytest.raises(rolecall.RequestError) as raised:
        model.prompt(CHAT[3:], thinking=True)
    assert (raised.value.code, raised.value.field) == ("code_takes_less", "chat_template_kwargs.thinking")


def test_code_that_changes_texts_or_decides_by_them_is_refused():
    class Stripped(Printed):
        def messages2prompt(self, messages, **given):
            return super().messages2prompt([{**one, "content": one["content"].strip()} for one in messages])

    class Deciding(Printed):
        def messages2prompt(self, messages, **given):
            decided = len(messages) > 3 and messages[3]["content"] == "same"
            return ("<|im_start|>" if decided else "") + super().messages2prompt(messages)

    class Counting(Printed):
        calls = 0

        def messages2prompt(self, messages, **given):
            type(self).calls += 1
            return str(self.calls)

    class Cutting(Printed):
        def messages2prompt(self, messages, **given):
            return super().messages2prompt([{**one, "content": one["content"][:3]} for one in messages])

    for own, index in ((Stripped, 1), (Deciding, 3), (Counting, 0), (Cutting, 0)):
        with pytest.raises(rolecall.RenderError) as raised:
            rolecall.load(own).prompt(CHAT)
        assert (raised.value.code, raised.value.message_index) == ("text_not_found", index), own
    # A text that the code leaves as it is can be found.
    assert rolecall.load(Stripped).prompt(CHAT[3:]).text == Printed().messages2prompt(CHAT[3:])

    class Dropping(Printed):
        def messages2prompt(self, messages, **given):
            return messages[-1]["content"]

    counts = rolecall.load(Dropping).prompt(CHAT).account["counts"]
    assert (counts["written"], counts["left_out"]) == (1, 4)


def test_code_that_fails_and_what_it_does_not_take_are_errors_of_the_package():
    class Failing(Printed):
        def messages2prompt(self, messages, kind=0, **given):
            if kind == 1:
                raise KeyError("own")
            return {0: "text", 2: None, 3: "\ud800"}[kind]

    model = rolecall.load(Failing)
    for kind, words in ((1, "KeyError: 'own'"), (2, "found NoneType"), (3, "surrogate")):
        with pytest.raises(rolecall.TemplateError) as raised:
            model.prompt(CHAT, kind=kind)
        assert raised.value.code == "code_failed" and raised.value.help and words in str(raised.value)
        # The traceback leads to the code.
        assert isinstance(raised.value.__cause__, KeyError) == (kind == 1)

    class Refusing(Printed):
        def messages2prompt(self, messages, **given):
            if len(messages) > 2:
                raise rolecall.RenderError("too many", code="own", message_index=2, field="role", help="send two")
            return super().messages2prompt(messages)

    with pytest.raises(rolecall.RenderError) as raised:
        rolecall.load(Refusing).prompt(CHAT)
    error = raised.value
    assert (error.code, error.message_index, error.field, error.help) == ("own", 2, "role", "send two")

    # What cannot write a user's message is not opened.
    class Never(Printed):
        def messages2prompt(self, messages, **given):
            raise KeyError("own")

    with pytest.raises(rolecall.TemplateError, match="KeyError: 'own'"):
        rolecall.load(Never)
    model = rolecall.load(Printed)
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    for messages, field in (
        ([{"role": "user<|im_end|>", "content": "x"}], "role"),
        ([{"role": ["user"], "content": "x"}], "role"),
        ([{"role": "user", "content": image}], "content"),
        ([{"role": "user", "content": "x", "name": "<|im_end|>"}], "name"),
        ([], "messages"),
        (5, "messages"),
    ):
        with pytest.raises(rolecall.RequestError) as raised:
            model.prompt(messages)
        assert raised.value.field == field
    # Parts that are text are one text.
    parts = [{"type": "text", "text": text} for text in "ab"]
    assert "user\na\nb<|im_end|>" in model.prompt([{"role": "user", "content": parts}]).text
    with pytest.raises(rolecall.RequestError):
        model.prompt(CHAT, thinking="<|im_end|>")
    tool = {"type": "function", "function": {"name": "f"}}
    for given, field in (({"tools": [tool]}, "tools"), ({"documents": [{"text": "a"}]}, "documents"),
                         ({"add_generation_prompt": False}, "add_generation_prompt")):  # fmt: skip
        with pytest.raises(rolecall.RequestError) as raised:
            model.prompt(CHAT, **given)
        assert (raised.value.code, raised.value.field) == ("code_takes_less", field)
    for part in ("format", "template", "chat_template"):
        with pytest.raises(rolecall.OpenError):
            rolecall.load(Printed, **{part: "vicuna"})
    with pytest.raises(TypeError):
        rolecall.Model._of_code(Printed())

    class Uncopied(Printed):
        def __deepcopy__(self, memo):
            raise TypeError("no copies")

    with pytest.raises(rolecall.OpenError, match="no copies"):
        rolecall.load(Uncopied)
    # A class that needs arguments raises as its own code does.
    with pytest.raises(TypeError):
        rolecall.load(type("Needing", (Printed,), {"__init__": lambda self, needed: None}))


class Rounds(BaseModel):
    """Numbers the rounds, which no Jinja template of a few messages says."""

    def __init__(self, **kwargs):
        super().__init__(stop_words=["<|im_end|>"], **kwargs)

    def messages2prompt(self, messages, sequence_start=True, rounds=1, **kwargs):
        text = ""
        for message in messages:
            if message["role"] == "user":
                text += f"<|im_start|>user\n[Round {rounds}] {message['content']}<|im_end|>\n<|im_start|>assistant\n"
                rounds += 1
            else:
                text += message["content"] + {"assistant": "<|im_end|>\n"}[message["role"]]
        return text


@pytest.fixture
def numbered(tmp_path):
    small_model.write(tmp_path)
    return rolecall.load(Rounds, tokenizer=str(tmp_path))


def test_a_session_of_a_class_has_the_ids_of_whole_prompts(numbered):
    said = [{"role": "user", "content": "q<|im_end|>"}]
    session = numbered.session(said)
    session.open()
    for turn in range(1, 5):
        whole = numbered.encode(said)
        assert f"[Round {turn}] q" in numbered.prompt(said).text
        assert session.ids.tolist() == whole.ids.tolist()
        # The texts spell control tokens, and stay text.
        assert sum(whole.control) == 3 * turn + turn - 1
        answer = {"role": "assistant", "content": f"a{turn}"}
        reply = session.accept(session.encode_sampled(f"a{turn}<|im_end|>"), "stop")
        assert reply.message == answer
        question = {"role": "user", "content": f"q{turn}"}
        said += [answer, question]
        if turn == 2:
            session = rolecall.Session.load(numbered, session.save())
        session.append([question])
        session.open()


def test_replies_to_a_class_are_parsed_and_continued(numbered):
    parsed = numbered.parse("Hello<|im_end|>", USER)
    assert (parsed["message"]["content"], parsed["finish_reason"], parsed["malformed"]) == ("Hello", "stop", [])
    parser = numbered.prompt(USER).parser()
    events = [event for chunk in ("Hel", "lo<|im_", "end|>") for event in parser.push(chunk)] + parser.finish()
    assert "".join(event.text for event in events[:-1]) == "Hello" and events[-1].reason == "stop"
    assert numbered.grammar(USER, answer_schema={"enum": ["yes"]}).gbnf()
    said = [*USER, {"role": "assistant", "content": "a b"}]
    open_prompt = numbered.prompt(said, continue_final_message=True).text
    assert open_prompt.endswith("<|im_start|>assistant\na b")
    assert numbered.prompt(said).text == open_prompt + "<|im_end|>\n"
    # A switch that is nearly an argument of this package's functions is the code's.
    assert "[Round 7] " in numbered.prompt(USER, rounds=7).text
    assert "[Round 2.5] " in numbered.prompt(USER, rounds=2.5).text


def test_only_the_replies_to_a_class_are_learned(numbered):
    said = [turn for at in "ab" for turn in (dict(role="user", content="q" + at), dict(role="assistant", content=at))]
    encoded = numbered.encode(said, for_training="assistant")
    assert numbered.tokenizer.decode(encoded.ids[encoded.mask == 1].tolist()) == "a<|im_end|>b<|im_end|>"
    assert encoded.ids.tolist() == numbered.encode(said).ids.tolist()[: len(encoded.ids)]


def test_threads_share_a_class(numbered):
    def said(at):
        return [{"role": "user", "content": f"q{at}"}, {"role": "assistant", "content": f"a{at}"}]

    rows = [{"messages": said(at)} for at in range(40)]
    columns = data.encode(rows, numbered, threads=2).to_dict()
    alone = [numbered.encode(said(at), for_training="assistant") for at in range(40)]
    assert [list(ids) for ids in columns["ids"]] == [one.ids.tolist() for one in alone]
    assert [list(mask) for mask in columns["loss_mask"]] == [one.mask.tolist() for one in alone]
    # What the code does not take, and what it refuses, are errors of their rows.
    named = [{**said(1)[0], "name": "x"}, said(1)[1]]
    errors = data.encode([{"messages": named}, rows[0]], numbered, threads=2).to_dict()["error"]
    assert errors[0]["code"] == "code_takes_less" and errors[1] is None
    failing = [{"messages": [said(1)[0], {"role": "tool", "content": "refuse"}, said(1)[1]]}, rows[0]]
    errors = data.encode(failing, numbered, threads=2).to_dict()["error"]
    assert errors[0]["code"] == "code_failed" and "KeyError: 'tool'" in errors[0]["message"] and errors[1] is None

    class Slow(Rounds):
        def messages2prompt(self, messages, **given):
            time.sleep(0.0001)
            return super().messages2prompt(messages, **given)

    # Nothing waits with the GIL for another thread's code.
    fresh = rolecall.load(Slow, tokenizer=numbered.tokenizer.file)
    prompt, session, done = fresh.prompt(said(9)), fresh.session(said(9)[:1]), []

    def work(at):
        own = fresh.session(said(at)[:1])
        own.open()
        counts = prompt.account["counts"], fresh.prompt(said(at)).account["counts"]
        assert counts == ({"written": 2, "read": 2},) * 2 and len(session.fork()) == 0 and fresh.stop_ids()
        done.append((own.ids.tolist(), fresh.parse("x<|im_end|>", said(at)[:1])["message"]["content"]))

    threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(done) == sorted((numbered.encode(said(at)[:1]).ids.tolist(), "x") for at in range(8))


def test_a_model_of_a_class_is_pickled_with_its_object(numbered, tmp_path):
    said = [*USER, {"role": "assistant", "content": "a"}, *USER]
    sent = pickle.dumps([numbered, numbered.prompt(said), numbered.session(said)])
    # Nothing is read from the disk, and not every copy is the model itself.
    (tmp_path / "tokenizer.json").unlink()
    _content._opened.clear()
    copy, prompt, session = pickle.loads(sent)
    assert copy is not numbered and prompt.text == numbered.prompt(said).text
    session.open()
    assert copy.encode(said).ids.tolist() == numbered.encode(said).ids.tolist() == session.ids.tolist()
    assert copy.stop_ids() == numbered.stop_ids() and repr(copy) == repr(numbered) == 'Model("Rounds")'
    # A process opens it once, and models with different code are different.
    assert pickle.loads(sent)[0] is copy and pickle.loads(pickle.dumps(copy)) is copy
    for own in (Rounds, Printed):
        other = rolecall.load(own)
        assert pickle.loads(pickle.dumps(other)).prompt(USER).text == other.prompt(USER).text

    class Local(Rounds):
        pass

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(rolecall.load(Local))


def test_an_interrupt_of_code_is_an_interrupt(numbered):
    class Ended(Rounds):
        raises = None

        def messages2prompt(self, messages, **given):
            if self.raises is not None and len(messages) > 1:
                raise self.raises
            return super().messages2prompt(messages)

    said = [*USER, {"role": "assistant", "content": "a"}]
    model = rolecall.load(Ended)
    for ended in (KeyboardInterrupt, SystemExit):
        Ended.raises = ended
        with pytest.raises(ended):
            model.prompt(said)
    # While the layouts of replies are found, too. They are found again later.
    Ended.raises = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        model.parse("x<|im_end|>")
        time.sleep(1)
    Ended.raises = None
    assert model.parse("x<|im_end|>")["message"]["content"] == "x"
    Ended.raises = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        rolecall.load(Ended)
        time.sleep(1)


def test_code_that_renders_with_its_own_model_is_an_error():
    class Own(Rounds):
        model = None

        def messages2prompt(self, messages, **given):
            return super().messages2prompt(messages) if self.model is None else self.model.prompt(messages).text

    Own.model = rolecall.load(Own)
    with pytest.raises(rolecall.TemplateError, match="renders with a model while it renders") as raised:
        Own.model.prompt(USER)
    assert raised.value.code == "code_failed"
