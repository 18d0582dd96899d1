#!/usr/bin/env python3
"""What one machine with several H200 should give: a prediction, computed from what one H200 was measured to give.

tools/scale.py             prints the tables of docs/scale.md
tools/scale.py --check     exits with status 1 if docs/scale.md has other tables

Every rank computes its part of each product and of attention; after the output and the down projection the ranks sum the
residual, (rows, width) in f32. What is measured and what is assumed stands below; docs/scale.md says it in words.
"""
import pathlib
import sys

# --- measured: one H200, Llama-3.1-8B, Q4_K_M, after 512 tokens (docs/performance-log.md, 2026-11-16 and 17) ---------------
# rows of a step: milliseconds of the step; of these in attention, and in half_rows (which prepares whole rows)
STEPS = {1: (1000 / 692, 32 * 4e-3, 0.0), 8: (8 / 3.25, 0.24, 0.28), 32: (32 / 9.10, 0.76, 0.71), 64: (64 / 13.6, 1.34, 0.69),
         128: (128 / 16.0, 2.60, 1.12)}
PRODUCT_LATENCY = 8e-3    # ms of a layer that do not shrink with its weights: the starts and ends of four products
ATTENTION_LATENCY = 4e-3  # the same of its attention
PROMPT_ROWS = 2048
PROMPT = PROMPT_ROWS / 38.2  # ms
PROMPT_WHOLE = 0.21 / 1.87   # part of a layer of a prompt that every rank does for itself

# --- assumed: eight H200 with NVLink 4 through switches ---------------------------------------------------------------------
ONE_SHOT = 6e-3        # ms of a one-shot sum of few bytes: two signals through peer memory, and the launch
NVLINK = 400e6         # bytes per ms that a rank reads from its peers, of 450e6 on paper
NCCL = 25e-3           # ms of a sum by NCCL of few bytes
NCCL_BANDWIDTH = 360e6  # bytes per ms through each rank's links
GPU_MEMORY, WORKSPACE = 139 * 2**30, 4 * 2**30  # bytes; the latter is left for buffers

MEASURED = "Llama-3.1-8B"
# layers, width, heads, kv heads, values of a head, inner, vocabulary
MODELS = {MEASURED: (32, 4096, 32, 8, 128, 14336, 128256), "Llama-3.1-70B": (80, 8192, 64, 8, 128, 28672, 128256)}
LAYER_BITS, HEAD_BITS, EMBEDDING_BITS = 4.86, 6.56, 4.5  # of a weight: Q4_K with Q6_K for half of v and down; Q6_K; Q4_K


class Model:
    def __init__(self, name):
        self.layers, self.width, self.heads, self.kv_heads, self.head, self.inner, self.vocabulary = MODELS[name]
        width = self.width
        self.layer_weights = width * (self.heads + 2 * self.kv_heads) * self.head + self.heads * self.head * width + 3 * width * self.inner
        self.head_weights = width * self.vocabulary
        self.layer_bytes = self.layer_weights * LAYER_BITS / 8
        self.head_bytes = self.head_weights * HEAD_BITS / 8
        self.bytes = self.layers * self.layer_bytes + self.head_bytes + self.head_weights * EMBEDDING_BITS / 8
        self.kv_bytes = self.layers * 2 * self.kv_heads * self.head * 2  # of a token, f16


def sum_ms(rows, width, ranks):
    """Of one sum over the ranks: by whichever of the two is faster."""
    values = rows * width * 4
    one_shot = ONE_SHOT + values * (ranks - 1) / NVLINK
    ring = NCCL + 2 * (ranks - 1) / ranks * values / NCCL_BANDWIDTH
    return min(one_shot, ring) if ranks > 1 else 0


def step(name, ranks, rows):
    """Milliseconds of a step, and of these in sums."""
    measured, model = Model(MEASURED), Model(name)
    whole, attention, preparing = STEPS[rows]
    read = whole - attention - preparing - measured.layers * PRODUCT_LATENCY
    read /= measured.layers * measured.layer_bytes + measured.head_bytes  # ms for a byte of weights
    products = model.layers * PRODUCT_LATENCY + read * (model.layers * model.layer_bytes + model.head_bytes) / ranks
    attention -= measured.layers * ATTENTION_LATENCY
    attention *= model.kv_bytes / measured.kv_bytes / ranks
    attention += model.layers * ATTENTION_LATENCY
    preparing *= model.layers * model.width / (measured.layers * measured.width)
    sums = 2 * model.layers * sum_ms(rows, model.width, ranks)
    return products + attention + preparing + sums, sums


def prompt(name, ranks):
    measured, model = Model(MEASURED), Model(name)
    each = PROMPT / (measured.layers * measured.layer_weights)  # ms for a weight of a layer
    ms = each * model.layers * model.layer_weights * (1 - PROMPT_WHOLE) / ranks
    ms += PROMPT * PROMPT_WHOLE * model.layers * model.width / (measured.layers * measured.width)
    sums = 2 * model.layers * sum_ms(PROMPT_ROWS, model.width, ranks)
    return ms + sums, sums


def number(value):
    return f"{value:.0f}" if value < 10_000 else f"{value / 1000:.1f} k"


def tables():
    lines = []
    for name in MODELS:
        model = Model(name)
        lines += [f"**{name}**, Q4_K_M, {model.bytes / 1e9:.1f} GB: tokens per second, and in brackets the part of a step in sums", "",
                  "| GPUs | " + " | ".join(f"{rows} stream{'s' * (rows > 1)}" for rows in STEPS) + f" | prompt of {PROMPT_ROWS} | KV cache, tokens |",
                  "|" + " --- |" * (len(STEPS) + 3)]
        for ranks in (1, 2, 4, 8):
            cells = []
            for rows, (ms, sums) in [(rows, step(name, ranks, rows)) for rows in STEPS] + [(PROMPT_ROWS, prompt(name, ranks))]:
                cells.append(number(rows / ms * 1000) + (f" ({100 * sums / ms:.0f} %)" if ranks > 1 else ""))
            tokens = (ranks * (GPU_MEMORY - WORKSPACE) - model.bytes) / model.kv_bytes
            lines.append(f"| {ranks} | " + " | ".join(cells) + f" | {tokens / 1e6:.1f} M |")
        lines.append("")
    lines += ["Bytes of each rank in one sum, and what the sum takes (microseconds on 2 / 4 / 8 GPUs):", "",
              "| rows | 8B | | 70B | |", "| --- | --- | --- | --- | --- |"]
    for rows in (*STEPS, PROMPT_ROWS):
        cells = []
        for name in MODELS:
            width = Model(name).width
            cells += [f"{rows * width * 4 / 1024:.0f} KB", " / ".join(f"{1000 * sum_ms(rows, width, ranks):.0f}" for ranks in (2, 4, 8))]
        lines.append(f"| {rows} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = tables()
    if sys.argv[1:] == ["--check"]:
        page = pathlib.Path(__file__).resolve().parent.parent / "docs" / "scale.md"
        if text not in page.read_text():
            sys.exit(f"{page} has other tables than tools/scale.py prints")
    else:
        print(text, end="")
