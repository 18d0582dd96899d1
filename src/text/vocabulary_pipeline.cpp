#include "text/vocabulary_pipeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace heddle::text {

namespace {

constexpr std::array<std::pair<std::string_view, Pipeline (*)(const Vocabulary&)>, 5> models{{
    {"gpt2", byte_level_pipeline},
    {"llama", sentence_piece_pipeline},
    {"gemma4", gemma4_pipeline},
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

// An id as the file gives it: -1 means absent.
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

std::vector<TokenId> byte_tokens(const std::unordered_map<std::string, TokenId>& ids) {
  std::vector<TokenId> out;
  bool any = false;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(fmt::format("<0x{:02X}>", byte));
    out.push_back(found == ids.end() ? no_token : found->second);
    any |= found != ids.end();
  }
  return any ? out : std::vector<TokenId>();
}

std::vector<PairPart> pair_template(const std::vector<TokenId>& prefix, const std::vector<TokenId>& suffix,
                                    std::optional<TokenId> separator) {
  std::vector<PairPart> out;
  const auto add = [&](const std::vector<TokenId>& tokens) {
    for (const TokenId token : tokens) out.push_back({.token = token});
  };
  add(prefix);
  out.push_back({.kind = PairPart::Kind::first});
  add(suffix);
  if (separator) out.push_back({.token = *separator});
  out.push_back({.kind = PairPart::Kind::second});
  add(suffix);
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
  // a default may ask for a token that is absent; the file's own setting may not
  const auto wanted = [](std::optional<bool> given, bool otherwise, std::optional<TokenId> id) {
    return given.value_or(otherwise && id);
  };
  const bool adds_bos =
      defaults.always_bos ? pipeline.bos.has_value() : wanted(vocabulary.add_bos, defaults.add_bos, pipeline.bos);
  add(pipeline.prefix, "add_bos_token", "bos_token_id", adds_bos, pipeline.bos);
  add(pipeline.suffix, "add_eos_token", "eos_token_id", wanted(vocabulary.add_eos, defaults.add_eos, pipeline.eos),
      pipeline.eos);
  std::optional<TokenId> separator;
  if (vocabulary.add_sep.value_or(false)) {
    separator = checked(vocabulary, "seperator_token_id", vocabulary.separator);
    if (!separator) separator = pipeline.eos;  // <s> first </s></s> second </s>
  }
  pipeline.pair = pair_template(pipeline.prefix, pipeline.suffix, separator);
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

namespace {

// Tokens with these texts end a completion in every model that has them, and are control tokens whatever their type.
// The same texts end a generation in llama.cpp.
constexpr std::array end_texts{
    std::string_view("<|eot_id|>"),
    std::string_view("<|im_end|>"),
    std::string_view("<|end|>"),
    std::string_view("<|return|>"),
    std::string_view("<|call|>"),
    std::string_view("<|flush|>"),
    std::string_view("<|calls|>"),
    std::string_view("<end_of_turn>"),
    std::string_view("<|endoftext|>"),
    std::string_view("</s>"),
    std::string_view("<|eom_id|>"),
    std::string_view("<EOT>"),
    std::string_view("_<EOT>"),
    std::string_view("[EOT]"),
    std::string_view("[EOS]"),
    std::string_view("<|end_of_text|>"),
    std::string_view("<end_of_utterance>"),
    std::string_view("<eos>"),
    std::string_view("<turn|>"),
    std::string_view("<|tool_response>"),
    std::string_view("<\uff5cend\u2581of\u2581sentence\uff5c>"),
    std::string_view("[e~["),
};
// Of code models that complete the middle of a file: what comes after these is not part of the file.
constexpr std::array file_end_texts{
    std::string_view("<|fim_pad|>"),   std::string_view("<fim-pad>"),    std::string_view("<fim_pad>"),
    std::string_view("<PAD>"),         std::string_view("[PAD]"),        std::string_view("<|fim_repo|>"),
    std::string_view("<|repo_name|>"), std::string_view("<fim-repo>"),   std::string_view("<REPO>"),
    std::string_view("<reponame>"),    std::string_view("<|file_sep|>"),
};

// Whether a token of this text does not end a completion in this model, which has others for that.
bool is_exempt(const Pipeline& pipeline, std::string_view text) {
  if (text == "<|end|>")  // ends a message, not the turn, of harmony and Solar
    return (pipeline.has("<|return|>") && pipeline.has("<|call|>")) ||
           (pipeline.has("<|flush|>") && (pipeline.has("<|call|>") || pipeline.has("<|calls|>")));
  return text == "</s>" && pipeline.has("<|tool_response>");  // plain text to Gemma 4
}

}  // namespace

void add_end_token(Pipeline& pipeline, TokenId id) {
  if (std::find(pipeline.end_tokens.begin(), pipeline.end_tokens.end(), id) == pipeline.end_tokens.end())
    pipeline.end_tokens.push_back(id);
}

void add_end_tokens(Pipeline& pipeline, bool untyped, std::initializer_list<std::optional<TokenId>> named) {
  for (const std::string_view text : end_texts) {
    const auto found = pipeline.ids.find(std::string(text));
    if (found == pipeline.ids.end() || is_exempt(pipeline, text)) continue;
    TokenType& type = pipeline.tokens[found->second].type;
    if (text == "</s>" && !untyped && type == TokenType::normal) continue;  // an HTML tag, where the file types it so
    type = TokenType::control;
    add_end_token(pipeline, found->second);
  }
  for (const std::string_view text : file_end_texts)
    if (const auto found = pipeline.ids.find(std::string(text)); found != pipeline.ids.end())
      add_end_token(pipeline, found->second);
  for (const std::optional<TokenId> id : named)
    if (id && !is_exempt(pipeline, pipeline.tokens[*id].text)) add_end_token(pipeline, *id);
}

}  // namespace heddle::text
