"""What the documents of the five systems print, list and promise, where no other test has it alone.

`docs/documents.md` names these tests, item by item.
"""

import inspect
import re

import pytest
import rolecall
from rolecall.interop import lmdeploy, xtuner
from rolecall.interop.lmflow import PRESET_TEMPLATES
from rolecall.interop.xtuner import PROMPT_TEMPLATE

SYSTEM, ASKED, ANSWERED = ("system", "S"), ("user", "Q"), ("assistant", "A")
AGAIN = [("user", "R"), ("assistant", "B")]


def messages(*said):
    return [{"role": role, "content": content} for role, content in said]


# LMFlow

FORMS = {
    "with a system message": messages(SYSTEM, ASKED),
    "without a system message": messages(ASKED),
    "a complete conversation": messages(SYSTEM, ASKED, ANSWERED),
    "multiple rounds": messages(SYSTEM, ASKED, ANSWERED, *AGAIN),
}

PRESETS = {
    "ChatML": "chatml", "DeepSeek": "deepseek", "Llama-2": "llama2_document", "Llama-3": "llama3",
    "Phi-3": "phi3_document", "Qwen-2": "qwen2", "Yi": "yi",
}

BOS = {"DeepSeek": "<｜begin▁of▁sentence｜>", "Llama-3": "<|begin_of_text|>"}
EOS = {"DeepSeek": "<｜end▁of▁sentence｜>", "Phi-3": "<|endoftext|>"}

PRINTS = {
    "ChatML: with a system message": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n",
    "ChatML: without a system message": "<|im_start|>user\nQ<|im_end|>\n",
    "ChatML: a complete conversation": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n",
    "ChatML: multiple rounds": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n",
    "DeepSeek: with a system message": "<｜begin▁of▁sentence｜>S\n\nUser: Q\n\n",
    "DeepSeek: without a system message": "<｜begin▁of▁sentence｜>User: Q\n\n",
    "DeepSeek: a complete conversation": "<｜begin▁of▁sentence｜>S\n\nUser: Q\n\nAssistant: A<｜end▁of▁sentence｜>",
    "DeepSeek: multiple rounds": "<｜begin▁of▁sentence｜>S\n\nUser: Q\n\nAssistant: A<｜end▁of▁sentence｜>User: R\n\nAssistant: B<｜end▁of▁sentence｜>",
    "Llama-2: with a system message": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST]",
    "Llama-2: without a system message": "<s>[INST] Q [/INST]",
    "Llama-2: a complete conversation": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A</s>",
    "Llama-2: multiple rounds": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A</s><s>[INST] R [/INST] B</s>",
    "Llama-3: with a system message": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|>",
    "Llama-3: without a system message": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|>",
    "Llama-3: a complete conversation": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>",
    "Llama-3: multiple rounds": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nR<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nB<|eot_id|>",
    "Phi-3: with a system message": "<s><|system|>\nS<|end|>\n<|user|>\nQ<|end|>\n<|endoftext|>",
    "Phi-3: without a system message": "<s><|user|>\nQ<|end|>\n<|endoftext|>",
    "Phi-3: a complete conversation": "<s><|system|>\nS<|end|>\n<|user|>\nQ<|end|>\n<|assistant|>\nA<|end|>\n<|endoftext|>",
    "Phi-3: multiple rounds": "<s><|system|>\nS<|end|>\n<|user|>\nQ<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nR<|end|>\n<|assistant|>\nB<|end|>\n<|endoftext|>",
    "Qwen-2: with a system message": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n",
    "Qwen-2: without a system message": "<|im_start|>user\nQ<|im_end|>\n",
    "Qwen-2: a complete conversation": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n",
    "Qwen-2: multiple rounds": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n",
    "Yi: with a system message": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n",
    "Yi: without a system message": "<|im_start|>user\nQ<|im_end|>\n",
    "Yi: a complete conversation": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n",
    "Yi: multiple rounds": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_lmflow_prints(name):
    template, form = name.split(": ")
    preset = PRESET_TEMPLATES[PRESETS[template]]
    text = preset.text(FORMS[form], bos_token=BOS.get(template, "<s>"), eos_token=EOS.get(template, "</s>"))
    assert text == PRINTS[name]
    # A model of this format writes the same, without a generation prompt.
    model = rolecall.load(f"lmflow:{PRESETS[template]}")
    assert model.prompt(FORMS[form], add_generation_prompt=False).text == PRINTS[name]


def test_lmflows_mixtrals_differ_in_spaces():
    said = messages(ASKED, ANSWERED, AGAIN[0])
    for name, text in [
        ("mixtral_8x7b", "<s>[INST] Q [/INST]A</s>[INST] R [/INST]"),
        ("mixtral_8x22b", "<s> [INST] Q [/INST] A </s> [INST] R [/INST]"),
    ]:
        assert PRESET_TEMPLATES[name].text(said) == rolecall.load(f"lmflow:{name}").prompt(said).text == text
        # Roles alternate, and there is no system message.
        for other in (messages(ASKED, AGAIN[0]), messages(SYSTEM, ASKED)):
            with pytest.raises(rolecall.RenderError):
                rolecall.load(f"lmflow:{name}").prompt(other)


# XTuner

TEMPLATES = {
    "default": "<s><|User|>:Q\n<|Bot|>:A</s>\n<|User|>:R\n<|Bot|>:",
    "baichuan_chat": "<s><reserved_102>Q<reserved_103>A</s>\n<reserved_102>R<reserved_103>",
    "baichuan2_chat": "<s><reserved_106>Q<reserved_107>A</s>\n<reserved_106>R<reserved_107>",
    "chatglm2": "[gMASK]sop[Round 1]\n\n问：Q\n\n答：A</s>\n\n[Round 2]\n\n问：R\n\n答：",
    "chatglm3": "[gMASK]sop<|user|>\nQ<|assistant|>\nA</s>\n<|user|>\nR<|assistant|>\n",
    "deepseek_coder": "<｜begin▁of▁sentence｜>### Instruction:\nQ\n### Response:\nA<|EOT|>\n### Instruction:\nR\n### Response:\n",
    "deepseek_moe": "<｜begin▁of▁sentence｜>[INST] Q [/INST]A<｜end▁of▁sentence｜>\n[INST] R [/INST]",
    "internlm_chat": "<s><|User|>:Q<eoh>\n<|Bot|>:A<eoa>\n<|User|>:R<eoh>\n<|Bot|>:",
    "internlm2_chat": "<s><|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
    "llama2_chat": "<s>[INST] Q [/INST]A</s>\n[INST] R [/INST]",
    "vicuna": "<s>USER: Q ASSISTANT:A</s>\nUSER: R ASSISTANT:",
    "mistral": "<s>[INST] Q [/INST]A</s>\n[INST] R [/INST]",
    "mixtral": "<s>[INST] Q [/INST]A</s>\n[INST] R [/INST]",
    "qwen_chat": "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n",
    "zephyr": "<s><|user|>\nQ\n<|assistant|>\nA</s>\n<|user|>\nR\n<|assistant|>\n",
    "gemma": "<bos><start_of_turn>user\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nR<end_of_turn>\n<start_of_turn>model\n",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_xtuner_writes(name):
    assert name in PROMPT_TEMPLATE
    assert rolecall.load(f"xtuner:{name}").prompt(messages(ASKED, ANSWERED, AGAIN[0])).text == TEMPLATES[name]


# A star is a footnote of the table: the tokens of the official template were not trained.
MODELS = {
    "baichuan-inc/Baichuan-7B": "default*",
    "baichuan-inc/Baichuan-13B-Base": "default*",
    "baichuan-inc/Baichuan-13B-Chat": "baichuan_chat",
    "baichuan-inc/Baichuan2-7B-Base": "default*",
    "baichuan-inc/Baichuan2-7B-Chat": "baichuan2_chat",
    "baichuan-inc/Baichuan2-13B-Base": "default*",
    "baichuan-inc/Baichuan2-13B-Chat": "baichuan2_chat",
    "THUDM/chatglm2-6b": "chatglm2",
    "THUDM/chatglm3-6b": "chatglm3",
    "THUDM/chatglm3-6b-base": "chatglm3",
    "deepseek-ai/deepseek-coder-6.7b-base": "deepseek_coder",
    "deepseek-ai/deepseek-coder-6.7b-instruct": "deepseek_coder",
    "internlm/internlm-7b": "default*",
    "internlm/internlm-20b": "default*",
    "internlm/internlm-chat-7b": "internlm_chat",
    "internlm/internlm-chat-20b": "internlm_chat",
    "huggyllama/llama-7b": "default",
    "meta-llama/Llama-2-7b-hf": "llama2_chat",
    "meta-llama/Llama-2-7b-chat-hf": "llama2_chat",
    "meta-llama/Llama-2-70b-hf": "llama2_chat",
    "lmsys/vicuna-7b-v1.5": "vicuna",
    "lmsys/vicuna-13b-v1.5": "vicuna",
    "mistralai/Mistral-7B-v0.1": "mistral",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral",
    "Qwen/Qwen-1_8B": "default*",
    "Qwen/Qwen-1_8B-Chat": "qwen_chat",
    "Qwen/Qwen-7B": "default*",
    "Qwen/Qwen-7B-Chat": "qwen_chat",
    "Qwen/Qwen-72B": "default*",
    "Qwen/Qwen-72B-Chat": "qwen_chat",
    "bigcode/starcoder": "default",
    "01-ai/Yi-6B": "default",
    "01-ai/Yi-34B": "default",
    "HuggingFaceH4/zephyr-7b-beta": "zephyr",
    "deepseek-ai/deepseek-moe-16b-base": "deepseek_moe",
    "deepseek-ai/deepseek-moe-16b-chat": "deepseek_moe",
    "internlm/internlm2-1_8b": "default*",
    "internlm/internlm2-7b": "default*",
    "internlm/internlm2-20b": "default*",
    "internlm/internlm2-chat-1_8b": "internlm2_chat",
    "internlm/internlm2-chat-7b": "internlm2_chat",
    "internlm/internlm2-chat-20b": "internlm2_chat",
    "Qwen/Qwen1.5-0.5B": "default*",
    "Qwen/Qwen1.5-0.5B-Chat": "qwen_chat",
    "Qwen/Qwen1.5-1.8B": "default*",
    "Qwen/Qwen1.5-1.8B-Chat": "qwen_chat",
    "Qwen/Qwen1.5-4B": "default*",
    "Qwen/Qwen1.5-4B-Chat": "qwen_chat",
    "Qwen/Qwen1.5-7B": "default*",
    "Qwen/Qwen1.5-7B-Chat": "qwen_chat",
    "Qwen/Qwen1.5-14B": "default*",
    "Qwen/Qwen1.5-14B-Chat": "qwen_chat",
    "Qwen/Qwen1.5-72B": "default*",
    "Qwen/Qwen1.5-72B-Chat": "qwen_chat",
    "google/gemma-2b": "default*",
    "google/gemma-2b-it": "gemma*",
    "google/gemma-7b": "default*",
    "google/gemma-7b-it": "gemma*",
}


@pytest.mark.parametrize("model", MODELS)
def test_xtuner_has_a_template_for(model):
    found = xtuner.template_of(model)
    assert found == xtuner.MODEL_TEMPLATES[model] and found in PROMPT_TEMPLATE
    assert f"{found}*" == MODELS[model] if found.footnote else found == MODELS[model]


SYSTEM_OF_A_TEMPLATE = "<|System|>:{system}\n"


def written(said, **more):
    """The text of a conversation under XTuner's printed template with other fields."""
    fields = dict(SYSTEM=SYSTEM_OF_A_TEMPLATE, INSTRUCTION="<|User|>:{input}<eoh>\n<|Bot|>:", **more)
    return rolecall.load(fields).prompt(messages(*said), add_generation_prompt=False).text


def test_xtuners_suffix_ends_every_answer_and_is_empty_by_default():
    said = (ASKED, ANSWERED, *AGAIN)
    whole = "<s><|User|>:Q<eoh>\n<|Bot|>:A<eoa><|User|>:R<eoh>\n<|Bot|>:B<eoa>"
    assert written(said, SUFFIX="<eoa>", SUFFIX_AS_EOS=True) == whole
    # An answer without one ends with the tokenizer's closing token.
    assert written(said) == whole.replace("<eoa>", "</s>")


def test_xtuners_suffix_is_the_end_of_an_answer_if_it_says_so():
    example = {"conversation": [{"input": "Q", "output": "A"}]}
    for is_end in (True, False, None):
        fields = dict(INSTRUCTION="{input}", SUFFIX="<eoa>", **({} if is_end is None else {"SUFFIX_AS_EOS": is_end}))
        (pair,) = xtuner.template_map_fn(example, fields)["conversation"]
        assert (pair["output"], pair["need_eos_token"]) == ("A<eoa>", is_end is not True)


def test_xtuners_separator_is_between_rounds_and_empty_by_default():
    example = {"conversation": [{"input": "Q", "output": "A"}] * 2}
    for separator in ("\n", None):
        fields = dict(INSTRUCTION="{input}:", SUFFIX="<eoa>", **({} if separator is None else {"SEP": separator}))
        first, second = xtuner.template_map_fn(example, fields)["conversation"]
        assert first["input"] + first["output"] + first["sep"] + second["input"] == f"Q:A<eoa>{separator or ''}Q:"


def test_xtuners_system_text_is_written_once():
    said = (SYSTEM, ASKED, ANSWERED, *AGAIN)
    assert written(said, SUFFIX="<eoa>", SUFFIX_AS_EOS=True, SEP="\n") == (
        "<s><|System|>:S\n<|User|>:Q<eoh>\n<|Bot|>:A<eoa>\n<|User|>:R<eoh>\n<|Bot|>:B<eoa>\n"
    )


# LMDeploy

DEFAULTS = {
    "session_len": 2048, "top_p": 0.8, "top_k": None, "temperature": 0.8, "repetition_penalty": 1.0,
    "capability": "chat", "stop_words": None,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_lmdeploys_base_template_has(name):
    assert inspect.signature(lmdeploy.BaseTemplate).parameters[name].default == DEFAULTS[name]
    assert getattr(lmdeploy.BaseTemplate(), name) == DEFAULTS[name]
    assert getattr(lmdeploy.BaseTemplate(**{name: "x"}), name) == "x"


def test_lmdeploys_base_template_takes_other_arguments():
    assert lmdeploy.BaseTemplate(model_name="x", unheard_of=1, session_len=7).session_len == 7


PARTS = {
    "system": "<|System|>:", "eosys": "\n", "user": "<|User|>:", "eoh": "\n", "assistant": "<|Bot|>:",
    "stop_words": ["<eoa>"],
}


@pytest.mark.parametrize("name", PARTS)
def test_lmdeploys_internlm_chat_7b_has(name):
    template = lmdeploy.CHAT_TEMPLATES.get("internlm-chat-7b")
    assert template is lmdeploy.InternLMChat7B and getattr(template(), name) == PARTS[name]
    other = ["x"] if name == "stop_words" else "x"
    assert getattr(template(**{name: other}), name) == other


LENGTHS = {
    "internlm-7b": 2048, "internlm-20b": 4096, "internlm-chat-7b": 2048, "internlm-chat-7b-8k": 8192,
    "internlm-chat-20b": 8192,
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lmdeploys_session_length_of(name):
    template = lmdeploy.CHAT_TEMPLATES.get(name)
    assert template().session_len == LENGTHS[name] and template(session_len=7).session_len == 7
    assert rolecall.load(f"lmdeploy:{name}").sampling["session_len"] == LENGTHS[name]


def test_lmdeploys_first_round_has_the_guidance_and_the_next_rounds_do_not():
    template = lmdeploy.CHAT_TEMPLATES.get("internlm-chat-7b")(meta_instruction="M\n")
    assert template.get_prompt("Q") == template.get_prompt("Q", sequence_start=True)
    assert template.get_prompt("Q") == template.decorate_prompt("Q") == "<|System|>:M\n\n<|User|>:Q\n<|Bot|>:"
    assert template.get_prompt("R", sequence_start=False) == "\n<|User|>:R\n<|Bot|>:"
    assert template.messages2prompt("R", False) == "\n<|User|>:R\n<|Bot|>:"


def test_lmdeploys_base_models_write_the_text_alone():
    for name in ("internlm-7b", "internlm-20b"):
        template = lmdeploy.CHAT_TEMPLATES.get(name)()
        assert template.get_prompt("Once") == template.messages2prompt("Once", False) == "Once"
    assert lmdeploy.BaseTemplate().get_prompt("Once") == lmdeploy.BaseTemplate().decorate_prompt("Once") == "Once"
    longer = lmdeploy.CHAT_TEMPLATES.get("internlm-20b")
    assert (longer().capability, longer(capability="chat", top_p=0.5).capability) == ("completion", "chat")


def test_lmdeploys_end_of_an_answer_is_set():
    template = lmdeploy.CHAT_TEMPLATES.get("internlm-chat-7b")(meta_instruction=None)
    assert template.eoa == "<eoa>"
    assert template.messages2prompt(messages(ASKED, ANSWERED, AGAIN[0])) == (
        "<|User|>:Q\n<|Bot|>:A<eoa>\n<|User|>:R\n<|Bot|>:"
    )
    # The document prints a conversation without it.
    template = lmdeploy.InternLMChat7B(meta_instruction=None, eoa="")
    assert template.messages2prompt(messages(ASKED, ANSWERED, AGAIN[0])) == (
        "<|User|>:Q\n<|Bot|>:A\n<|User|>:R\n<|Bot|>:"
    )


def test_lmdeploys_skeleton_of_a_template():
    templates = lmdeploy.Registry("templates")

    @templates.register_module(name="short")
    @templates.register_module(name="an-own-name")
    class Own(lmdeploy.BaseTemplate):
        def __init__(self, user="U:", eoh="|", assistant="A:", eoa="|", **kwargs):
            super(Own, self).__init__(**kwargs)
            self.user, self.eoh, self.assistant, self.eoa = user, eoh, assistant, eoa

        def decorate_prompt(self, prompt, sequence_start=True):
            return f"{'' if sequence_start else self.eoa}{self.user}{prompt}{self.eoh}{self.assistant}"

        def messages2prompt(self, messages, sequence_start=True):
            if isinstance(messages, str):
                return self.get_prompt(messages, sequence_start)
            ends = dict(user=self.eoh, assistant=self.eoa)
            said = "".join(f"{getattr(self, one['role'])}{one['content']}{ends[one['role']]}" for one in messages)
            return said + self.assistant

    assert templates.get("short") is templates.get("an-own-name") is Own
    template = Own(session_len=7)
    assert (template.session_len, template.get_prompt("Q"), template.get_prompt("R", False)) == (7, "U:Q|A:", "|U:R|A:")
    assert template.messages2prompt("R", False) == "|U:R|A:"
    assert template.messages2prompt(messages(ASKED, ANSWERED, AGAIN[0])) == "U:Q|A:A|U:R|A:"
    assert Own(capability="completion").get_prompt("Q") == "Q"


def test_lmdeploys_printed_code_runs(shared):
    document = (shared / "documents" / "lmdeploy-chat-template.zh.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    names = {"CHAT_TEMPLATES": lmdeploy.Registry("templates"), "BaseTemplate": lmdeploy.BaseTemplate}

    def run(start):
        block = next(one for one in blocks if one.startswith(start))
        exec(compile(block, "document", "exec"), names)

    run("class InternLMChat7B(")
    printed = names["InternLMChat7B"]
    for start in ("def decorate_prompt(", "def messages2prompt("):
        run(start)
        setattr(printed, start.removeprefix("def ")[:-1], names[start.removeprefix("def ")[:-1]])
    for name in ("internlm-20b", "internlm-chat-20b", "an-awsome-name"):
        run(f"@CHAT_TEMPLATES.register_module(name='{name}')")
    templates = names["CHAT_TEMPLATES"]
    assert templates.get("an-awsome-name")().get_prompt("Q") is None
    assert templates.get("internlm-20b")().get_prompt("Q") == "Q" and templates.get("internlm-20b")().session_len == 4096
    assert templates.get("internlm-chat-20b") is templates.get("internlm-chat-7b-8k")
    chat, own = templates.get("internlm-chat-7b-8k")(), lmdeploy.InternLMChat7B8K()
    assert (chat.session_len, chat.stop_words) == (own.session_len, own.stop_words) == (8192, ["<eoa>"])
    for is_first in (True, False):
        assert chat.get_prompt("Q", is_first) == own.get_prompt("Q", is_first) == chat.messages2prompt("Q", is_first)
    with pytest.raises(AssertionError, match="has no capability of infilling"):
        printed(capability="infilling").get_prompt("Q")
    with pytest.raises(AttributeError, match="eoa"):
        chat.messages2prompt(messages(ASKED))
    chat.eoa, own.eoa = "\n", ""
    said = messages(SYSTEM, ASKED, ANSWERED, AGAIN[0])
    assert chat.messages2prompt(said) == own.messages2prompt(said, system_when="always")


# InternLM2

IDS = {
    "[UNUSED_TOKEN_146]": 92543, "[UNUSED_TOKEN_145]": 92542, "[UNUSED_TOKEN_144]": 92541,
    "[UNUSED_TOKEN_143]": 92540, "[UNUSED_TOKEN_142]": 92539, "[UNUSED_TOKEN_141]": 92538,
}


@pytest.mark.parametrize("token", IDS)
def test_internlm2_has_the_id_of(token):
    (id,) = (one["id"] for one in rolecall.Format("internlm2").controls if token in one["spelled"].values())
    assert id == IDS[token]


def unused(text):
    """A text with each control token in the document's spelling."""
    for one in rolecall.Format("internlm2").controls:
        text = text.replace(one["text"], one["spelled"].get("unused_token", one["text"]))
    return text


def of_internlm2(said, **more):
    """A prompt in the document's spelling, without the opening token that it does not print."""
    model = rolecall.load("internlm2", options={"spelling": "unused_token"}, bos="none")
    prompt = model.prompt(said, **more)
    usual = rolecall.load("internlm2", bos="none").prompt(said, **more)
    assert unused(usual.text) == prompt.text
    return prompt.text


def test_internlm2_prints_a_regular_chat():
    assert of_internlm2(messages(SYSTEM, ASKED, ANSWERED), add_generation_prompt=False) == (
        "[UNUSED_TOKEN_146]system\nS[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]user\nQ[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]assistant\nA[UNUSED_TOKEN_145]\n"
    )


TOOLS = [{"type": "code_interpreter"}, {"type": "function", "function": {"name": "weather"}}]
CODE = {"id": "1", "type": "code_interpreter", "code_interpreter": {"input": "print(1)"}}
CALL = {"id": "2", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}


def test_internlm2_prints_the_interpreter_and_a_function_in_one_conversation():
    file = {"type": "file", "file": {"path": "data.csv", "size": "10K"}}
    said = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "Plot it."}, file]},
        {"role": "assistant", "content": "Here:\n", "tool_calls": [CODE]},
        {"role": "tool", "tool_call_id": "1", "content": "![image](x.png)"},
        {"role": "assistant", "content": "Plotted."},
        {"role": "user", "content": "And the weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "2", "content": '{"temperature": 22}'},
        {"role": "assistant", "content": "22 degrees."},
    ]
    text = of_internlm2(said, tools=TOOLS, add_generation_prompt=False)
    start, end = text.index("[UNUSED_TOKEN_146]system name=[UNUSED_TOKEN_142]"), text.index("[UNUSED_TOKEN_146]user")
    assert text[:start] == "[UNUSED_TOKEN_146]system\nS[UNUSED_TOKEN_145]\n"
    # The interpreter comes first, then the functions.
    assert text[start:end].count("[UNUSED_TOKEN_146]system name=[UNUSED_TOKEN_141]\n[\n    {\n") == 1
    assert text[end:] == (
        "[UNUSED_TOKEN_146]user\nPlot it.[UNUSED_TOKEN_145]\n"
        '[UNUSED_TOKEN_146]user name=file\n[{"path": "data.csv", "size": "10K"}][UNUSED_TOKEN_145]\n'
        "[UNUSED_TOKEN_146]assistant\nHere:\n[UNUSED_TOKEN_144][UNUSED_TOKEN_142]\n"
        "```python\nprint(1)\n```[UNUSED_TOKEN_143]\n[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]environment name=[UNUSED_TOKEN_142]\n![image](x.png)[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]assistant\nPlotted.[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]user\nAnd the weather?[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]assistant\nI look.[UNUSED_TOKEN_144][UNUSED_TOKEN_141]\n"
        '{"name": "weather", "parameters": {"city": "Oslo"}}[UNUSED_TOKEN_143][UNUSED_TOKEN_145]\n'
        '[UNUSED_TOKEN_146]environment name=[UNUSED_TOKEN_141]\n{"temperature": 22}[UNUSED_TOKEN_145]\n'
        "[UNUSED_TOKEN_146]assistant\n22 degrees.[UNUSED_TOKEN_145]\n"
    )


def test_internlm2_writes_the_documents_own_lists_as_they_are():
    # The document's lists have trailing commas and single quotes, so they are no JSON.
    tools, file = '[\n    {\n        "name": "f",\n    }\n]\n', "[{\"path\": \"data.csv\", size='10K'}]"
    said = [
        {"role": "system", "name": "plugin", "content": tools},
        {"role": "user", "content": "Q\n"},
        {"role": "user", "name": "file", "content": file},
    ]
    assert of_internlm2(said, add_generation_prompt=False) == (
        f"[UNUSED_TOKEN_146]system name=[UNUSED_TOKEN_141]\n{tools}[UNUSED_TOKEN_145]\n"
        "[UNUSED_TOKEN_146]user\nQ\n[UNUSED_TOKEN_145]\n"
        f"[UNUSED_TOKEN_146]user name=file\n{file}[UNUSED_TOKEN_145]\n"
    )


# ChatGLM3


def of_chatglm3(said, **more):
    prompt = rolecall.load("chatglm3", bos="none").prompt(said, **more)
    # Role tokens are control tokens, and a role's name in a message is not.
    controls = [one["text"] for one in prompt.segments() if one["origin"] == "control"]
    assert all(one in ROLES for one in controls)
    return prompt.text


ROLES = {"<|system|>": 64794, "<|user|>": 64795, "<|assistant|>": 64796, "<|observation|>": 64797}


@pytest.mark.parametrize("token", ROLES)
def test_chatglm3_has_the_role(token):
    (control,) = (one for one in rolecall.Format("chatglm3").controls if one["text"] == token)
    assert control["id"] == ROLES[token]


def test_chatglm3_prints_a_chat_of_several_turns():
    # The document adds a line break before each role token, which only helps its readers.
    said = messages(SYSTEM, ASKED, ANSWERED, *AGAIN)
    assert of_chatglm3(said, add_generation_prompt=False) == (
        "<|system|>\nS<|user|>\nQ<|assistant|>\nA<|user|>\nR<|assistant|>\nB"
    )


def test_chatglm3_prints_rounds_of_the_interpreter():
    def ran(text, result):
        code = {"type": "code_interpreter", "code_interpreter": {"input": "x"}}
        return [
            {"role": "assistant", "content": text, "tool_calls": [code]},
            {"role": "observation", "content": f"```result\n{result}\n```"},
        ]

    said = [
        *messages(SYSTEM, ASKED), *ran("First.", "[1]"), *ran("Next.", "{2}"), *messages(ANSWERED, ("user", "Draw.")),
        *ran(None, "[Image]"), *messages(("assistant", "Drawn."), ("user", "Thanks")),
    ]
    code = "<|assistant|>interpreter\n```python\nx\n```<|observation|>\n```result\n"
    assert of_chatglm3(said) == (
        f"<|system|>\nS<|user|>\nQ<|assistant|>\nFirst.{code}[1]\n```<|assistant|>\nNext.{code}{{2}}\n```"
        f"<|assistant|>\nA<|user|>\nDraw.{code}[Image]\n```<|assistant|>\nDrawn.<|user|>\nThanks<|assistant|>"
    )


def test_chatglm3_writes_a_call_as_the_document_prints_it_as_metadata_and_content():
    said = [
        *messages(ASKED, ANSWERED),
        {"role": "assistant", "metadata": "weather", "content": '```python\ntool_call(city="Oslo")\n```'},
        {"role": "observation", "content": '{"temperature": 22}'},
        *messages(AGAIN[1]),
    ]
    assert of_chatglm3(said, add_generation_prompt=False) == (
        '<|user|>\nQ<|assistant|>\nA<|assistant|>weather\n```python\ntool_call(city="Oslo")\n```'
        '<|observation|>\n{"temperature": 22}<|assistant|>\nB'
    )
