// "model" of tokenizer.json: its vocabulary and settings, and the model that they describe.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/json/tokenizer_json.h"
#include "text/unigram.h"
#include "text/vocabulary_pipeline.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

// {"text": id, ...}
JsonVocabulary read_ids(const Json& json, const std::string& place) {
  if (!json.is_object()) throw Error("{}: expected an object, found {}", place, shortened(json));
  JsonVocabulary result;
  result.count = json.size();
  result.ids.reserve(json.size());
  // ids may have gaps, but one large id must not reserve memory for billions of tokens
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
  model.max_characters = fields.number("max_input_chars_per_word");
}

// For old files, which do not name the model.
std::string guess_type(Fields& fields) {
  if (fields.find("merges")) return "BPE";
  if (fields.at("vocab").is_array()) return "Unigram";
  return fields.find("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

std::vector<Merge> read_merges(const JsonModel& model, const std::string& where) {
  std::vector<Merge> merges;
  merges.reserve(model.merges.size());
  // of equal pairs the last one counts
  std::unordered_map<uint64_t, uint32_t> last;
  last.reserve(model.merges.size());
  const auto id_of = [&](const std::string& text, size_t rank) {
    if (const auto id = model.vocabulary.find(text)) return *id;
    throw Error("{}.merges[{}]: \"{}\" is not a token", where, rank, text);
  };
  std::string joined;
  for (uint32_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const TokenId left_id = id_of(left, rank), right_id = id_of(right, rank);
    if (right.size() < model.continuing_prefix.size())
      throw Error("{}.merges[{}]: \"{}\" continues a word, but does not begin with \"{}\"", where, rank, right,
                  model.continuing_prefix);
    joined.assign(left).append(right, model.continuing_prefix.size());
    const Merge merge{left_id, right_id, id_of(joined, rank), rank};
    const auto [place, is_new] = last.emplace(uint64_t(left_id) << 32 | right_id, merges.size());
    if (is_new)
      merges.push_back(merge);
    else
      merges[place->second] = merge;
  }
  return merges;
}

// BPE of vocabularies that mark the inside or the end of words ("##", "</w>"): it begins with tokens that are a
// character and such a mark.
class MarkedBpe : public Model {
 public:
  MarkedBpe(const JsonModel& model, const std::vector<Merge>& merges, const std::string& where)
      : ids_(model.vocabulary.ids),
        merges_(merges.size()),
        prefix_(model.continuing_prefix),
        suffix_(model.word_suffix),
        where_(where),
        ignore_merges_(model.ignore_merges),
        fuse_unknown_(model.fuse_unknown),
        skip_unknown_(!model.has_unknown) {
    for (const Merge& merge : merges) merges_.add(merge.left, merge.right, {merge.rank, merge.joined});
    if (model.has_unknown) unknown_ = model.vocabulary.find(model.unknown);
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (ignore_merges_) {
      const auto whole = ids_.find(std::string(piece));
      if (whole != ids_.end()) return out.push_back(whole->second);
    }
    std::vector<TokenId> tokens;
    bool after_unknown = false;
    std::string symbol;
    for (size_t at = 0; at < piece.size();) {
      const size_t bytes = code_point_at(piece, at).bytes;
      symbol.assign(at > 0 ? prefix_ : "").append(piece.substr(at, bytes));
      if (at + bytes == piece.size()) symbol.append(suffix_);
      const auto found = ids_.find(symbol);
      const bool is_unknown = found == ids_.end();
      if (!is_unknown)
        tokens.push_back(found->second);
      else if (unknown_ && !(after_unknown && fuse_unknown_))
        tokens.push_back(*unknown_);
      else if (!unknown_ && !skip_unknown_)
        throw Error("{}: no token for \"{}\", and the unknown token is not in the vocabulary", where_,
                    replace_invalid_utf8(symbol));
      after_unknown = is_unknown;
      at += bytes;
    }
    merge_tokens(merges_, tokens);
    out.insert(out.end(), tokens.begin(), tokens.end());
  }

 private:
  std::unordered_map<std::string, TokenId> ids_;
  MergeTable merges_;
  std::string prefix_, suffix_, where_;
  std::optional<TokenId> unknown_;
  bool ignore_merges_, fuse_unknown_, skip_unknown_;
};

std::unique_ptr<const Model> make_bpe_model(const JsonModel& model, bool bytes, const std::string& where) {
  const std::vector<Merge> merges = read_merges(model, where);
  if (!model.continuing_prefix.empty() || !model.word_suffix.empty()) {
    check(!bytes, "make_bpe_model: marks of words are not bytes");
    if (model.byte_fallback) throw Error("{}: byte_fallback together with marks inside or at the end of words", where);
    return std::make_unique<const MarkedBpe>(model, merges, where);
  }
  BpeOptions options;
  options.characters = !bytes;
  options.ignore_merges = model.ignore_merges;
  options.fuse_unknown = model.fuse_unknown;
  if (model.byte_fallback && !bytes) options.byte_tokens = byte_tokens(model.vocabulary.ids);
  options.unknown = model.has_unknown ? model.vocabulary.find(model.unknown) : std::nullopt;
  options.skip_unknown = !model.has_unknown;
  std::vector<std::string> pieces = model.vocabulary.texts;
  if (bytes)
    for (std::string& piece : pieces) piece = byte_level_bytes(piece).value_or("");
  return make_bpe(std::move(pieces), merges, std::move(options), where);
}

std::unique_ptr<const Model> make_unigram_model(const JsonModel& model) {
  std::vector<UnigramToken> tokens;
  UnigramOptions options;
  options.lowest_score = model.scores.empty() ? 0 : *std::min_element(model.scores.begin(), model.scores.end());
  options.unknown = model.has_unknown ? model.vocabulary.find(model.unknown) : std::nullopt;
  if (model.byte_fallback) options.byte_tokens = byte_tokens(model.vocabulary.ids);
  options.fuse_unknown = true;
  for (TokenId id = 0; id < model.scores.size(); ++id) tokens.push_back({model.vocabulary.texts[id], model.scores[id]});
  return make_unigram(tokens, std::move(options));
}

}  // namespace

bool has_all_bytes(const JsonModel& model) {
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!model.vocabulary.find(byte_level_spelling(std::string(1, static_cast<char>(byte))))) return false;
  return true;
}

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
  if (model.type == "Unigram") return make_unigram_model(model);
  const std::optional<TokenId> unknown = model.vocabulary.find(model.unknown);
  if (model.type == "WordLevel") return make_word_level(model.vocabulary.texts, unknown);
  WordPieceOptions options;
  options.unknown = unknown;
  options.continuation = model.continuing_prefix;
  options.max_characters = model.max_characters;
  return make_wordpiece(model.vocabulary.texts, std::move(options));
}

}  // namespace heddle::text
