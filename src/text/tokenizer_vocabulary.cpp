#include "text/tokenizer_vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/end_tokens.h"
#include "text/tokenizer.h"

namespace heddle::text {

namespace {

constexpr std::array<std::pair<std::string_view, Pipeline (*)(const Vocabulary&)>, 4> models{{
    {"gpt2", byte_level_pipeline},
    {"llama", sentence_piece_pipeline},
    {"t5", unigram_pipeline},
    {"bert", word_piece_pipeline},
}};

void add_tokens(Pipeline& pipeline, const Vocabulary& vocabulary) {
  const size_t count = vocabulary.tokens.size();
  const auto check_count = [&](std::string_view field, size_t found) {
    if (found != 0 && found != count)
      throw Error("{}: {} has {} entries for {} tokens", vocabulary.source, field, found, count);
  };
  if (count == 0) throw Error("{}: the vocabulary (tokenizer.ggml.tokens) is empty", vocabulary.source);
  check_count("tokenizer.ggml.scores", vocabulary.scores.size());
  check_count("tokenizer.ggml.token_type", vocabulary.types.size());
  if (count >= std::numeric_limits<TokenId>::max()) throw Error("{}: {} tokens are too many", vocabulary.source, count);
  pipeline.tokens.reserve(count);
  pipeline.ids.reserve(count);
  for (TokenId id = 0; id < count; ++id) {
    const std::string& text = vocabulary.tokens[id];
    TokenInfo token{text, text, vocabulary.types.empty() ? TokenType::normal : vocabulary.types[id]};
    const auto byte = named_byte(text);
    if (byte && vocabulary.types.empty()) token.type = TokenType::byte;
    if (token.type == TokenType::byte) {
      if (!byte)
        throw Error("{}: token {} is a byte, but its text is {}; expected \"<0x0A>\"", vocabulary.source, id,
                    in_quotes(text));
      token.bytes.assign(1, char(*byte));
    }
    pipeline.ids.emplace(text, id);
    pipeline.tokens.push_back(std::move(token));
  }
}

// An id as the file gives it: -1 means none.
std::optional<TokenId> checked(const Vocabulary& vocabulary, std::string_view field, std::optional<TokenId> id) {
  if (!id || *id == std::numeric_limits<TokenId>::max()) return std::nullopt;
  if (*id >= vocabulary.tokens.size())
    throw Error("{}: tokenizer.ggml.{} is {}, but there are {} tokens", vocabulary.source, field, *id,
                vocabulary.tokens.size());
  return id;
}

// Phi-3's vocabulary is Llama 2's with these tokens added; its own tokenizer drops white space after most of them,
// which GGUF has no field for.
bool strips_after(const Pipeline& pipeline, std::string_view text) {
  const bool is_phi3 = pipeline.has("<|placeholder1|>") && pipeline.has("<|assistant|>") && pipeline.has("\u2581t");
  return is_phi3 && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

void add_added(Pipeline& pipeline) {
  for (TokenId id = 0; id < pipeline.tokens.size(); ++id) {
    const TokenInfo& token = pipeline.tokens[id];
    const bool special = token.type == TokenType::control || token.type == TokenType::unknown;
    if ((!special && token.type != TokenType::user_defined) || token.text.empty()) continue;
    AddedToken added{.text = token.text, .id = id, .special = special};
    added.rstrip = strips_after(pipeline, token.text);
    pipeline.added.push_back(std::move(added));
  }
}

}  // namespace

std::optional<uint8_t> named_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc{} || end != text.data() + 5) return std::nullopt;
  return byte;
}

std::vector<TokenId> byte_tokens(const Pipeline& pipeline) {
  std::vector<TokenId> out;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = pipeline.ids.find(fmt::format("<0x{:02X}>", byte));
    if (found == pipeline.ids.end()) return {};
    out.push_back(found->second);
  }
  return out;
}

Pipeline begin_pipeline(const Vocabulary& vocabulary, const VocabularyDefaults& defaults) {
  Pipeline pipeline;
  add_tokens(pipeline, vocabulary);
  const auto or_default = [&](std::string_view field, std::optional<TokenId> given, std::optional<TokenId> otherwise) {
    if (given) return checked(vocabulary, field, given);
    if (!otherwise || *otherwise >= pipeline.tokens.size()) return std::optional<TokenId>();
    const bool counts = vocabulary.types.empty() || pipeline.tokens[*otherwise].type == TokenType::control;
    return counts ? otherwise : std::nullopt;
  };
  pipeline.bos = or_default("bos_token_id", vocabulary.bos, defaults.bos);
  pipeline.eos = or_default("eos_token_id", vocabulary.eos, defaults.eos);
  add_end_tokens(pipeline, vocabulary.types.empty(),
                 {pipeline.eos, checked(vocabulary, "eot_token_id", vocabulary.eot),
                  checked(vocabulary, "eom_token_id", vocabulary.eom)});
  add_added(pipeline);
  const auto add = [&](std::vector<TokenId>& where, std::string_view field, std::string_view id_field, bool wanted,
                       std::optional<TokenId> id) {
    if (wanted && !id)
      throw Error("{}: tokenizer.ggml.{} asks for a token, but there is no tokenizer.ggml.{}", vocabulary.source, field,
                  id_field);
    if (wanted) where.push_back(*id);
  };
  // a default asks for what may not be there; the file's own word must be good
  const auto wanted = [](std::optional<bool> given, bool otherwise, std::optional<TokenId> id) {
    return given.value_or(otherwise && id);
  };
  add(pipeline.prefix, "add_bos_token", "bos_token_id", wanted(vocabulary.add_bos, defaults.add_bos, pipeline.bos),
      pipeline.bos);
  add(pipeline.suffix, "add_eos_token", "eos_token_id", wanted(vocabulary.add_eos, defaults.add_eos, pipeline.eos),
      pipeline.eos);
  return pipeline;
}

Tokenizer Tokenizer::from_vocabulary(Vocabulary vocabulary) {
  std::string known;
  for (const auto& [name, make] : models) {
    if (vocabulary.model == name) return Tokenizer(make(vocabulary));
    known.append(known.empty() ? "" : ", ").append(name);
  }
  throw Error("{}: unknown tokenizer \"{}\" (tokenizer.ggml.model); known are {}", vocabulary.source, vocabulary.model,
              known);
}

}  // namespace heddle::text
