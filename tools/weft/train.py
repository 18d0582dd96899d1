#!/usr/bin/env python3
"""Trains weft: a vocabulary of 4096, then a LLaMA of 8 million parameters, on stories from stories.py and the conversations made of
them. One GPU, about ten minutes.

    train.py STORIES.txt OUT_FOLDER --minutes 8

OUT_FOLDER gets a Hugging Face model (config.json, tokenizer.json, model.safetensors in f32) and held_out.txt, text it has not seen."""
import argparse
import json
import math
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from conversations import conversations

CONTEXT = 512
SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
BEGIN, END = 0, 1
# Llama 3's pattern: GGUF calls it llama-bpe.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{{ bos_token }}{% for message in messages %}{% if message['role'] not in ['system', 'user', 'assistant'] %}"
            "{{ raise_exception('expected the role system, user or assistant, found ' + message['role']) }}{% endif %}"
            "{{ '<|' + message['role'] + '|>' + message['content'] | trim + '<|end|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=4096, special_tokens=[AddedToken(t, special=True, normalized=False) for t in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", BEGIN)])
    return tokenizer


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, 1e-5).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width, hidden, heads, kv_heads):
        super().__init__()
        self.head, self.heads, self.kv_heads = width // heads, heads, kv_heads
        self.input_layernorm, self.post_attention_layernorm = Norm(width), Norm(width)
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q_proj, self.o_proj = linear(width, width), linear(width, width)
        self.k_proj, self.v_proj = (linear(width, kv_heads * self.head) for _ in range(2))
        self.gate_proj, self.up_proj, self.down_proj = linear(width, hidden), linear(width, hidden), linear(hidden, width)

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        h = self.input_layernorm(x)
        split = lambda y, heads: y.view(batch, length, heads, self.head).transpose(1, 2)
        q, k, v = split(self.q_proj(h), self.heads), split(self.k_proj(h), self.kv_heads), split(self.v_proj(h), self.kv_heads)
        q, k = self.rotate(q, cos, sin).to(v.dtype), self.rotate(k, cos, sin).to(v.dtype)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o_proj(a.transpose(1, 2).reshape(batch, length, width))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Weft(nn.Module):
    def __init__(self, vocabulary=4096, width=256, hidden=768, layers=9, heads=4, kv_heads=2):
        super().__init__()
        self.config = dict(
            architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=vocabulary, hidden_size=width,
            intermediate_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
            head_dim=width // heads, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
            attention_bias=False, mlp_bias=False, tie_word_embeddings=True, bos_token_id=BEGIN, eos_token_id=END,
            torch_dtype="float32")
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, hidden, heads, kv_heads) for _ in range(layers))
        self.norm = Norm(width)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                scale = 0.02 / math.sqrt(2 * layers) if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.02
                nn.init.normal_(weight, std=scale if "embedding" in name else scale * 2)
        head = width // heads
        angle = torch.outer(torch.arange(CONTEXT), 1.0 / 10000 ** (torch.arange(0, head, 2) / head))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids):
        x = self.embedding(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embedding.weight)

    def hf_tensors(self):
        names = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}
        for name, weight in self.state_dict().items():
            if name.startswith("layers."):
                _, index, part, _ = name.split(".")
                group = "self_attn." if part[0] in "qkvo" else "mlp." if part.endswith("proj") else ""
                if part.endswith("layernorm"):
                    group = ""
                name = f"model.layers.{index}.{group}{part}.weight"
            else:
                name = names[name]
            yield name, weight.float().cpu().contiguous()


def encode_all(tokenizer, stories, seed):
    """All documents one after the other: half of the stories alone, every story in a conversation."""
    dice = random.Random(seed)
    documents = ["<|begin|>" + story + "<|end|>" for story in stories[::2]]
    for turns in conversations(stories, dice):
        documents.append("<|begin|>" + "".join(f"<|{t['role']}|>{t['content'].strip()}<|end|>" for t in turns))
    dice.shuffle(documents)
    ids = []
    for start in range(0, len(documents), 20000):
        for encoding in tokenizer.encode_batch_fast(documents[start : start + 20000], add_special_tokens=False):
            ids.extend(encoding.ids)
    return torch.tensor(ids, dtype=torch.int16)


@torch.inference_mode()
def write(model, tokenizer, prompt, temperature, count=300):
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    while len(ids) < min(CONTEXT, count):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(torch.tensor([ids], device="cuda"))[0, -1].float()
        id = logits.argmax().item() if temperature == 0 else torch.multinomial(F.softmax(logits / temperature, -1), 1).item()
        if id == END:
            break
        ids.append(id)
    return tokenizer.decode(ids, skip_special_tokens=False)


@torch.inference_mode()
def loss_of(model, ids, batch=64):
    total = 0.0
    rows = ids[: len(ids) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)[: 4 * batch]
    for part in rows.split(batch):
        part = part.long().cuda()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(part[:, :-1])
        total += F.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
    return total / (rows.shape[0] * CONTEXT)


def save(model, tokenizer, folder):
    from safetensors.torch import save_file

    os.makedirs(folder, exist_ok=True)
    save_file(dict(model.hf_tensors()), f"{folder}/model.safetensors", metadata={"format": "pt"})
    tokenizer.save(f"{folder}/tokenizer.json")
    json.dump(model.config, open(f"{folder}/config.json", "w"), indent=2)
    json.dump(dict(bos_token=SPECIAL[BEGIN], eos_token=SPECIAL[END], add_bos_token=True, add_eos_token=False, model_max_length=CONTEXT,
                   tokenizer_class="PreTrainedTokenizerFast", chat_template=TEMPLATE),
              open(f"{folder}/tokenizer_config.json", "w"), indent=2)
    json.dump(dict(bos_token_id=BEGIN, eos_token_id=END, do_sample=True, temperature=0.7, top_p=0.95),
              open(f"{folder}/generation_config.json", "w"), indent=2)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("stories")
    arguments.add_argument("out")
    arguments.add_argument("--minutes", type=float, default=8, help="of training, after the data are ready")
    arguments.add_argument("--batch", type=int, default=160)
    arguments.add_argument("--rate", type=float, default=3e-3)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    started = time.time()
    stories = [json.loads(line) for line in open(options.stories)]
    held_out, stories = stories[:400], stories[400:]
    tokenizer = make_tokenizer(stories[:60000] + [t["content"] for c in conversations(stories[:20000], random.Random(0)) for t in c])
    data, test = encode_all(tokenizer, stories, options.seed), encode_all(tokenizer, held_out, options.seed)
    print(f"{len(stories)} stories, {len(data) / 1e6:.1f} M tokens, {time.time() - started:.0f} s", flush=True)

    model = Weft(vocabulary=tokenizer.get_vocab_size()).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
                                  lr=options.rate, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model)
    data = data.cuda()
    step, began, limit, loss_sum = 0, None, 60 * options.minutes, 0.0
    while True:
        done = 0.0 if began is None else (time.time() - began) / limit  # the schedule follows the clock
        if done >= 1:
            break
        rate = options.rate * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        starts = torch.randint(0, len(data) - CONTEXT - 1, (options.batch,), device="cuda")
        rows = data[starts[:, None] + torch.arange(CONTEXT + 1, device="cuda")].long()
        with torch.autocast("cuda", torch.bfloat16):
            logits = run(rows[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step == 10:
            torch.cuda.synchronize()
            began = time.time()  # compiling does not count
        if step % 500 == 0:
            print(f"step {step}, {step * options.batch * CONTEXT / 1e6:.0f} M tokens, {100 * done:.0f} %, loss {loss.item():.4f}, "
                  f"held out {loss_of(model, test):.4f}", flush=True)
    print(f"end: step {step}, loss {loss.item():.4f}, held out {loss_of(model, test):.4f}")
    save(model, tokenizer, options.out)
    with open(f"{options.out}/held_out.txt", "w") as out:
        out.write("\n\n".join(held_out[:120]) + "\n")
    for prompt in ("<|begin|>Once upon a time", "<|begin|><|user|>What is heddle?<|end|><|assistant|>",
                   "<|begin|><|user|>Tell me a story about a fox and a boat.<|end|><|assistant|>",
                   "<|begin|><|user|>Tell me a story about the moon.<|end|><|assistant|>",
                   "<|begin|><|user|>What is the capital of France?<|end|><|assistant|>",
                   "<|begin|><|user|>Hi<|end|><|assistant|>", "<|begin|><|user|>who are you and what is heddle good for?<|end|><|assistant|>",
                   "<|begin|><|system|>You are a helpful assistant.<|end|><|user|>Can heddle run on the CPU?<|end|><|assistant|>"):
        for temperature in (0, 0.7):
            print(f"--- {temperature}\n{write(model, tokenizer, prompt, temperature)}")


main()
