"""vLLM's `/v1/completions`, streamed and with `return_token_ids`.

As in vLLM 0.33.0: entrypoints/openai/completion/{protocol,serving}.py for the fields, their defaults and the
frames, sampling_params.py for the ranges, renderers/params.py for the length, and the documentation of the
OpenAI-compatible server and of structured outputs. The server is one that runs with
`--enable-prompt-tokens-details` and `--generation-config vllm`.
"""

import codecs
import time
import uuid

from decoding import Decoder, Order
from fields import Fields, Refused, is_biases, is_ids, is_number, is_object, is_one, is_switch, is_text, is_whole

# The sampler of vLLM applies them in this order (v1/sample/sampler.py).
SAMPLERS = ("penalties", "temperature", "min_p", "top_k", "top_p")
MODEL = "smollm2"
# The default of `--max-logprobs`.
MOST_ODDS = 20


class Vllm:
    path = "/v1/completions"

    def __init__(self, decoder: Decoder):
        self.decoder, self.size = decoder, len(decoder.vocabulary.tokens)

    def page(self, path: str):
        card = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "vllm", "root": MODEL,
                "parent": None, "max_model_len": self.decoder.context}
        pages = {"/health": "", "/version": {"version": "0.33.0"}, "/v1/models": {"object": "list", "data": [card]}}
        return pages.get(path)

    def refusal(self, refused: Refused) -> dict:
        return {"error": {"message": str(refused), "type": "BadRequestError", "param": refused.field, "code": 400}}

    def answer(self, body):
        """Returns the frames of an answer, or refuses the request."""
        return self.frames(*self.read(body))

    def read(self, body) -> tuple:
        fields = Fields(body)
        ids = fields.need("prompt", is_ids(self.size))
        if not ids:
            raise Refused("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        fields.take("model", lambda model: model == MODEL)
        # The gateway needs these.
        fields.need("stream", is_one(True))
        fields.need("return_token_ids", is_one(True))
        # Without it, the text lacks control tokens.
        fields.need("skip_special_tokens", is_one(False))
        options = Fields(fields.take("stream_options", is_object, {}), "stream_options.")
        has_usage = options.take("include_usage", is_switch, False)
        is_counting = options.take("continuous_usage_stats", is_switch, False) and has_usage
        options.end()
        # Null is the default, too.
        most = fields.take("max_tokens", is_whole(1), 16)
        if len(ids) + most > self.decoder.context:
            raise Refused(f"You passed {len(ids)} input tokens and requested {most} output tokens. However, the model's "
                          f"context length is only {self.decoder.context} tokens.", "input_tokens")
        odds = fields.take("logprobs", is_whole(0, MOST_ODDS))
        if odds is not None:
            fields.need("return_tokens_as_token_ids", is_one(True))
        order = Order(
            ids, most, odds=odds, samplers=SAMPLERS,
            temperature=fields.take("temperature", is_number(0, 2), 1.0),
            top_p=fields.take("top_p", is_number(0, 1, is_open=True), 1.0),
            top_k=max(fields.take("top_k", is_whole(-1), 0), 0),
            min_p=fields.take("min_p", is_number(0, 1), 0.0),
            presence_penalty=fields.take("presence_penalty", is_number(-2, 2), 0.0),
            frequency_penalty=fields.take("frequency_penalty", is_number(-2, 2), 0.0),
            repetition_penalty=fields.take("repetition_penalty", is_number(0, 1e9, is_open=True), 1.0),
            seed=fields.take("seed", is_whole(-2**63)),
            biases={int(token): bias for token, bias in fields.take("logit_bias", is_biases(self.size), {}).items()},
            stop_ids=frozenset(fields.take("stop_token_ids", is_ids(self.size), [])),
            matcher=self.matcher(fields),
        )
        fields.end()
        return order, has_usage, is_counting

    def matcher(self, fields: Fields):
        given = fields.take("structured_outputs", is_object)
        if given is None:
            return None
        outputs = Fields(given, "structured_outputs.")
        tag = outputs.need("structural_tag", is_text)
        outputs.end()
        try:
            return self.decoder.grammars.matcher(tag)
        except ValueError:
            message = "Invalid structured_outputs structural_tag specification."
            raise Refused(message, "structured_outputs") from None

    def frames(self, order: Order, has_usage: bool, is_counting: bool):
        head = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": MODEL}
        count, spoken, speak = 0, 0, codecs.getincrementaldecoder("utf-8")("replace")
        for step in self.decoder.decode(order):
            # The end token is among the ids, but not in the text.
            said = [token for token in step.ids if token != step.ended_by]
            text = speak.decode(b"".join(map(self.decoder.vocabulary.bytes_of, said)), step.end is not None)
            is_own_end = step.ended_by == self.decoder.vocabulary.end
            choice = {
                "index": 0, "text": text, "logprobs": self.odds(step, order, spoken), "finish_reason": step.end,
                "stop_reason": None if is_own_end else step.ended_by,
                "prompt_token_ids": order.ids if count == 0 else None, "token_ids": step.ids,
            }
            count, spoken = count + len(step.ids), spoken + len(text)
            usage = {"prompt_tokens": step.prompt, "completion_tokens": count, "total_tokens": step.prompt + count}
            yield {**head, "choices": [choice], **({"usage": usage} if is_counting else {})}
        if has_usage:
            yield {**head, "choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": step.cached}}}
        yield "[DONE]"

    def odds(self, step, order: Order, spoken: int):
        if order.odds is None:
            return None
        named = [f"token_id:{token}" for token in step.ids]
        return {
            "text_offset": [spoken] * len(named), "tokens": named,
            "token_logprobs": [logprob for logprob, _ in step.odds],
            # The sampled token comes first, and is one more if it is not likely.
            "top_logprobs": [
                {name: logprob} | {f"token_id:{token}": likely for token, likely in top}
                for name, (logprob, top) in zip(named, step.odds)
            ],
        }
