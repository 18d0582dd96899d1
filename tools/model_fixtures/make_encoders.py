#!/usr/bin/env python3
"""Writes tests/model/data: tiny encoders, embedding models and rerankers, and what transformers computes with them.

tools/model_fixtures/make_encoders.py FOLDER [NAME ...]     (needs transformers 5, PyTorch, safetensors)

A fixture is like those of make.py beside it, but for
  files      further files of the folder, as JSON: modules.json, 1_Pooling/config.json, ...
  dense      the shapes of the tensors of Dense modules, by folder
  texts      token ids of several texts; types: their token types, where a text has other ones than 0
  embeddings what sentence-transformers makes of each text: states pooled, through the Dense modules, of length 1
  logits     instead: of each label, what a classifier says of each text
"""
import json
import tempfile

from make import patterns, weights, write_fixtures

LENGTHS = [1, 2, 9, 17, 30, 43]
TEXTS = [[(37 * i * i + (11 + n) * i + 5) % 60 + 5 for i in range(length)] for n, length in enumerate(LENGTHS)]
TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}


def modules(pooling, dense=()):
    """modules.json and its folders: [(in, out, bias, activation), ...] are Dense modules."""
    mode = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
    listed = [TRANSFORMER, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    files = {"1_Pooling/config.json": {name: name == mode[pooling] for name in mode.values()}}
    for i, (rows, cols, bias, activation) in enumerate(dense):
        folder = f"{i + 2}_Dense"
        listed.append({"idx": i + 2, "path": folder, "type": "sentence_transformers.models.Dense"})
        files[folder + "/config.json"] = {"in_features": rows, "out_features": cols, "bias": bias,
                                          "activation_function": activation}
    listed.append({"idx": len(listed), "path": "normalize", "type": "sentence_transformers.models.Normalize"})
    return {"modules.json": listed, **files}


def cases():
    """name -> (class, what its config says beside the sizes, further files, whether texts have two types)"""
    base = {"vocab_size": 67, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
            "pad_token_id": 0}
    identity, tanh = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
    result = {}

    def add(name, class_name, files=None, types=False, **more):
        result[name] = (class_name, {**base, **more}, files or {}, types)

    add("bert", "BertModel")
    add("bert-cls", "BertModel", modules("cls"), hidden_act="gelu_new", intermediate_size=57, type_vocab_size=3,
        layer_norm_eps=1e-5)
    add("bert-dense", "BertForMaskedLM", modules("cls", [(40, 24, True, tanh)]), num_attention_heads=5)
    add("bert-rank", "BertForSequenceClassification", types=True, num_labels=1)
    add("bert-labels", "BertForSequenceClassification", types=True, num_labels=3, hidden_act="silu")
    add("xlm-roberta", "XLMRobertaModel", modules("mean"), pad_token_id=1, type_vocab_size=1)
    add("roberta-cls", "RobertaModel", modules("cls"), pad_token_id=3, num_hidden_layers=3, layer_norm_eps=1e-5)
    add("xlm-roberta-rank", "XLMRobertaForSequenceClassification", pad_token_id=1, type_vocab_size=1, num_labels=1)
    add("nomic", "NomicBertModel", modules("mean"))
    add("nomic-gelu", "NomicBertModel", hidden_act="gelu", num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    add("nomic-cls", "NomicBertModel", modules("cls"), type_vocab_size=1, layer_norm_eps=1e-4, num_hidden_layers=3)
    modern = {"num_hidden_layers": 5, "local_attention": 8}
    add("modernbert", "ModernBertModel", modules("cls"), **modern)
    types = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    add("modernbert-options", "ModernBertForMaskedLM", modules("mean"), **{**modern, "local_attention": 13},
        hidden_activation="silu", norm_bias=True, attention_bias=True, mlp_bias=True, layer_types=types,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 700.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 30.0}})
    add("modernbert-rank", "ModernBertForSequenceClassification", classifier_pooling="mean", num_labels=1, **modern)
    add("modernbert-rank-cls", "ModernBertForSequenceClassification", classifier_pooling="cls", num_labels=1,
        classifier_bias=True, classifier_activation="tanh", norm_bias=True, global_attn_every_n_layers=2, **modern)
    gemma = {"head_dim": 12, "query_pre_attn_scalar": 12, "num_key_value_heads": 2, "use_bidirectional_attention": True}
    add("embedding-gemma", "Gemma3TextModel", modules("mean", [(40, 96, False, identity), (96, 40, False, identity)]),
        num_hidden_layers=7, sliding_window=12, **gemma)
    add("embedding-gemma-last", "Gemma3TextModel", modules("last"), num_hidden_layers=3, sliding_window=21, **gemma,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
                         "full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0}})
    add("embedding-gemma-cls", "Gemma3TextModel", modules("cls", [(40, 24, True, identity)]), num_hidden_layers=2,
        sliding_window=5, rms_norm_eps=1e-3, **gemma)
    qwen = {"head_dim": 18, "num_key_value_heads": 2}
    add("qwen3-embedding", "Qwen3ForCausalLM", modules("last"), tie_word_embeddings=True, **qwen)
    vocabulary = {"tokenizer.json": {"model": {"vocab": {"no": 11, "yes": 47}}}}
    add("Qwen3-Reranker", "Qwen3ForCausalLM", vocabulary, tie_word_embeddings=True, **qwen)
    add("Qwen3-Reranker-untied", "Qwen3ForCausalLM", vocabulary, tie_word_embeddings=False, **qwen)
    return result


def pooled(states, files, dense):
    import torch
    poolings = files.get("1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    if poolings.get("pooling_mode_cls_token"):
        x = states[0]
    elif poolings.get("pooling_mode_lasttoken"):
        x = states[-1]
    else:
        x = states.mean(dim=0)
    for folder, tensors in dense.items():
        x = tensors["linear.weight"] @ x + tensors.get("linear.bias", 0)
        if files[folder + "/config.json"]["activation_function"].endswith("Tanh"):
            x = torch.tanh(x)
    return x / x.norm()


def make(name, class_name, options, files, has_types):
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    kind = getattr(transformers, class_name)
    norms = 0 if class_name.startswith("Gemma") else 1

    def by_name(shapes):
        return {key: torch.tensor(weights(key, shape, norms)).reshape(shape) for key, shape in shapes.items()}

    with tempfile.TemporaryDirectory() as folder:
        config = kind.config_class(**options)
        config._attn_implementation = "eager"
        kind(config).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        shapes = {key: list(tensor.shape) for key, tensor in load_file(file).items()}
        save_file(by_name(shapes), file, {"format": "pt"})
        model, report = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                             output_loading_info=True)
        assert not any(report.values()), report
        saved = json.loads((pathlib.Path(folder) / "config.json").read_text())
    dense = {}
    for path, content in files.items():
        if path.endswith("_Dense/config.json"):
            shape = [content["out_features"], content["in_features"]]
            dense[path.split("/")[0]] = {"linear.weight": shape} | ({"linear.bias": shape[:1]} if content["bias"] else {})
    matrices = {path: by_name(tensors) for path, tensors in dense.items()}
    is_reranker = name.startswith("Qwen3-Reranker")
    is_classifier = class_name.endswith("SequenceClassification") or is_reranker
    types = [[int(i > len(ids) // 3) for i in range(len(ids))] for ids in TEXTS] if has_types else []
    results = []
    model = model.eval()
    for i, ids in enumerate(TEXTS):
        inputs = {"input_ids": torch.tensor([ids])}
        if types:
            inputs["token_type_ids"] = torch.tensor([types[i]])
        with torch.no_grad():
            if is_reranker:
                vocabulary = files["tokenizer.json"]["model"]["vocab"]
                result = model(**inputs).logits[0, -1, [vocabulary["yes"], vocabulary["no"]]]
            elif is_classifier:
                result = model(**inputs).logits[0]
            else:
                body = getattr(model, model.base_model_prefix, model)
                result = pooled(body(**inputs).last_hidden_state[0], files, matrices)
        results.append([float(f"{value:.7g}") for value in result.tolist()])
    layers = saved["num_hidden_layers"]
    return {"config": saved, "layers": layers, "experts": 0, "context": 0, "norms": norms,
            "tensors": patterns(shapes, layers), "files": files, "dense": dense, "texts": TEXTS, "types": types,
            "logits" if is_classifier else "embeddings": results}


if __name__ == "__main__":
    write_fixtures(__doc__, cases(), make, lambda fixture: (fixture.get("logits") or fixture["embeddings"])[-1][:4])
