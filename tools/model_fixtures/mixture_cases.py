"""The fixtures of models with mixtures of experts: see cases.py."""


def add_mixtures(add, rope):
    """Classes with mixtures of experts, and what they are built from."""
    experts = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
    add("qwen2moe-sparse", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=28, norm_topk_prob=True,
        num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3], **experts)
    add("qwen2moe-unbiased", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=24, qkv_bias=False,
        tie_word_embeddings=True, **experts)
    add("qwen3moe-sparse", "Qwen3MoeForCausalLM", head_dim=12, norm_topk_prob=False, num_hidden_layers=3,
        mlp_only_layers=[1], **experts)
    add("qwen3moe-biases", "Qwen3MoeForCausalLM", head_dim=12, norm_topk_prob=True, attention_bias=True,
        num_hidden_layers=3, decoder_sparse_step=2, tie_word_embeddings=True, **experts)

    oss, name = {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24}, "GptOssForCausalLM"
    add("gpt-oss", name, num_hidden_layers=3, head_dim=12, sliding_window=5, **oss, **rope(
        "yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
        original_max_position_embeddings=16))
    add("gpt-oss-types", name, num_hidden_layers=3, head_dim=16, num_key_value_heads=4, sliding_window=9,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"], **oss, **rope("default"))
    # So wide that gate and up reach the clamps.
    add("gpt-oss-clamped", name, num_hidden_layers=1, hidden_size=320, head_dim=8, sliding_window=30, **oss, **rope(
        "yarn", factor=2.0, truncate=True, original_max_position_embeddings=32))

    # Sizes that the GPU takes: multiples of 8, of the rank 16.
    mla = {"qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 40, "kv_lora_rank": 48,
           "num_key_value_heads": 4, "moe_intermediate_size": 20, "num_hidden_layers": 3}
    two = {**mla, "n_routed_experts": 6, "num_experts_per_tok": 2}
    add("deepseek2", "DeepseekV2ForCausalLM", q_lora_rank=None, first_k_dense_replace=1, n_shared_experts=2,
        routed_scaling_factor=1.5, **two)
    add("deepseek2-groups", "DeepseekV2ForCausalLM", q_lora_rank=24, first_k_dense_replace=1, n_shared_experts=1,
        topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=4.0, **two)
    # heads as DeepSeek has them, without experts: a long prompt takes another way on a GPU
    add("deepseek2-heads", "DeepseekV2ForCausalLM", q_lora_rank=None, first_k_dense_replace=2, n_shared_experts=1,
        **{**two, "kv_lora_rank": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
           "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 2, "hidden_size": 64},
        max_position_embeddings=1024)
    add("deepseek2-yarn", "DeepseekV2ForCausalLM", q_lora_rank=24, first_k_dense_replace=0, n_shared_experts=1,
        tie_word_embeddings=True, **two, **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    three = {**mla, "n_routed_experts": 8, "num_experts_per_tok": 3}
    add("deepseek3", "DeepseekV3ForCausalLM", q_lora_rank=24, first_k_dense_replace=1, n_group=4, topk_group=2,
        n_shared_experts=1, **three)
    add("deepseek3-yarn", "DeepseekV3ForCausalLM", q_lora_rank=24, first_k_dense_replace=2, n_group=2, topk_group=1,
        n_shared_experts=2, norm_topk_prob=False, routed_scaling_factor=1.5, **three, **rope(
            "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0, beta_fast=4.0))
    add("deepseek3-kimi", "DeepseekV3ForCausalLM", q_lora_rank=32, first_k_dense_replace=1, n_group=1, topk_group=1,
        n_shared_experts=1, tie_word_embeddings=True, **three, **rope(
            "yarn", factor=8.0, original_max_position_embeddings=8, mscale=0.707, mscale_all_dim=0.707))
    add("deepseek3-lite", "DeepseekV3ForCausalLM", q_lora_rank=None, first_k_dense_replace=1, n_group=1, topk_group=1,
        n_shared_experts=1, **three)
    lite = {**mla, "n_routed_experts": 6, "num_experts_per_tok": 2}
    add("glm4moelite", "Glm4MoeLiteForCausalLM", q_lora_rank=24, n_shared_experts=1, **lite)
    add("glm4moelite-dense", "Glm4MoeLiteForCausalLM", q_lora_rank=16, n_shared_experts=2, norm_topk_prob=False,
        mlp_layer_types=["dense", "dense", "sparse"], n_group=2, topk_group=1, tie_word_embeddings=True, **lite)
    add("glm4moelite-linear", "Glm4MoeLiteForCausalLM", q_lora_rank=None, n_shared_experts=1, rms_norm_eps=1e-6,
        mlp_layer_types=["sparse"] * 3, **lite, **rope("linear", factor=2.5))

    experts = {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "num_hidden_layers": 3}
    glm = "Glm4MoeForCausalLM"
    add("glm4moe", glm, head_dim=12, use_qk_norm=True, attention_bias=True, routed_scaling_factor=2.5, **experts)
    add("glm4moe-groups", glm, n_group=2, topk_group=1, norm_topk_prob=False, first_k_dense_replace=2,
        tie_word_embeddings=True, n_shared_experts=2, hidden_size=48, **experts)
    add("glm4moe-linear", glm, head_dim=16, use_qk_norm=True, first_k_dense_replace=0, **experts,
        **rope("linear", factor=2.5, partial_rotary_factor=0.75))
    dots = {**experts, "n_shared_experts": 1}
    add("dots1", "Dots1ForCausalLM", num_key_value_heads=4, first_k_dense_replace=1, routed_scaling_factor=2.5,
        norm_topk_prob=True, **dots)
    add("dots1-groups", "Dots1ForCausalLM", head_dim=12, first_k_dense_replace=2, n_group=3, topk_group=2,
        norm_topk_prob=False, **{**dots, "n_shared_experts": 2})
    add("dots1-yarn", "Dots1ForCausalLM", first_k_dense_replace=0, norm_topk_prob=True, tie_word_embeddings=True,
        num_attention_heads=2, **dots, **rope("yarn", factor=4.0, original_max_position_embeddings=16))

    experts = {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24}
    minimax = "MiniMaxM2ForCausalLM"
    add("minimax-m2", minimax, head_dim=12, **experts, **rope("default", partial_rotary_factor=0.5))
    add("minimax-m2-whole", minimax, head_dim=16, **{**experts, "num_experts_per_tok": 3})
    add("minimax-m2-linear", minimax, head_dim=16, num_key_value_heads=4, rms_norm_eps=1e-5, **experts,
        **rope("linear", factor=2.5, partial_rotary_factor=0.25))
    granite = {"attention_multiplier": 0.2, "embedding_multiplier": 6.0, "residual_multiplier": 0.3,
               "logits_scaling": 3.0}
    add("granitemoe", "GraniteMoeForCausalLM", **granite, **experts)
    add("granitemoe-biases", "GraniteMoeForCausalLM", attention_bias=True, tie_word_embeddings=True,
        attention_multiplier=0.25, **{**experts, "num_experts_per_tok": 3})
    add("granitemoe-shared", "GraniteMoeSharedForCausalLM", shared_intermediate_size=28, **granite, **experts)
    add("granitemoe-unshared", "GraniteMoeSharedForCausalLM", shared_intermediate_size=0, **granite, **experts)

    experts = {"num_experts": 6, "num_experts_per_tok": 3, "intermediate_size": 24}
    add("olmoe", "OlmoeForCausalLM", norm_topk_prob=False, **experts)
    add("olmoe-normed", "OlmoeForCausalLM", norm_topk_prob=True, num_key_value_heads=4, rms_norm_eps=1e-6, **experts)
    add("olmoe-linear", "OlmoeForCausalLM", num_key_value_heads=4, tie_word_embeddings=True, **experts,
        **rope("linear", factor=2.5))

    add("olmoe-clipped", "OlmoeForCausalLM", clip_qkv=0.6, num_key_value_heads=2, **experts)

    ernie = {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 20, "num_hidden_layers": 3}
    add("ernie4_5", "Ernie4_5ForCausalLM", head_dim=12)
    add("ernie4_5-biases", "Ernie4_5ForCausalLM", head_dim=10, use_bias=True, tie_word_embeddings=True)
    add("ernie4_5-linear", "Ernie4_5ForCausalLM", head_dim=16, rms_norm_eps=1e-6, **rope("linear", factor=2.5))
    add("ernie4_5moe", "Ernie4_5_MoeForCausalLM", moe_num_shared_experts=2, **ernie)
    add("ernie4_5moe-interval", "Ernie4_5_MoeForCausalLM", moe_num_shared_experts=1, moe_layer_interval=2,
        moe_layer_end_index=4, tie_word_embeddings=True, **{**ernie, "num_hidden_layers": 6})
    add("ernie4_5moe-unshared", "Ernie4_5_MoeForCausalLM", moe_num_shared_experts=0, moe_layer_start_index=0,
        **{**ernie, "moe_k": 3})

    experts = {"num_experts": 5, "moe_topk": 2, "intermediate_size": 24}
    alpha = rope("dynamic", alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
    add("hunyuan-moe", "HunYuanMoEV1ForCausalLM", head_dim=12, **experts)
    add("hunyuan-moe-alpha", "HunYuanMoEV1ForCausalLM", head_dim=10, tie_word_embeddings=True, **experts, **alpha)
    add("hunyuan-moe-biases", "HunYuanMoEV1ForCausalLM", head_dim=16, attention_bias=True, num_key_value_heads=4,
        **{**experts, "moe_topk": 3})
    add("hunyuan-dense", "HunYuanDenseV1ForCausalLM", head_dim=12)
    add("hunyuan-dense-alpha", "HunYuanDenseV1ForCausalLM", head_dim=10, tie_word_embeddings=True, **alpha)
    add("hunyuan-dense-biases", "HunYuanDenseV1ForCausalLM", head_dim=16, attention_bias=True, num_key_value_heads=4)

    llama = {"num_local_experts": 4, "intermediate_size": 24, "intermediate_size_mlp": 56, "num_hidden_layers": 4,
             "head_dim": 12}
    chunks = {"floor_scale": 8, "attn_scale": 0.3, "attention_chunk_size": 7}
    add("llama4", "Llama4ForCausalLM", **llama)
    add("llama4-chunks", "Llama4ForCausalLM", num_experts_per_tok=2, **llama, **chunks)
    add("llama4-interleaved", "Llama4ForCausalLM", interleave_moe_layer_step=2, use_qk_norm=False,
        num_experts_per_tok=2, tie_word_embeddings=True,
        **{**llama, "num_local_experts": 128, "intermediate_size": 8}, **rope(
            "llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=48))
    add("llama4-pattern", "Llama4ForCausalLM", attn_temperature_tuning=False, no_rope_layers=[1, 0, 1, 1], **llama,
        **chunks)

    phi = {"num_local_experts": 5, "intermediate_size": 24}
    add("phimoe", "PhimoeForCausalLM", attention_bias=True, lm_head_bias=True, **phi)
    add("phimoe-window", "PhimoeForCausalLM", attention_bias=True, lm_head_bias=True, sliding_window=7,
        rms_norm_eps=1e-4, **phi)
    factors = {"long_factor": [1.0, 1.3, 2.0, 4.5, 7.0], "short_factor": [1.0, 1.05, 1.1, 1.2, 1.4]}
    add("phimoe-longrope", "PhimoeForCausalLM", attention_bias=True, lm_head_bias=True,
        **phi, **rope("longrope", original_max_position_embeddings=16, short_mscale=1.2, long_mscale=1.2, **factors))

    bailing = {"hidden_size": 48, "head_dim": 12, "num_experts": 8, "num_experts_per_tok": 3,
               "moe_intermediate_size": 20,
               "num_shared_experts": 1, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_group": 4,
               "topk_group": 2, "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5}
    add("bailingmoe2", "BailingMoeV2ForCausalLM", **bailing)
    add("bailingmoe2-plain", "BailingMoeV2ForCausalLM", **{
        **bailing, "n_group": 1, "topk_group": 1, "norm_topk_prob": False, "first_k_dense_replace": 2,
        "tie_word_embeddings": True})
    add("bailingmoe2-whole", "BailingMoeV2ForCausalLM", **{
        **bailing, "n_group": 2, "topk_group": 1, "partial_rotary_factor": 1.0, "first_k_dense_replace": 0,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "num_key_value_heads": 4})
