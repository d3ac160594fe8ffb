"""Plug-ins for serving engines.

With them, vLLM and SGLang read the calls and the reasoning of any model by the layouts that rolecall
infers from its chat template, so that no parser has to be written or chosen for a model family.

vLLM takes the name or the path of :mod:`rolecall.serving.vllm_plugin`::

    vllm serve MODEL --enable-auto-tool-choice \\
        --tool-parser-plugin rolecall.serving.vllm_plugin --tool-call-parser rolecall \\
        --reasoning-parser-plugin rolecall.serving.vllm_plugin --reasoning-parser rolecall

SGLang has no such flag; it loads :mod:`rolecall.serving.sglang_plugin` by the entry point of the
installed package::

    sglang serve --model-path MODEL --tool-call-parser rolecall --reasoning-parser rolecall

The model comes from the tokenizer that the engine passes. If the engine serves another chat template than
the tokenizer's, set ``ROLECALL_MODEL`` to what :func:`rolecall.load` should open: a folder, or the
template's path.

What was tested: the classes against the signatures of vLLM 0.33.0 and SGLang 0.5.23, with small stand-ins
for the engines' base classes, and streams that are cut at every place. Neither engine was run, because
both need a build of torch that was not available.
"""
