"""The fixtures of models with recurrent states: see cases.py."""

# The classes with recurrent states.
RECURRENT = ("Qwen3Next", "Qwen3_5", "GraniteMoeHybrid", "NemotronH", "FalconH1", "Mamba2", "Lfm2")


def add_recurrent(result, base, rope):
    """Classes with recurrent states."""
    def add(name, class_name, **more):
        result[name] = (class_name + "ForCausalLM", {**base, **more})

    def types(text, one="linear_attention", other="full_attention"):
        return {"num_hidden_layers": len(text), "layer_types": [other if c == "*" else one for c in text]}

    def heads(keys, values, key=16, value=16, width=4):
        return {"linear_num_key_heads": keys, "linear_num_value_heads": values, "linear_key_head_dim": key,
                "linear_value_head_dim": value, "linear_conv_kernel_dim": width}

    experts = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
               "shared_expert_intermediate_size": 28}
    add("qwen3next", "Qwen3Next", num_hidden_layers=4, head_dim=16, **heads(2, 4), **experts)
    add("qwen3next-sizes", "Qwen3Next", head_dim=20, mlp_only_layers=[1], tie_word_embeddings=True,
        **types("*---"), **heads(3, 3, 10, 14, 3), **experts, **rope("default", partial_rotary_factor=0.5))
    add("qwen3next-heads", "Qwen3Next", num_hidden_layers=5, full_attention_interval=2, head_dim=24,
        num_key_value_heads=1, norm_topk_prob=False, rms_norm_eps=1e-4, **heads(1, 5, 8, 8, 2), **experts,
        **rope("linear", factor=2.0, partial_rotary_factor=0.25))
    add("qwen35", "Qwen3_5", num_hidden_layers=4, head_dim=16, **heads(2, 4),
        **rope("default", partial_rotary_factor=0.5, mrope_section=[2, 1, 1]))
    add("qwen35-sizes", "Qwen3_5", head_dim=20, tie_word_embeddings=True, **types("-*--"), **heads(3, 6, 10, 14, 3),
        **rope("default", partial_rotary_factor=0.4, mrope_section=[2, 1, 1]))
    add("qwen35moe", "Qwen3_5Moe", num_hidden_layers=4, head_dim=16, **heads(2, 6), **experts,
        **rope("default", partial_rotary_factor=0.25, mrope_section=[1, 1, 0]))
    add("qwen35moe-sizes", "Qwen3_5Moe", head_dim=12, tie_word_embeddings=True, **types("-*-"), **heads(4, 4, 12, 6, 2),
        **{**experts, "num_experts_per_tok": 2}, **rope("default", partial_rotary_factor=0.5, mrope_section=[1, 1, 1]))
    # with a head for multi-token prediction
    add("qwen3next-mtp", "Qwen3Next", num_hidden_layers=4, head_dim=16, **heads(2, 4), **experts)
    add("qwen35-mtp", "Qwen3_5", head_dim=20, **types("-*-"), **heads(1, 3, 12, 12, 3),
        **rope("default", partial_rotary_factor=0.4, mrope_section=[2, 1, 1]))
    add("qwen35moe-mtp", "Qwen3_5Moe", head_dim=12, tie_word_embeddings=True, **types("-*-"), **heads(2, 4, 10, 10, 2),
        **{**experts, "num_experts_per_tok": 2}, **rope("default", partial_rotary_factor=0.5, mrope_section=[1, 1, 1]))
    eyes = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1, "patch_size": 4,
            "out_hidden_size": 40, "num_position_embeddings": 16}
    for name, kind, more in (("qwen35-images", "Qwen3_5", heads(1, 3, 8, 8)),
                             ("qwen35moe-images", "Qwen3_5Moe", {**heads(2, 2, 8, 8, 3), **experts})):
        result[name] = (kind + "ForConditionalGeneration", {
            "text_config": {**base, "head_dim": 16, "rms_norm_eps": 1e-5, **types("--*-"), **more,
                            **rope("default", rope_theta=500.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])},
            "vision_config": eyes, "tie_word_embeddings": False, "image_token_id": 166, "video_token_id": 165,
            "vision_start_token_id": 164, "vision_end_token_id": 163})

    def mamba(count, head, state, groups=1, width=4):
        return {"mamba_n_heads": count, "mamba_d_head": head, "mamba_d_state": state, "mamba_n_groups": groups,
                "mamba_d_conv": width}

    scales = {"attention_multiplier": 0.2, "embedding_multiplier": 6.0, "residual_multiplier": 0.3,
              "logits_scaling": 3.0}
    some = {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24, "shared_intermediate_size": 28}
    add("granitehybrid", "GraniteMoeHybrid", **types("--*-", "mamba", "attention"), **mamba(5, 16, 12), **some,
        **scales)
    add("granitehybrid-dense", "GraniteMoeHybrid", mamba_conv_bias=False, tie_word_embeddings=True,
        attention_bias=True, **types("-*-", "mamba", "attention"), **mamba(4, 20, 16, 1, 3),
        **{**some, "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 56},
        attention_multiplier=0.25)
    add("granitehybrid-groups", "GraniteMoeHybrid", position_embedding_type="rope", time_step_limit=[0.1, 0.7],
        rms_norm_eps=1e-4, **types("*-*-", "mamba", "attention"), **mamba(8, 10, 8, 2, 2), **some, **scales)

    def nemotron(name, layers, count, head, groups, width=4, **more):
        kinds = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
        values = {key: value for key, value in base.items() if key != "num_hidden_layers"}
        result[name] = ("NemotronHForCausalLM", {
            **values, "layers_block_type": [kinds[c] for c in layers], "mamba_num_heads": count,
            "mamba_head_dim": head, "n_groups": groups, "conv_kernel": width, "ssm_state_size": 16, "head_dim": 12,
            "n_routed_experts": 6, "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 28, **more})

    nemotron("nemotron-h", "M-*-M", 6, 8, 2)
    nemotron("nemotron-h-moe", "ME*EM", 5, 10, 1, 3, routed_scaling_factor=2.5, num_experts_per_tok=3)
    nemotron("nemotron-h-latent", "EM*ME", 4, 12, 4, 2, moe_latent_size=24, n_group=2, topk_group=1,
             norm_topk_prob=False, use_conv_bias=False, layer_norm_epsilon=1e-4)

    many = {"embedding_multiplier": 5.5, "lm_head_multiplier": 0.7, "mlp_multipliers": [0.8, 1.7],
            "key_multiplier": 0.6, "attention_in_multiplier": 1.3, "attention_out_multiplier": 0.9,
            "ssm_multipliers": [0.9, 1.1, 1.2, 0.8, 1.4], "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.7}
    add("falcon-h1", "FalconH1", mamba_d_ssm=48, **mamba(6, 8, 16), **many, **rope("default", rope_theta=1e11))
    add("falcon-h1-norm", "FalconH1", mamba_d_ssm=64, mamba_rms_norm=True, mamba_norm_before_gate=False,
        num_hidden_layers=3, tie_word_embeddings=True, **mamba(4, 16, 8, 2, 3), **many)
    add("falcon-h1-before", "FalconH1", mamba_d_ssm=None, mamba_rms_norm=True, mamba_norm_before_gate=True,
        mamba_conv_bias=False, num_key_value_heads=1, rms_norm_eps=1e-4, **mamba(8, 10, 12, 4), **many)

    def plain(count, head, state, groups=1, width=4):
        return {"num_heads": count, "head_dim": head, "state_size": state, "n_groups": groups, "conv_kernel": width}

    mamba2 = {key: base[key] for key in ("vocab_size", "hidden_size", "tie_word_embeddings", "bos_token_id",
                                         "eos_token_id", "pad_token_id")}
    for name, more in (("mamba2", {"num_hidden_layers": 2, **plain(5, 16, 12)}),
                       ("mamba2-groups", {"num_hidden_layers": 3, "tie_word_embeddings": True,
                                          **plain(8, 10, 16, 4, 3)}),
                       ("mamba2-limits", {"num_hidden_layers": 2, "time_step_limit": [0.6, 0.75],
                                          "use_conv_bias": False, "layer_norm_epsilon": 1e-4, **plain(4, 20, 6)})):
        result[name] = ("Mamba2ForCausalLM", {**mamba2, **more})

    tied = {"tie_word_embeddings": True}
    add("lfm2", "Lfm2", block_multiple_of=8, **types("--*-", "conv"), **tied)
    add("lfm2-wide", "Lfm2", conv_L_cache=5, block_auto_adjust_ff_dim=False, num_key_value_heads=1, norm_eps=1e-4,
        **types("-*-", "conv"))
    add("lfm2-indices", "Lfm2", conv_L_cache=2, num_hidden_layers=4, full_attn_idxs=[1, 3], block_multiple_of=8,
        block_ffn_dim_multiplier=1.5, **tied, **rope("default", rope_theta=300.0))
    moe = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
    add("lfm2moe", "Lfm2Moe", num_dense_layers=1, **types("--*-", "conv"), **moe, **tied)
    add("lfm2moe-scaled", "Lfm2Moe", num_dense_layers=2, norm_topk_prob=False, routed_scaling_factor=1.5,
        use_expert_bias=False, **types("-*--", "conv"), **moe, **tied)
    add("lfm2moe-wide", "Lfm2Moe", num_dense_layers=0, conv_L_cache=4, num_key_value_heads=4,
        **types("*-*", "conv"), **{**moe, "num_experts_per_tok": 3})
