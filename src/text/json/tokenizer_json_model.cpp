// "model" of tokenizer.json: its vocabulary and settings, and the model that they describe.
#include <algorithm>

#include "base/error.h"
#include "text/bpe/bpe.h"
#include "text/bpe/byte_level.h"
#include "text/json/tokenizer_json_bpe.h"
#include "text/json/tokenizer_json_parts.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

// {"text": id, ...}
JsonVocabulary read_ids(const Json& json, const std::string& place) {
  if (!json.is_object()) throw Error("{}: expected an object, found {}", place, shortened(json));
  JsonVocabulary result;
  result.count = json.size();
  result.ids.reserve(json.size());
  // ids may have holes, but a single large id must not make heddle reserve memory for billions of tokens
  const size_t limit = 2 * json.size() + 100'000;
  for (const auto& [text, value] : json.items()) {
    const TokenId id = json_number(value, place);
    if (id >= limit) throw Error("{}: \"{}\" has id {} in a vocabulary of {}", place, text, id, json.size());
    result.ids.emplace(text, id);
    if (id >= result.texts.size()) result.texts.resize(id + 1);
    if (!result.texts[id].empty())
      throw Error("{}: \"{}\" and \"{}\" have the same id {}", place, result.texts[id], text, id);
    result.texts[id] = text;
  }
  return result;
}

// [["text", score], ...]
void read_scores(const Json& json, const std::string& place, JsonModel& model) {
  for (size_t id = 0; id < json.size(); ++id) {
    const Json& entry = json[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      throw Error("{}[{}]: expected a text and a score, found {}", place, id, shortened(entry));
    model.vocabulary.texts.push_back(entry[0].get<std::string>());
    model.vocabulary.ids.insert_or_assign(model.vocabulary.texts.back(), static_cast<TokenId>(id));
    model.scores.push_back(entry[1].get<double>());
  }
  model.vocabulary.count = json.size();
}

std::pair<std::string, std::string> read_merge(const Json& merge, const std::string& place, size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  throw Error("{}[{}]: expected two tokens, found {}", place, index, shortened(merge));
}

void read_bpe(Fields& fields, JsonModel& model) {
  model.vocabulary = read_ids(fields.at("vocab"), fields.place("vocab"));
  const Json& merges = fields.list("merges");
  model.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    // a version line, as in merges.txt
    if (i == 0 && merges[i].is_string() && merges[i].get_ref<const std::string&>().rfind("#version", 0) == 0) continue;
    model.merges.push_back(read_merge(merges[i], fields.place("merges"), i));
  }
  if (const Json* dropout = fields.find("dropout"); dropout && (!dropout->is_number() || *dropout != 0))
    throw Error("{}: expected null or 0, found {}: results would be random", fields.place("dropout"),
                shortened(*dropout));
  const Json* unknown = fields.find("unk_token");
  model.has_unknown = unknown != nullptr;
  if (unknown) model.unknown = json_text(*unknown, fields.place("unk_token"));
  model.fuse_unknown = fields.flag_or("fuse_unk", false);
  model.byte_fallback = fields.flag_or("byte_fallback", false);
  model.ignore_merges = fields.flag_or("ignore_merges", false);
  model.continuing_prefix = fields.text_or("continuing_subword_prefix", "");
  model.word_suffix = fields.text_or("end_of_word_suffix", "");
}

void read_unigram(Fields& fields, JsonModel& model) {
  read_scores(fields.list("vocab"), fields.place("vocab"), model);
  if (const Json* unknown = fields.find("unk_id")) {
    const TokenId id = json_number(*unknown, fields.place("unk_id"));
    if (id >= model.vocabulary.count)
      throw Error("{}: {} in a vocabulary of {}", fields.place("unk_id"), id, model.vocabulary.count);
    model.has_unknown = true;
    model.unknown = model.vocabulary.texts[id];
    if (model.vocabulary.find(model.unknown) != id)
      throw Error("{}: there are two tokens \"{}\"", fields.place("unk_id"), model.unknown);
  }
  model.byte_fallback = fields.flag_or("byte_fallback", false);
}

void read_words(Fields& fields, JsonModel& model) {
  model.vocabulary = read_ids(fields.at("vocab"), fields.place("vocab"));
  model.unknown = fields.text("unk_token");
  model.has_unknown = true;
  if (model.type == "WordLevel") return;
  model.continuing_prefix = fields.text("continuing_subword_prefix");
  model.most_characters = fields.number("max_input_chars_per_word");
}

// Old files do not say which model they have.
std::string guess_type(Fields& fields) {
  if (fields.find("merges")) return "BPE";
  if (fields.at("vocab").is_array()) return "Unigram";
  return fields.find("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<const Model> make_unigram_model(const JsonModel& model, const std::string& where) {
  std::vector<UnigramToken> tokens;
  UnigramOptions options;
  options.lowest_score = model.scores.empty() ? 0 : *std::min_element(model.scores.begin(), model.scores.end());
  options.unknown = model.has_unknown ? model.vocabulary.find(model.unknown) : std::nullopt;
  if (model.byte_fallback) options.byte_tokens = byte_tokens(model.vocabulary, where);
  options.spelt = true;
  for (TokenId id = 0; id < model.scores.size(); ++id) tokens.push_back({model.vocabulary.texts[id], model.scores[id]});
  return make_unigram(tokens, std::move(options));
}

}  // namespace

std::optional<TokenId> JsonVocabulary::find(const std::string& text) const {
  const auto found = ids.find(text);
  return found == ids.end() ? std::nullopt : std::optional<TokenId>(found->second);
}

JsonModel read_model(const Json& json, const std::string& where) {
  Fields fields(json, where);
  JsonModel model;
  model.type = fields.find("type") ? fields.text("type") : guess_type(fields);
  if (model.type == "BPE")
    read_bpe(fields, model);
  else if (model.type == "Unigram")
    read_unigram(fields, model);
  else if (model.type == "WordPiece" || model.type == "WordLevel")
    read_words(fields, model);
  else
    throw Error("{}.type: unknown model \"{}\"; known are BPE, Unigram, WordPiece, WordLevel", where, model.type);
  fields.finish();
  return model;
}

std::unique_ptr<const Model> make_model(const JsonModel& model, bool bytes, const std::string& where) {
  if (model.type == "BPE") return make_bpe_model(model, bytes, where);
  if (model.type == "Unigram") return make_unigram_model(model, where);
  const std::optional<TokenId> unknown = model.vocabulary.find(model.unknown);
  if (model.type == "WordLevel") return make_word_level(model.vocabulary.texts, unknown);
  WordPieceOptions options;
  options.unknown = unknown;
  options.continuation = model.continuing_prefix;
  options.most_characters = model.most_characters;
  return make_wordpiece(model.vocabulary.texts, std::move(options));
}

std::vector<TokenId> byte_tokens(const JsonVocabulary& vocabulary, const std::string& where) {
  std::vector<TokenId> result;
  std::string missing;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text = fmt::format("<0x{:02X}>", byte);
    if (const auto id = vocabulary.find(text))
      result.push_back(*id);
    else if (missing.empty())
      missing = text;
  }
  if (!result.empty() && result.size() < 256)
    throw Error("{}: byte_fallback, but the vocabulary has no token {}", where, missing);
  return result;
}

}  // namespace heddle::text
