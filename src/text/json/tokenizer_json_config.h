// tokenizer_config.json: which tokens begin and end a text, and for some classes of tokenizer whether they are added.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/pipeline.h"

namespace heddle::text {

struct TokenizerConfig {
  std::string tokenizer_class;                                                  // "LlamaTokenizerFast"; may be empty
  std::optional<std::string> bos, eos, unknown, separator, padding, mask, cls;  // the texts of tokens
  std::optional<bool> add_bos, add_eos;
};
TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& where);

// transformers hands tokenizer.json to `tokenizers` as it is and leaves add_bos_token and add_eos_token aside, but for
// the classes of the Llama family, which put the tokens there themselves.
bool decides_about_bos(const TokenizerConfig& config);

// Sets bos, eos and ends, and prefix and suffix where the configuration decides about them.
void read_config(std::string_view text, const std::string& where, Pipeline& pipeline);

}  // namespace heddle::text
