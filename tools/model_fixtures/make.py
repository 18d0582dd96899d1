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
"""
import json
import math
import pathlib
import re
import sys
import tempfile

IDS = [(37 * i * i + 11 * i + 5) % 67 for i in range(26)]
POSITIONS = [0, 1, 6, 13, 19, 25]
CONTEXTS = {"phi3-longrope-short": 32}  # to load it with, where its own is not meant


def weights(name, shape, norms):
    """Multiples of 1/256 within a quarter of 0; norms are multiples of 1/64 within a quarter of `norms`."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    is_norm = len(shape) == 1 and name.endswith("weight")
    result = []
    for i in range(math.prod(shape)):
        x = (i * 2654435769 + seed) % 2**32
        x = (x ^ x >> 16) * 2146121005 % 2**32
        x = (x ^ x >> 15) * 2221713035 % 2**32
        k = (x >> 25) - 64
        result.append(norms + k // 4 / 64 if is_norm else k / 256)
    return result


def cases():
    """name -> (class, what its config says beside the sizes)"""
    base = {"vocab_size": 67, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
            "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

    def rope(kind, **more):
        return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0} | more}

    result = {}

    def add(name, class_name, **more):
        result[name] = (class_name, {**base, **more})

    llama = "LlamaForCausalLM"
    add("llama", llama, head_dim=14, intermediate_size=57, rms_norm_eps=1e-4)
    add("llama-biases", llama, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    add("llama-linear", llama, **rope("linear", factor=2.5))
    add("llama-dynamic", llama, **rope("dynamic", factor=3.0))
    add("llama-llama3", llama, num_attention_heads=2, num_key_value_heads=1, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=48))
    add("llama-yarn", llama, num_attention_heads=2, **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    add("llama-yarn-betas", llama, num_attention_heads=2, **rope(
        "yarn", rope_theta=100.0, factor=2.0, original_max_position_embeddings=48, beta_fast=4.0, beta_slow=0.5,
        attention_factor=1.3))
    add("llama-yarn-mscale", llama, num_attention_heads=2, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.3))
    add("mistral", "MistralForCausalLM", sliding_window=7)
    add("mistral-full", "MistralForCausalLM", sliding_window=None, head_dim=16)
    experts = {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24}
    add("mixtral", "MixtralForCausalLM", **experts)
    add("mixtral-window", "MixtralForCausalLM", sliding_window=9, **experts)
    add("granite", "GraniteForCausalLM", attention_multiplier=0.2, embedding_multiplier=6.0, residual_multiplier=0.3,
        logits_scaling=3.0, tie_word_embeddings=True)
    add("granite-biases", "GraniteForCausalLM", attention_bias=True, mlp_bias=True, attention_multiplier=0.25)
    add("smollm3", "SmolLM3ForCausalLM", num_hidden_layers=5, use_sliding_window=False)
    gpt2 = {"vocab_size": 67, "n_embd": 40, "n_layer": 2, "n_head": 4, "n_positions": 32, "bos_token_id": 1,
            "eos_token_id": 2}
    result["gpt2"] = ("GPT2LMHeadModel", gpt2)
    result["gpt2-untied"] = ("GPT2LMHeadModel", {**gpt2, "n_inner": 57, "tie_word_embeddings": False, "n_head": 5})
    neox = {**base, "hidden_size": 48, "num_attention_heads": 3}
    neox.pop("num_key_value_heads")
    result["gptneox"] = ("GPTNeoXForCausalLM", neox)
    result["gptneox-serial"] = ("GPTNeoXForCausalLM", {
        **neox, "use_parallel_residual": False, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.0, "partial_rotary_factor": 0.5}})
    result["gptneox-tanh"] = ("GPTNeoXForCausalLM", {**neox, "hidden_act": "gelu_new"})
    add("qwen2", "Qwen2ForCausalLM")
    add("qwen2-tied-yarn", "Qwen2ForCausalLM", tie_word_embeddings=True, num_attention_heads=2,
        **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    add("qwen3", "Qwen3ForCausalLM", head_dim=18)
    add("qwen3-tied", "Qwen3ForCausalLM", head_dim=10, tie_word_embeddings=True)
    experts = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "decoder_sparse_step": 1}
    add("qwen2moe", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=28, norm_topk_prob=False, **experts)
    add("qwen3moe", "Qwen3MoeForCausalLM", head_dim=12, norm_topk_prob=True, **experts)
    add("phi2", "PhiForCausalLM", partial_rotary_factor=0.4)
    add("phi2-linear", "PhiForCausalLM", num_key_value_heads=4, partial_rotary_factor=0.6, **rope("linear", factor=2.0))
    add("phi3", "Phi3ForCausalLM", sliding_window=None)
    add("phi3-window", "Phi3ForCausalLM", sliding_window=7, tie_word_embeddings=True)
    factors = {"long_factor": [1.0, 1.3, 2.0, 4.5, 7.0], "short_factor": [1.0, 1.05, 1.1, 1.2, 1.4]}
    # Long factors from the first token beyond 16 on; of the short ones, 26 tokens are within 32.
    add("phi3-longrope", "Phi3ForCausalLM", sliding_window=None, original_max_position_embeddings=16,
        **rope("longrope", **factors))
    add("phi3-longrope-short", "Phi3ForCausalLM", sliding_window=None, original_max_position_embeddings=32,
        **rope("longrope", **factors))
    add("phi3-partial", "Phi3ForCausalLM", sliding_window=None, original_max_position_embeddings=16,
        num_attention_heads=2, **rope("longrope", partial_rotary_factor=0.5, **factors))
    gemma = {"head_dim": 12, "query_pre_attn_scalar": 12, "tie_word_embeddings": True}
    add("gemma2", "Gemma2ForCausalLM", num_hidden_layers=3, sliding_window=5, attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0, **gemma)
    add("gemma2-uncapped", "Gemma2ForCausalLM", sliding_window=9, attn_logit_softcapping=None,
        final_logit_softcapping=None, **gemma)
    add("gemma3", "Gemma3ForCausalLM", num_hidden_layers=7, sliding_window=6, **gemma)
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    ropes = {"sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
             "full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0}}
    add("gemma3-linear", "Gemma3ForCausalLM", num_hidden_layers=4, sliding_window=6, layer_types=types,
        rope_parameters=ropes, final_logit_softcapping=2.0, **gemma)
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
              "image_size": 16, "patch_size": 8}
    result["gemma3-images"] = ("Gemma3ForConditionalGeneration", {
        "text_config": {**base, "sliding_window": 6, "model_type": "gemma3_text", **gemma}, "vision_config": vision,
        "mm_tokens_per_image": 4, "tie_word_embeddings": True, "image_token_index": 66, "boi_token_index": 65,
        "eoi_token_index": 64})
    add("olmo2", "Olmo2ForCausalLM")
    add("olmo2-yarn", "Olmo2ForCausalLM", num_attention_heads=2, tie_word_embeddings=True,
        **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    return result


def pattern(name):
    if "vision" in name:  # as it is: it is not read
        return name
    name = re.sub(r"(layers|h)\.\d+\.", r"\1.*.", name, count=1)
    return re.sub(r"experts\.\d+\.", "experts.?.", name)


def tensors(fixture):
    """The names and shapes in the file of a fixture."""
    for name, shape in fixture["tensors"].items():
        for layer in range(fixture["layers"] if "*" in name else 1):
            for expert in range(fixture["experts"] if "?" in name else 1):
                yield name.replace("*", str(layer)).replace("?", str(expert)), shape


def make(name, class_name, options):
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    kind = getattr(transformers, class_name)
    with tempfile.TemporaryDirectory() as folder:
        config = kind.config_class(**options)
        config._attn_implementation = "eager"
        kind(config).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        norms = 0 if class_name.startswith("Gemma") else 1
        shapes = {key: list(tensor.shape) for key, tensor in load_file(file).items()}
        save_file({key: torch.tensor(weights(key, shape, norms)).reshape(shape) for key, shape in shapes.items()}, file,
                  {"format": "pt"})
        model, report = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                             output_loading_info=True)
        assert not any(report.values()), report
        with torch.no_grad():
            logits = model.eval()(torch.tensor([IDS])).logits[0]
        saved = json.loads((pathlib.Path(folder) / "config.json").read_text())
    patterns = {}
    for tensor, shape in sorted(shapes.items()):
        assert patterns.setdefault(pattern(tensor), shape) == shape, tensor
    text = saved.get("text_config", saved)
    return {"config": saved, "layers": text.get("num_hidden_layers", text.get("n_layer")),
            "experts": len({found[1] for tensor in shapes if (found := re.search(r"experts\.(\d+)\.", tensor))}),
            "context": CONTEXTS.get(name, 0), "norms": norms, "tensors": patterns, "ids": IDS, "positions": POSITIONS,
            "logits": [[float(f"{value:.7g}") for value in logits[at].tolist()] for at in POSITIONS]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    chosen = cases()
    for name in sys.argv[2:] or chosen:
        fixture = make(name, *chosen[name])
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in fixture.items()]
        (folder / (name + ".json")).write_text("{" + ",\n".join(lines) + "}\n")
        spread = [max(row) - min(row) for row in fixture["logits"]]
        print(f"{name}: {len(fixture['tensors'])} tensors, logits range over {min(spread):.3g} to {max(spread):.3g}")


if __name__ == "__main__":
    main()
