#include "text/bpe/bpe.h"

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe_cache.h"
#include "text/bpe/bpe_merge.h"
#include "text/bpe/bpe_tables.h"

namespace heddle::text {

namespace {

// Whether merging the bytes of a token gives that token: found out when the token is first met as a whole piece,
// because doing it for all when loading takes as long as encoding 100 KB of text.
enum class Whole : uint8_t { unknown, yes, no };

class Bpe final : public Model {
 public:
  Bpe(std::vector<std::string> pieces, const std::vector<Merge>& merges, BpeOptions options, std::string source)
      : source_(std::move(source)),
        options_(std::move(options)),
        pieces_(pieces),
        merges_(merges.size()),
        whole_(new std::atomic<Whole>[pieces_.size()]) {
    for (const Merge& merge : merges) merges_.add(merge.left, merge.right, {merge.rank, merge.joined});
    for (size_t id = 0; id < pieces_.size(); ++id) whole_[id].store(Whole::unknown, std::memory_order_relaxed);
    for (size_t byte = 0; byte < 256; ++byte) {
      const char text = char(byte);
      bytes_[byte] = pieces_.find({&text, 1});
    }
    check(options_.byte_tokens.empty() || options_.byte_tokens.size() == 256, "byte fallback has 256 tokens");
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (piece.size() > WordCache::longest_word) return encode_uncached(piece, out);
    thread_local WordCache cache;
    const WordCache::Key key(piece);
    if (cache.find(number_, key, out)) return;
    const size_t before = out.size();
    encode_uncached(piece, out);
    cache.put(number_, key, std::span(out).subspan(before));
  }

 private:
  void encode_uncached(std::string_view piece, std::vector<TokenId>& out) const {
    const TokenId token = pieces_.find(piece);
    if (token != PieceTable::none && is_token(token) && is_whole(token, piece)) {
      out.push_back(token);
      return;
    }
    thread_local std::vector<TokenId> merged;
    merge(piece, merged);
    if (!options_.tokens) {
      out.insert(out.end(), merged.begin(), merged.end());
      return;
    }
    for (const TokenId id : merged) {
      if (is_token(id))
        out.push_back(id);
      else
        add_unknown(pieces_[id], out);
    }
  }

  bool is_token(TokenId id) const { return !options_.tokens || id < *options_.tokens; }

  bool is_whole(TokenId token, std::string_view piece) const {
    if (options_.ignore_merges) return true;
    Whole whole = whole_[token].load(std::memory_order_relaxed);
    if (whole == Whole::unknown) {
      std::vector<TokenId> merged;
      merge(piece, merged);
      whole = merged == std::vector<TokenId>{token} ? Whole::yes : Whole::no;
      whole_[token].store(whole, std::memory_order_relaxed);
    }
    return whole == Whole::yes;
  }

  void merge(std::string_view piece, std::vector<TokenId>& merged) const {
    if (piece.size() > std::numeric_limits<uint32_t>::max())
      throw Error("{}: a piece of {} bytes is too long to encode", source_, piece.size());
    merged.clear();
    if (options_.characters)
      begin_with_characters(piece, merged);
    else
      begin_with_bytes(piece, merged);
    merge_tokens(merges_, merged);
  }

  void begin_with_bytes(std::string_view piece, std::vector<TokenId>& out) const {
    for (const char& byte : piece) {
      const TokenId id = bytes_[uint8_t(byte)];
      if (id != PieceTable::none) [[likely]]
        out.push_back(id);
      else
        add_unknown({&byte, 1}, out);
    }
  }

  void begin_with_characters(std::string_view piece, std::vector<TokenId>& out) const {
    bool after_unknown = false;
    for (size_t at = 0; at < piece.size();) {
      const CodePoint point = code_point_at(piece, at);
      const std::string_view character = piece.substr(at, point.bytes);
      const TokenId id = pieces_.find(character);
      const bool is_unknown = id == PieceTable::none;
      if (!is_unknown)
        out.push_back(id);
      else if (!(after_unknown && options_.fuse_unknown && options_.byte_tokens.empty()))
        add_unknown(character, out);
      after_unknown = is_unknown;
      at += point.bytes;
    }
  }

  void add_unknown(std::string_view bytes, std::vector<TokenId>& out) const {
    if (!options_.byte_tokens.empty()) {
      for (const char byte : bytes) out.push_back(options_.byte_tokens[uint8_t(byte)]);
    } else if (options_.unknown) {
      out.push_back(*options_.unknown);
    } else if (!options_.skip_unknown) {
      throw Error("{}: no token for {}, and the vocabulary has no token for unknown text", source_, in_quotes(bytes));
    }
  }

  static uint32_t next_number() {
    static std::atomic<uint32_t> last{0};
    return ++last;
  }

  const uint32_t number_ = next_number();  // for the cache
  std::string source_;
  BpeOptions options_;
  PieceTable pieces_;
  MergeTable merges_;
  std::array<TokenId, 256> bytes_;
  std::unique_ptr<std::atomic<Whole>[]> whole_;  // by token
};

}  // namespace

std::unique_ptr<const Model> make_bpe(std::vector<std::string> pieces, const std::vector<Merge>& merges,
                                      BpeOptions options, std::string source) {
  return std::make_unique<Bpe>(std::move(pieces), merges, std::move(options), std::move(source));
}

}  // namespace heddle::text
