"""The fixtures of Gemma 4 and 3n, with shared caches and inputs of the token for each layer; see cases.py."""

# Norms of q and k have the scale of the scores in them, so they are smaller than those of others; other Gemmas have
# weight - 1.
SMALL_NORMS = ("Gemma3n", "Gemma4")


def add_gemma_with_inputs(result, base, ids):
    """Gemma 4 and 3n. `ids` are the tokens that the fixtures read: none of them stands for a picture."""
    def types(pattern):
        return {"num_hidden_layers": len(pattern), "layer_types": [
            "full_attention" if kind == "f" else "sliding_attention" for kind in pattern]}

    def ropes(partial=0.25, **more):
        return {"rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
            "full_attention": {
                "rope_type": "proportional", "rope_theta": 1e5, "partial_rotary_factor": partial} | more}}

    def add(name, class_name, base, **more):
        result[name] = (class_name, {**base, **more})

    four = {**base, "head_dim": 12, "global_head_dim": 20, "sliding_window": 6, "vocab_size_per_layer_input": 67,
            "hidden_size_per_layer_input": 0, "tie_word_embeddings": True, "final_logit_softcapping": 3.0}
    kind = "Gemma4ForCausalLM"
    dense = {**four, "attention_k_eq_v": True, "num_global_key_value_heads": 1, **types("ssfsf")}
    add("gemma4", kind, dense, use_bidirectional_attention="vision")
    add("gemma4-values", kind, four, attention_k_eq_v=False, final_logit_softcapping=None, rms_norm_eps=1e-4,
        **types("sff"), **ropes(1.0))
    add("gemma4-factor", kind, dense, **ropes(0.5, factor=4.0), num_global_key_value_heads=4, global_head_dim=8)
    inputs = {**four, "hidden_size_per_layer_input": 10, "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
              **types("ssfsf")}
    add("gemma4-inputs", kind, inputs)
    add("gemma4-inputs-own-caches", kind, inputs, num_kv_shared_layers=0, **types("ssf"), **ropes())
    add("gemma4-inputs-one-cache", kind, inputs, num_kv_shared_layers=3, use_double_wide_mlp=False, global_head_dim=12,
        **types("ffff"))
    experts = {**dense, "enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 20}
    add("gemma4-experts", kind, experts)
    add("gemma4-experts-inputs", kind, experts, top_k_experts=3, hidden_size_per_layer_input=12, num_kv_shared_layers=2,
        attention_k_eq_v=False, use_double_wide_mlp=True)
    add("gemma4-experts-one", kind, experts, top_k_experts=1, num_experts=4, **types("sf"))
    eyes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
            "head_dim": 16, "num_key_value_heads": 1}
    names = ("image_token_id", "video_token_id", "audio_token_id", "boi_token_id", "eoi_token_id", "boa_token_id",
             "eoa_token_index")
    tokens = {**dict(zip(names, sorted(set(range(67)) - set(ids)))), "audio_config": None, "tie_word_embeddings": True}
    for name, text in (("gemma4-images", dense), ("gemma4-images-experts", experts)):
        result[name] = ("Gemma4ForConditionalGeneration", {
            "text_config": {**text, "model_type": "gemma4_text"}, "vision_config": eyes, **tokens})

    three = {**base, "head_dim": 12, "sliding_window": 6, "vocab_size_per_layer_input": 67, "laurel_rank": 10,
             "hidden_size_per_layer_input": 12, "num_kv_shared_layers": 3, "tie_word_embeddings": True,
             **types("ssfssfssf")}
    kind = "Gemma3nForCausalLM"
    add("gemma3n", kind, three, activation_sparsity_pattern=[0.95, 0.5, 0.25] + [0.0] * 6)
    add("gemma3n-streams", kind, three, altup_num_inputs=2, num_kv_shared_layers=1, final_logit_softcapping=2.0,
        intermediate_size=[32, 57, 40, 56], activation_sparsity_pattern=[0.0, 0.8, 0.0, 0.9], rms_norm_eps=1e-4,
        **types("sfsf"))
    add("gemma3n-unscaled", kind, three, altup_correct_scale=False, altup_num_inputs=3, num_key_value_heads=1,
        num_kv_shared_layers=0, **types("sfs"), rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1e5}})
