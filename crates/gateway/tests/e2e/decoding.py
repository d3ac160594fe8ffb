"""Decodes token by token: the weights, the logits and the sampling are llama.cpp's, and the grammar is xgrammar's."""

import hashlib
import http.client
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy
from grammar import Grammars, Matcher
from vocabulary import Vocabulary

# What lifts the logits of tokens above those of all others, and leaves their distances.
LIFT = 1000.0
# The most logits that are lifted without having asked first.
MOST_LIFTED = 2000


@dataclass
class Order:
    """What to generate."""

    ids: list
    most: int
    temperature: float = 1.0
    top_p: float = 1.0
    # 0 means all.
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    biases: dict = field(default_factory=dict)
    stop_ids: frozenset = frozenset()
    matcher: Matcher | None = None
    # The number of most likely tokens to report, if any are.
    odds: int | None = None
    # The order in which an engine applies what cuts off unlikely tokens, and the temperature.
    samplers: tuple = ()


@dataclass
class Step:
    """New tokens."""

    ids: list
    # For each, its log probability, and the most likely ones with theirs.
    odds: list
    # Why the reply ended, and the token that ended it.
    end: str | None = None
    ended_by: int | None = None
    # The numbers of ids of the prompt, and of those that were in the cache, as llama.cpp counted them.
    prompt: int = 0
    cached: int = 0


class Decoder:
    """Decodes with a llama.cpp server."""

    def __init__(self, engine: str, vocabulary: Vocabulary):
        self.engine, self.vocabulary = urlsplit(engine), vocabulary
        self.grammars = Grammars(vocabulary)
        settings = json.loads(self.ask(self.connect(), "GET", "/props"))
        self.context = settings["default_generation_settings"]["n_ctx"]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.engine.hostname, self.engine.port)

    def ask(self, connection, method: str, path: str, body: dict | None = None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return text

    def decode(self, order: Order):
        """Yields steps, the last of which has an end."""
        connection = self.connect()
        try:
            yield from self.steps(connection, order)
        finally:
            connection.close()

    def steps(self, connection, order: Order):
        ids, counts = [], None
        while True:
            # The engine counts the prompt, and knows log probabilities, so it is asked in these cases.
            new = [] if counts is None or order.odds is not None else self.forced(connection, order)
            new = new[: order.most - len(ids)]
            odds, ids = [], ids + new
            if len(ids) < order.most and not self.ends(new, order):
                said = self.sample(connection, order, ids)
                token, odds = said["tokens"][0], self.odds(said, order)
                if order.matcher is not None:
                    order.matcher.accept(token)
                counts = counts or (said["tokens_evaluated"], said["timings"]["cache_n"])
                new, ids = [*new, token], [*ids, token]
            if self.ends(new, order):
                yield Step(new, odds, "stop", new[-1], *counts)
                return
            if len(ids) == order.most:
                yield Step(new, odds, "length", None, *counts)
                return
            yield Step(new, odds, None, None, *counts)

    def ends(self, ids: list, order: Order) -> bool:
        """Reports whether the last id ends a reply."""
        return bool(ids) and (ids[-1] == self.vocabulary.end or ids[-1] in order.stop_ids)

    def forced(self, connection, order: Order) -> list:
        """Returns the ids for which the grammar leaves no choice: those of the text that must come, as the
        engine's tokenizer writes it, or a single one. Some servers do this as well ("jump-forward")."""
        if order.matcher is None:
            return []
        text = order.matcher.forced()
        if text:
            body = {"content": text, "add_special": False, "parse_special": True}
            ids = json.loads(self.ask(connection, "POST", "/tokenize", body))["tokens"]
        else:
            ids = [int(token) for token in numpy.flatnonzero(order.matcher.allowed())[:2]]
            ids = ids if len(ids) == 1 else []
        for token in ids:
            order.matcher.accept(token)
        return ids

    def sample(self, connection, order: Order, ids: list) -> dict:
        """Samples one token after the ones so far."""
        allowed = None if order.matcher is None else order.matcher.allowed()
        body = {
            "prompt": order.ids + ids, "n_predict": 1, "return_tokens": True, "cache_prompt": True,
            "temperature": order.temperature, "samplers": order.samplers,
            "top_p": order.top_p, "top_k": order.top_k, "min_p": order.min_p,
            "repeat_penalty": order.repetition_penalty, "repeat_last_n": len(order.ids) + len(ids),
            "seed": seed_of(order, len(ids)),
        }
        biases = Counter(order.biases)
        # Both engines count what was generated, and not the prompt.
        for token, count in Counter(ids).items():
            biases[token] -= order.presence_penalty * (count > 0) + order.frequency_penalty * count
        biases = {token: bias for token, bias in biases.items() if bias}
        if order.odds is not None:
            body["n_probs"] = max(order.odds, 1)
        number = None if allowed is None else int(allowed.sum())
        # A token of the unconstrained distribution, if it is allowed, and otherwise one of the constrained:
        # together, they have the constrained distribution.
        if number is None or number > MOST_LIFTED:
            said = self.post(connection, body, biases)
            if number is None or allowed[said["tokens"][0]]:
                return said
        assert number, "the grammar allows no token"
        # A factor for repeated tokens would stretch the distances.
        if number <= len(allowed) // 2 and order.repetition_penalty == 1:
            lifted = {int(token): biases.get(int(token), 0) + LIFT for token in numpy.flatnonzero(allowed)}
            return self.post(connection, body, lifted)
        banned = {int(token): False for token in numpy.flatnonzero(~allowed)}
        return self.post(connection, body, {**biases, **banned})

    def post(self, connection, body: dict, biases: dict) -> dict:
        body = {**body, "logit_bias": list(biases.items())}
        return json.loads(self.ask(connection, "POST", "/completion", body))

    def odds(self, said: dict, order: Order) -> list:
        if order.odds is None:
            return []
        if "completion_probabilities" not in said:
            # llama.cpp has none for a token that leaves a character incomplete.
            return [(None, [])]
        (token,) = said["completion_probabilities"]
        top = [(likely["id"], likely["logprob"]) for likely in token["top_logprobs"]]
        return [(token["logprob"], top[: order.odds])]


def seed_of(order: Order, step: int) -> int:
    """Returns a seed for one token. Those of a reply have nothing to do with one another."""
    if order.seed is None:
        return random.getrandbits(31)
    digest = hashlib.sha256(f"{order.seed} {step}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
