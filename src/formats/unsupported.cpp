// Classes are found by their beginning: "Jamba" stands for JambaForCausalLM and JambaModel.
#include "formats/unsupported.h"

namespace heddle::formats {
namespace {

constexpr struct {
  std::string_view architecture, class_begins, needs;
} table[] = {
    {"mamba", "MambaFor", "recurrent states (Mamba)"},
    {"", "FalconMamba", "recurrent states (Mamba)"},
    {"jamba", "Jamba", "recurrent states (Mamba)"},
    {"plamo2", "Plamo2", "recurrent states (Mamba)"},
    {"", "Bamba", "recurrent states (Mamba)"},
    {"", "Zamba", "recurrent states (Mamba)"},
    {"rwkv6", "Rwkv6", "recurrent states (RWKV)"},
    {"rwkv7", "RWKV7", "recurrent states (RWKV)"},
    {"arwkv7", "", "recurrent states (RWKV)"},
    {"rwkv6qwen2", "", "recurrent states (RWKV)"},
    {"kimi-linear", "KimiLinear", "recurrent states (delta attention)"},
    {"deepseek32", "DeepseekV32", "sparse attention with an indexer"},
    {"glm-dsa", "GlmMoeDsa", "sparse attention with an indexer"},
    {"t5", "T5", "a decoder that reads an encoder's output (cross attention)"},
    {"", "UMT5", "a decoder that reads an encoder's output (cross attention)"},
    {"t5encoder", "T5Encoder", "relative positions (T5)"},
    {"", "Bart", "a decoder that reads an encoder's output (cross attention)"},
    {"", "Marian", "a decoder that reads an encoder's output (cross attention)"},
    {"clip", "CLIP", "pictures: this is the part of a model that reads them"},
    {"", "Siglip", "pictures: this is the part of a model that reads them"},
    {"", "Whisper", "sound"},
    {"wavtokenizer-dec", "", "sound"},
};

}  // namespace

std::string_view missing_for(std::string_view name) {
  std::string_view needs;
  size_t longest = 0;
  for (const auto& one : table) {
    if (!one.architecture.empty() && one.architecture == name) return one.needs;
    if (one.class_begins.size() <= longest || !name.starts_with(one.class_begins)) continue;
    longest = one.class_begins.size();
    needs = one.needs;
  }
  return needs;
}

}  // namespace heddle::formats
