// weft is copied into the program by the assembler; HEDDLE_OWN_MODEL is its path. A table says which metadata key is
// which field of a vocabulary; reading and writing go through it.
#include "main/device/open_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "main/models/named_model.h"
#include "model/architectures.h"
#include "text/json/vocabulary_json.h"

// clang-format off
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    "heddle_own_model_begin:\n"
    ".incbin \"" HEDDLE_OWN_MODEL "\"\n"
    "heddle_own_model_end:\n"
    ".byte 0\n"
    ".popsection\n");
// clang-format on
extern "C" const uint8_t heddle_own_model_begin[] __attribute__((visibility("hidden")));
extern "C" const uint8_t heddle_own_model_end[] __attribute__((visibility("hidden")));

namespace heddle {
namespace {

using formats::Array;
using formats::Metadata;
using formats::ValueType;
using text::TokenId;
using text::TokenType;
using text::Vocabulary;

struct IdKey {
  const char* key;
  std::optional<TokenId> Vocabulary::*field;
};
constexpr IdKey id_keys[] = {
    {"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
    {"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
    {"tokenizer.ggml.eot_token_id", &Vocabulary::eot},
    {"tokenizer.ggml.eom_token_id", &Vocabulary::eom},
    {"tokenizer.ggml.unknown_token_id", &Vocabulary::unknown},
    {"tokenizer.ggml.seperator_token_id", &Vocabulary::separator},  // GGUF's spelling
    {"tokenizer.ggml.padding_token_id", &Vocabulary::padding},
    {"tokenizer.ggml.mask_token_id", &Vocabulary::mask},
};

struct FlagKey {
  const char* key;
  std::optional<bool> Vocabulary::*field;
};
constexpr FlagKey flag_keys[] = {
    {"tokenizer.ggml.add_bos_token", &Vocabulary::add_bos},
    {"tokenizer.ggml.add_eos_token", &Vocabulary::add_eos},
    {"tokenizer.ggml.add_sep_token", &Vocabulary::add_sep},
    {"tokenizer.ggml.add_space_prefix", &Vocabulary::add_space_prefix},
    {"tokenizer.ggml.normalizer.lowercase", &Vocabulary::lower_case},
    {"tokenizer.ggml.normalizer.strip_accents", &Vocabulary::strip_accents},
};

constexpr const char* model_key = "tokenizer.ggml.model";
constexpr const char* pre_key = "tokenizer.ggml.pre";
constexpr const char* tokens_key = "tokenizer.ggml.tokens";
constexpr const char* scores_key = "tokenizer.ggml.scores";
constexpr const char* types_key = "tokenizer.ggml.token_type";
constexpr const char* merges_key = "tokenizer.ggml.merges";
constexpr const char* whitespace_key = "tokenizer.ggml.remove_extra_whitespaces";
constexpr const char* charsmap_key = "tokenizer.ggml.precompiled_charsmap";

constexpr uint64_t no_id = 0xffffffff;  // some writers put -1 where there is no such token

std::vector<std::string> strings(const Array& array) {
  const std::vector<std::string_view> views = array.strings();
  return {views.begin(), views.end()};
}

void check_count(const Vocabulary& vocabulary, const char* key, size_t found) {
  if (found != vocabulary.tokens.size())
    throw Error("{}: {}: expected {} entries, one per token, found {}", vocabulary.source, key,
                vocabulary.tokens.size(), found);
}

Vocabulary from_metadata(const Metadata& metadata, const std::string& source) {
  Vocabulary vocabulary;
  vocabulary.source = source;
  vocabulary.model = metadata.string(model_key);
  vocabulary.pre = metadata.find_string(pre_key).value_or("");
  vocabulary.tokens = strings(metadata.array(tokens_key));
  if (const Array* scores = metadata.find_array(scores_key)) {
    for (double score : scores->numbers()) vocabulary.scores.push_back(static_cast<float>(score));
    check_count(vocabulary, scores_key, vocabulary.scores.size());
  }
  if (const Array* types = metadata.find_array(types_key)) {
    for (int64_t type : types->integers()) {
      if (type < 1 || type > 6)
        throw Error("{}: {}: expected types from 1 to 6, found {} for token {}", source, types_key, type,
                    vocabulary.types.size());
      vocabulary.types.push_back(TokenType(type));
    }
    check_count(vocabulary, types_key, vocabulary.types.size());
  }
  if (const Array* merges = metadata.find_array(merges_key)) vocabulary.merges = strings(*merges);
  for (const IdKey& entry : id_keys) {
    const auto id = metadata.find_integer(entry.key);
    if (!id || *id == no_id) continue;
    if (*id >= vocabulary.tokens.size())
      throw Error("{}: {}: expected an id below {}, found {}", source, entry.key, vocabulary.tokens.size(), *id);
    vocabulary.*entry.field = static_cast<TokenId>(*id);
  }
  for (const FlagKey& entry : flag_keys) vocabulary.*entry.field = metadata.find_boolean(entry.key);
  vocabulary.remove_extra_whitespaces = metadata.find_boolean(whitespace_key).value_or(false);
  if (const Array* charsmap = metadata.find_array(charsmap_key))
    for (int64_t byte : charsmap->integers()) vocabulary.precompiled_charsmap.push_back(static_cast<char>(byte));
  return vocabulary;
}

// generation_config.json may name several end tokens; GGUF has room for EOS, end of turn and end of message.
void add_ends(Vocabulary& vocabulary, const std::string& generation, const std::string& source) {
  if (generation.empty()) return;
  const Json json = parse_json(generation, source + "/generation_config.json");
  const auto entry = json.find("eos_token_id");
  if (entry == json.end() || entry->is_null()) return;
  std::vector<TokenId> ends;
  for (const Json& id : entry->is_array() ? *entry : Json::array({*entry})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary.tokens.size())
      throw Error("{}/generation_config.json: eos_token_id: expected ids below {}, found {}", source,
                  vocabulary.tokens.size(), id.dump());
    ends.push_back(id.get<TokenId>());
  }
  std::optional<TokenId>* const places[] = {&vocabulary.eos, &vocabulary.eot, &vocabulary.eom};
  for (TokenId id : ends) {
    if (std::any_of(std::begin(places), std::end(places), [&](auto* place) { return *place == id; })) continue;
    const auto room = std::find_if(std::begin(places), std::end(places), [](auto* place) { return !*place; });
    if (room == std::end(places))
      throw Error("{}/generation_config.json: eos_token_id: expected at most {} end tokens, found {}", source,
                  std::size(places), entry->dump());
    **room = id;
  }
}

}  // namespace

std::span<const uint8_t> own_model() { return {heddle_own_model_begin, heddle_own_model_end}; }

formats::Checkpoint open_model(const std::string& name) {
  if (name.empty())
    throw Error(
        "MODEL: expected a GGUF file, a folder of safetensors, the name of a model or weft, found an empty name");
  if (name == own_model_name) return formats::read_gguf(own_model(), own_model_name);
  NamedModel found = find_model(name);
  formats::Checkpoint checkpoint = formats::open_checkpoint(found.path);
  checkpoint.known_as = std::move(found.name);
  return checkpoint;
}

formats::Checkpoint open_texts(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;  // open_model() says what is wrong
  if (name.empty() || name == own_model_name) return open_model(name);
  const fs::path path = find_model(name).path;
  if (!fs::exists(path / "tokenizer.json", error)) return open_model(name);
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".gguf") return open_model(name);
  formats::Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.kind = formats::Checkpoint::Kind::safetensors;
  checkpoint.metadata = Metadata(path.string());
  checkpoint.text = formats::read_text_files(path);
  return checkpoint;
}

void expect_known_architecture(const formats::Checkpoint& checkpoint) {
  model::architecture_named(checkpoint.architecture(), checkpoint.path.string());
}

uint64_t trained_context(const formats::Checkpoint& checkpoint) {
  const auto architecture = checkpoint.metadata.find_string("general.architecture");
  if (!architecture) return 0;
  return checkpoint.metadata.find_integer(fmt::format("{}.context_length", *architecture)).value_or(0);
}

text::Tokenizer open_tokenizer(const formats::Checkpoint& checkpoint) {
  if (checkpoint.kind == formats::Checkpoint::Kind::gguf)
    return text::Tokenizer::from_vocabulary(vocabulary_of(checkpoint));
  if (checkpoint.text.tokenizer.empty())
    throw Error("{}: expected a tokenizer.json beside the weights, found none", checkpoint.path.string());
  return text::Tokenizer::from_json(checkpoint.text.tokenizer, checkpoint.text.tokenizer_config,
                                    checkpoint.path.string(), checkpoint.text.generation);
}

void put_vocabulary(Metadata& metadata, const Vocabulary& vocabulary) {
  metadata.set(model_key, vocabulary.model);
  if (!vocabulary.pre.empty()) metadata.set(pre_key, vocabulary.pre);
  metadata.set(tokens_key, Array::of(vocabulary.tokens));
  if (!vocabulary.scores.empty()) metadata.set(scores_key, Array::of(vocabulary.scores));
  if (!vocabulary.types.empty()) {
    std::vector<int32_t> types;
    for (TokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
    metadata.set(types_key, Array::of(types));
  }
  if (!vocabulary.merges.empty()) metadata.set(merges_key, Array::of(vocabulary.merges));
  for (const IdKey& entry : id_keys)
    if (const auto& id = vocabulary.*entry.field) metadata.set(entry.key, *id);
  for (const FlagKey& entry : flag_keys)
    if (const auto& flag = vocabulary.*entry.field) metadata.set(entry.key, *flag);
  if (vocabulary.remove_extra_whitespaces) metadata.set(whitespace_key, true);
  if (!vocabulary.precompiled_charsmap.empty()) {
    const auto bytes = std::make_shared<const std::string>(vocabulary.precompiled_charsmap);
    metadata.set(charsmap_key, Array(ValueType::u8, bytes->size(),
                                     {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, bytes));
  }
}

bool has_vocabulary(const formats::Checkpoint& checkpoint) {
  return checkpoint.metadata.find(tokens_key) || !checkpoint.text.tokenizer.empty();
}

Vocabulary vocabulary_of(const formats::Checkpoint& checkpoint) {
  const std::string source = checkpoint.path.string();
  if (checkpoint.metadata.find(tokens_key)) return from_metadata(checkpoint.metadata, source);
  if (checkpoint.text.tokenizer.empty()) throw Error("{}: there is no tokenizer in it", source);
  Vocabulary vocabulary =
      text::vocabulary_from_json(checkpoint.text.tokenizer, checkpoint.text.tokenizer_config, source);
  add_ends(vocabulary, checkpoint.text.generation, source);
  return vocabulary;
}

void expect_same_vocabulary(const formats::Checkpoint& model, const formats::Checkpoint& draft) {
  const std::string source = draft.path.string(), other = model.path.string();
  if (has_vocabulary(model) != has_vocabulary(draft))
    throw Error("draft {}: expected the tokens of {}, but {} has a tokenizer", source, other,
                has_vocabulary(model) ? "only the model" : "only the draft");
  if (!has_vocabulary(model)) return;
  const text::Tokenizer expected = open_tokenizer(model), found = open_tokenizer(draft);
  for (text::TokenId id = 0; id < std::min(expected.size(), found.size()); ++id)
    if (expected.text(id) != found.text(id))
      throw Error("draft {}: expected the vocabulary of {}, where token {} is {}, found {}", source, other, id,
                  in_quotes(std::string(expected.text(id))), in_quotes(std::string(found.text(id))));
}

Vocabulary padded(Vocabulary vocabulary, uint64_t rows) {
  if (vocabulary.tokens.size() > rows)
    throw Error("{}: the tokenizer has {} tokens, but the embedding only {} rows", vocabulary.source,
                vocabulary.tokens.size(), rows);
  const size_t first = vocabulary.tokens.size();
  if (first == rows) return vocabulary;
  if (vocabulary.types.empty()) vocabulary.types.assign(first, TokenType::normal);
  vocabulary.types.resize(rows, TokenType::unused);
  for (uint64_t id = first; id < rows; ++id) vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
  if (!vocabulary.scores.empty()) vocabulary.scores.resize(rows, -10000.f);
  return vocabulary;
}

}  // namespace heddle
