"""Compares `rolecall.hf.apply_chat_template` with transformers' own method: 1,000 conversations to ids and loss mask.

    taskset -c 0 python benches/python/masks.py path/to/model

`path/to/model` is the folder of a fast tokenizer whose turns are ChatML's, such as Qwen3's. The peers are transformers
with a template that has `{% generation %}` tags, and transformers without tags, where each turn's beginning is rendered
and encoded again to find where the reply starts and ends. All give the same ids and masks, which is checked. Each
contestant runs once to warm up, then all run in turn; the medians are compared.
"""

import statistics
import sys
import time

import transformers

import rolecall
import rolecall.hf

COUNT, ROUNDS = 1000, 5
HEAD = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
TAIL = "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
PLAIN = HEAD + "{{ m.content + '<|im_end|>' }}" + TAIL
TAGGED = (
    HEAD + "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}" + TAIL
)


def conversations():
    """Conversations of 3 to 8 exchanges. No two have the same text."""
    made = []
    for number in range(COUNT):
        messages = [{"role": "system", "content": f"You are assistant {number}. Answer briefly and correctly."}]
        for turn in range(3 + number % 6):
            question = f"Question {turn} of customer {number * 7919 % 10007}: what does item {number + turn} cost, "
            answer = f"Item {number + turn} costs {number * 31 % 977} euros. "
            messages.append({"role": "user", "content": question + "and when does it arrive in Köln? " * (1 + turn % 3)})
            messages.append({"role": "assistant", "content": answer + "It arrives within three working days. " * 4})
        made.append(messages)
    return made


def per_turn(tokenizer, chats):
    """Ids and masks without tags: the beginning of a conversation, with and without each reply."""
    all_ids, all_masks = [], []
    for messages in chats:
        ids = tokenizer.apply_chat_template(messages, return_dict=False)
        mask = [0] * len(ids)
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                before = tokenizer.apply_chat_template(messages[:at], add_generation_prompt=True, return_dict=False)
                after = tokenizer.apply_chat_template(messages[: at + 1], return_dict=False)
                # The line break after the stop token is not the model's.
                end = len(after) - 1
                mask[len(before) : end] = [1] * (end - len(before))
        all_ids.append(ids)
        all_masks.append(mask)
    return all_ids, all_masks


def main(folder):
    own, peer = (transformers.PreTrainedTokenizerFast.from_pretrained(folder) for _ in range(2))
    chats = conversations()

    def masks(apply, template):
        def run():
            out = apply(chats, chat_template=template, return_assistant_tokens_mask=True)
            return out["input_ids"], out["assistant_masks"]

        return run

    def ours(chats, **arguments):
        return rolecall.hf.apply_chat_template(own, chats, **arguments)

    peer.chat_template = PLAIN
    contestants = {
        "rolecall.hf, template without tags": masks(ours, PLAIN),
        "rolecall.hf, tagged template": masks(ours, TAGGED),
        "transformers, tagged template": masks(peer.apply_chat_template, TAGGED),
        "transformers, each turn rendered again": lambda: per_turn(peer, chats),
    }
    results = {name: run() for name, run in contestants.items()}
    first = next(iter(results.values()))
    assert all(result == first for result in results.values()), "the contestants disagree"
    seconds = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    print(f"{COUNT} conversations, {sum(map(len, first[0]))} tokens; transformers {transformers.__version__}")
    for name, median in medians.items():
        print(f"{median * 1000:9.1f} ms  {name}")
    plain, tagged, reference, again = medians.values()
    print(f"tagged template: {reference / tagged:.1f} times as fast as transformers")
    print(f"without tags: {again / plain:.1f} times as fast as transformers with each turn rendered again")


if __name__ == "__main__":
    main(sys.argv[1])
