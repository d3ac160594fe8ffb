"""SGLang's `/generate`, streamed and with `input_ids`.

As in SGLang 0.5.23: managers/{io_struct,tokenizer_manager,schedule_batch}.py and entrypoints/http_server.py for the
fields, the frames and the errors, sampling/sampling_params.py for the ranges, constrained/ for grammars, and the
documentation of the native API, of sampling parameters and of structured outputs. The server is one that runs with
`--sampling-defaults openai` and `--enable-deterministic-inference`, without which seeds have no effect.
"""

import codecs
import time
import uuid

from decoding import Decoder, Order
from fields import Fields, Refused, is_biases, is_ids, is_number, is_object, is_one, is_switch, is_text, is_whole

# layers/sampler.py: top_k_top_p_min_p_sampling_from_probs, after the temperature.
SAMPLERS = ("penalties", "temperature", "top_k", "top_p", "min_p")
MODEL = "smollm2"


class SGLang:
    path = "/generate"

    def __init__(self, decoder: Decoder, is_incremental: bool = False):
        """With `is_incremental`, frames are as with `--incremental-streaming-output`."""
        self.decoder, self.size, self.is_incremental = decoder, len(decoder.vocabulary.tokens), is_incremental

    def page(self, path: str):
        card = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": MODEL,
                "parent": None, "max_model_len": self.decoder.context}
        info = {"model_path": MODEL, "context_length": self.decoder.context, "max_running_requests": 4,
                "incremental_streaming_output": self.is_incremental, "version": "0.5.23"}
        pages = {"/health": "", "/server_info": info, "/v1/models": {"object": "list", "data": [card]}}
        return pages.get(path)

    def refusal(self, refused: Refused) -> dict:
        return {"error": str(refused)}

    def answer(self, body):
        """Returns the frames of an answer. Most of what is wrong is only said there, after the status 200."""
        fields = Fields(body)
        ids = fields.need("input_ids", is_ids(2**63))
        fields.need("stream", is_one(True))
        with_odds = fields.take("return_logprob", is_switch, False)
        odds = fields.take("top_logprobs_num", is_whole(0), 0)
        params = fields.take("sampling_params", is_object, {})
        fields.end()
        return self.frames(ids, params, odds if with_odds else None)

    def frames(self, ids: list, params: dict, odds: int | None):
        try:
            order, tag = self.read(ids, params, odds)
        except Refused as refused:
            yield {"error": {"message": str(refused), "type": "invalid_request_error", "code": 400, "retryable": False}}
        else:
            try:
                order.matcher = None if tag is None else self.decoder.grammars.matcher(tag)
            except ValueError as error:
                yield self.aborted(ids, f"Failed to compile structural_tag grammar: {error}")
            else:
                yield from self.reply(order)
        yield "[DONE]"

    def read(self, ids: list, params: dict, odds: int | None) -> tuple:
        fields = Fields(params, "sampling_params.")
        if not ids or max(ids) >= self.size:
            raise Refused(f"The input_ids contains values greater than the vocab size ({self.size}).")
        # Without it, the text lacks control tokens.
        fields.need("skip_special_tokens", is_one(False))
        # The default is there for requests without the field. Null means as many as fit.
        most = fields.take("max_new_tokens", is_whole(0), None if "max_new_tokens" in params else 128)
        context = self.decoder.context
        if len(ids) >= context or len(ids) + (most or 0) > context:
            raise Refused(f"Requested token count exceeds the model's maximum context length of {context} tokens.")
        room = context - len(ids) - 1
        top_k = fields.take("top_k", lambda value: value == -1 or is_whole(1)(value), -1)
        order = Order(
            ids, room if most is None else min(most, room), odds=odds, samplers=SAMPLERS,
            temperature=fields.take("temperature", is_number(0, 1e9), 1.0),
            top_p=fields.take("top_p", is_number(0, 1, is_open=True), 1.0),
            top_k=max(top_k, 0),
            min_p=fields.take("min_p", is_number(0, 1), 0.0),
            presence_penalty=fields.take("presence_penalty", is_number(-2, 2), 0.0),
            frequency_penalty=fields.take("frequency_penalty", is_number(-2, 2), 0.0),
            repetition_penalty=fields.take("repetition_penalty", is_number(0, 2, is_open=True), 1.0),
            seed=fields.take("sampling_seed", is_whole(-2**63)),
            biases={int(token): bias for token, bias in fields.take("logit_bias", is_biases(self.size), {}).items()},
            stop_ids=frozenset(fields.take("stop_token_ids", is_ids(self.size), [])),
        )
        tag = fields.take("structural_tag", is_text)
        fields.end()
        return order, tag

    def aborted(self, ids: list, why: str) -> dict:
        reason = {"type": "abort", "message": why, "status_code": 400, "err_type": "BadRequestError"}
        info = {"id": uuid.uuid4().hex, "finish_reason": reason, "prompt_tokens": len(ids), "completion_tokens": 0,
                "cached_tokens": 0}
        return {"text": "", "output_ids": [], "meta_info": info}

    def reply(self, order: Order):
        name, began = uuid.uuid4().hex, time.time()
        ids, text, odds, speak = [], "", [], codecs.getincrementaldecoder("utf-8")("replace")
        for step in self.decoder.decode(order):
            # The token that ended the reply is among the ids, but not in the text.
            said = [token for token in step.ids if token != step.ended_by]
            new = speak.decode(b"".join(map(self.decoder.vocabulary.bytes_of, said)), step.end is not None)
            ids, text, odds = ids + step.ids, text + new, odds + step.odds
            reasons = {"stop": {"type": "stop", "matched": step.ended_by}, "length": {"type": "length", "length": len(ids)}}
            info = {"id": name, "finish_reason": reasons.get(step.end), "prompt_tokens": step.prompt,
                    "weight_version": "default", "completion_tokens": len(ids), "cached_tokens": step.cached}
            # Everything so far, or what is new.
            start = -len(step.ids) if self.is_incremental else 0
            if order.odds is not None:
                info |= self.odds(ids, odds, order.odds, start)
            if step.end is not None:
                info["e2e_latency"] = time.time() - began
            yield {"text": new if self.is_incremental else text, "output_ids": ids[start:], "meta_info": info}

    def odds(self, ids: list, odds: list, most: int, start: int) -> dict:
        # Texts are null without `return_text_in_logprobs`.
        own = [[logprob, token, None] for token, (logprob, _) in zip(ids, odds)]
        tops = [[[logprob, token, None] for token, logprob in top] for _, top in odds]
        info = {"input_token_logprobs": [], "output_token_logprobs": own[start:], "output_token_logprobs_length": len(own)}
        return info | ({"input_top_logprobs": [], "output_top_logprobs": tops[start:]} if most else {})
