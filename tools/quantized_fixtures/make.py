#!/usr/bin/env python3
"""Writes tests/formats/hf/quantized/fixtures: a weight or two in every quantisation that folders have, and its values.

tools/quantized_fixtures/make.py FOLDER [NAME ...]     (needs PyTorch and safetensors)

Quants, scales and zero points are random; they are packed here as the methods' own libraries pack them, and the values
are computed from the unpacked ones. A fixture is a safetensors file with the tensors that a folder would have, and
  quantization_config   of config.json, as bytes
  expected.NAME         the values of the weight NAME, f32
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

LAYER = "model.layers.0."


def generator(name):
    return np.random.default_rng(list(name.encode()))


def scales_of(rng, *shape):
    return rng.uniform(0.001, 0.02, shape).astype(np.float16)


def stream(values, bits):
    """Rows of values as a stream of bits in words of 32, the first value in the lowest bits."""
    out = []
    for row in values:
        number = sum(int(v) << bits * i for i, v in enumerate(row))
        out.append([number >> 32 * i & 0xffffffff for i in range(len(row) * bits // 32)])
    return np.array(out, dtype=np.uint32).view(np.int32)


def integers(rng, rows, cols, group, bits, zero=None):
    """q (rows, cols), scale and zero point (rows, groups), and the values."""
    q = rng.integers(0, 2**bits, (rows, cols))
    s = scales_of(rng, rows, cols // group)
    z = rng.integers(0, 2**bits, s.shape) if zero is None else np.full(s.shape, zero)
    return q, s, z


def values(q, s, z, group_of):
    return ((q - z[:, group_of]).astype(np.float32) * s.astype(np.float32)[:, group_of]).astype(np.float32)


def awq(name, group, version="gemm", rows=32, cols=128):
    rng = generator(name)
    size = cols if group == -1 else group
    q, s, z = integers(rng, rows, cols, size, 4)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(matrix):  # (n, rows) -> (n, rows / 8)
        out = np.zeros((matrix.shape[0], rows // 8), dtype=np.uint32)
        for word in range(rows // 8):
            for i in range(8):
                out[:, word] |= matrix[:, word * 8 + order[i]].astype(np.uint32) << np.uint32(4 * i)
        return out.view(np.int32)

    base = LAYER + "mlp.up_proj."
    if version == "gemm":
        tensors = {"qweight": pack(q.T), "qzeros": pack(z.T), "scales": s.T}
    else:  # zero points and scales have room for a multiple of 8 groups, more for small ones
        multiple = {64: 2, 32: 4}.get(size, 1)
        words = -(-(-(-(cols // size) // 8)) // multiple) * multiple
        wide_z, wide_s = np.zeros((rows, words * 8), dtype=int), np.zeros((rows, words * 8), dtype=np.float16)
        wide_z[:, :z.shape[1]], wide_s[:, :s.shape[1]] = z, s
        tensors = {"qweight": stream(q, 4), "qzeros": stream(wide_z, 4), "scales": wide_s}
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": version, "zero_point": True}
    return config, {base + k: v for k, v in tensors.items()}, {
        base + "weight": values(q, s, z, np.arange(cols) // size)}


def gptq(name, bits, group, sym=False, desc_act=False, v2=False, rows=32, cols=128):
    rng = generator(name)
    size = cols if group == -1 else group
    q, s, z = integers(rng, rows, cols, size, bits, 2**(bits - 1) if sym else None)
    group_of = np.arange(cols) // size
    if desc_act:
        group_of = rng.permutation(group_of)
    base = LAYER + "self_attn.o_proj."
    stored = z if v2 else (z - 1) % 2**bits
    tensors = {base + "qweight": stream(q, bits).T, base + "qzeros": stream(stored.T, bits), base + "scales": s.T,
               base + "g_idx": group_of.astype(np.int32)}
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": desc_act, "sym": sym}
    if v2:
        config["checkpoint_format"] = "gptq_v2"
    return config, tensors, {base + "weight": values(q, s, z, group_of)}


def compressed_int(name, bits, group, sym, actorder=False, rows=24, cols=128):
    rng = generator(name)
    size = group or cols
    q, s, z = integers(rng, rows, cols, size, bits, 2**(bits - 1) if sym else None)
    group_of = np.arange(cols) // size
    base = LAYER + "mlp.down_proj."
    tensors = {base + "weight_packed": stream(q, bits), base + "weight_shape": np.array([rows, cols], dtype=np.int64),
               base + "weight_scale": torch.tensor(s.astype(np.float32)).to(torch.bfloat16)}
    s = tensors[base + "weight_scale"].to(torch.float32).numpy()
    if not sym:
        tensors[base + "weight_zero_point"] = stream(z.T, bits).T
    if actorder:
        group_of = rng.permutation(group_of)
        tensors[base + "weight_g_idx"] = group_of.astype(np.int32)
    weights = {"num_bits": bits, "type": "int", "symmetric": sym, "strategy": "group" if group else "channel",
               "group_size": group}
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized",
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
    return config, tensors, {base + "weight": values(q, s, z, group_of)}


def compressed_bytes(name, sym, rows=24, cols=64):
    rng = generator(name)
    q = rng.integers(-128, 128, (rows, cols)).astype(np.int8)
    s = rng.uniform(0.001, 0.02, (rows, 1)).astype(np.float32)
    z = np.zeros((rows, 1), dtype=np.int8) if sym else rng.integers(-100, 100, (rows, 1)).astype(np.int8)
    weight = LAYER + "mlp.down_proj.weight"
    tensors = {weight: q, weight + "_scale": s}
    if not sym:
        tensors[weight + "_zero_point"] = z
    config = {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {}}
    return config, tensors, {weight: (q.astype(np.int32) - z).astype(np.float32) * s}


def fp8(name, config, scale_shape, block, scale_name="_scale", dtype=torch.float32, rows=40, cols=96,
        kind=torch.float8_e4m3fn):
    """`block`: how many rows and columns share a scale."""
    rng = generator(name)
    w = torch.tensor(rng.normal(0, 60, (rows, cols)), dtype=torch.float32).clamp(-448, 448).to(kind)
    if dtype == torch.float8_e8m0fnu:
        s = torch.tensor(2.0 ** rng.integers(-12, -4, scale_shape), dtype=torch.float32).to(dtype)
    else:
        s = torch.tensor(rng.uniform(0.0001, 0.002, scale_shape), dtype=torch.float32).to(dtype)
    weight = LAYER + "mlp.gate_proj.weight"
    tensors = {weight: w, weight + scale_name: s, LAYER + "mlp.gate_proj.input_scale": torch.tensor(0.25)}
    wide = s.to(torch.float32).reshape(-1, s.shape[-1] if s.dim() == 2 else 1)
    wide = wide.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :cols]
    return config, tensors, {weight: (w.to(torch.float32) * wide).numpy()}


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = [v / 12 for v in [0, 0.0625, 8, 12, 4, 6, 2, 3, 0, -0.0625, -8, -12, -4, -6, -2, -3]]


def bitsandbytes(name, kind, nested, rows=20, cols=96):
    rng = generator(name)
    size, nested_size = 64, 16
    q = rng.integers(0, 16, rows * cols)
    blocks = rows * cols // size
    table = np.array(NF4 if kind == "nf4" else FP4, dtype=np.float32)
    weight = LAYER + "self_attn.v_proj.weight"
    tensors = {weight: (q[0::2] << 4 | q[1::2]).astype(np.uint8).reshape(-1, 1), weight + ".quant_map": table}
    state = {"quant_type": kind, "blocksize": size, "dtype": "bfloat16", "shape": [rows, cols]}
    if nested:
        table2 = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
        codes = rng.integers(0, 256, blocks).astype(np.uint8)
        outer = rng.uniform(0.01, 0.05, -(-blocks // nested_size)).astype(np.float32)
        offset = np.float32(0.0625)
        scales = table2[codes] * outer[np.arange(blocks) // nested_size] + offset
        tensors |= {weight + ".absmax": codes, weight + ".nested_absmax": outer, weight + ".nested_quant_map": table2}
        state |= {"nested_blocksize": nested_size, "nested_dtype": "float32", "nested_offset": float(offset)}
    else:
        scales = rng.uniform(0.01, 0.1, blocks).astype(np.float32)
        tensors[weight + ".absmax"] = scales
    tensors[weight + ".quant_state.bitsandbytes__" + kind] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
              "bnb_4bit_use_double_quant": nested}
    expected = (table[q] * scales[np.arange(rows * cols) // size]).astype(np.float32)
    return config, tensors, {weight: expected.reshape(rows, cols)}


def bitsandbytes8(name, rows=24, cols=64):
    rng = generator(name)
    base = LAYER + "self_attn.v_proj."
    q = rng.integers(-127, 128, (rows, cols)).astype(np.int8)
    scb = rng.uniform(0.02, 0.3, rows).astype(np.float32)
    tensors = {base + "weight": q, base + "SCB": scb, base + "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return {"load_in_8bit": True}, tensors, {
        base + "weight": q.astype(np.float32) * (scb / np.float32(127))[:, None]}


def mxfp4(name, experts=2, hidden=64, inner=32):
    rng = generator(name)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
    folder = LAYER + "mlp.experts."
    tensors, expected = {}, {}
    for part, rows, cols in [("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)]:
        q = rng.integers(0, 16, (experts, rows, cols))
        e = rng.integers(115, 125, (experts, rows, cols // 32))
        tensors[folder + part + "_blocks"] = (q[..., 0::2] | q[..., 1::2] << 4).astype(np.uint8).reshape(
            experts, rows, cols // 32, 16)
        tensors[folder + part + "_scales"] = e.astype(np.uint8)
        w = table[q] * np.repeat(np.exp2(e - 127.0), 32, axis=-1).astype(np.float32)
        if part == "down_proj":
            expected[folder + part] = w
        else:
            expected |= {folder + "gate_proj": w[:, 0::2], folder + "up_proj": w[:, 1::2]}
    return {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, tensors, expected


BLOCKS = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [16, 32]}
CHANNELS = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {}}
MORE_BLOCKS = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {
    "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [16, 32]}}}}
CASES = {
    "awq": lambda n: awq(n, 64),
    "awq-gemv": lambda n: awq(n, 32, "gemv"),
    "awq-whole-rows": lambda n: awq(n, -1),
    "awq-small-groups": lambda n: awq(n, 16),
    "gptq-2": lambda n: gptq(n, 2, 64),
    "gptq-3": lambda n: gptq(n, 3, 32),
    "gptq-4": lambda n: gptq(n, 4, 64),
    "gptq-4-sym": lambda n: gptq(n, 4, 32, sym=True),
    "gptq-4-desc-act": lambda n: gptq(n, 4, 32, desc_act=True),
    "gptq-4-v2": lambda n: gptq(n, 4, -1, v2=True),
    "gptq-8": lambda n: gptq(n, 8, 64),
    "gptq-8-sym": lambda n: gptq(n, 8, 64, sym=True),
    "compressed-int4": lambda n: compressed_int(n, 4, 32, True),
    "compressed-int4-zeros": lambda n: compressed_int(n, 4, 64, False),
    "compressed-int4-order": lambda n: compressed_int(n, 4, 32, True, actorder=True),
    "compressed-int8-packed": lambda n: compressed_int(n, 8, None, True),
    "compressed-int8": lambda n: compressed_bytes(n, True),
    "compressed-int8-zeros": lambda n: compressed_bytes(n, False),
    "compressed-fp8": lambda n: fp8(n, CHANNELS, (40, 1), (1, 96)),
    "compressed-fp8-blocks": lambda n: fp8(n, MORE_BLOCKS, (3, 3), (16, 32)),
    "fp8": lambda n: fp8(n, BLOCKS, (3, 3), (16, 32), "_scale_inv"),
    "fp8-e8m0": lambda n: fp8(n, BLOCKS, (3, 3), (16, 32), "_scale_inv", torch.float8_e8m0fnu),
    "fp8-e5m2": lambda n: fp8(n, BLOCKS | {"fmt": "e5m2"}, (3, 3), (16, 32), "_scale_inv", kind=torch.float8_e5m2),
    "fp8-tensor": lambda n: fp8(n, {"quant_method": "fp8", "weight_block_size": None}, (), (40, 96), "_scale_inv",
                                torch.bfloat16),
    "fp8-odd": lambda n: fp8(n, {"quant_method": "fbgemm_fp8"}, (40, 1), (1, 90), cols=90),
    "modelopt": lambda n: fp8(n, {"quant_method": "modelopt", "quant_algo": "FP8"}, (1,), (40, 96)),
    "nf4": lambda n: bitsandbytes(n, "nf4", False),
    "nf4-nested": lambda n: bitsandbytes(n, "nf4", True),
    "fp4": lambda n: bitsandbytes(n, "fp4", False),
    "bnb-int8": bitsandbytes8,
    "mxfp4": mxfp4,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        config, tensors, expected = CASES[name](name)
        every = {"quantization_config": np.frombuffer(json.dumps(config).encode(), dtype=np.uint8)}
        every |= tensors | {"expected." + k: v.astype(np.float32) for k, v in expected.items()}
        as_torch = lambda v: v if isinstance(v, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(v).copy())
        save_file({k: as_torch(v).contiguous() for k, v in every.items()}, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main()
