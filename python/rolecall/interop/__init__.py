"""The names that users of other frameworks call, on this engine.

- :mod:`rolecall.interop.lmdeploy`: ``MODELS``, ``ChatTemplateConfig``, ``best_match_model``
- :mod:`rolecall.interop.xtuner`: ``PROMPT_TEMPLATE``, ``template_map_fn``, ``openai_map_fn``, ``encode_fn``
- :mod:`rolecall.interop.lmflow`: ``PRESET_TEMPLATES``, ``ConversationTemplate``, ``conversation_tokenize_function``

Each module renders as its framework does, with the differences that COMPATIBILITY.md lists.
"""
