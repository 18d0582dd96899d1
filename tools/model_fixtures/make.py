#!/usr/bin/env python3
"""Writes tests/model/fixtures: tiny models of every class that heddle reads, and the logits that transformers computes.

tools/model_fixtures/make.py FOLDER [NAME ...]     (needs transformers 5, PyTorch, safetensors)

A fixture is one JSON file without weights: these follow from the names of the tensors by `weights` below, which
tests/model/fixture.h says again in C++. Every weight is exact in f32, f16 and bf16.
  config     config.json as transformers saves it
  layers     how many; in the names of tensors, * stands for the number of the layer and ? for that of the expert
  tensors    the shapes in model.safetensors
  context    to load it with; 0: its own
  ids, positions, logits    what goes in, and what comes out at some positions
  greedy     of models with recurrent states, 40 ids that follow, each the most likely one; of Gemma 4 and 3n, 14
  guesses, next_logits      of models with a head for multi-token prediction, the first of `greedy`; and the logits of the
             head at the positions, and at those of the guesses, which it reads after its own results
"""
import json
import math
import pathlib
import re
import sys
import tempfile

import next_head
from cases import IDS, cases
from gemma_cases import SMALL_NORMS
from recurrent_cases import RECURRENT

POSITIONS = [0, 1, 6, 13, 19, 25]
# to load it with, where its own is not meant
CONTEXTS = {"mamba2": 96, "mamba2-groups": 96, "mamba2-limits": 96, "phi3-longrope-short": 32, "bloom": 64,
            "bloom-untied": 64, "bloom-five-heads": 64, "deepseek2-heads": 64}
PRECISE = {"gpt-oss-clamped"}  # in f64, where f32 is not enough
# The first shift of the ids to try: with one before it, a value lies between two of a q8 cache, and backends round it
# differently.
SHIFTS = {"dots1-groups": 3, "llama4-images-interleaved": 4, "minimax-m2": 3, "qwen3moe": 15}


def weights(name, shape, norms):
    """Multiples of 1/256 within a quarter of 0; norms and scales are multiples of 1/64 within a quarter of `norms`."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    is_norm = len(shape) == 1 and name.endswith(("weight", "scale", "layer_scalar"))
    result = []
    for i in range(math.prod(shape)):
        x = (i * 2654435769 + seed) % 2**32
        x = (x ^ x >> 16) * 2146121005 % 2**32
        x = (x ^ x >> 15) * 2221713035 % 2**32
        k = (x >> 25) - 64
        result.append(norms + k // 4 / 64 if is_norm else k / 256)
    return result


def patterns(shapes, layers):
    """The names with * and ? -> the shapes. What only some layers have keeps the number of its layer."""
    result, found = {}, {}
    for name in shapes:
        if "vision" not in name and "visual" not in name:  # those are not read
            found.setdefault(re.sub(r"\b(layers?|h|blocks)\.\d+\.", r"\1.*.", name, count=1), []).append(name)
    for name, shape in sorted(shapes.items()):
        every = re.sub(r"\b(layers?|h|blocks)\.\d+\.", r"\1.*.", name, count=1)
        if len(found.get(every, [])) == layers and len({tuple(shapes[one]) for one in found[every]}) == 1:
            name = every
        assert result.setdefault(re.sub(r"experts\.\d+\.", "experts.?.", name), shape) == shape, name
    return result


def tensors(fixture):
    """The names and shapes in the file of a fixture."""
    for name, shape in fixture["tensors"].items():
        for layer in range(fixture["layers"] if "*" in name else 1):
            for expert in range(fixture["experts"] if "?" in name else 1):
                yield name.replace("*", str(layer)).replace("?", str(expert)), shape


def in_transformers(class_name, options):
    """The class and options that compute what a class does that transformers does not have."""
    if class_name == "InternLM2ForCausalLM":
        return "LlamaForCausalLM", options
    if class_name == "MiniCPMForCausalLM":
        own = ("scale_emb", "dim_model_base", "scale_depth")
        ours = {key: value for key, value in options.items() if key not in own}
        head = options["hidden_size"] // options["num_attention_heads"]
        return "GraniteForCausalLM", {
            **ours, "embedding_multiplier": options["scale_emb"], "attention_multiplier": head ** -0.5,
            "residual_multiplier": options["scale_depth"] / options["num_hidden_layers"] ** 0.5,
            "logits_scaling": options["hidden_size"] / options["dim_model_base"]}
    return class_name, options


INTERNLM2 = {"model.tok_embeddings": "model.embed_tokens", "attention.wo": "self_attn.o_proj",
             "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "feed_forward.w1": "mlp.gate_proj", "feed_forward.w3": "mlp.up_proj", "feed_forward.w2": "mlp.down_proj"}


def as_internlm2(shapes, options):
    """The shapes of Llama's tensors under InternLM 2's names."""
    result = {}
    for name, shape in shapes.items():
        for theirs, llamas in INTERNLM2.items():
            name = name.replace(llamas + ".", theirs + ".")
        name = name.replace("lm_head.", "output.")
        if "q_proj" in name:
            heads = options["num_attention_heads"]
            rows = shape[0] // heads * (heads + 2 * options["num_key_value_heads"])
            result[name.replace("self_attn.q_proj", "attention.wqkv")] = [rows, shape[1]]
        elif "k_proj" not in name and "v_proj" not in name:
            result[name] = shape
    return result


def as_llama(tensors, options):
    """InternLM 2's weights under Llama's names."""
    result = {}
    groups = options["num_key_value_heads"]
    queries = options["num_attention_heads"] // groups
    for name, value in tensors.items():
        for theirs, llamas in INTERNLM2.items():
            name = name.replace(theirs + ".", llamas + ".")
        name = name.replace("output.", "lm_head.") if name.startswith("output.") else name
        if "wqkv" not in name:
            result[name] = value
            continue
        width = value.shape[1]
        parts = value.reshape(groups, queries + 2, -1, width)
        for part, rows in (("q", parts[:, :queries]), ("k", parts[:, queries]), ("v", parts[:, queries + 1])):
            result[name.replace("attention.wqkv", f"self_attn.{part}_proj")] = rows.reshape(-1, width).contiguous()
    return result


def rotate_windows_unscaled(model):
    """OLMo 3 was trained with YaRN in the layers without a window only, as llama.cpp and transformers 4 have it."""
    import copy
    config = copy.deepcopy(model.config)
    config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
    plain = type(model.model.rotary_emb)(config=config)

    def unscaled(layer, args, values):
        return args, {**values, "position_embeddings": plain(args[0], values["position_ids"])}

    for layer, kind in zip(model.model.layers, model.config.layer_types):
        if kind == "sliding_attention":
            layer.register_forward_pre_hook(unscaled, with_kwargs=True)


def norm_each_group(model):
    """Mamba-2 was trained with gated norms over each group, as mamba_ssm and llama.cpp have it."""
    from transformers.models.nemotron_h.modeling_nemotron_h import Zamba2RMSNormGated
    for layer in model.modules():
        if hasattr(layer, "n_groups") and hasattr(layer, "A_log"):
            grouped = Zamba2RMSNormGated(layer.intermediate_size, layer.intermediate_size // layer.n_groups,
                                         layer.norm.variance_epsilon)
            grouped.weight = layer.norm.weight
            layer.norm = grouped


def most_likely(logits_of, ids, count):
    """The ids that follow, and by how much the closest of them was chosen."""
    import torch
    found, closest = [], math.inf
    with torch.no_grad():
        while len(found) < count:
            best = logits_of(ids + found)[-1].topk(2)
            closest = min(closest, float(best.values[0] - best.values[1]))
            found.append(int(best.indices[0]))
    return found, closest


def choose_ids(name, logits_of):
    """Ids with which no expert is chosen by a hair, so that one that rounds chooses the same; and their logits."""
    import torch
    closest, functions = [], (torch.topk, torch.Tensor.topk)

    def topk(values, k, dim=-1, **more):
        if values.shape[dim] > k:
            best = functions[0](values, k + 1, dim=dim)[0].movedim(dim, -1)
            gaps = best[..., -2] - best[..., -1]
            closest.extend(gaps[gaps.isfinite()].flatten().tolist())
        return functions[0](values, k, dim=dim, **more)

    tried = []
    torch.topk = torch.Tensor.topk = topk
    try:
        for shift in range(SHIFTS.get(name, 0), 67):
            closest.clear()
            ids = [(one + shift) % 67 for one in IDS]
            with torch.no_grad():
                logits = logits_of(ids)
            gap = min(closest, default=1)
            if gap > 0.004:
                return ids, logits
            tried.append((gap, ids, logits))
    finally:
        torch.topk, torch.Tensor.topk = functions
    return max(tried, key=lambda one: one[0])[1:]


def run_bailing(name, options):
    """As run() below."""
    import torch

    import bailing
    config = {**bailing.DEFAULTS, **options}
    shapes = bailing.shapes(config)
    tensors = {key: torch.tensor(weights(key, shape, 1)).reshape(shape) for key, shape in shapes.items()}
    return config, shapes, *choose_ids(name, lambda ids: bailing.logits(config, tensors, ids)), {}


def run(name, class_name, options, norms):
    """config.json, the shapes in the file, ids, the logits of all of them, and what else the fixture has"""
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
    DeepseekV2Moe.num_experts = property(lambda self: self.experts.num_experts)  # read by it, and missing in 5.12
    theirs, their_options = in_transformers(class_name, options)
    kind = getattr(transformers, theirs)
    with tempfile.TemporaryDirectory() as folder:
        config = kind.config_class(**their_options)
        config._attn_implementation = "eager"
        kind(config).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        shapes = {key: list(tensor.shape) for key, tensor in load_file(file).items()}
        if class_name == "InternLM2ForCausalLM":
            shapes = as_internlm2(shapes, options)
        predicts = name.endswith("-mtp")
        if predicts:
            shapes = {**shapes, **next_head.shapes_of(shapes, options["hidden_size"])}
        tensors = {key: torch.tensor(weights(key, shape, norms)).reshape(shape) for key, shape in shapes.items()}
        read = {key: tensor for key, tensor in tensors.items() if not key.startswith("mtp.")}
        save_file(as_llama(read, options) if class_name == "InternLM2ForCausalLM" else read, file, {"format": "pt"})
        eager = {"experts_implementation": "eager"} if name in PRECISE else {}  # others have no f64
        model, report = kind.from_pretrained(folder, dtype=torch.float64 if eager else torch.float32,
                                             attn_implementation="eager", output_loading_info=True, **eager)
        assert not any(report.values()), report
        if class_name == "Olmo3ForCausalLM":
            rotate_windows_unscaled(model)
        if class_name.startswith(("Mamba2", "GraniteMoeHybrid")):
            norm_each_group(model)
        model.eval()
        logits_of = lambda ids: model(torch.tensor([ids]), use_cache=False).logits[0]
        head = next_head.Head(model, tensors) if predicts else None

        def both(ids):  # the head's experts are not chosen by a hair either
            if head:
                head.logits(ids, [])
            return logits_of(ids)

        ids, logits = choose_ids(name, both)
        more = {}
        # Gemma's classes that see pictures read some ids as pictures.
        gemma = class_name.startswith(SMALL_NORMS) and class_name.endswith("ForCausalLM")
        if gemma or class_name.startswith(RECURRENT):
            more["greedy"], closest = most_likely(logits_of, ids, 14 if gemma else 40)
            assert closest > 1e-4, closest
        if head:
            more["guesses"] = more["greedy"][:3]
            with torch.no_grad():
                found = head.logits(ids, more["guesses"])
            more["next_logits"] = rounded(found, [*POSITIONS, *range(len(ids), len(found))])
        saved = json.loads((pathlib.Path(folder) / "config.json").read_text())
        if theirs != class_name:
            saved = {**options, "architectures": [class_name], "rms_norm_eps": saved["rms_norm_eps"]}
    return saved, shapes, ids, logits, more


def rounded(logits, rows):
    return [[float(f"{value:.7g}") for value in logits[row].tolist()] for row in rows]


def make(name, class_name, options):
    near_zero = ("Gemma", "NemotronFor", "Qwen3Next", "Qwen3_5")
    norms = 0.5 if class_name.startswith(SMALL_NORMS) else 0 if class_name.startswith(near_zero) else 1
    found = run_bailing(name, options) if "Bailing" in class_name else run(name, class_name, options, norms)
    saved, shapes, ids, logits, more = found
    text = saved.get("text_config", saved)
    kinds = text.get("layers_block_type")
    layers = len(kinds) if kinds else text.get("num_hidden_layers", text.get("n_layer", text.get("n_layers")))
    return {"config": saved, "layers": layers,
            "experts": len({found[1] for tensor in shapes if (found := re.search(r"experts\.(\d+)\.", tensor))}),
            "context": CONTEXTS.get(name, 0), "norms": norms, "tensors": patterns(shapes, layers), "ids": ids,
            "positions": POSITIONS,
            "logits": rounded(logits, POSITIONS), **more}


def write_fixtures(usage, chosen, make_one, show):
    """The program: FOLDER [NAME ...]. show(fixture): what is printed of one."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or chosen:
        fixture = make_one(name, *chosen[name])
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in fixture.items()]
        (folder / (name + ".json")).write_text("{" + ",\n".join(lines) + "}\n")
        print(name, show(fixture))


def spread(fixture):
    ranges = [max(row) - min(row) for row in fixture["logits"]]
    return f"{len(fixture['tensors'])} tensors, logits range over {min(ranges):.3g} to {max(ranges):.3g}"


if __name__ == "__main__":
    write_fixtures(__doc__, cases(), make, spread)
