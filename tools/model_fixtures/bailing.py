"""BailingMoeV2 (Ling and Ring 2.0) in PyTorch, for transformers has no such class: the least that gives logits.

Written from the tensors and options of the published models and from what llama.cpp computes with them.
"""
import torch
from torch.nn.functional import linear, silu, softmax

DEFAULTS = {"hidden_act": "silu", "use_qkv_bias": False, "use_bias": False, "use_qk_norm": True, "use_rmsnorm": True,
            "norm_head": False, "score_function": "sigmoid", "moe_router_enable_expert_bias": True,
            "rms_norm_eps": 1e-6, "rope_theta": 600000.0, "rope_scaling": None, "norm_topk_prob": True,
            "model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"]}


def shapes(config):
    """name -> shape in the file"""
    hidden, head, inner = config["hidden_size"], config["head_dim"], config["moe_intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    result = {"model.word_embeddings.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        result["lm_head.weight"] = [config["vocab_size"], hidden]

    def add_gated(prefix, size):
        for name in ("gate_proj", "up_proj"):
            result[f"{prefix}.{name}.weight"] = [size, hidden]
        result[f"{prefix}.down_proj.weight"] = [hidden, size]

    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            result[layer + name + ".weight"] = [hidden]
        for name in ("query_layernorm", "key_layernorm"):
            result[layer + f"attention.{name}.weight"] = [head]
        result[layer + "attention.query_key_value.weight"] = [(heads + 2 * kv_heads) * head, hidden]
        result[layer + "attention.dense.weight"] = [hidden, heads * head]
        if i < config["first_k_dense_replace"]:
            add_gated(layer + "mlp", config["intermediate_size"])
            continue
        result[layer + "mlp.gate.weight"] = [config["num_experts"], hidden]
        result[layer + "mlp.gate.expert_bias"] = [config["num_experts"]]
        for expert in range(config["num_experts"]):
            add_gated(layer + f"mlp.experts.{expert}", inner)
        add_gated(layer + "mlp.shared_experts", config["num_shared_experts"] * inner)
    return result


def rotate(x, positions, config):
    """The first values of each head, those half of them apart."""
    size = int(config["head_dim"] * config["partial_rotary_factor"])
    angles = positions[:, None] * config["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    cos, sin = angles.cos(), angles.sin()
    first, second, rest = x[..., :size // 2], x[..., size // 2:size], x[..., size:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


def logits(config, weights, ids):
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    positions = torch.arange(len(ids), dtype=torch.float32)
    x = weights["model.word_embeddings.weight"][torch.tensor(ids)]

    def norm(name, values):
        return values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weights[name]

    def gated(prefix, values):
        gate, up, down = (weights[f"{prefix}.{name}_proj.weight"] for name in ("gate", "up", "down"))
        return linear(silu(linear(values, gate)) * linear(values, up), down)

    def attention(layer, values):
        qkv = linear(values, weights[layer + "attention.query_key_value.weight"]).view(len(ids), -1, head)
        q, k, v = qkv.transpose(0, 1).split([heads, kv_heads, kv_heads])
        q = rotate(norm(layer + "attention.query_layernorm.weight", q), positions, config)
        k = rotate(norm(layer + "attention.key_layernorm.weight", k), positions, config)
        k, v = (one.repeat_interleave(heads // kv_heads, dim=0) for one in (k, v))
        scores = q @ k.transpose(1, 2) / head ** 0.5
        scores = scores.masked_fill(positions[None, :] > positions[:, None], float("-inf"))
        seen = (softmax(scores, dim=-1) @ v).transpose(0, 1).reshape(len(ids), -1)
        return linear(seen, weights[layer + "attention.dense.weight"])

    def mixture(layer, values):
        scores = linear(values, weights[layer + "mlp.gate.weight"]).sigmoid()
        choice = scores + weights[layer + "mlp.gate.expert_bias"]
        groups = choice.view(len(ids), config["n_group"], -1)
        best = groups.topk(2, dim=-1)[0].sum(-1).topk(config["topk_group"], dim=-1)[1]
        shut = torch.ones(len(ids), config["n_group"], dtype=torch.bool).scatter(1, best, False)
        choice = groups.masked_fill(shut[:, :, None], float("-inf")).view(len(ids), -1)
        rows = []
        for row, value in enumerate(values):
            chosen = choice[row].topk(config["num_experts_per_tok"])[1].tolist()
            total = scores[row, chosen].sum() if config["norm_topk_prob"] else 1
            rows.append(sum(scores[row, one] / total * config["routed_scaling_factor"]
                            * gated(layer + f"mlp.experts.{one}", value) for one in chosen))
        return torch.stack(rows) + gated(layer + "mlp.shared_experts", values)

    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        x = x + attention(layer, norm(layer + "input_layernorm.weight", x))
        read = norm(layer + "post_attention_layernorm.weight", x)
        x = x + (gated(layer + "mlp", read) if i < config["first_k_dense_replace"] else mixture(layer, read))
    head_name = "model.word_embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return linear(norm("model.norm.weight", x), weights[head_name])
