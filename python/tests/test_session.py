"""Sessions: a growing conversation as ids."""

import copy
import pickle
import threading

import letters
import numpy as np
import pytest
import rolecall
from letters import END, IDS

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if loud %}!{% endif %}{% endif %}"
)
# Writes earlier replies without what they say.
FORGETFUL = CHATML.replace("{{ m.content }}", "{{ m.content if loop.last or m.role != 'assistant' else '-' }}")


def load(folder, source):
    """A model with this chat template."""
    return rolecall.load(letters.write(folder, source))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(tmp_path_factory.mktemp("model"), CHATML)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    return load(tmp_path_factory.mktemp("forgetful"), FORGETFUL)


def user(text):
    return {"role": "user", "content": text}


def spelled(text):
    return [IDS[letter] for letter in text] + [END]


def test_a_turn_returns_only_its_new_ids_and_keeps_what_was_sampled(model):
    session = model.session([user("a")])
    assert not session.is_open and len(session) == 0 and session
    first = session.open()
    assert first.keep == 0 and first.proof["code"] == "first"
    assert first.ids.dtype == np.uint32
    assert (first.ids == model.encode([user("a")]).ids).all()
    reply = session.accept(spelled("Hi"))
    assert reply.message == {"role": "assistant", "content": "Hi"}
    assert (reply.message_index, reply.finish_reason, reply.stop, reply.keep) == (1, "stop", END, len(first.ids))
    assert reply.ids.tolist() == spelled("Hi")
    appended = session.append(user("b"))
    assert len(appended.ids) == 0
    second = session.open()
    assert second.keep == first.total + 3 and second.total == len(session)
    assert second.proof["code"] in ("growth", "whole")
    assert session.ids.tolist() == first.ids.tolist() + spelled("Hi") + second.ids.tolist()
    whole = [user("a"), {"role": "assistant", "content": "Hi"}, user("b")]
    assert session.messages == whole
    assert (session.ids == model.encode(whole).ids).all()
    assert session.bytes.decode() == model.prompt(whole).text
    assert {segment["author"] for segment in session.segments} == {"template", "caller", "sampled"}
    assert [segment for segment in second.segments if segment["part"] == "content"] == [
        {"author": "caller", "message": 2, "part": "content", "ids": [second.keep + 7, second.keep + 8], "weight": 0}
    ]


def test_ids_are_made_once_and_cannot_be_written(model):
    session = model.session([user("a")])
    delta = session.open()
    assert session.ids is session.ids and delta.ids is delta.ids
    with pytest.raises(ValueError):
        session.ids[0] = 1
    before = session.ids
    session.accept([IDS["a"]])
    assert len(before) == len(session.ids) - 1


def test_results_are_what_the_command_writes(model):
    session = model.session([user("a")])
    delta = session.open()
    assert delta.to_dict()["ids"] == delta.ids.tolist()
    assert delta.to_dict()["segments"] == delta.segments
    reply = session.accept(spelled("x"))
    assert reply.to_dict()["message"]["content"] == "x"
    rollout = session.rollout()
    assert rollout.to_dict()["ids"] == rollout.ids.tolist()
    assert session.difference().to_dict() == {"stock_text": True, "stock_ids": True, "gaps": []}


def test_weights_follow_who_wrote_the_ids(model):
    session = model.session([user("a")])
    opened = session.open().total
    session.accept(spelled("Hi"))
    rollout = session.rollout()
    assert rollout.weights.dtype == np.float32 and rollout.weights.shape == rollout.ids.shape
    assert rollout.weights.tolist() == [0.0] * opened + [1.0, 1.0, 1.0]
    assert session.rollout(loss_weight={"content": 0.5, "stop": 0}, allow=["masked-stop"]).weights.tolist()[opened:] == [
        0.5, 0.5, 0.0,
    ]
    assert session.rollout(loss_role={"user": 0.25}).weights.tolist().count(0.25) == 1
    assert session.rollout(loss_role={"user:turn": 0.25}).weights.tolist().count(0.25) > 1
    assert [segment["text"] for segment in rollout.segments if segment["author"] == "sampled"] == ["Hi", "<|im_end|>"]
    assert rollout.messages[1]["content"] == "Hi"
    assert (rollout.breaks, rollout.notes) == ([], [])


def test_a_session_without_loss_is_refused_unless_allowed(model):
    session = model.session([user("a")])
    session.open()
    with pytest.raises(rolecall.RenderError):
        session.rollout()
    assert session.rollout(allow=["no-loss"]).weights.sum() == 0


def test_a_reply_that_was_cut_off_is_closed(model):
    session = model.session([user("a")])
    session.open()
    reply = session.accept([IDS["H"]], "length")
    assert reply.is_unfinished and reply.finish_reason == "length" and reply.stop is None
    closed = session.close()
    assert closed.ids.tolist() == [END]
    assert [note["code"] for note in closed.notes] == ["closed"]
    assert closed.segments[0]["author"] == "closing"
    assert session.close().ids.tolist() == []


def test_what_a_template_rewrites_is_planned_and_chosen(forgetful):
    session = forgetful.session([user("a")])
    session.open()
    session.accept(spelled("Hi"))
    plan = session.plan([user("b")])
    assert not plan.is_stable
    assert (plan.rewrite["message"], plan.rewrite["line"]) == (1, 2)
    with pytest.raises(rolecall.SessionError) as raised:
        session.append([user("b")])
    assert raised.value.code == "rewrites" and raised.value.help
    before = session.ids.tolist()
    kept = session.fork()
    delta = kept.append(plan, on_rewrite="keep")
    assert [note["code"] for note in delta.notes] == ["kept"]
    kept.open()
    assert kept.ids.tolist()[: len(before)] == before
    assert [gap["session"] for gap in kept.difference().gaps] == ["Hi"]
    assert kept.rollout().breaks[0]["code"] == "kept"
    session.append([user("b")], on_rewrite="rewrite")
    session.open()
    assert session.ids.tolist() == forgetful.encode(session.messages).ids.tolist()
    assert [branch.tolist() for branch in session.branches] == [before]
    session.accept(spelled("Hi"))
    with pytest.raises(rolecall.SessionError, match="another state"):
        session.append(plan)


def test_other_tools_and_switches_can_be_planned(model):
    session = model.session([user("a")])
    session.open()
    session.accept(spelled("Hi"))
    plan = session.plan_with([user("b")], loud=True)
    assert plan.is_stable
    session.append(plan)
    assert session.open().ids[-1] == IDS["!"]
    session.accept(spelled("Hi"))
    # The template writes it only where the model is to go on.
    session.append(user("c"), on_rewrite="keep")
    assert session.open().ids[-1] == IDS["!"]


def test_oldest_turns_are_removed(model):
    session = model.session([user("a")])
    for text in "bcd":
        session.open()
        session.accept(spelled("Hi"))
        session.append([user(text)])
    cut = session.truncate(turns=2)
    assert cut.dropped == (0, 4) and cut.after < cut.before == cut.delta.to_dict()["keep"] + cut.before - cut.delta.keep
    assert [message["content"] for message in session.messages] == ["c", "Hi", "d"]
    assert session.truncate(ids=10_000).dropped == (0, 0)
    session.open()
    session.accept(spelled("Hi"))
    with pytest.raises(rolecall.SessionError) as raised:
        session.truncate(ids=1)
    assert raised.value.code == "too_long"
    for bad in [{}, {"turns": 1, "ids": 1}, {"turns": -1}, {"ids": "x"}, {"ids": 2**70}]:
        with pytest.raises(rolecall.RequestError):
            session.truncate(**bad)


def test_a_conversation_with_replies_is_imported(model):
    messages = [user("a"), {"role": "assistant", "content": "Hi"}, user("b")]
    for seams in [None, "live", "whole"]:
        session = model.import_session(messages, seams=seams)
        assert session.rollout().weights.sum() == 3
        session.open()
        assert (session.ids == model.encode(messages).ids).all()


def test_forks_and_copies_go_on_independently(model):
    session = model.session([user("a")])
    session.open()
    for fork in [session.fork(), copy.copy(session), copy.deepcopy(session)]:
        fork.accept(spelled("x"))
        assert session.is_open and not fork.is_open
        assert fork.model is session.model


def test_a_saved_session_goes_on_and_another_model_is_refused(model, forgetful):
    session = model.session([user("a")])
    session.open()
    session.accept(spelled("Hi"))
    saved = session.save()
    again = rolecall.Session.load(model, saved)
    assert (again.ids == session.ids).all() and again.segments == session.segments
    assert (model.restore_session(saved).ids == session.ids).all()
    assert again.reply.message == session.reply.message
    again.append([user("b")])
    assert again.open().keep == len(session)
    for bad, code in [("{}", "damaged_session"), ("", "damaged_session"), (saved.replace("Hi", "Ho"), "damaged_session")]:
        with pytest.raises(rolecall.SessionError) as raised:
            rolecall.Session.load(model, bad)
        assert raised.value.code == code
    with pytest.raises(rolecall.SessionError) as raised:
        rolecall.Session.load(forgetful, saved)
    assert raised.value.code == "other_model"
    with pytest.raises(rolecall.RequestError):
        rolecall.Session.load(model, b"bytes")


def test_a_session_is_pickled_with_its_model(model):
    session = model.session([user("a")])
    session.open()
    session.accept(spelled("Hi"))
    again = pickle.loads(pickle.dumps(session))
    assert (again.ids == session.ids).all() and again.messages == session.messages
    again.append([user("b")])
    assert again.open().total > len(session)


def test_a_text_can_stand_for_what_was_sampled(model):
    session = model.session([user("a")])
    session.open()
    ids = session.encode_sampled("Hi<|im_end|>")
    assert ids.tolist() == spelled("Hi")
    assert session.accept(ids).message["content"] == "Hi"


BAD_IDS = [
    None, 7, "Hi", b"Hi", [-1], [2**32], [2**70], [1.5], [None], ["a"], [[1]], {"a": 1}, [99_999], object(),
    np.array([-1]), np.array([1.5]), np.array([[1]]), np.array(["a"]),
]


@pytest.mark.parametrize("ids", BAD_IDS, ids=[str(at) for at in range(len(BAD_IDS))])
def test_bad_ids_are_refused_and_change_nothing(model, ids):
    session = model.session([user("a")])
    session.open()
    before = session.ids.tolist()
    with pytest.raises(rolecall.RolecallError) as raised:
        session.accept(ids)
    assert raised.value.code and str(raised.value)
    assert session.is_open and session.ids.tolist() == before


def test_operations_out_of_order_are_refused(model):
    with pytest.raises(rolecall.SessionError) as raised:
        model.session().open()
    assert raised.value.code == "no_messages"
    session = model.session([user("a")])
    for call in [lambda: session.accept([1]), lambda: (session.open(), session.open()), lambda: session.append([user("b")]),
                 lambda: session.truncate(turns=1), lambda: session.plan([user("b")])]:
        with pytest.raises(rolecall.SessionError):
            call()
    with pytest.raises(rolecall.RequestError):
        session.accept([1], "never")
    with pytest.raises(rolecall.RequestError):
        session.accept([1], 7)


@pytest.mark.parametrize("arguments", [
    {"for_training": "none"}, {"for_training": 1}, {"loss_weight": {"calls": "x"}}, {"loss_weight": {"call": 1}},
    {"loss_weight": 1}, {"loss_role": {"assistant": 1}}, {"loss_role": {1: 1}}, {"loss_role": [1]},
    {"allow": "no_loss"}, {"allow": ["all"]}, {"allow": 1}, {"loss_weight": {"calls": -1}},
    {"loss_weight": {"calls": 1e9}}, {"loss_weight": {"calls": float("nan")}},
])
def test_bad_policies_are_refused(model, arguments):
    session = model.session([user("a")])
    session.open()
    session.accept(spelled("x"))
    with pytest.raises(rolecall.RequestError) as raised:
        session.rollout(**arguments)
    assert raised.value.code and str(raised.value)
    with pytest.raises(rolecall.SessionError):
        session.rollout(for_training="tagged")


def test_threads_share_a_session_without_panics(model):
    session = model.session([user("a")])
    done = {"open": 0, "accept": 0, "append": 0}
    errors = []

    def work():
        for _ in range(25):
            for name, call in [("open", session.open), ("accept", lambda: session.accept(spelled("Hi"))),
                               ("append", lambda: session.append([user("b")]))]:
                try:
                    call()
                    done[name] += 1
                except rolecall.SessionError as error:
                    assert error.code in ("awaits_reply", "not_open", "stale_plan", "no_messages"), error.code
                except BaseException as error:
                    errors.append(error)
            session.ids, session.segments, len(session), repr(session)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors
    assert done["accept"] > 1
    # Every reply is there as it was sampled, once.
    assert sum(segment["author"] == "sampled" and segment["part"] == "content" for segment in session.segments) == done["accept"]
    assert sum(message["role"] == "user" for message in session.messages) == done["append"] + 1


CONTINUING = (
    "{% for m in messages %}{% if m.role == 'tool' %}<result>{{ m.content }}</result>{% elif m.role == 'user' %}"
    "<|im_start|>user\n{{ m.content }}<|im_end|>\n{% else %}"
    "{% if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>assistant\n{% endif %}"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<call>{\"name\": {{ c.function.name | tojson }}, \"arguments\": "
    "{{ c.function.arguments | tojson }}}</call>{% endfor %}{% if not m.tool_calls %}<|im_end|>\n{% endif %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{% if messages[-1].role != 'tool' %}"
    "<|im_start|>assistant\n{% endif %}<think>\n{% endif %}"
)


def test_a_reply_that_continues_its_turn_after_a_result_begins_where_the_prompt_says(tmp_path):
    model = load(tmp_path, CONTINUING)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    messages = [user("a"), {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "7"}]
    assert model.prompt(messages, tools=tools).text.endswith("</call><result>7</result><think>\n")
    session = model.session(messages, tools=tools)
    session.open()
    reply = session.accept(spelled("Hm.</think>Seven"))
    expected = model.parse("Hm.</think>Seven<|im_end|>", messages, tools=tools)["message"]
    assert (expected["reasoning_content"], expected["content"]) == ("Hm.", "Seven")
    assert (reply.message["reasoning_content"], reply.message["content"]) == ("Hm.", "Seven")


def test_the_bytes_of_some_ids_are_those_of_the_ids(model):
    session = model.session([user("a")])
    session.open()
    texts = [letters.text_of([id]) for id in session.ids]
    for first in range(len(texts) + 1):
        assert session.bytes_of(first).decode() == "".join(texts[first:])
        for end in range(len(texts) + 2):
            assert session.bytes_of(first, end).decode() == "".join(texts[first:end])


def test_why_a_reply_ended_is_believed_and_otherwise_told_by_its_ids(model):
    session = model.session([user("a")])
    session.open()
    cut = spelled("Hi")[:-1]
    ends = {None: ("length", True), "stop": ("stop", False), "length": ("length", True), "abort": ("abort", True)}
    for finish, expected in ends.items():
        reply = session.parse(cut, finish=finish)
        assert (reply.finish_reason, reply.is_unfinished) == expected
        fork, delta, first = session.next_turn(cut, [user("b")], finish=finish)
        assert [note["code"] for note in delta.notes] == ["closed"] * expected[1]
        assert (delta.keep, first, len(fork.messages)) == (len(session) + len(cut), 2, 3)
    assert session.parse(spelled("Hi")).finish_reason == "stop"
    _, delta, _ = session.next_turn(spelled("Hi"), [user("b")])
    assert delta.notes == []


def test_no_messages_change_nothing(model):
    session = model.import_session([user("a"), {"role": "assistant", "content": "Hi"}])
    before = session.ids
    assert session.plan([]).is_stable
    assert len(session.append([]).ids) == 0
    assert (session.ids == before).all() and len(session.messages) == 2


def test_a_rollout_is_pickled_with_what_was_asked_for(model):
    session = model.session([user("a")])
    session.open()
    assert not pickle.loads(pickle.dumps(session.rollout(allow="no-loss"))).weights.any()
    session.accept(spelled("Hi"))
    for asked in [{}, {"for_training": "all"}, {"loss_weight": {"stop": 0.5}}, {"loss_role": {"user": 0.25}}]:
        rollout = session.rollout(**asked)
        copied = pickle.loads(pickle.dumps(rollout))
        assert (copied.weights == rollout.weights).all() and (copied.ids == rollout.ids).all(), asked
        assert not asked or rollout.weights.tolist() != session.rollout().weights.tolist()


def test_a_reply_says_where_its_calls_are(tmp_path):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    session = load(tmp_path, CONTINUING).session([user("a")], tools=tools)
    prompt = session.open().ids
    call = '<call>{"name":"f","arguments":{}}</call>'
    said = f"Hm.</think>{call}"
    for prompt_ids in (prompt, None):
        # Without the prompt, nothing says that it opened the reasoning.
        reply = session.parse(spelled(said), prompt_ids=prompt_ids)
        assert (reply.message.get("reasoning_content") == "Hm.") == (prompt_ids is not None)
    reply = session.accept(spelled(said))
    [found] = reply.calls
    # Each id is a byte.
    assert found["ids"] == found["bytes"] and found["whole"]
    assert said[slice(*found["bytes"])] == found["text"] and found["text"].endswith(call.removeprefix("<call>"))
    cut = session.fork()
    cut.append({"role": "tool", "tool_call_id": "1", "content": "7"})
    cut.open()
    [found] = cut.accept(spelled(said[:-9])[:-1], "length").calls
    assert not found["whole"]


def test_the_last_reply_of_a_session_is_the_one_it_accepted(model):
    session = model.session([user("a")])
    session.open()
    first = session.accept(spelled("One"))
    assert session.reply.to_dict() == first.to_dict()
    session.append(user("b"))
    session.open()
    assert session.reply is None
    second = session.accept(spelled("Two")[:-1], "length")
    assert session.reply.to_dict() == second.to_dict()
    # What closes a reply is not part of it.
    assert session.close().ids.tolist() == [END]
    assert session.reply.ids.tolist() == second.ids.tolist() and session.reply.keep == second.keep
