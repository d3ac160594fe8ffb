"""Jinja templates that write what LMFlow's presets of the same names write.

They were written from the texts that those presets give, one for each family: what differs inside a family is filled
in. The texts between ``{% generation %}`` and ``{% endgeneration %}`` carry loss, as they do in LMFlow.
"""

from __future__ import annotations

# --- Qwen: ChatML, with tools in the first message -------------------------------------------------

_QWEN_TOOLS = r"""
    {{- "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with " }}
    {{- "function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " }}
    {{- "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": " }}
    {{- "<args-json-object>}\n</tool_call><|im_end|>\n" }}"""

_QWEN_OTHERS = r"""
    {%- elif message.role == "tool" %}
        {%- if loop.first or loop.previtem.role != "tool" %}{{- "<|im_start|>user" }}{%- endif %}
        {{- "\n<tool_response>\n" }}{{- message.content }}{{- "\n</tool_response>" }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- "<|im_end|>\n" }}{%- endif %}
    {%- elif message.role == "user" or message.role == "system" and not loop.first %}
        {{- "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n" }}
    {%- endif %}
{%- endfor %}"""

_QWEN2_5 = (
    r"""
{%- set system = messages[0].content if messages[0].role == "system" else "SYSTEM" %}
{%- if tools %}
    {{- "<|im_start|>system\n" }}{{- system }}{{- "\n\n" }}"""
    + _QWEN_TOOLS
    + r"""
{%- else %}
    {{- "<|im_start|>system\n" + system + "<|im_end|>\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- "<|im_start|>assistant" }}
        {%- if message.content %}{% generation %}{{- "\n" + message.content }}{% endgeneration %}{%- endif %}
        {%- for call in message.tool_calls %}
            {%- set call = call.function if call.function is defined else call %}
            {%- generation %}
                {{- "\n<tool_call>\n{\"name\": \"" }}{{- call.name }}{{- "\", \"arguments\": " }}
                {{- call.arguments | tojson }}{{- "}\n</tool_call>" }}
            {%- endgeneration %}
        {%- endfor %}
        {%- generation %}{{- "<|im_end|>\n" }}{% endgeneration %}
    {%- elif message.role == "assistant" %}
        {{- "<|im_start|>assistant\n" }}
        {%- generation %}{{- message.content + "<|im_end|>\n" }}{% endgeneration %}"""
    + _QWEN_OTHERS
    + r"""
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\n" }}{%- endif %}"""
)

# Only replies after the last question keep their reasoning.
_QWEN3 = (
    r"""
{%- if tools %}
    {{- "<|im_start|>system\n" }}
    {%- if messages[0].role == "system" %}{{- messages[0].content + "\n\n" }}{%- endif %}"""
    + _QWEN_TOOLS
    + r"""
{%- elif messages[0].role == "system" %}
    {{- "<|im_start|>system\n" + messages[0].content + "<|im_end|>\n" }}
{%- endif %}
{%- set asked = namespace(last=messages | length - 1, found=false) %}
{%- for message in messages | reverse %}
    {%- if not asked.found and message.role == "user" %}
        {%- if not (message.content.startswith("<tool_response>") and message.content.endswith("</tool_response>")) %}
            {%- set asked.last, asked.found = loop.revindex0, true %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {%- generation %}
            {%- set thoughts, said = "", message.content %}
            {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
                {%- set thoughts = message.reasoning_content %}
            {%- elif "</think>" in said %}
                {%- set parts = said.split("</think>") %}
                {%- set thoughts = parts[0].rstrip("\n").split("<think>")[-1].lstrip("\n") %}
                {%- set said = parts[-1].lstrip("\n") %}
            {%- endif %}
            {%- if loop.index0 > asked.last and (loop.last or thoughts) %}
                {{- "<|im_start|>assistant\n<think>\n" + thoughts.strip("\n") }}
                {{- "\n</think>\n\n" + said.lstrip("\n") }}
            {%- else %}
                {{- "<|im_start|>assistant\n" + said }}
            {%- endif %}
            {%- for call in message.tool_calls or [] %}
                {%- if said or not loop.first %}{{- "\n" }}{%- endif %}
                {%- set call = call.function or call %}
                {{- "<tool_call>\n{\"name\": \"" }}{{- call.name }}{{- "\", \"arguments\": " }}
                {{- call.arguments if call.arguments is string else call.arguments | tojson }}
                {{- "}\n</tool_call>" }}
            {%- endfor %}
            {{- "<|im_end|>\n" }}
        {%- endgeneration %}"""
    + _QWEN_OTHERS
    + r"""
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\n" }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- "<think>\n\n</think>\n\n" }}{%- endif %}
{%- endif %}"""
)

# --- Gemma 3: the system message begins the first turn ---------------------------------------------

_GEMMA3 = r"""
{%- macro said(content) %}
    {%- if content is string %}{{- content | trim }}
    {%- elif content is iterable %}
        {%- for part in content %}
            {%- if part.type == "image" %}{{- "<start_of_image>" }}
            {%- elif part.type == "text" %}{{- part.text | trim }}
            {%- endif %}
        {%- endfor %}
    {%- else %}{{- raise_exception("expected text or a list of parts as the content of a message") }}
    {%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- set system, turns = "", messages %}
{%- if messages[0].role == "system" %}
    {%- set first = messages[0].content %}
    {%- set system, turns = (first if first is string else first[0].text) + "\n\n", messages[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if (message.role == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("expected messages of the user and the assistant in turn") }}
    {%- endif %}
    {%- set role = "model" if message.role == "assistant" else message.role %}
    {{- "<start_of_turn>" + role + "\n" + (system if loop.first else "") }}
    {%- if message.role == "assistant" %}
        {#- LMFlow's copy writes a second line break after replies. #}
        {%- generation %}{{- said(message.content) }}{{- "<end_of_turn>\n\n" }}{% endgeneration %}
    {%- else %}
        {{- said(message.content) }}{{- "<end_of_turn>\n" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<start_of_turn>model\n" }}{%- endif %}"""

# --- DeepSeek: all system messages first ----------------------------------------------------------

_DEEPSEEK = r"""
{%- set state = namespace(system="", has_system=false, has_calls=false, has_results=false, after_results=false) %}
{%- for message in messages if message.role == "system" %}
    {%- set state.system = SYSTEM %}
    {%- set state.has_system = true %}
{%- endfor %}
{{- bos_token }}{{- state.system }}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {%- set state.after_results = false %}
        {{- "<｜User｜>" + message.content }}
    {%- elif message.role == "assistant" and HAS_CALLS %}
        {%- set state.after_results = false %}
        {%- for call in message.tool_calls %}
            {%- set text = "<｜tool▁call▁begin｜>" + call.type + "<｜tool▁sep｜>" + call.function.name + "\n```json\n"
                + call.function.arguments + "\n```<｜tool▁call▁end｜>" %}
            {%- if not state.has_calls %}
                {%- set state.has_calls = true %}
                {{- "SPACE<｜Assistant｜>SPACE" }}
                {%- generation %}{{- BEFORE_CALLS + "<｜tool▁calls▁begin｜>" + text + "SPACE" }}{% endgeneration %}
            {%- else %}
                {%- generation %}{{- "\n" + text + AFTER_CALL }}{% endgeneration %}
            {%- endif %}
        {%- endfor %}AFTER_CALLS
    {%- elif message.role == "assistant" and state.after_results %}
        {%- set state.after_results = false %}
        {{- "<｜tool▁outputs▁end｜>" }}
        {%- generation %}{{- message.content + "<｜end▁of▁sentence｜>" }}{% endgeneration %}
    {%- elif message.role == "assistant" %}
        {{- "<｜Assistant｜>" }}
        {%- generation %}{{- ANSWER + "<｜end▁of▁sentence｜>" }}{% endgeneration %}
    {%- elif message.role == "tool" %}
        {{- "BETWEEN" if state.has_results else "<｜tool▁outputs▁begin｜>" }}
        {{- "<｜tool▁output▁begin｜>" + message.content + "<｜tool▁output▁end｜>" }}
        {%- set state.after_results, state.has_results = true, true %}
    {%- endif %}
{%- endfor %}
{%- if state.after_results %}{{- "<｜tool▁outputs▁end｜>" }}
{%- elif add_generation_prompt %}{{- "<｜Assistant｜>OPENING" }}
{%- endif %}"""

_END_OF_CALLS = '"<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"'
_WITHOUT_REASONING = '(message.content.split("</think>") | last if "</think>" in message.content else message.content)'

_DEEPSEEK_V3 = {
    "SYSTEM": r'state.system + ("\n\n" if state.has_system else "") + message.content',
    "HAS_CALLS": "message.content is none",
    "SPACE": "",
    "BEFORE_CALLS": '""',
    # Calls after the first end the turn, each of them.
    "AFTER_CALLS": "",
    "AFTER_CALL": _END_OF_CALLS,
    "ANSWER": "message.content",
    "BETWEEN": r"\n",
    "OPENING": "",
}
_DEEPSEEK_R1_DISTILL = {
    **_DEEPSEEK_V3,
    "SYSTEM": "message.content",
    "ANSWER": _WITHOUT_REASONING,
    "OPENING": r"<think>\n",
}
_DEEPSEEK_R1 = {
    **_DEEPSEEK_V3,
    "HAS_CALLS": '"tool_calls" in message',
    # LMFlow's copy of this template is indented there, and the indentation is text.
    "SPACE": "    ",
    "BEFORE_CALLS": '"    " + (message.content if message.content is not none else "")',
    "AFTER_CALLS": "{% generation %}{{- " + _END_OF_CALLS + " }}{% endgeneration %}",
    "AFTER_CALL": '""',
    "ANSWER": _WITHOUT_REASONING,
    "BETWEEN": "",
}


def _filled(template: str, words: dict[str, str]) -> str:
    for word, text in words.items():
        template = template.replace(word, text)
    return template.removeprefix("\n")


TEMPLATES: dict[str, str] = {
    "deepseek_r1": _filled(_DEEPSEEK, _DEEPSEEK_R1),
    "deepseek_r1_distill": _filled(_DEEPSEEK, _DEEPSEEK_R1_DISTILL),
    "deepseek_v3": _filled(_DEEPSEEK, _DEEPSEEK_V3),
    "gemma3": _filled(_GEMMA3, {}),
    "qwen2_5": _filled(
        _QWEN2_5, {"SYSTEM": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."}
    ),
    "qwen2_5_1m": _filled(_QWEN2_5, {"SYSTEM": "You are a helpful assistant."}),
    "qwen2_5_math": _filled(
        _QWEN2_5, {"SYSTEM": r"Please reason step by step, and put your final answer within \\boxed{}."}
    ),
    "qwen3": _filled(_QWEN3, {}),
    "qwen_qwq": _filled(
        _QWEN2_5,
        {
            "SYSTEM": "You are a helpful and harmless assistant. You are Qwen developed by Alibaba. You should think "
            "step-by-step."
        },
    ),
}
"""The templates by LMFlow's names."""
