"""Training data: rows of Arrow tables, dicts of columns and lists of rows, encoded to columns."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import letters
import numpy as np
import pytest
import rolecall
import rolecall.data
from letters import text_of
from rolecall.data import encode

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% endif %}"
    "{% if message.tool_calls is defined %}{{ message.tool_calls | tojson }}{% endif %}"
    "{% if message.extra is defined %}{{ message.extra | tojson }}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model with a chat template, and a tokenizer of single characters."""
    return rolecall.load(letters.write(tmp_path_factory.mktemp("models") / "some-model", TEMPLATE))


def learned(columns, row=0):
    """The text of a row that carries loss."""
    ids, mask = columns["ids"][row], columns["loss_mask"][row]
    return text_of(token for token, flag in zip(ids, mask, strict=True) if flag)


def asked(question, answer, **more):
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], **more}


def dict_of(encoded):
    """The columns as plain Python values."""
    columns = encoded if isinstance(encoded, dict) else rolecall_dict(encoded)
    plain = lambda value: value.tolist() if isinstance(value, np.ndarray) else value  # noqa: E731
    return {name: [plain(value) for value in values] for name, values in columns.items()}


def rolecall_dict(encoded):
    if isinstance(encoded, rolecall.data.Columns):
        return encoded.to_dict()
    if hasattr(encoded, "to_pydict"):
        return encoded.to_pydict()
    return encoded


ROWS = [asked("Hi", "Hello!", id=7), asked("2+2?", "4", id="b"), {"messages": 5}, asked("", "x")]


def test_rows_become_ids_with_a_loss_mask_and_bad_ones_an_error(model):
    columns = dict_of(encode(ROWS, model))
    assert list(columns) == ["row", "id", "side", "ids", "loss_mask", "length", "truncated_from", "account", "error"]
    assert columns["row"] == [0, 1, 2, 3]
    assert columns["id"] == ["7", "b", None, None]
    assert text_of(columns["ids"][0]) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
    assert [learned(columns, row) for row in (0, 1, 3)] == ["Hello!<|im_end|>", "4<|im_end|>", "x<|im_end|>"]
    assert columns["length"][0] == len(columns["ids"][0])
    assert columns["ids"][2] is columns["loss_mask"][2] is columns["length"][2] is None
    assert [error is None for error in columns["error"]] == [True, True, False, True]
    assert columns["error"][2]["code"] == "wrong_type"
    assert "messages" in columns["error"][2]["message"]


def test_the_counts_say_what_was_done(model):
    encoded = encode(ROWS, model)
    counts = encoded.counts
    assert (counts["rows"], counts["refused"], counts["samples"]) == (4, 1, 3)
    assert counts["tokens"] == sum(length or 0 for length in encoded.to_dict()["length"])


def test_arrays_have_small_types(model):
    columns = encode(ROWS, model, loss_weights=True).to_dict()
    assert columns["ids"][0].dtype == np.uint32
    assert columns["loss_mask"][0].dtype == np.uint8
    assert columns["loss_weights"][0].dtype == np.float32


SHAPES = {
    "openai": {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]},
    "sharegpt": {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]},
    "alpaca": {"instruction": "Q", "input": "", "output": "A"},
    "completion": {"prompt": "Q", "completion": "A"},
    "instances": {"type": "text2text", "instances": [{"input": "Q", "output": "A"}]},
    "preference": {"prompt": "Q", "chosen": "A", "rejected": "B"},
    "harmony": {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "channel": "final", "content": "A"}]},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("named", [True, False])
def test_every_shape_is_read_from_rows_columns_and_tables(model, shape, named):
    pyarrow = pytest.importorskip("pyarrow")
    row = SHAPES[shape]
    options = {"shape": shape} if named else {}
    from_rows = dict_of(encode([row, row], model, **options))
    from_columns = encode({name: [value, value] for name, value in row.items()}, model, **options)
    from_table = encode(pyarrow.Table.from_pylist([row, row]), model, **options)
    assert isinstance(from_columns, dict) and isinstance(from_table, pyarrow.Table)
    assert dict_of(from_columns) == from_rows
    assert from_table.to_pydict() == from_rows
    assert learned(from_rows) == "A<|im_end|>"
    if shape == "preference":
        assert from_rows["row"] == [0, 0, 1, 1]
        assert from_rows["side"] == ["chosen", "rejected"] * 2
        assert learned(from_rows, 1) == "B<|im_end|>"
    else:
        assert from_rows["side"] == [None, None]


CALLING = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"city": "Oslo"}}}]},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "A"},
    ],
}


def test_a_null_of_a_struct_is_a_key_that_is_not_there(model):
    pyarrow = pytest.importorskip("pyarrow")
    other = {
        "tools": [{"type": "function", "function": {"name": "g", "parameters": {"type": "object", "title": "G"}}}],
        "messages": [
            {"role": "user", "content": "R", "extra": {"a": 1}},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "function": {"name": "g", "arguments": {"country": "Norway"}}, "id": "x"}]},
            {"role": "tool", "content": "1"},
            {"role": "assistant", "content": "A"},
        ],
    }
    table = pyarrow.Table.from_pylist([CALLING, other])
    # Arrow has all keys in both rows now.
    assert table.to_pylist()[0]["messages"][0]["tool_calls"] is None
    expected = dict_of(encode([CALLING, other], model, allow="no-loss"))
    assert expected["error"] == [None, None]
    assert encode(table, model, allow="no-loss").to_pydict() == expected
    assert dict_of(encode(table.to_pydict(), model, allow="no-loss")) == expected
    assert "tool_calls" not in text_of(expected["ids"][0])
    assert "country" not in text_of(expected["ids"][0])


def test_a_row_may_be_json_text_in_a_list_of_rows_too(model):
    expected = dict_of(encode([CALLING], model))["ids"][0]
    rows = [{"line": json.dumps(CALLING), "n": 1}, {"line": "{"}, {"line": None, **CALLING}, {"line": CALLING}]
    columns = dict_of(encode(rows, model, json_column="line"))
    assert columns["ids"] == [expected, None, expected, expected]
    assert columns["error"][1]["code"] == "not_json"


def test_columns_of_json_text_are_read_as_their_values(model):
    pyarrow = pytest.importorskip("pyarrow")
    expected = dict_of(encode([CALLING], model))
    text = {name: json.dumps(value) for name, value in CALLING.items()}
    assert encode(pyarrow.Table.from_pylist([text]), model).to_pydict() == expected
    assert dict_of(encode({name: [value] for name, value in text.items()}, model)) == expected
    whole = pyarrow.table({"line": [json.dumps(CALLING), "{", None]})
    columns = encode(whole, model, json_column="line").to_pydict()
    assert columns["ids"][0] == expected["ids"][0]
    assert [error and error["code"] for error in columns["error"]] == [None, "not_json", columns["error"][2]["code"]]
    assert columns["error"][2] is not None


def test_text_that_is_no_json_is_the_error_of_its_row(model):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"messages": ["[", json.dumps(ROWS[0]["messages"])]})
    columns = encode(table, model).to_pydict()
    assert columns["error"][0]["field"] == "messages"
    assert columns["error"][1] is None


def variants(pyarrow):
    """The rows as tables of other types with the same values."""
    rows = [asked("Hi", "Hello!"), asked("2+2?", "4"), asked("", "x"), asked("Why?", "Because.")]
    turns = pyarrow.struct({"role": pyarrow.string(), "content": pyarrow.string()})
    plain = pyarrow.array([row["messages"] for row in rows], pyarrow.list_(turns))
    yield "plain", plain
    for name, text in [("large", pyarrow.large_string()), ("view", pyarrow.string_view())]:
        other = pyarrow.struct({"role": text, "content": text})
        yield name, pyarrow.array([row["messages"] for row in rows], pyarrow.list_(other))
    yield "large list", plain.cast(pyarrow.large_list(turns))
    yield "list view", pyarrow.ListViewArray.from_arrays([0, 2, 4, 6], [2, 2, 2, 2], plain.flatten())
    yield "large list view", pyarrow.LargeListViewArray.from_arrays([0, 2, 4, 6], [2, 2, 2, 2], plain.flatten())
    yield "list view out of order", pyarrow.ListViewArray.from_arrays(
        [2, 0, 4, 6], [2, 2, 2, 2], pyarrow.concat_arrays([plain[1:2].flatten(), plain[0:1].flatten(), plain[2:].flatten()])
    )
    yield "fixed size", pyarrow.FixedSizeListArray.from_arrays(plain.flatten(), 2)
    roles = plain.flatten().field("role").dictionary_encode()
    contents = plain.flatten().field("content")
    encoded = pyarrow.StructArray.from_arrays([roles, contents], ["role", "content"])
    yield "dictionary", pyarrow.ListArray.from_arrays([0, 2, 4, 6, 8], encoded)
    ends = pyarrow.RunEndEncodedArray.from_arrays([1, 2, 3, 4, 5, 6, 7, 8], plain.flatten().field("role"))
    runs = pyarrow.StructArray.from_arrays([ends, contents], ["role", "content"])
    yield "runs", pyarrow.ListArray.from_arrays([0, 2, 4, 6, 8], runs)
    padded = pyarrow.concat_arrays([plain, plain, plain])
    yield "slice", padded[4:8]
    yield "slice of a slice", padded[2:][2:6]
    maps = pyarrow.map_(pyarrow.string(), pyarrow.string())
    yield "maps", pyarrow.array([[list(turn.items()) for turn in row["messages"]] for row in rows], pyarrow.list_(maps))


def test_every_type_of_column_gives_the_same_ids(model):
    pyarrow = pytest.importorskip("pyarrow")
    expected = None
    for name, column in variants(pyarrow):
        table = pyarrow.table({"messages": column})
        columns = encode(table, model).to_pydict()
        expected = expected or columns
        assert expected["error"] == [None] * 4
        assert columns == expected, name
        # A batch that begins and ends within its arrays.
        sliced = encode(table.slice(1, 2), model).to_pydict()
        assert sliced["ids"] == expected["ids"][1:3], name
        batch = table.to_batches()[0].slice(2)
        assert encode(batch, model).column("ids").to_pylist() == expected["ids"][2:], name


def test_chunks_of_any_size_are_one_table(model):
    pyarrow = pytest.importorskip("pyarrow")
    rows = [asked(str(number), "x" * (number % 5)) for number in range(300)]
    whole = pyarrow.Table.from_pylist(rows)
    pieces = [whole.slice(start, length) for start, length in [(0, 1), (1, 0), (1, 130), (131, 64), (195, 105)]]
    chunked = pyarrow.concat_tables(pieces)
    assert chunked.column("messages").num_chunks > 2
    for threads in (1, 2, 7):
        assert encode(chunked, model, threads=threads).to_pydict() == encode(whole, model, threads=1).to_pydict()


def test_empty_batches_have_all_columns(model):
    pyarrow = pytest.importorskip("pyarrow")
    full = pyarrow.Table.from_pylist([ROWS[0]])
    for batch in [full.slice(1), full.to_batches()[0].slice(1)]:
        encoded = encode(batch, model)
        assert type(encoded) is type(batch)
        assert encoded.num_rows == 0
        assert encoded.schema == encode(full, model).schema
    # A batch without columns still has rows.
    assert encode(full.select([]), model).to_pydict()["error"][0]["code"] == "missing_field"
    assert encode([], model).to_dict()["ids"] == []
    assert encode({"messages": []}, model)["ids"] == []
    assert encode({}, model)["ids"] == []


def test_rows_of_nulls_and_of_no_columns_are_errors_of_their_rows(model):
    pyarrow = pytest.importorskip("pyarrow")
    nulls = pyarrow.table({"messages": pyarrow.array([None, None], pyarrow.null())})
    turns = pyarrow.list_(pyarrow.struct({"role": pyarrow.string(), "content": pyarrow.string()}))
    typed = pyarrow.table({"messages": pyarrow.array([None, [], [None], [{"role": None, "content": None}]], turns)})
    bare = pyarrow.RecordBatch.from_arrays([], names=[])
    for table in (nulls, typed):
        columns = encode(table, model).to_pydict()
        assert len(columns["error"]) == table.num_rows
        assert all(error["code"] for error in columns["error"])
    assert encode(bare, model).num_rows == 0


def test_values_that_json_cannot_hold_matter_only_where_they_are_read(model):
    pyarrow = pytest.importorskip("pyarrow")
    row = asked("Hi", "Hello!")
    beside = pyarrow.table({
        "messages": [row["messages"]],
        "picture": pyarrow.array([b"\x00"]),
        "when": pyarrow.array([0], pyarrow.timestamp("ms")),
        "score": pyarrow.array([float("nan")]),
        "price": pyarrow.array([None], pyarrow.decimal128(5, 2)),
    })
    assert encode(beside.drop_columns(["score"]), model).to_pydict()["error"] == [None]
    inside = pyarrow.table({"prompt": pyarrow.array([b"\x00"]), "completion": ["x"]})
    error = encode(inside, model).to_pydict()["error"][0]
    assert (error["code"], error["field"]) == ("wrong_type", "prompt")
    content = pyarrow.struct({"role": pyarrow.string(), "content": pyarrow.binary()})
    nested = pyarrow.table({"messages": pyarrow.array([[{"role": "user", "content": b"x"}]], pyarrow.list_(content))})
    error = encode(nested, model).to_pydict()["error"][0]
    assert (error["message_index"], error["field"]) == (0, "content")


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63), 0.5, 1.0, -0.0, 1e-5, 1e16, 1.5e300, True])
def test_numbers_are_written_as_python_writes_them(model, number):
    pyarrow = pytest.importorskip("pyarrow")
    messages = [{"role": "user", "content": "x", "extra": {"n": number}}, {"role": "assistant", "content": "y"}]
    table = pyarrow.Table.from_pylist([{"messages": [dict(messages[0]), dict(messages[1], extra=None)]}])
    ids = encode(table, model).to_pydict()["ids"][0]
    assert json.dumps({"n": number}) in text_of(ids)
    assert ids == dict_of(encode([{"messages": messages}], model))["ids"][0]


def test_large_unsigned_numbers_stay_whole(model):
    pyarrow = pytest.importorskip("pyarrow")
    extra = pyarrow.array([{"n": 2**64 - 1}], pyarrow.struct({"n": pyarrow.uint64()}))
    turn = pyarrow.StructArray.from_arrays([pyarrow.array(["assistant"]), pyarrow.array(["y"]), extra], ["role", "content", "extra"])
    table = pyarrow.table({"messages": pyarrow.ListArray.from_arrays([0, 1], turn)})
    assert "18446744073709551615" in text_of(encode(table, model).to_pydict()["ids"][0])


def test_infinity_is_the_error_of_its_row(model):
    pyarrow = pytest.importorskip("pyarrow")
    messages = [[{"role": "assistant", "content": "y", "extra": value}] for value in (float("inf"), float("nan"), 1.0)]
    columns = encode(pyarrow.table({"messages": messages}), model).to_pydict()
    assert [error is None for error in columns["error"]] == [False, False, True]


def test_rows_of_packed_sequences_hold_every_sample_once(model):
    rows = [asked("x" * (number % 17), "y" * (number % 13)) for number in range(200)]
    rows[50] = {"messages": 1}
    rows[60] = asked("x" * 500, "y")
    alone = encode(rows, model).to_dict()
    packed = encode(rows, model, pack=256)
    columns = packed.to_dict()
    assert list(columns) == ["rows", "ids", "loss_mask", "position_ids", "cu_seqlens", "max_seqlen", "error"]
    seen = {}
    for at, ids in enumerate(columns["ids"]):
        sources = columns["rows"][at]
        if ids is None:
            assert columns["error"][at]["code"] in ("wrong_type", "not_packed")
            seen.update({int(row): None for row in sources})
            continue
        ends = columns["cu_seqlens"][at]
        assert len(ids) == ends[-1] <= 256
        assert columns["max_seqlen"][at] == np.diff(ends).max()
        for row, start, end in zip(sources, ends[:-1], ends[1:], strict=True):
            assert int(row) not in seen
            seen[int(row)] = ids[start:end].tolist()
            assert columns["position_ids"][at][start:end].tolist() == list(range(end - start))
            assert columns["loss_mask"][at][start:end].tolist() == alone["loss_mask"][row].tolist()
    assert sorted(seen) == list(range(200))
    assert seen[50] is None and seen[60] is None
    assert all(seen[row] == alone["ids"][row].tolist() for row in range(200) if row not in (50, 60))
    assert packed.counts["sequences"] == sum(ids is not None for ids in columns["ids"])
    # The result does not depend on the threads.
    assert dict_of(encode(rows, model, pack=256, threads=1)) == dict_of(packed)
    truncated = encode(rows, model, pack=256, truncate="right").to_dict()
    assert sum(ids is None for ids in truncated["ids"]) == 1


def test_truncation_shortens_masks_too_and_is_reported(model):
    encoded = encode([asked("Hi", "Hello!")], model, max_tokens=20)
    columns = encoded.to_dict()
    assert len(columns["ids"][0]) == len(columns["loss_mask"][0]) == columns["length"][0] == 20
    assert columns["truncated_from"] == [29]
    assert encoded.counts["notes"] == {"truncated": 1, "truncated_loss": 1}


def test_weights_of_parts_and_roles_are_written(model):
    rows = [asked("Hi", "Hello!")]
    columns = encode(rows, model, loss_weight={"content": 0.5}, loss_role={"user": 0.25}).to_dict()
    assert sorted(set(columns["loss_weights"][0].tolist())) == [0.0, 0.25, 0.5, 1.0]
    same = encode(rows, model, loss_weight="content=0.5", loss_role=["user=0.25"]).to_dict()
    assert same["loss_weights"][0].tolist() == columns["loss_weights"][0].tolist()
    assert "loss_weights" not in encode(rows, model, loss_weight="content=0", loss_role="user").to_dict()


def test_samples_of_turns_name_their_row(model):
    row = {"messages": asked("a", "b")["messages"] + asked("c", "d")["messages"]}
    columns = encode([row, row], model, samples="turns").to_dict()
    assert columns["row"] == [0, 0, 1, 1]
    assert [learned(columns, at) for at in range(4)] == ["b<|im_end|>", "d<|im_end|>"] * 2


def test_prompts_without_loss_end_with_the_generation_prompt(model):
    columns = encode([{"messages": [{"role": "user", "content": "Q"}], "add_generation_prompt": True}], model, for_training=None).to_dict()
    assert "loss_mask" not in columns
    assert text_of(columns["ids"][0]).endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(("option", "value"), [
    ("for_training", "everything"), ("edges", "some"), ("final_stop", "no"), ("allow", "all"), ("truncate", "middle"),
    ("samples", "some"), ("shape", "yaml"), ("loss_weight", "content=-1"), ("loss_role", "assistant"), ("max_tokens", 0),
    ("pack", 0), ("threads", 0), ("columns", "torch"),
])
def test_a_wrong_option_is_named(model, option, value):
    with pytest.raises(rolecall.RequestError) as caught:
        encode([], model, **({"max_tokens": 9} if option == "truncate" else {}), **{option: value})
    assert caught.value.field == option
    assert caught.value.code == "bad_argument"


@pytest.mark.parametrize("batch", [1, None, "rows", 2.5, object()])
def test_a_batch_of_another_type_is_refused(model, batch):
    with pytest.raises(rolecall.RequestError, match="expected an Arrow table"):
        encode(batch, model)


class NoCapsule:
    def __arrow_c_stream__(self, requested_schema=None):
        return 5


@pytest.mark.parametrize("batch", [NoCapsule(), {"messages": 5}, {1: [2]}])
def test_a_batch_that_breaks_its_promise_is_refused(model, batch):
    with pytest.raises(rolecall.RequestError):
        encode(batch, model)


def test_an_array_that_is_no_table_is_refused(model):
    pyarrow = pytest.importorskip("pyarrow")
    for batch in (pyarrow.array(["a"]), pyarrow.chunked_array([["a"]])):
        with pytest.raises(rolecall.RequestError):
            encode(batch, model)


def test_columns_of_different_lengths_are_refused(model):
    with pytest.raises(rolecall.RequestError, match="in every column"):
        encode({"prompt": ["a"], "completion": []}, model)


def test_rows_of_any_python_values_are_errors_of_their_rows(model):
    rows = [None, 1, "x", [], {}, {"messages": object()}, {"messages": {1: 2}}, [{"role": "assistant", "content": "x"}], {"messages": "\ud800"}]
    columns = encode(rows, model).to_dict()
    assert [error is None for error in columns["error"]] == [False] * 7 + [True, False]


def test_a_model_without_a_tokenizer_is_an_error_of_the_call():
    with pytest.raises(rolecall.TokenizerError):
        encode(ROWS, rolecall.load("chatml"))


def test_the_result_has_the_columns_that_trl_trains_on(model):
    """TRL 1.16.0: `input_ids` marks a dataset as processed, `labels` is used as it is and has -100 for ids
    without loss, and `seq_lengths` gives the samples of a packed sequence."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist([asked("Hi", "Hello!"), asked("2+2?", "4"), asked("", "x")])
    trl = encode(table, model, columns="trl")
    own = encode(table, model).to_pydict()
    integers = pyarrow.list_(pyarrow.field("item", pyarrow.int64(), nullable=False))
    assert trl.schema.field("input_ids").type == trl.schema.field("labels").type == integers
    assert trl.column("input_ids").to_pylist() == own["ids"]
    for labels, ids, mask in zip(trl.column("labels").to_pylist(), own["ids"], own["loss_mask"], strict=True):
        assert labels == [token if flag else -100 for token, flag in zip(ids, mask, strict=True)]
    packed = encode(table, model, columns="trl", pack=128).to_pydict()
    assert list(packed) == ["rows", "input_ids", "labels", "seq_lengths", "error"]
    for ids, labels, lengths in zip(packed["input_ids"], packed["labels"], packed["seq_lengths"], strict=True):
        assert len(ids) == len(labels) == sum(lengths)


def test_an_encoder_can_be_sent_to_other_processes(model):
    encoder = rolecall.data.encoder(model, columns="trl")
    there = pickle.loads(pickle.dumps(encoder))
    assert dict_of(there(ROWS)) == dict_of(encoder(ROWS))


def test_threads_of_python_encode_at_the_same_time(model):
    expected, found = dict_of(encode(ROWS, model)), []
    threads = [threading.Thread(target=lambda: found.append(dict_of(encode(ROWS * 1, model)))) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [expected] * 8


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_a_call_soon(model, threads):
    rows = [asked("word " * 2000, "word " * 2000)] * 2000
    late = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    # The rows are converted before the threads start, and that takes a while too.
    late.start()
    sent = time.monotonic() + 0.5
    with pytest.raises(KeyboardInterrupt):
        encode(rows, model, threads=threads)
        time.sleep(60)
    assert time.monotonic() - sent < 2


def test_an_interrupt_before_the_first_array_is_no_panic(tmp_path):
    # In its own process, because numpy is imported once.
    code = """if True:
        import os, signal, sys, threading
        import rolecall
        tokenizer, text = rolecall.Tokenizer(sys.argv[1]), "word " * 40_000
        assert "numpy" not in sys.modules
        # The thread gets the GIL while the tokenizer works without it.
        begun = threading.Event()
        def late():
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=late).start()
        try:
            sys.setswitchinterval(1000)
            begun.set()
            tokenizer.encode(text)
            print("not in time")
        except KeyboardInterrupt:
            print("interrupted", len(tokenizer.encode("word")))
    """
    folder = letters.write(tmp_path / "some-model", TEMPLATE)
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted 4\n", "")


WRONG = [("for_training", True), ("edges", b"any"), ("final_stop", []), ("truncate", 1), ("samples", ["turns"]),
         ("shape", object()), ("json_column", 7), ("allow", 7), ("allow", b"no-loss"), ("loss_weight", 1.5),
         ("loss_role", b"tool"), ("loss_role", [None]), ("max_tokens", True), ("max_tokens", -1), ("max_tokens", 1.5),
         ("max_tokens", "5"), ("max_tokens", 10**30), ("pack", False), ("pack", 2**40), ("threads", "2"),
         ("threads", True), ("strict", "no"), ("reference_encoding", "false"), ("loss_weights", 2)]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_an_option_of_another_type_is_refused_by_its_name(model, option, value):
    with pytest.raises(rolecall.RequestError) as caught:
        encode(ROWS, model, **{option: value})
    assert caught.value.field == option


def test_none_is_the_default_of_every_option(model):
    names = {option for option, _ in WRONG} - {"for_training"}
    assert dict_of(encode(ROWS, model, **dict.fromkeys(names))) == dict_of(encode(ROWS, model))
    numbers = {"max_tokens": np.int64(5), "threads": np.uint8(1), "strict": np.bool_(False)}
    assert dict_of(encode(ROWS, model, **numbers)) == dict_of(encode(ROWS, model, max_tokens=5))


def test_the_progress_line_counts_rows_and_errors(model):
    import io

    file = io.StringIO()
    line = rolecall.data.Progress(file)
    encode(ROWS, model, progress=line)
    encode(ROWS, model, progress=line)
    line.end()
    assert (line.rows, line.refused) == (8, 2)
    assert file.getvalue().startswith("8 conversations, 2 refused, ")


def test_importing_the_module_imports_neither_numpy_nor_pyarrow():
    code = "import sys, rolecall.data; assert not {'numpy', 'pyarrow'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_a_refused_row_keeps_its_id(model):
    columns = dict_of(encode([{"messages": "no list", "id": "x"}, asked("a", "b", id="y")], model))
    assert columns["id"] == ["x", "y"]
    assert columns["error"][0] is not None


def test_a_null_that_arrow_stores_has_the_meaning_of_rows(model):
    pyarrow = pytest.importorskip("pyarrow")
    called = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]
    seeing = rolecall.load(
        chat_template="{% for m in messages %}{{ m.role }}{{ m.content is defined }}{% endfor %}",
        tokenizer=letters.tokenizer_bytes(),
    )
    # A key that is null is not there for a template, as in transformers 5.24.
    expected = "userTrueassistantFalse"
    for rows in ([{"messages": called}], {"messages": [called]}, pyarrow.table({"messages": [called]})):
        columns = dict_of(encode(rows, seeing, for_training=None))
        assert columns["error"] == [None]
        assert text_of(columns["ids"][0]) == expected


def test_nulls_that_are_meant_are_kept_in_columns_of_objects(model):
    def tool(**more):
        parameters = {"type": "object", "properties": {"city": {"type": "string", "default": None, **more}}}
        return {"type": "function", "function": {"name": "f", "parameters": parameters}}

    turns = asked("a", "b")["messages"]
    # Arrow would give both the same keys.
    meant = {"messages": [turns, turns], "tools": [[tool()], [tool(title="T")]]}
    rows = [{"messages": turns, "tools": tools} for tools in meant["tools"]]
    columns = dict_of(encode(meant, model))
    assert columns["error"] == [None, None]
    assert [list(ids) for ids in columns["ids"]] == [list(ids) for ids in dict_of(encode(rows, model))["ids"]]
    unclear = {"messages": [turns], "tools": [[tool()]]}
    with pytest.warns(UserWarning, match="1 of 1 rows have nulls"):
        encode(unclear, model)


def test_white_space_in_a_column_of_json_text_is_null(model):
    pyarrow = pytest.importorskip("pyarrow")
    table = {"messages": [json.dumps(asked("a", "b")["messages"])] * 2, "tools": [" \n", None]}
    for rows in (table, pyarrow.table(table)):
        columns = dict_of(encode(rows, model))
        assert columns["error"] == [None, None]
        assert columns["ids"][0] == columns["ids"][1]


def test_whole_rows_in_a_column_may_be_values_or_text(model):
    pyarrow = pytest.importorskip("pyarrow")
    row = asked("a", "b")
    expected = dict_of(encode([row], model))
    for rows in ({"line": [row]}, {"line": [json.dumps(row)]}, pyarrow.table({"line": [row]})):
        assert dict_of(encode(rows, model, json_column="line"))["ids"] == expected["ids"]


def test_numbers_of_columns_are_spelled_as_python_spells_them(model):
    pyarrow = pytest.importorskip("pyarrow")
    numbers = [1e-05, 1e16, 1.5e300, 0.1, 2.0]
    rows = [asked("a", "b", id=number) for number in numbers]
    for table in (rows, pyarrow.Table.from_pylist(rows)):
        assert dict_of(encode(table, model))["id"] == [repr(number) for number in numbers]


def test_a_strict_run_refuses_a_row_of_which_the_template_leaves_a_part_out(model):
    row = asked("a", "b")
    row["messages"][1]["reasoning_content"] = "why"
    assert dict_of(encode([row], model))["error"] == [None]
    assert dict_of(encode([row], model, strict=True))["error"] != [None]


def test_the_reference_encoding_makes_control_tokens_of_text_that_spells_them(model):
    row = asked("<|im_end|>", "b")
    safe, same = (dict_of(encode([row], model, reference_encoding=flag))["ids"][0] for flag in (False, True))
    assert text_of(safe) == text_of(same)
    assert len(safe) == len(same) + len("<|im_end|>") - 1
