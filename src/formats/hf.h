// A model as Hugging Face saves it, in GGUF's terms: config.json becomes metadata, tensors get GGUF's names and
// order of rows. formats/hf/ has the classes.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/checkpoint.h"

namespace heddle::formats {

// Turns the result of read_safetensors_folder into heddle's terms, in place. A class that is not known leaves the
// tensors as they are and sets unknown_class; a known one with an option that is not supported is an Error that names
// it.
void apply_hf_config(Checkpoint& checkpoint, const Json& config);
std::string hf_known_classes();  // "LlamaForCausalLM, MistralForCausalLM, ..."
// After it, for a model of sentence-transformers: how the config.json of pooling, `where`, turns states into an
// embedding.
void apply_hf_pooling(Checkpoint& checkpoint, const Json& pooling, const std::string& where);

// The modules that sentence-transformers runs one after the other, by the folders of their files.
struct HfModules {
  std::string pooling = "1_Pooling";  // empty: none
  std::vector<std::string> dense;     // products of the pooled state
};
// From modules.json, `where`. Throws an Error if embeddings go through more than a model, pooling, Dense modules and
// normalising.
HfModules read_hf_modules(const Json& modules, const std::string& where);
// After apply_hf_pooling(), for the next Dense module: its config.json, `where`, and the tensors of its file.
void apply_hf_dense(Checkpoint& checkpoint, const Json& dense, std::vector<Tensor> tensors, const std::string& where);

// A model of Qwen3 whose folder or config.json is called Qwen3-Reranker: the rows of "yes" and "no" of its head become
// a classifier. Called with the description's tensors in place, as apply_hf_config() leaves them.
void apply_hf_reranker(Checkpoint& checkpoint, const Json& config);

}  // namespace heddle::formats
