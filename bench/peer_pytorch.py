#!/usr/bin/env python3
"""The speed of Llama-3.1-8B's shapes in plain PyTorch: bf16 weights, cuBLAS, SDPA, one CUDA graph per step.

    python3 bench/peer_pytorch.py

Prints tokens per second for prompts and for streams after 512 positions; docs/comparing.md says what to hold beside it.
Needs PyTorch 2.5 or later with CUDA and 32 GB of GPU memory. Weights are random: the time does not depend on them.
"""
import statistics

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY = 32, 4096, 32, 8, 128, 14336, 128256
DEPTH = 512  # positions before a stream's next token
SIZES = HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD


def bf16(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) / shape[-1] ** 0.5


def attention(qkv, cache):
    """Of a prompt to itself, or (with the keys and values so far) of one token per stream to all positions."""
    q, k, v = (part.unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in qkv.split(SIZES, -1))
    if cache is not None:
        cache[0][:, :, DEPTH:], cache[1][:, :, DEPTH:] = k, v
        k, v = cache
    return scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True).transpose(1, 2).flatten(2)


def forward(model, x, caches):
    for (qkv, out, gate_up, down), cache in zip(model["layers"], caches):
        x = x + linear(attention(linear(rms_norm(x, (WIDTH,)), qkv), cache), out)
        gate, up = linear(rms_norm(x, (WIDTH,)), gate_up).chunk(2, -1)
        x = x + linear(silu(gate) * up, down)
    return linear(rms_norm(x[:, -1], (WIDTH,)), model["head"]).argmax(-1)


def seconds(step, runs=20):
    """The median of some replays of a graph, each timed on the device."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # lets cuBLAS choose before the capture
        for _ in range(2):
            step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return statistics.median(times)


@torch.no_grad()
def main():
    torch.manual_seed(1)
    shapes = (sum(SIZES), WIDTH), (WIDTH, HEADS * HEAD), (2 * INNER, WIDTH), (WIDTH, INNER)
    model = {"layers": [[bf16(*shape) for shape in shapes] for _ in range(LAYERS)], "head": bf16(VOCABULARY, WIDTH)}
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, bf16")
    for length in 512, 2048, 8192:
        x = bf16(1, length, WIDTH)
        print(f"prompt {length}: {length / seconds(lambda: forward(model, x, [None] * LAYERS)):.0f} tok/s", flush=True)
    for streams in 1, 2, 4, 8, 16, 32, 64, 128:
        x = bf16(streams, 1, WIDTH)
        caches = None  # frees those before it
        caches = [[bf16(streams, KV_HEADS, DEPTH + 1, HEAD) for _ in "kv"] for _ in range(LAYERS)]
        rate = streams / seconds(lambda: forward(model, x, caches))
        print(f"{streams} streams after {DEPTH}: {rate:.0f} tok/s", flush=True)


if __name__ == "__main__":
    main()
