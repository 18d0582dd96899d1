"""The fixtures: which classes, with which options. Those with mixtures of experts, those with recurrent
states, and Gemma 4 and 3n are in files of their own."""
from gemma_cases import add_gemma_with_inputs
from mixture_cases import add_mixtures
from recurrent_cases import add_recurrent

IDS = [(37 * i * i + 11 * i + 5) % 67 for i in range(26)]


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
    # A window in every layer, as the models with a context of 128 k have.
    add("phi3-longrope-window", "Phi3ForCausalLM", sliding_window=9, original_max_position_embeddings=16,
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
    for name, more in (("gemma3-images", {}), ("gemma3-images-linear", {
            "num_hidden_layers": 4, "layer_types": types, "rope_parameters": ropes}),
                       ("gemma3-images-scalar", {"num_hidden_layers": 3, "query_pre_attn_scalar": 30, "layer_types": [
                           "full_attention", "sliding_attention", "full_attention"], "num_key_value_heads": 1})):
        result[name] = ("Gemma3ForConditionalGeneration", {
            "text_config": {**base, "sliding_window": 6, "model_type": "gemma3_text", **gemma, **more},
            "vision_config": vision, "mm_tokens_per_image": 4, "tie_word_embeddings": True, "image_token_index": 66,
            "boi_token_index": 65, "eoi_token_index": 64})
    add("gemma2-scalar", "Gemma2ForCausalLM", num_hidden_layers=4, sliding_window=6,
        **{**gemma, "query_pre_attn_scalar": 7, "head_dim": 14})
    add("gemma3-scalar", "Gemma3ForCausalLM", num_hidden_layers=3, sliding_window=6, sliding_window_pattern=2,
        **{**gemma, "query_pre_attn_scalar": 30})
    add("gemma3-types", "Gemma3ForCausalLM", num_hidden_layers=4, sliding_window=5, layer_types=[
        "full_attention", "sliding_attention", "sliding_attention", "full_attention"], **gemma)
    add("llama-yarn-exact", llama, num_attention_heads=2, **rope(
        "yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=48, beta_fast=4.0, truncate=False))
    add("llama-longrope", llama, num_attention_heads=4, original_max_position_embeddings=16, **rope(
        "longrope", factor=4.0, original_max_position_embeddings=16, **factors))
    add("qwen2-window", "Qwen2ForCausalLM", num_hidden_layers=4, use_sliding_window=True, sliding_window=6,
        max_window_layers=2)
    windows = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
    add("qwen2-window-types", "Qwen2ForCausalLM", num_hidden_layers=4, use_sliding_window=True, sliding_window=5,
        layer_types=windows)
    add("qwen3-biases", "Qwen3ForCausalLM", head_dim=12, attention_bias=True, use_sliding_window=True, sliding_window=7,
        max_window_layers=1)
    add("smollm3-biases", "SmolLM3ForCausalLM", num_hidden_layers=5, use_sliding_window=False, attention_bias=True,
        mlp_bias=True)
    add("smollm3-layers", "SmolLM3ForCausalLM", num_hidden_layers=5, use_sliding_window=False,
        no_rope_layers=[0, 1, 1, 0, 1])
    add("smollm3-interval", "SmolLM3ForCausalLM", num_hidden_layers=4, use_sliding_window=False,
        no_rope_layer_interval=2, tie_word_embeddings=True)
    result["gptneox-no-biases"] = ("GPTNeoXForCausalLM", {**neox, "attention_bias": False})
    add("phi4-mini", "Phi3ForCausalLM", sliding_window=None, tie_word_embeddings=True, hidden_size=64,
        original_max_position_embeddings=16, **rope("longrope", partial_rotary_factor=0.75, long_factor=
        [1.0, 1.2, 2.5, 3.5, 5.0, 6.5], short_factor=[1.0, 1.0, 1.1, 1.2, 1.3, 1.5]))
    add("gemma", "GemmaForCausalLM", head_dim=16, tie_word_embeddings=True)
    add("gemma-narrow", "GemmaForCausalLM", head_dim=8, num_key_value_heads=1, tie_word_embeddings=True,
        rms_norm_eps=1e-4, **rope("default", rope_theta=500.0))
    add("gemma-linear", "GemmaForCausalLM", head_dim=10, num_key_value_heads=4, num_hidden_layers=3,
        tie_word_embeddings=True, **rope("linear", factor=2.0))
    for kind in ("Glm", "Glm4"):
        add(kind.lower(), kind + "ForCausalLM", head_dim=16)
        add(kind.lower() + "-narrow", kind + "ForCausalLM", head_dim=10, attention_bias=False, num_key_value_heads=1,
            tie_word_embeddings=True, **rope("default", rope_theta=500.0, partial_rotary_factor=0.4))
        add(kind.lower() + "-linear", kind + "ForCausalLM", head_dim=12, rms_norm_eps=1e-3, num_hidden_layers=3,
            **rope("linear", factor=2.0, partial_rotary_factor=1.0))
    cohere = {"tie_word_embeddings": True, "logit_scale": 0.25}
    add("cohere", "CohereForCausalLM", **cohere)
    add("cohere-norms", "CohereForCausalLM", use_qk_norm=True, layer_norm_eps=1e-3, **cohere)
    add("cohere-biases", "CohereForCausalLM", attention_bias=True, num_key_value_heads=1, num_hidden_layers=3,
        **rope("linear", factor=3.0), **{**cohere, "logit_scale": 1.5})
    add("cohere2", "Cohere2ForCausalLM", num_hidden_layers=5, sliding_window=6, **cohere)
    add("cohere2-types", "Cohere2ForCausalLM", num_hidden_layers=4, sliding_window=9, layer_types=windows,
        layer_norm_eps=1e-3, **rope("default", rope_theta=300.0), **cohere)
    add("cohere2-biases", "Cohere2ForCausalLM", num_hidden_layers=3, sliding_window=4, attention_bias=True,
        layer_types=["full_attention"] * 3, **cohere)
    ministral = {"rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 1.0,
                 "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3, "beta_fast": 32.0, "beta_slow": 1.0}
    add("ministral3", "Ministral3ForCausalLM", head_dim=12, **rope("yarn", **ministral))
    add("ministral3-mscale", "Ministral3ForCausalLM", head_dim=20, tie_word_embeddings=True, **rope("yarn", **{
        **ministral, "mscale": 0.7, "mscale_all_dim": 0.4, "original_max_position_embeddings": 16, "beta_fast": 8.0}))
    add("ministral3-window", "Ministral3ForCausalLM", head_dim=10, sliding_window=7, num_hidden_layers=3, **rope(
        "yarn", **{**ministral, "mscale_all_dim": 0.0, "llama_4_scaling_beta": 0.05}))
    pixtral = {"model_type": "pixtral", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
               "num_attention_heads": 1, "head_dim": 8, "image_size": 16, "patch_size": 8}
    pictures = {"vision_config": pixtral, "image_token_index": 66, "spatial_merge_size": 1, "vision_feature_layer": -1}
    result["mistral3-images"] = ("Mistral3ForConditionalGeneration", {
        **pictures, "text_config": {**base, "model_type": "mistral", "sliding_window": None, "head_dim": 12}})
    result["mistral3-images-window"] = ("Mistral3ForConditionalGeneration", {
        **pictures, "text_config": {**base, "model_type": "mistral", "sliding_window": 7, "num_hidden_layers": 3,
                                    "num_key_value_heads": 1, "rms_norm_eps": 1e-4, **rope("linear", factor=2.0)}})
    result["ministral3-images"] = ("Mistral3ForConditionalGeneration", {
        **pictures, "text_config": {**base, "model_type": "ministral3", "head_dim": 12, **rope("yarn", **ministral)}})
    add("ministral", "MinistralForCausalLM", num_hidden_layers=4, sliding_window=6, layer_types=windows, head_dim=10)
    add("ministral-period", "MinistralForCausalLM", num_hidden_layers=3, sliding_window=5, head_dim=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    add("ministral-full", "MinistralForCausalLM", sliding_window=5, tie_word_embeddings=True, head_dim=16,
        layer_types=["full_attention"] * 2)
    for name, outer, inner, more in (
            ("llava", "Llava", "llama", {"head_dim": 12}),
            ("llava-mistral", "Llava", "mistral", {"sliding_window": 7, "num_hidden_layers": 3}),
            ("llava-phi3", "Llava", "phi3", {"sliding_window": None, "original_max_position_embeddings": 16,
                                             **rope("longrope", **factors)}),
            ("llava-next", "LlavaNext", "llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
            ("llava-next-mistral", "LlavaNext", "mistral", {"sliding_window": None, "head_dim": 16,
                                                            "rms_norm_eps": 1e-4}),
            ("llava-next-qwen2", "LlavaNext", "qwen2", {"tie_word_embeddings": True, "num_attention_heads": 2, **rope(
                "yarn", factor=4.0, original_max_position_embeddings=16)}),
            ("llava-onevision", "LlavaOnevision", "qwen2", {}),
            ("llava-onevision-window", "LlavaOnevision", "qwen2", {
                "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1, "num_hidden_layers": 3}),
            ("llava-onevision-tied", "LlavaOnevision", "qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 4,
                                                                 **rope("default", rope_theta=1e6)}),
            # transformers 5 forgets the scale of the logits here, which the text model has
            ("aya-vision", "AyaVision", "cohere2", {"sliding_window": 6, "tie_word_embeddings": True,
                                                    "logit_scale": 1.0}),
            ("aya-vision-types", "AyaVision", "cohere2", {
                "sliding_window": 9, "tie_word_embeddings": True, "logit_scale": 1.0, "num_hidden_layers": 4,
                "layer_types": windows, "attention_bias": True}),
            ("aya-vision-cohere", "AyaVision", "cohere", {"use_qk_norm": True, "tie_word_embeddings": True,
                                                          "logit_scale": 1.0}),
            ("cohere2-vision", "Cohere2Vision", "cohere2", {"sliding_window": 6, "tie_word_embeddings": True,
                                                            "logit_scale": 1.0, "num_hidden_layers": 5}),
            ("cohere2-vision-types", "Cohere2Vision", "cohere2", {
                "sliding_window": 4, "tie_word_embeddings": True, "logit_scale": 1.0, "num_hidden_layers": 3,
                "layer_types": ["full_attention"] * 3, "attention_bias": True, "num_key_value_heads": 4}),
            ("cohere2-vision-base", "Cohere2Vision", "cohere2", {
                "sliding_window": 7, "tie_word_embeddings": True, "logit_scale": 1.0, "layer_norm_eps": 1e-3,
                **rope("default", rope_theta=300.0)}),
            ("idefics3", "Idefics3", "llama", {}),
            ("idefics3-llama3", "Idefics3", "llama", {"num_attention_heads": 2, "num_key_value_heads": 1, **rope(
                "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=48)}),
            ("idefics3-biases", "Idefics3", "llama", {"attention_bias": True, "head_dim": 14, "rms_norm_eps": 1e-4}),
            ("internvl", "InternVL", "qwen3", {"head_dim": 12}),
            ("internvl-qwen2", "InternVL", "qwen2", {"tie_word_embeddings": True}),
            ("internvl-biases", "InternVL", "qwen3", {"head_dim": 18, "attention_bias": True, "num_hidden_layers": 3}),
            ("smolvlm", "SmolVLM", "llama", {}),
            ("smolvlm-linear", "SmolVLM", "llama", {"num_key_value_heads": 4, **rope("linear", factor=2.5)}),
            ("smolvlm-smollm3", "SmolVLM", "smollm3", {"num_hidden_layers": 5, "use_sliding_window": False,
                                                       "no_rope_layers": [1, 0, 1, 1, 0]})):
        result[name] = (outer + "ForConditionalGeneration", {
            "text_config": {**base, "model_type": inner, **more}, "vision_config": dict(vision), "pad_token_id": 0})
    add("starcoder2", "Starcoder2ForCausalLM", tie_word_embeddings=True)
    add("starcoder2-window", "Starcoder2ForCausalLM", sliding_window=6, norm_epsilon=1e-3, num_key_value_heads=1)
    add("starcoder2-no-biases", "Starcoder2ForCausalLM", use_bias=False, num_hidden_layers=3, num_key_value_heads=4,
        **rope("linear", factor=2.0))
    add("olmo3", "Olmo3ForCausalLM", num_hidden_layers=5, sliding_window=6)
    add("olmo3-types", "Olmo3ForCausalLM", num_hidden_layers=4, sliding_window=5, layer_types=windows,
        tie_word_embeddings=True, rms_norm_eps=1e-3)
    add("olmo3-yarn", "Olmo3ForCausalLM", num_hidden_layers=3, sliding_window=7, num_attention_heads=2,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    add("exaone4", "Exaone4ForCausalLM", num_hidden_layers=5, sliding_window=6)
    add("exaone4-full", "Exaone4ForCausalLM", sliding_window=None, layer_types=["full_attention"] * 2, head_dim=10,
        tie_word_embeddings=True, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=48))
    add("exaone4-types", "Exaone4ForCausalLM", num_hidden_layers=4, sliding_window=5, layer_types=windows,
        rms_norm_eps=1e-3, num_key_value_heads=1)
    add("seed-oss", "SeedOssForCausalLM", head_dim=12)
    add("seed-oss-biases", "SeedOssForCausalLM", head_dim=16, attention_out_bias=True, mlp_bias=True,
        tie_word_embeddings=True)
    add("seed-oss-no-biases", "SeedOssForCausalLM", head_dim=10, attention_bias=False, num_key_value_heads=4,
        rms_norm_eps=1e-3, **rope("default", rope_theta=1e7))
    add("arcee", "ArceeForCausalLM", head_dim=14)
    add("arcee-biases", "ArceeForCausalLM", head_dim=10, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    add("arcee-yarn", "ArceeForCausalLM", head_dim=20, num_attention_heads=2, num_hidden_layers=3, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=16))
    add("apertus", "ApertusForCausalLM", **rope("default"))
    add("apertus-biases", "ApertusForCausalLM", attention_bias=True, tie_word_embeddings=True, num_key_value_heads=1,
        **rope("default", rope_theta=500.0))
    add("apertus-llama3", "ApertusForCausalLM", num_attention_heads=2, num_hidden_layers=3, rms_norm_eps=1e-3, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=48))
    add("nemotron", "NemotronForCausalLM", head_dim=12, norm_eps=1e-3)
    add("nemotron-biases", "NemotronForCausalLM", head_dim=10, attention_bias=True, mlp_bias=True, **rope(
        "default", rope_theta=500.0, partial_rotary_factor=0.4))
    add("nemotron-whole", "NemotronForCausalLM", head_dim=10, num_key_value_heads=4, num_hidden_layers=3, **rope(
        "default", partial_rotary_factor=1.0))
    add("stablelm", "StableLmForCausalLM", **rope("default", partial_rotary_factor=0.4))
    add("stablelm-parallel", "StableLmForCausalLM", use_parallel_residual=True, qk_layernorm=True, layer_norm_eps=1e-3,
        **rope("default", partial_rotary_factor=0.2))
    add("stablelm-biases", "StableLmForCausalLM", use_qkv_bias=True, num_key_value_heads=4, num_hidden_layers=3,
        **rope("linear", factor=2.0, partial_rotary_factor=1.0))
    falcon = {key: value for key, value in base.items() if key not in ("num_key_value_heads", "intermediate_size")}
    result["falcon"] = ("FalconForCausalLM", {**falcon, "tie_word_embeddings": True})
    result["falcon-groups"] = ("FalconForCausalLM", {**falcon, "new_decoder_architecture": True, "num_kv_heads": 2,
                                                     "layer_norm_epsilon": 1e-3})
    result["falcon-one-norm"] = ("FalconForCausalLM", {
        **falcon, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1,
        "ffn_hidden_size": 56, **rope("default", rope_theta=500.0)})
    result["falcon-heads"] = ("FalconForCausalLM", {**falcon, "multi_query": False, "num_hidden_layers": 3})
    add("olmo", "OlmoForCausalLM")
    add("olmo-clipped", "OlmoForCausalLM", clip_qkv=0.5, tie_word_embeddings=True)
    add("olmo-linear", "OlmoForCausalLM", clip_qkv=1.25, num_key_value_heads=4, num_hidden_layers=3,
        **rope("linear", factor=2.0))
    bloom = {"vocab_size": 67, "hidden_size": 40, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2,
             "pad_token_id": 0}
    result["bloom"] = ("BloomForCausalLM", bloom)
    result["bloom-five-heads"] = ("BloomForCausalLM", {**bloom, "n_head": 5, "layer_norm_epsilon": 1e-3})
    result["bloom-untied"] = ("BloomForCausalLM", {**bloom, "n_head": 10, "n_layer": 3, "tie_word_embeddings": False})
    mpt = {"vocab_size": 67, "d_model": 40, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}
    result["mpt"] = ("MptForCausalLM", mpt)
    result["mpt-clipped"] = ("MptForCausalLM", {**mpt, "n_heads": 5, "attn_config": {"clip_qkv": 0.75}})
    result["mpt-untied"] = ("MptForCausalLM", {**mpt, "n_heads": 10, "n_layers": 3, "tie_word_embeddings": False,
                                               "attn_config": {"softmax_scale": 0.4}})
    # Not in transformers: the same weights in a class that computes the same.
    add("internlm2", "InternLM2ForCausalLM")
    add("internlm2-linear", "InternLM2ForCausalLM", num_attention_heads=10, num_key_value_heads=5, rms_norm_eps=1e-3,
        **rope("linear", factor=2.0))
    add("internlm2-one-key", "InternLM2ForCausalLM", num_key_value_heads=1, num_hidden_layers=3,
        **rope("default", rope_theta=1e6))
    minicpm = {"scale_emb": 5, "dim_model_base": 16, "scale_depth": 1.4}
    add("minicpm", "MiniCPMForCausalLM", tie_word_embeddings=True, **minicpm)
    add("minicpm-biases", "MiniCPMForCausalLM", attention_bias=True, num_hidden_layers=3,
        **{**minicpm, "scale_depth": 0.8})
    add("minicpm-longrope", "MiniCPMForCausalLM", num_key_value_heads=4, **minicpm, **rope(
        "longrope", factor=4.0, original_max_position_embeddings=16, **factors))
    add("olmo2", "Olmo2ForCausalLM")
    add("olmo2-yarn", "Olmo2ForCausalLM", num_attention_heads=2, tie_word_embeddings=True,
        **rope("yarn", factor=4.0, original_max_position_embeddings=16))
    add_mixtures(add, rope)
    add_text_parts(result, base, rope)
    add_gemma_with_inputs(result, base, IDS)
    add_recurrent(result, {**base, "max_position_embeddings": 96}, rope)
    return result


def add_text_parts(result, base, rope):
    """Classes that see pictures: their text."""
    tokens = {"image_token_id": 166, "video_token_id": 165, "vision_start_token_id": 164, "vision_end_token_id": 163}
    eyes = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1, "patch_size": 4,
            "out_hidden_size": 40}

    def add(name, class_name, tied=False, vision=None, **more):
        text = {key: value for key, value in base.items() if key != "tie_word_embeddings"}
        result[name] = (class_name, {"text_config": {**text, "tie_word_embeddings": tied, **more}, **tokens,
                                     "vision_config": {**eyes, **(vision or {})}, "tie_word_embeddings": tied})

    sections = {"mrope_section": [2, 2, 1]}
    two = {"embed_dim": 8, "hidden_size": 40}
    for number, vision in (("2", two), ("2_5", {"fullatt_block_indexes": [0]})):
        kind = f"Qwen{number}VLForConditionalGeneration" if number == "2" else "Qwen2_5_VLForConditionalGeneration"
        short = "qwen" + number.replace("_", "") + "vl"
        add(short, kind, vision=vision, **rope("default", **sections))
        add(short + "-tied", kind, True, vision, num_key_value_heads=4, rms_norm_eps=1e-6,
            **rope("default", rope_theta=1e6, mrope_section=[1, 2, 2]))
        add(short + "-window", kind, vision=vision, num_hidden_layers=3, use_sliding_window=True, sliding_window=6,
            max_window_layers=1, num_key_value_heads=1, **rope("default", **sections))
    three = {"num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    interleaved = {"mrope_section": [2, 2, 2], "mrope_interleaved": True}
    add("qwen3vl", "Qwen3VLForConditionalGeneration", vision=three, head_dim=12, **rope("default", **interleaved))
    add("qwen3vl-tied", "Qwen3VLForConditionalGeneration", True, three, head_dim=16,
        **rope("default", mrope_section=[4, 2, 2], mrope_interleaved=True))
    add("qwen3vl-biases", "Qwen3VLForConditionalGeneration", vision=three, head_dim=12, attention_bias=True,
        num_key_value_heads=1, rms_norm_eps=1e-5, **rope("default", rope_theta=300.0, **interleaved))
    experts = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "head_dim": 12}
    add("qwen3vlmoe", "Qwen3VLMoeForConditionalGeneration", vision=three, **experts, **rope("default", **interleaved))
    add("qwen3vlmoe-sparse", "Qwen3VLMoeForConditionalGeneration", vision=three, num_hidden_layers=3,
        mlp_only_layers=[1], **experts, **rope("default", rope_theta=5000.0, **interleaved))
    add("qwen3vlmoe-tied", "Qwen3VLMoeForConditionalGeneration", True, three, num_key_value_heads=4,
        attention_bias=True, **{**experts, "num_experts_per_tok": 2, "head_dim": 16},
        **rope("default", mrope_section=[4, 2, 2], mrope_interleaved=True))
    eyes4 = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
             "image_size": 8, "patch_size": 4, "vision_output_dim": 16, "projector_input_dim": 16,
             "projector_output_dim": 16, "pixel_shuffle_ratio": 0.5}
    text = {"num_local_experts": 4, "intermediate_size": 24, "intermediate_size_mlp": 56, "num_hidden_layers": 4,
            "head_dim": 12, "floor_scale": 4, "attn_scale": 0.5, "attention_chunk_size": 9}
    for name, more in (("llama4-images", {}), ("llama4-images-pattern", {
            "no_rope_layers": [0, 1, 1, 0], "num_key_value_heads": 1, "attn_temperature_tuning": False}),
                       ("llama4-images-interleaved", {"interleave_moe_layer_step": 2, "attention_chunk_size": 16,
                                                      "num_experts_per_tok": 2})):
        result[name] = ("Llama4ForConditionalGeneration", {
            "text_config": {**base, **text, **more}, "vision_config": eyes4, "image_token_index": 166,
            "boi_token_index": 165, "eoi_token_index": 164})
