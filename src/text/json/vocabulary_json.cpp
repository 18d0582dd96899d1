#include "text/json/vocabulary_json.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/json/tokenizer_json.h"
#include "text/split/regex.h"
#include "text/split/splitters.h"
#include "text/tokenizer.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {
namespace {

constexpr std::string_view byte_block = "\u2581";

// The steps of the file, by name.
struct Steps {
  std::vector<JsonStep> normalizers, splitters;
  Steps(Fields& fields, const std::string& file)
      : normalizers(json_steps(fields.find("normalizer"), "normalizers", file + ": normalizer")),
        splitters(json_steps(fields.find("pre_tokenizer"), "pretokenizers", file + ": pre_tokenizer")) {}
};

[[noreturn]] void throw_not_in_gguf(const JsonStep& step, std::string_view model) {
  throw Error("{}: GGUF cannot express {} with the tokenizer \"{}\"", step.where, shortened(*step.json), model);
}

bool is_replace(const JsonStep& step, bool is_regex, std::string_view pattern, std::string_view content) {
  if (step.type != "Replace") return false;
  Fields fields(*step.json, step.where);
  const JsonPattern found = json_pattern(fields, "pattern");
  return found.is_regex == is_regex && found.text == pattern && fields.text("content") == content;
}

bool flag_of(const JsonStep& step, std::string_view name, bool otherwise) {
  return Fields(*step.json, step.where).flag_or(name, otherwise);
}

std::string string_at(const JsonStep& step, std::string_view name) {
  return Fields(*step.json, step.where).text_or(name, "");
}

// Whether Metaspace puts a space before a text.
bool prepends(const JsonStep& metaspace) { return string_at(metaspace, "prepend_scheme") != "never"; }

// \x{4e00}, \u4e00, \r and \n as the characters themselves: ways to write the same pattern.
std::string with_characters(std::string_view pattern) {
  std::string out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    if (rest.starts_with("\\r") || rest.starts_with("\\n")) {
      out.push_back(rest[1] == 'r' ? '\r' : '\n');
      ++at;
      continue;
    }
    if (rest.starts_with("\\\\")) {  // a backslash, and what follows it is no escape
      out.append(rest.substr(0, 2));
      ++at;
      continue;
    }
    size_t digits = 0, end = 0;
    if (rest.starts_with("\\x{") && rest.find('}') != rest.npos) {
      digits = 3;
      end = rest.find('}');
    } else if (rest.starts_with("\\u") && rest.size() >= 6) {
      digits = 2;
      end = 6;
    }
    uint32_t value = 0;
    for (size_t i = digits; i < end && digits > 0; ++i) {
      const char c = static_cast<char>(rest[i] | 0x20);
      const bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
      if ((!is_digit && !is_letter) || value > 0x10ffff) digits = 0;
      value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : c - 'a' + 10);
    }
    if (digits > 0 && value >= 0x80 && value <= 0x10ffff) {
      append_utf8(out, value);
      at += digits == 3 ? end : end - 1;
    } else {
      out.push_back(pattern[at]);
    }
  }
  return out;
}

// The pattern that a step of byte-level BPE splits at; nothing for a step that does not split.
std::optional<std::string> pattern_of(const JsonStep& step) {
  Fields fields(*step.json, step.where);
  if (step.type == "Split") {
    const JsonPattern pattern = json_pattern(fields, "pattern");
    const std::string behavior = fields.text("behavior");
    const bool invert = fields.flag("invert");
    // "keep the matches, drop the rest" is the same for patterns that match everything
    if (pattern.is_regex && ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert)))
      return pattern.text;
  } else if (step.type == "Digits") {
    return fields.flag("individual_digits") ? R"(\p{N})" : R"(\p{N}+)";
  } else if (step.type == "Punctuation" && fields.text_or("behavior", "Isolated") == "Contiguous") {
    return R"([\p{P}\$\+<=>\^~\|`]+)";
  } else if (step.type == "ByteLevel" && !fields.flag("add_prefix_space")) {
    if (!fields.flag_or("use_regex", true)) return std::nullopt;
    return std::string(patterns::gpt2);
  }
  throw_not_in_gguf(step, "gpt2");
}

// Whether the merges make every token of its own bytes: then it makes no difference whether they are ignored for a
// piece that is a token.
bool merges_make_all_tokens(JsonModel model, const std::vector<TokenType>& types, const std::string& file) {
  model.ignore_merges = false;
  const std::unique_ptr<const Model> merging = make_model(model, true, file);
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < model.vocabulary.texts.size(); ++id) {
    const auto bytes = byte_level_bytes(model.vocabulary.texts[id]);
    if (!bytes || bytes->empty() || types[id] != TokenType::normal) continue;  // added tokens are found before
    ids.clear();
    merging->encode(*bytes, ids);
    if (ids != std::vector<TokenId>{id}) return false;
  }
  return true;
}

std::string pre_tokenizer_name(const std::vector<JsonStep>& steps, const JsonModel& model,
                               const std::vector<TokenType>& types, const std::string& file) {
  std::vector<std::string> wanted;
  std::string shown;
  bool spelled = false;  // by a ByteLevel before: only patterns of ASCII mean the same in GGUF, which splits before it
  for (const JsonStep& step : steps) {
    const auto pattern = pattern_of(step);
    if (spelled && pattern != "[0-9][0-9][0-9]") throw_not_in_gguf(step, "gpt2");
    spelled |= step.type == "ByteLevel";
    if (pattern) {
      wanted.push_back(with_characters(*pattern));
      shown.append(shown.empty() ? "" : "\n  ").append(*pattern);
    }
  }
  const PreTokenizer* same = nullptr;  // but for ignore_merges
  for (const PreTokenizer& known : pre_tokenizers()) {
    if (!std::equal(wanted.begin(), wanted.end(), known.patterns.begin(), known.patterns.end(),
                    [](const std::string& a, std::string_view b) { return a == with_characters(b); }))
      continue;
    if (known.ignore_merges == model.ignore_merges) return std::string(known.names.front());
    same = &known;
  }
  if (same && merges_make_all_tokens(model, types, file)) return std::string(same->names.front());
  throw Error("{}: no pre-tokenizer known to GGUF has these patterns (ignore_merges: {}):\n  {}", file,
              model.ignore_merges, shown);
}

void fill_byte_level(const Steps& steps, const JsonModel& model, const std::string& file, Vocabulary& out) {
  out.model = "gpt2";
  for (const JsonStep& step : steps.normalizers)
    if (step.type != "NFC") throw_not_in_gguf(step, out.model);
  out.pre = pre_tokenizer_name(steps.splitters, model, out.types, file);
  for (const auto& [left, right] : model.merges) {
    for (const std::string& part : {left, right})
      if (part.find(' ') != part.npos)
        throw Error("{}: model.merges: \"{}\" has a space, which GGUF cannot write", file, part);
    out.merges.push_back(left + " " + right);
  }
}

// What SentencePiece would merge and the list does not.
std::optional<std::string> unlisted_pair(const JsonModel& model, const std::vector<TokenType>& types) {
  std::unordered_set<std::string> listed;  // "left right": tokens have no spaces here
  for (const auto& [left, right] : model.merges) listed.insert(left + ' ' + right);
  const auto is_piece = [&](const std::string& text) {
    const auto id = model.vocabulary.find(text);
    return id && types[*id] == TokenType::normal;
  };
  for (TokenId id = 0; id < model.vocabulary.texts.size(); ++id) {
    const std::string& text = model.vocabulary.texts[id];
    if (text.empty() || types[id] != TokenType::normal) continue;
    for (size_t at = code_point_at(text, 0).bytes; at < text.size(); at += code_point_at(text, at).bytes) {
      const std::string left = text.substr(0, at), right = text.substr(at);
      if (is_piece(left) && is_piece(right) && !listed.contains(left + ' ' + right))
        return fmt::format(
            "\"{}\" and \"{}\" make a token, but are not merged; SentencePiece would merge them, so GGUF cannot "
            "express "
            "this list",
            left, right);
    }
  }
  return std::nullopt;
}

// SentencePiece joins any two neighbours that form a token, the best score first; merges are a list of pairs. Both give
// the same ids if every pair that forms a token is in the list, with all pairs of one token before those of the next:
// then the position of a token's first merge is its score. Lists derived from a SentencePiece model are like that; for
// any other `problem` says why the ids would differ.
std::vector<float> scores_of_merges(const JsonModel& model, const std::vector<TokenType>& types,
                                    std::optional<std::string>& problem) {
  problem = unlisted_pair(model, types);
  if (problem) return {};
  constexpr float none = 1;  // scores are at most 0
  std::vector<float> scores(types.size(), none);
  const std::string* last = nullptr;  // the token of the merge before
  std::string joined;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    joined = model.merges[rank].first + model.merges[rank].second;
    if (last && *last == joined) continue;
    const TokenId id = *model.vocabulary.find(joined);
    if (scores[id] != none) {
      problem = fmt::format("a second place ({}) for \"{}\", with other tokens between; GGUF has one score for it",
                            rank, joined);
      return {};
    }
    scores[id] = -static_cast<float>(rank);
    last = &model.vocabulary.texts[id];
  }
  for (float& score : scores)
    if (score == none) score = -static_cast<float>(model.merges.size());
  return scores;
}

// "gemma4" has the merges themselves, and no space before the text. Added tokens keep their spelling: merges name them.
void fill_merged_characters(const JsonModel& model, const Pipeline& pipeline, Vocabulary& out) {
  out.model = out.pre = "gemma4";
  for (const auto& [left, right] : model.merges) out.merges.push_back(left + " " + right);
  for (TokenId id = 0; id < pipeline.tokens.size(); ++id)
    if (out.types[id] == TokenType::user_defined) out.tokens[id] = pipeline.tokens[id].text;
  out.scores.assign(out.tokens.size(), 0);
}

void fill_sentence_piece(const Steps& steps, const JsonModel& model, const Pipeline& pipeline, const std::string& file,
                         Vocabulary& out) {
  out.model = "llama";
  out.pre = "default";
  out.add_space_prefix = false;
  for (const JsonStep& step : steps.normalizers) {
    if (step.type == "Prepend" && string_at(step, "prepend") == byte_block)
      out.add_space_prefix = true;
    else if (!is_replace(step, false, " ", byte_block))
      throw_not_in_gguf(step, out.model);
  }
  for (const JsonStep& step : steps.splitters) {
    if (step.type == "Metaspace" && string_at(step, "replacement") == byte_block)
      out.add_space_prefix = *out.add_space_prefix || prepends(step);
    else if (step.type != "Split")  // Gemma splits at spaces, which are all replaced before
      throw_not_in_gguf(step, out.model);
  }
  std::optional<std::string> problem;
  out.scores = scores_of_merges(model, out.types, problem);
  if (!problem) return;
  const auto has_space = [](const auto& pair) {
    return pair.first.find(' ') != std::string::npos || pair.second.find(' ') != std::string::npos;
  };
  if (*out.add_space_prefix || std::any_of(model.merges.begin(), model.merges.end(), has_space))
    throw Error("{}: model.merges: {}", file, *problem);
  fill_merged_characters(model, pipeline, out);
}

void fill_unigram(const Steps& steps, const JsonModel& model, Vocabulary& out) {
  out.model = "t5";
  out.pre = "default";
  out.add_space_prefix = false;
  for (const JsonStep& step : steps.normalizers) {
    if (step.type == "Precompiled")
      out.precompiled_charsmap = charsmap_bytes(step);
    else if (is_replace(step, true, " {2,}", " "))
      out.remove_extra_whitespaces = true;
    else
      throw_not_in_gguf(step, out.model);
  }
  for (const JsonStep& step : steps.splitters) {
    if (step.type == "WhitespaceSplit")
      out.remove_extra_whitespaces = true;
    else if (step.type == "Metaspace" && string_at(step, "replacement") == byte_block)
      out.add_space_prefix = prepends(step);
    else
      throw_not_in_gguf(step, out.model);
  }
  out.scores.assign(out.tokens.size(), 0);
  for (size_t id = 0; id < model.scores.size(); ++id) out.scores[id] = static_cast<float>(model.scores[id]);
}

void fill_word_piece(const Steps& steps, const JsonModel& model, const std::string& file, Vocabulary& out) {
  out.model = "bert";
  out.pre = "default";
  for (const JsonStep& step : steps.normalizers) {
    if (step.type != "BertNormalizer" || !flag_of(step, "clean_text", false) ||
        !flag_of(step, "handle_chinese_chars", false))
      throw_not_in_gguf(step, out.model);
    const bool lower_case = flag_of(step, "lowercase", false);
    const bool strip_accents = flag_of(step, "strip_accents", lower_case);
    if (!lower_case) out.lower_case = false;
    if (strip_accents != lower_case) out.strip_accents = strip_accents;
  }
  for (const JsonStep& step : steps.splitters)
    if (step.type != "BertPreTokenizer") throw_not_in_gguf(step, out.model);
  if (steps.normalizers.size() != 1 || steps.splitters.size() != 1 || model.continuing_prefix != "##")
    throw Error("{}: GGUF knows WordPiece with BertNormalizer, BertPreTokenizer and the prefix \"##\" only", file);
  for (size_t id = 0; id < out.tokens.size(); ++id) {
    std::string& token = out.tokens[id];
    if (out.types[id] != TokenType::normal) continue;
    token = token.starts_with("##") ? token.substr(2) : std::string(byte_block) + token;
  }
}

// llama.cpp's converter takes these for control tokens, whatever their type in the file.
bool looks_special(std::string_view text) {
  const auto between = [&](std::string_view first, std::string_view last) {
    return text.size() >= first.size() + last.size() && text.starts_with(first) && text.ends_with(last);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || between("<|", "|>") ||
         between("<\uff5c", "\uff5c>") || between("<unused", ">");
}

void fill_tokens(const Pipeline& pipeline, Vocabulary& out) {
  for (TokenId id = 0; id < pipeline.tokens.size(); ++id) {
    const TokenInfo& token = pipeline.tokens[id];
    TokenType type = token.type;
    std::string text = token.text;
    if (text.empty()) text = fmt::format("[PAD{}]", id);
    if (type == TokenType::user_defined && looks_special(text)) type = TokenType::control;
    if (type == TokenType::user_defined)
      for (size_t at; (at = text.find(byte_block)) != text.npos;) text.replace(at, byte_block.size(), " ");
    out.tokens.push_back(std::move(text));
    out.types.push_back(type);
  }
}

// The token before or after every text: GGUF has one for each, BOS and EOS.
void fill_around(const std::vector<TokenId>& around, std::optional<TokenId>& token, std::optional<bool>& add,
                 std::string_view name, const std::string& file) {
  add = !around.empty();
  if (around.empty()) return;
  if (around.size() > 1) throw Error("{}: post_processor: {} tokens for {}, GGUF has one", file, around.size(), name);
  if (token && *token != around[0])
    throw Error("{}: post_processor: adds token {}, but {} is token {}", file, around[0], name, *token);
  token = around[0];
}

// Whether the token after a text stands twice between two: <s> first </s></s> second </s>. Other ways to join two texts
// than this and a single one are not in GGUF; only models that rank texts need one.
bool has_second_end(const Pipeline& pipeline) {
  if (pipeline.suffix.size() != 1) return false;
  const std::vector<PairPart> wanted = pair_template(pipeline.prefix, pipeline.suffix, pipeline.suffix[0]);
  return std::equal(wanted.begin(), wanted.end(), pipeline.pair.begin(), pipeline.pair.end(),
                    [](const PairPart& a, const PairPart& b) { return a.kind == b.kind && a.token == b.token; });
}

void fill_specials(const Pipeline& pipeline, const TokenizerConfig& config, const JsonModel& model,
                   const std::string& file, Vocabulary& out) {
  const auto find = [&](const std::optional<std::string>& text) -> std::optional<TokenId> {
    const auto found = text ? pipeline.ids.find(*text) : pipeline.ids.end();
    return found == pipeline.ids.end() ? std::nullopt : std::optional<TokenId>(found->second);
  };
  out.bos = pipeline.bos;
  out.eos = pipeline.eos;
  out.unknown = model.has_unknown ? find(model.unknown) : find(config.unknown);
  out.separator = find(config.separator);
  out.padding = find(config.padding);
  out.mask = find(config.mask);
  if (out.model == "bert") {
    if (!out.bos) out.bos = find(config.cls);
    fill_around(pipeline.prefix, out.bos, out.add_bos, "BOS", file);
    fill_around(pipeline.suffix, out.separator, out.add_sep, "the separator", file);
  } else {
    fill_around(pipeline.prefix, out.bos, out.add_bos, "BOS", file);
    fill_around(pipeline.suffix, out.eos, out.add_eos, "EOS", file);
    if (has_second_end(pipeline)) {
      out.separator = pipeline.suffix[0];
      out.add_sep = true;
    }
  }
}

}  // namespace

Vocabulary vocabulary_from_json(std::string_view tokenizer, std::string_view config, const std::string& source) {
  // from_json() checks the files
  const Tokenizer read = Tokenizer::from_json(tokenizer, config, source);
  const std::string file = source + "/tokenizer.json";
  const Json json = parse_json(tokenizer, file);
  Fields fields(json, file);
  const JsonModel model = read_model(fields.at("model"), file + ": model");
  const Steps steps(fields, file);
  const bool spells_bytes = std::any_of(steps.splitters.begin(), steps.splitters.end(),
                                        [](const JsonStep& step) { return step.type == "ByteLevel"; });

  Vocabulary out;
  out.source = source;
  fill_tokens(read.pipeline(), out);
  if (!model.word_suffix.empty() || (model.type == "BPE" && !model.continuing_prefix.empty()))
    throw Error("{}: GGUF cannot express BPE with marks inside or at the end of words", file);
  if (model.type == "BPE" && spells_bytes)
    fill_byte_level(steps, model, file, out);
  else if (model.type == "BPE" && model.byte_fallback && !model.ignore_merges)
    fill_sentence_piece(steps, model, read.pipeline(), file, out);
  else if (model.type == "Unigram")
    fill_unigram(steps, model, out);
  else if (model.type == "WordPiece")
    fill_word_piece(steps, model, file, out);
  else
    throw Error("{}: GGUF cannot express {} without ByteLevel or byte_fallback", file, model.type);
  const TokenizerConfig settings =
      config.empty() ? TokenizerConfig() : read_tokenizer_config(config, source + "/tokenizer_config.json");
  fill_specials(read.pipeline(), settings, model, file, out);
  return out;
}

}  // namespace heddle::text
