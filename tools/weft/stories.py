#!/usr/bin/env python3
"""Samples short stories from stories15M (MIT, a 15 M-parameter model in llama2.c's format), many at a time on a GPU.

    stories.py MODEL.bin TOKENIZER.bin OUT.txt --minutes 4

Each line of OUT.txt is a story as a JSON string. Kept are stories that end by themselves and read like one."""
import argparse
import json
import re
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F


def read_tokens(path, count):
    """The texts of the tokens: after the length of the longest, each has a score, a length and its bytes."""
    data, at, tokens = open(path, "rb").read(), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("<i", data, at + 4)
        tokens.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    if at != len(data):
        raise SystemExit(f"{path}: expected {count} tokens, found {len(data) - at} bytes more")
    return tokens


class Model:
    def __init__(self, path, device):
        data = open(path, "rb").read()
        self.width, hidden, self.layers, self.heads, kv_heads, vocabulary, self.context = struct.unpack_from("<7i", data)
        assert kv_heads == self.heads, "grouped heads are not needed for stories15M"
        self.vocabulary = abs(vocabulary)
        weights, at = np.frombuffer(data, np.float32, offset=28), 0

        def take(*shape):
            nonlocal at
            size = int(np.prod(shape))
            tensor = torch.from_numpy(weights[at : at + size].copy()).view(*shape).to(device)
            at += size
            return tensor

        n, w = self.layers, self.width
        self.embedding = take(self.vocabulary, w)
        self.attention_norm = take(n, w)
        self.q, self.k, self.v, self.o = (take(n, w, w) for _ in range(4))
        self.ffn_norm = take(n, w)
        self.gate, self.down, self.up = take(n, hidden, w), take(n, w, hidden), take(n, hidden, w)
        self.norm = take(w)
        for name in ("embedding", "q", "k", "v", "o", "gate", "down", "up"):
            setattr(self, name, getattr(self, name).half())
        head = w // self.heads
        frequency = 1.0 / 10000 ** (torch.arange(0, head, 2, device=device) / head)
        angle = torch.outer(torch.arange(self.context, device=device), frequency)
        self.cos, self.sin = angle.cos().half(), angle.sin().half()
        self.head = head

    @staticmethod
    def rms(x, weight):
        x = x.float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight).half()

    def rotate(self, x, position):
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = self.cos[position], self.sin[position]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def step(self, tokens, position, keys, values):
        x = self.embedding[tokens].float()
        batch = len(tokens)
        for i in range(self.layers):
            h = self.rms(x, self.attention_norm[i])
            q, k, v = (F.linear(h, w[i]).view(batch, self.heads, self.head) for w in (self.q, self.k, self.v))
            keys[i, :, :, position] = self.rotate(k, position)
            values[i, :, :, position] = v
            a = F.scaled_dot_product_attention(
                self.rotate(q, position).unsqueeze(2), keys[i, :, :, : position + 1], values[i, :, :, : position + 1])
            x = x + F.linear(a.reshape(batch, self.width), self.o[i])
            h = self.rms(x, self.ffn_norm[i])
            x = x + F.linear(F.silu(F.linear(h, self.gate[i])) * F.linear(h, self.up[i]), self.down[i])
        return F.linear(self.rms(x, self.norm), self.embedding)


def sample(logits, temperature, top_p, top_k=64):
    values, ids = logits.float().topk(top_k, dim=-1)
    shares = F.softmax(values / temperature, -1)
    before = shares.cumsum(-1) - shares
    shares = shares.masked_fill(before > top_p, 0)
    return ids.gather(1, torch.multinomial(shares, 1)).squeeze(1)


def readable(text):
    """A story that ended, has a few sentences, plain characters, and does not go round in circles."""
    if not 250 <= len(text) <= 1400 or not re.fullmatch(r"[A-Za-z0-9 .,!?'\"\n:;\-]+", text):
        return False
    if text[-1] not in ".!?\"" or text.count(" ") < 50 or text.count('"') % 2:
        return False
    words = text.lower().split()
    fours = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    return len(set(fours)) > 0.93 * len(fours)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model")
    arguments.add_argument("tokenizer")
    arguments.add_argument("out")
    arguments.add_argument("--minutes", type=float, default=4)
    arguments.add_argument("--batch", type=int, default=4096)
    arguments.add_argument("--temperature", type=float, default=0.9)
    arguments.add_argument("--top-p", type=float, default=0.95)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    device = "cuda"
    torch.manual_seed(options.seed)
    model = Model(options.model, device)
    texts = read_tokens(options.tokenizer, model.vocabulary)
    shape = (model.layers, options.batch, model.heads, model.context, model.head)
    keys, values = (torch.empty(shape, dtype=torch.half, device=device) for _ in range(2))
    end, made, seen = time.time() + 60 * options.minutes, 0, set()
    with open(options.out, "w") as out, torch.inference_mode():
        while time.time() < end:
            tokens = torch.full((options.batch,), 1, device=device)
            columns = []
            for position in range(model.context):
                tokens = sample(model.step(tokens, position, keys, values), options.temperature, options.top_p)
                columns.append(tokens)
            for row in torch.stack(columns, 1).tolist():
                made += 1
                stop = next((i for i, id in enumerate(row) if id in (1, 2)), None)
                if stop is None:
                    continue
                text = b"".join(texts[id] for id in row[:stop]).decode("utf-8", "replace").strip()
                text = text.replace("\u201c", '"').replace("\u201d", '"').replace("\u2019", "'")
                if readable(text) and text[:120] not in seen:
                    seen.add(text[:120])
                    out.write(json.dumps(text) + "\n")
    print(f"{made} sampled, {len(seen)} kept")


main()
