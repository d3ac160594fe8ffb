"""What passes between the gateway and an engine, in the wire format of each kind of engine."""

from dataclasses import dataclass, field


@dataclass
class Passed:
    """One request to the engine, and its answer."""

    body: dict
    frames: list = field(default_factory=list)

    # The engine's names for the settings of the API.
    names = {}

    @staticmethod
    def wire(decoder):
        """Returns the engine's wire format for a server of ours. Without it, the engine itself is run."""
        raise NotImplementedError

    def setting(self, name: str):
        """Returns what the engine was told of a setting, by the API's name."""
        return self.body[self.names.get(name, name)]


class ToLlamaCpp(Passed):
    names = {"max_tokens": "n_predict"}

    @property
    def prompt(self) -> list:
        return self.body["prompt"]

    @property
    def sampled(self) -> list:
        """The ids that the engine sampled, as far as it tells them."""
        return [token for frame in self.frames if not frame.get("stop") for token in frame.get("tokens", [])]

    @property
    def last(self) -> dict:
        return next((frame for frame in reversed(self.frames) if frame.get("stop")), {})

    @property
    def counts(self) -> tuple:
        """The numbers of ids of the prompt, and of those that were in the cache, as the engine counts them."""
        timings = self.last["timings"]
        assert timings["prompt_n"] + timings["cache_n"] == self.last["tokens_evaluated"]
        return self.last["tokens_evaluated"], timings["cache_n"]


class ToVllm(Passed):
    @staticmethod
    def wire(decoder):
        from vllm_wire import Vllm

        return Vllm(decoder)

    @property
    def prompt(self) -> list:
        return self.body["prompt"]

    @property
    def sampled(self) -> list:
        return [token for frame in self.frames for choice in frame["choices"] for token in choice["token_ids"]]

    @property
    def counts(self) -> tuple:
        usage = self.frames[-1]["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


class ToSGLang(Passed):
    names = {"max_tokens": "max_new_tokens", "seed": "sampling_seed"}

    @staticmethod
    def wire(decoder):
        from sglang_wire import SGLang

        return SGLang(decoder)

    def setting(self, name: str):
        return self.body["sampling_params"][self.names.get(name, name)]

    @property
    def prompt(self) -> list:
        return self.body["input_ids"]

    @property
    def sampled(self) -> list:
        ids = []
        for frame in self.frames:
            # All so far, or what is new.
            total = frame["meta_info"]["completion_tokens"]
            ids = ids[: total - len(frame["output_ids"])] + frame["output_ids"]
        return ids

    @property
    def counts(self) -> tuple:
        info = self.frames[-1]["meta_info"]
        return info["prompt_tokens"], info["cached_tokens"]


class ToIncrementalSGLang(ToSGLang):
    @staticmethod
    def wire(decoder):
        from sglang_wire import SGLang

        return SGLang(decoder, is_incremental=True)


KINDS = {"llama.cpp": ToLlamaCpp, "vllm": ToVllm, "sglang": ToSGLang, "sglang-incremental": ToIncrementalSGLang}
