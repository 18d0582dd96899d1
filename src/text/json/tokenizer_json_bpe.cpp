// Most go to make_bpe(). Vocabularies that mark the inside or the end of words ("##", "</w>") begin with tokens that
// are a character and such a mark; the merging is the same.
#include "text/json/tokenizer_json_bpe.h"

#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe_merge.h"
#include "text/bpe/byte_level.h"

namespace heddle::text {
namespace {

std::vector<Merge> read_merges(const JsonModel& model, const std::string& where) {
  std::vector<Merge> merges;
  merges.reserve(model.merges.size());
  // of the same pair twice the last one counts
  std::unordered_map<uint64_t, uint32_t> last;
  last.reserve(model.merges.size());
  const auto id_of = [&](const std::string& text, size_t rank) {
    if (const auto id = model.vocabulary.find(text)) return *id;
    throw Error("{}.merges[{}]: \"{}\" is no token", where, rank, text);
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

}  // namespace

bool has_all_bytes(const JsonModel& model) {
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!model.vocabulary.find(byte_level_spelling(std::string(1, static_cast<char>(byte))))) return false;
  return true;
}

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
  if (model.byte_fallback && !bytes) options.byte_tokens = byte_tokens(model.vocabulary, where);
  options.unknown = model.has_unknown ? model.vocabulary.find(model.unknown) : std::nullopt;
  options.skip_unknown = !model.has_unknown;
  std::vector<std::string> pieces = model.vocabulary.texts;
  if (bytes)
    for (std::string& piece : pieces) piece = byte_level_bytes(piece).value_or("");
  return make_bpe(std::move(pieces), merges, std::move(options), where);
}

}  // namespace heddle::text
