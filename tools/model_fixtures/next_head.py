"""Heads for multi-token prediction (MTP) of Qwen3-Next, 3.5 and 3.6: transformers drops their weights.

The head is a layer with attention of the model's own class, behind a product of two norms: of the embedding of a row's
token, and of the model's result of the row before it, which is 0 before the first. Its logits are the output matrix
times its own norm.
"""
import pathlib
import tempfile


def shapes_of(shapes, width):
    """The shapes of the head's tensors: those of the last layer with attention, and its own."""
    last = max(int(name.split(".")[2]) for name in shapes if ".self_attn.q_proj." in name)
    layer = f"model.layers.{last}."
    head = {name.replace(layer, "mtp.layers.0."): shape for name, shape in shapes.items() if name.startswith(layer)}
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        head[f"mtp.{name}.weight"] = [width]
    return {**head, "mtp.fc.weight": [width, 2 * width]}


class Head:
    def __init__(self, model, tensors):
        """`tensors`: of the file, with those of the head."""
        import copy

        from safetensors.torch import save_file
        self.model, self.tensors = model, tensors
        config = copy.deepcopy(model.config)
        layers = config.num_hidden_layers
        config.num_hidden_layers = layers + 1
        config.layer_types = [*config.layer_types, "full_attention"]
        with tempfile.TemporaryDirectory() as folder:  # a model with a layer more: that of the head
            config.save_pretrained(folder)
            own = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
            more = {name.replace("mtp.layers.0.", f"model.layers.{layers}."): value for name, value in tensors.items()
                    if name.startswith("mtp.layers.0.")}
            save_file({**own, **more}, pathlib.Path(folder) / "model.safetensors", {"format": "pt"})
            longer, report = type(model).from_pretrained(folder, dtype=model.dtype, attn_implementation="eager",
                                                         output_loading_info=True)
        assert not any(report.values()), report
        self.layer = longer.model.layers[layers].eval()

    def norm(self, name, values):
        import torch
        norm = type(self.model.model.norm)(values.shape[-1], eps=self.model.config.rms_norm_eps)
        norm.weight = torch.nn.Parameter(self.tensors[f"mtp.{name}.weight"])
        return norm(values)

    def run(self, ids, before):
        """What the head makes of all rows; before: the results that it reads."""
        import torch
        rotation = self.model.model.rotary_emb(before, torch.arange(len(ids))[None])
        tokens = self.norm("pre_fc_norm_embedding", self.model.model.embed_tokens(torch.tensor([ids])))
        joined = torch.cat([tokens, self.norm("pre_fc_norm_hidden", before)], dim=-1)
        x = joined @ self.tensors["mtp.fc.weight"].T
        mask = torch.full((len(ids), len(ids)), torch.finfo(x.dtype).min).triu(1)[None, None]
        x = self.layer(x, position_embeddings=rotation, attention_mask=mask)
        return self.norm("norm", x[0] if isinstance(x, tuple) else x)

    def logits(self, ids, guesses):
        """Of all rows; and of rows of `guesses` that follow, each of which reads what the head made of the one before."""
        import torch
        model = self.model
        results = model.model(torch.tensor([ids]), use_cache=False).last_hidden_state
        before = torch.cat([torch.zeros_like(results[:, :1]), results[:, :-1]], dim=1)
        found = self.run(ids, before)
        rows = [model.lm_head(found)[0]]
        last = results[:, -1:]
        for i in range(len(guesses)):
            before = torch.cat([before, last], dim=1)
            last = self.run(ids + guesses[:i + 1], before)[:, -1:]
            rows.append(model.lm_head(last)[0])
        return torch.cat(rows)
