// The sections of tokenizer.json and tokenizer_config.json, each read into its place in a Pipeline. Objects are read
// field by field: a field that is missing, of the wrong type or unknown is an Error that names its place, because an
// unknown one might change results. A field that is null counts as absent.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/pipeline.h"

namespace heddle::text {

class Fields {
 public:
  Fields(const Json& object, std::string where);
  const std::string& where() const { return where_; }
  std::string place(std::string_view name) const { return fmt::format("{}.{}", where_, name); }

  const Json* find(std::string_view name);  // null: absent
  const Json& at(std::string_view name);
  const Json& list(std::string_view name);
  std::string text(std::string_view name);
  std::string character(std::string_view name);  // a text of one character
  std::string text_or(std::string_view name, std::string otherwise);
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise);
  uint32_t number(std::string_view name);
  void ignore(std::string_view name) { known_.emplace_back(name); }  // has no effect on encoding and decoding
  void ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) ignore(name);
  }
  void finish() const;  // after the last known field was asked for: refuses all others

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

std::string json_text(const Json& value, const std::string& place);
bool json_flag(const Json& value, const std::string& place);
uint32_t json_number(const Json& value, const std::string& place);

// One step of a pipeline; sequences of steps are flattened.
struct JsonStep {
  const Json* json = nullptr;
  std::string type;
  std::string where;
};
// `list`: the field in which a "Sequence" has its steps ("normalizers"). Null: no steps.
std::vector<JsonStep> json_steps(const Json* json, std::string_view list, const std::string& where);
[[noreturn]] void throw_unknown(const JsonStep& step, std::string_view what, std::string_view known);

// {"String": "..."} or {"Regex": "..."}
struct JsonPattern {
  bool is_regex = false;
  std::string text;
};
JsonPattern json_pattern(Fields& fields, std::string_view name);

std::vector<Normalizer> read_normalizers(const Json* json, const std::string& where);

std::string charsmap_bytes(const JsonStep& precompiled);  // base64 in the file

struct JsonSplitters {
  std::vector<Splitter> splitters;
  bool spells_bytes = false;  // the last step is ByteLevel, which is not in `splitters`: the model gets bytes
};
JsonSplitters read_splitters(const Json* json, const std::string& where);

// The tokens of the model, without those added to it.
struct JsonVocabulary {
  std::vector<std::string> texts;  // by id; empty where no token has this id
  std::unordered_map<std::string, TokenId> ids;
  size_t count = 0;
  std::optional<TokenId> find(const std::string& text) const;
};

struct JsonModel {
  std::string type;  // "BPE", "Unigram", "WordPiece", "WordLevel"
  JsonVocabulary vocabulary;
  std::vector<double> scores;                               // Unigram: by id
  std::vector<std::pair<std::string, std::string>> merges;  // BPE: best first
  std::string unknown;                                      // its text
  bool has_unknown = false;
  bool byte_fallback = false, fuse_unknown = false, ignore_merges = false;  // BPE and Unigram
  std::string continuing_prefix, word_suffix;                               // WordPiece and BPE
  uint32_t max_characters = 0;                                              // WordPiece
};
JsonModel read_model(const Json& json, const std::string& where);
// `bytes`: the model gets bytes as they are, though its vocabulary spells them as characters.
std::unique_ptr<const Model> make_model(const JsonModel& model, bool bytes, const std::string& where);
bool has_all_bytes(const JsonModel& model);  // every byte, in its spelling as a character, is a token

// Sets the bytes of every token, strip_first_space and first_bytes.
void read_decoder(const Json* json, const std::string& where, const std::vector<std::string>& spellings,
                  Pipeline& pipeline);

// Sets prefix, suffix and pair: the tokens that a post-processor puts around texts.
void read_post_processor(const Json* json, const std::string& where, Pipeline& pipeline);

// tokenizer_config.json: which tokens begin and end a text, and for some classes of tokenizer whether they are added.
struct TokenizerConfig {
  std::string tokenizer_class;                                                  // "LlamaTokenizerFast"; may be empty
  std::optional<std::string> bos, eos, unknown, separator, padding, mask, cls;  // the texts of tokens
  std::optional<bool> add_bos, add_eos;
};
TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& where);

// Whether add_bos_token and add_eos_token have an effect: transformers ignores them, except in the classes of the Llama
// family, which add the tokens themselves.
bool decides_about_bos(const TokenizerConfig& config);

// generation_config.json: further tokens that end a completion.
void add_generation_ends(std::string_view text, const std::string& where, Pipeline& pipeline);

// Sets bos and eos, and prefix and suffix where the configuration decides about them.
void read_config(std::string_view text, const std::string& where, Pipeline& pipeline);

}  // namespace heddle::text
