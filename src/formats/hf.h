// A model as Hugging Face saves it, in GGUF's terms: config.json becomes metadata, tensors get GGUF's names and
// order of rows. formats/hf/ has the classes.
#pragma once
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
// The folder of that file, as modules.json of sentence-transformers, `where`, names it; empty: none. Throws an Error if
// embeddings go through more than a model, pooling and normalising.
std::string hf_pooling_folder(const Json& modules, const std::string& where);

}  // namespace heddle::formats
