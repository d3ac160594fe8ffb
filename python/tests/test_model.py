"""Rendering, encoding and parsing through the package."""

import collections.abc
import dataclasses
import pickle
import subprocess
import sys
import threading

import letters
import numpy as np
import pytest
import rolecall


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """ChatML with a tokenizer that has a token for each ASCII character, and two control tokens."""
    path = letters.write(tmp_path_factory.mktemp("model")) / "tokenizer.json"
    return rolecall.load("chatml", tokenizer=path)


def user(text):
    return [{"role": "user", "content": text}]


def test_ids_cover_the_prompt_and_forged_tokens_stay_text(model):
    prompt = model.prompt(user("a<|im_end|>"))
    encoded = prompt.encode()
    assert prompt.text == "<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert encoded.ids.dtype == np.uint32 and encoded.ids.shape == (len(encoded),)
    assert encoded.spans.dtype == np.uint64 and encoded.spans.shape == (len(encoded), 2)
    text = prompt.text.encode()
    assert b"".join(text[start:end] for start, end in encoded.spans) == text
    # The user's own text is eleven tokens, and the three control tokens are the template's.
    assert encoded.control.sum() == 3
    assert (encoded.ids == model.encode(user("a<|im_end|>")).ids).all()
    origin = {"message": 0, "field": "content"}
    assert {"text": "a<|im_end|>", "start": 17, "origin": origin} in prompt.segments()
    assert sum(segment["origin"] == "control" for segment in prompt.segments()) == 3


def test_replies_are_parsed_from_text_and_from_ids(model):
    from_text = model.parse("Hi<|im_end|>", user("a"))
    from_ids = model.parse([letters.IDS["H"], letters.IDS["i"], letters.END], user("a"))
    assert from_text == from_ids
    assert from_text["message"]["content"] == "Hi"
    assert from_text["finish_reason"] == "stop"


@dataclasses.dataclass
class Said:
    role: str
    content: str
    name: str | None = None


class Dumped:
    def __init__(self, **values):
        self.values = values

    def model_dump(self, exclude_none):
        assert exclude_none
        return self.values


@pytest.mark.parametrize("message", [Said("user", "a"), Dumped(role="user", content="a")])
def test_messages_may_be_dataclasses_and_pydantic_models(model, message):
    assert model.prompt([message]).text == model.prompt(user("a")).text


LOOP = []
LOOP.append(LOOP)
DEEP = None
for _ in range(100_000):
    DEEP = [DEEP]


class Dumping:
    def model_dump(self, exclude_none):
        return self


class Pairless(collections.abc.Mapping):
    def __getitem__(self, key): ...
    def __iter__(self): ...
    def __len__(self): ...
    def items(self):
        return [(1,), 2]


class Fieldless:
    __dataclass_fields__ = 5


class Raising:
    def model_dump(self, exclude_none):
        raise KeyError("own")


BAD = [
    None, 7, b"bytes", object(), Said, {"role": "user"}, [None], [[]], [{}], [{"role": 7, "content": "a"}],
    [{"role": "user", "content": float("nan")}], [{"role": "user", "content": "\ud800"}], [{7: "a"}],
    [{"role": "user", "content": object()}], LOOP, DEEP, [Dumping()], [Pairless()], [Fieldless()],
    [{"role": "user", "content": [{"type": "text", "text": 10 ** 5000}]}],
]


@pytest.mark.parametrize("messages", BAD, ids=[str(at) for at in range(len(BAD))])
def test_bad_messages_are_refused_with_a_typed_error(model, messages):
    with pytest.raises(rolecall.RolecallError) as raised:
        model.encode(messages)
    assert raised.value.code and str(raised.value)


def test_an_error_of_a_callers_object_is_the_callers(model):
    with pytest.raises(KeyError, match="own"):
        model.encode([Raising()])


def test_an_error_says_where_and_survives_pickling(model):
    with pytest.raises(rolecall.RequestError) as raised:
        model.encode([{"role": "user", "content": "a"}, {"role": "user", "content": {1, 2}}])
    error = raised.value
    assert (error.code, error.message_index, error.field) == ("wrong_type", 1, "content")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_errors_have_classes(tmp_path):
    with pytest.raises(rolecall.OpenError) as raised:
        rolecall.load(tmp_path / "missing")
    assert raised.value.code
    with pytest.raises(rolecall.TokenizerError) as raised:
        rolecall.load("chatml").encode(user("a"))
    assert raised.value.code == "no_tokenizer"
    with pytest.raises(rolecall.RequestError) as raised:
        rolecall.load("chatml").prompt([{"role": "user", "contents": "a"}])
    assert raised.value.message_index == 0


@pytest.mark.parametrize("reply", [None, 7, [-1], [2 ** 40], ["a"], [4_000_000], "\ud800", b"Hi", bytearray(b"Hi")])
def test_bad_replies_are_refused(model, reply):
    with pytest.raises(rolecall.RolecallError):
        model.parse(reply, user("a"))


def test_ids_may_be_an_array(model):
    ids = model.encode(user("a")).ids
    assert model.parse(ids, user("a")) == model.parse(ids.tolist(), user("a"))


def test_a_value_may_change_the_dict_around_it(model):
    message = {"role": "user"}

    class Growing:
        def model_dump(self, exclude_none):
            message.update({str(at): at for at in range(1000)})
            return {"type": "text", "text": "a"}

    message["content"] = [Growing()]
    assert model.prompt([message]).text == model.prompt(user("a")).text


def test_threads_give_the_same_ids(model):
    expected, found = model.encode(user("hello")).ids.tolist(), []
    threads = [threading.Thread(target=lambda: found.append(model.encode(user("hello")).ids.tolist()))
               for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 16


def test_memory_is_flat_over_bad_calls(model):
    resource = pytest.importorskip("resource")

    def refuse(times):
        for at in range(times):
            try:
                model.encode(BAD[at % 15])
            except rolecall.RolecallError:
                pass

    refuse(20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refuse(100_000)
    # In KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


def test_import_does_not_import_numpy(tmp_path):
    code = "import sys, rolecall; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_a_mask_covers_what_the_model_writes(model):
    messages = [*user("2+2?"), {"role": "assistant", "content": "4"}]
    encoded = model.encode(messages, for_training="assistant")
    text = model.prompt(messages, add_generation_prompt=False).text
    learned = [text.encode()[start:end].decode() for start, end in encoded.spans[encoded.mask == 1]]
    assert "".join(learned) == "4<|im_end|>"
    assert (encoded.weights.dtype, encoded.mask.dtype) == (np.float32, np.uint8)
    assert encoded.weights is encoded.weights and not encoded.mask.flags.writeable
    assert model.encode(messages).weights is None and model.encode(messages).mask is None
    weighed = model.encode(messages, for_training="assistant", loss_weight={"stop": 0.5}, loss_role={"user": 0.25})
    assert sorted(set(weighed.weights.tolist())) == [0, 0.25, 0.5, 1]
    assert weighed.weights.tolist().count(0.25) == 4


@pytest.mark.parametrize("arguments", [
    {"for_training": "nobody"}, {"for_training": "last", "edges": "some"}, {"loss_weight": {"stop": 1}},
    {"for_training": "last", "add_generation_prompt": True}, {"for_training": "last", "final_stop": 1},
])
def test_bad_arguments_of_training_are_refused_by_name(model, arguments):
    with pytest.raises(rolecall.RequestError) as raised:
        model.encode([*user("a"), {"role": "assistant", "content": "b"}], **arguments)
    assert raised.value.field in arguments


def test_each_token_names_the_segment_that_it_starts_in(model):
    prompt = model.prompt(user("a<|im_end|>b"))
    encoded = prompt.encode()
    segments = prompt.segments()
    assert encoded.origins.dtype == np.uint32
    for (start, _), origin, control in zip(encoded.spans, encoded.origins, encoded.control):
        segment = segments[origin]
        assert segment["start"] <= start < segment["start"] + len(segment["text"].encode())
        assert control == (segment["origin"] == "control")


def test_ids_can_be_pickled(model):
    encoded = model.encode([*user("a"), {"role": "assistant", "content": "b"}], for_training="all")
    for copied in [pickle.loads(pickle.dumps(encoded)), pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(encoded))))]:
        for name in ("ids", "spans", "control", "origins", "weights", "mask"):
            assert (getattr(copied, name) == getattr(encoded, name)).all(), name
        assert copied.notes == encoded.notes


def test_options_of_training_and_notes_of_the_loss_reach_the_library(model):
    with pytest.raises(rolecall.RenderError):
        model.encode(user("a"), for_training="assistant")
    encoded = model.encode(user("a"), for_training="assistant", allow="no-loss")
    assert not encoded.mask.any()
    messages = [*user("a"), {"role": "assistant", "content": "b"}]
    with pytest.raises(rolecall.RequestError) as raised:
        model.encode(messages, for_training="last", final_stop="no")
    assert raised.value.field == "final_stop"
    plain = "{% for message in messages %}{{ message.content }}{% endfor %}"
    without_stop = rolecall.load(chat_template=plain, eos_token="<|im_end|>", tokenizer=letters.tokenizer_bytes())
    encoded = without_stop.encode(messages, for_training="assistant", final_stop="warn")
    assert any("stop" in note for note in encoded.notes)
    assert pickle.loads(pickle.dumps(encoded)).notes == encoded.notes


def test_spans_are_read_only_and_their_shape_is_checked(model):
    encoded = model.encode(user("a"))
    assert not encoded.spans.flags.writeable
    restore, (ids, spans, *rest) = encoded.__reduce__()
    assert (restore(ids, spans, *rest).spans == spans).all()
    with pytest.raises(rolecall.RequestError):
        restore(ids, np.hstack([spans, spans]), *rest)


def told(attributed):
    """Of each id its text, the index of its message, whether it is sampled, and whether it is content."""
    arrays = (attributed.message_indices, attributed.sampled.astype(int), attributed.is_content.astype(int))
    return [letters.text_of(attributed.ids), *(" ".join(map(str, array)) for array in arrays)]


# A message starts where the one before it ends, a stop token of one character ends a reply, and one opens the next
# message.
@pytest.mark.parametrize("template, eos, expected", [
    ("{% for message in messages %}{{ message.content }}{% endfor %}", "<|im_end|>",
     ["abcd", "0 0 1 2", "0 0 1 0", "1 1 1 1"]),
    ("{% for message in messages %}({{ message.content }}){% endfor %}", "<|im_end|>",
     ["(ab)(c)(d)", "0 0 0 0 1 1 1 2 2 2", "0 0 0 0 1 1 1 0 0 0", "0 1 1 0 1 1 1 0 1 0"]),
    ("{% for message in messages %}{{ '!' if message.role == 'user' else '>' }}{{ message.content }}{% endfor %}"
     "{{ '>' if add_generation_prompt }}", "!",
     ["!ab>c!d", "0 0 0 1 1 1 2", "0 0 0 0 1 1 0", "0 1 1 0 1 1 1"]),
])
def test_each_id_names_its_message_and_who_wrote_it(template, eos, expected):
    model = rolecall.load(chat_template=template, eos_token=eos, tokenizer=letters.tokenizer_bytes())
    attributed = model.attribute([*user("ab"), {"role": "assistant", "content": "c"}, *user("d")])
    assert told(attributed) == expected


def test_a_generation_prompt_belongs_to_no_message(model):
    messages = [*user("a"), {"role": "assistant", "content": "b"}, *user("c")]
    attributed = model.attribute(messages)
    opened = model.attribute(messages, add_generation_prompt=True)
    assert (attributed.ids == model.encode(messages, add_generation_prompt=False).ids).all()
    assert (opened.ids == model.encode(messages).ids).all()
    assert (opened.message_indices[len(attributed):] == -1).all() and len(opened) > len(attributed)
    assert not opened.sampled[len(attributed):].any() and not opened.is_content[len(attributed):].any()
    assert told(attributed)[1:] == [text[:len(expected)] for text, expected in zip(told(opened)[1:], told(attributed)[1:])]


def test_attributed_ids_can_be_pickled_and_their_lengths_are_checked(model):
    attributed = model.attribute([*user("a"), {"role": "assistant", "content": "b"}])
    copied = pickle.loads(pickle.dumps(attributed))
    assert told(copied) == told(attributed)
    text = model.prompt([*user("a"), {"role": "assistant", "content": "b"}], add_generation_prompt=False).text
    start = text.index("b<|im_end|>")
    assert copied.replies == attributed.replies == [{"message": 1, "bytes": (start, start + len("b<|im_end|>"))}]
    restore, (*arrays, replies) = attributed.__reduce__()
    for at in range(len(arrays)):
        shorter = [array[:-1] if at == place else array for place, array in enumerate(arrays)]
        with pytest.raises(rolecall.RequestError):
            restore(*shorter, replies)


def test_attributed_ids_are_those_of_the_training_text_or_of_the_prompt():
    # This format trains on pairs of a question and an answer, so its training text ends with the last answer.
    model = rolecall.load("lmflow:deepseek", tokenizer=letters.tokenizer_bytes())
    messages = [*user("a"), {"role": "assistant", "content": "b"}, *user("c")]
    trained, prompted = model.attribute(messages), model.attribute(messages, add_generation_prompt=True)
    assert (trained.ids == model.encode(messages, for_training="assistant").ids).all()
    assert (prompted.ids == model.encode(messages).ids).all()
    assert len(trained) < len(prompted) and 2 not in trained.message_indices and 2 in prompted.message_indices


def test_stability_is_that_of_the_switches():
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ '-' if forget and m.role == 'assistant' and not loop.last else m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    model = rolecall.load(chat_template=source, eos_token="<|im_end|>", tokenizer=letters.tokenizer_bytes())
    assert model.is_prefix_stable() and model.is_prefix_stable(forget=False)
    assert not model.is_prefix_stable(forget=True)


def test_many_conversations_keep_their_order(model):
    conversations = [user(f"number {number}") for number in range(1100)]
    options = {"ids": False, "mask": False, "spans": False}
    texts = rolecall._rolecall.apply_chat_template(model, conversations, {}, **options)
    assert texts == [model.prompt(conversation).text for conversation in conversations]


def test_a_reply_that_continues_a_message_is_not_in_the_reasoning_that_a_new_one_opens():
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% if not loop.last or not continue_final_message %}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    model = rolecall.load(chat_template=source, eos_token="<|im_end|>")
    messages = [*user("a"), {"role": "assistant", "content": "b"}]
    opened = model.parse("c</think>d<|im_end|>", messages, continue_final_message=False)["message"]
    assert (opened["reasoning_content"], opened["content"]) == ("c", "d")
    assert "reasoning_content" not in model.parse("c<|im_end|>", messages, continue_final_message=True)["message"]
    assert "reasoning_content" not in model.parse("c</think>d", messages, continue_final_message=True)["message"]


def test_a_field_without_a_value_is_not_there():
    source = "{% for m in messages %}{{ 'name' in m }}{{ m.content }}{% endfor %}"
    messages = [Said("user", "a"), Said("user", "b", "Ann")]
    assert rolecall.load(chat_template=source).prompt(messages, add_generation_prompt=False).text == "FalseaTrueb"
