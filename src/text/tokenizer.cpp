// Encoding and decoding with a Pipeline; and the tokens of DRY's sequence breakers.
#include "text/tokenizer.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "text/added_tokens.h"
#include "text/pipeline.h"
#include "text/wordpiece.h"

namespace heddle::text {
namespace {

std::vector<AddedToken> added_where(const Pipeline& pipeline, bool normalized) {
  std::vector<AddedToken> out;
  for (AddedToken token : pipeline.added) {
    if (token.normalized != normalized) continue;
    if (normalized) {  // it is looked for in normalized text
      Segment segment{std::move(token.text), false};
      for (const Normalizer& normalize : pipeline.normalizers) normalize(segment);
      token.text = std::move(segment.text);
    }
    out.push_back(std::move(token));
  }
  return out;
}

// Whether the first of the pieces begins where `piece` begins: a splitter may drop white space there.
bool keeps_beginning(std::string_view piece, const Pieces& split) {
  if (split.views().empty()) return false;
  const char* const begin = split.views()[0].data();
  const std::less<const char*> before;
  const bool is_stored = before(begin, piece.data()) || !before(begin, piece.data() + piece.size());
  return is_stored || begin == piece.data();
}

}  // namespace

struct Tokenizer::Impl {
  Pipeline pipeline;
  AddedTokens added, added_normalized;

  explicit Impl(Pipeline given)
      : pipeline(std::move(given)), added(added_where(pipeline, false)), added_normalized(added_where(pipeline, true)) {
    check(pipeline.model != nullptr, "a tokenizer needs a model");
  }

  const TokenInfo& token(TokenId id) const {
    if (id >= pipeline.tokens.size())
      throw Error("token {} is not in the vocabulary of {} tokens", id, pipeline.tokens.size());
    return pipeline.tokens[id];
  }

  void encode_plain(std::string_view text, bool first, std::vector<TokenId>& out) const {
    Pieces pieces, split;
    pieces.add(text);
    for (const Splitter& splitter : pipeline.splitters) {
      split.clear_views();
      bool still_first = false;
      for (const std::string_view& piece : pieces.views()) {
        const bool is_first = first && &piece == pieces.views().data();
        splitter(piece, is_first, split);
        if (is_first) still_first = keeps_beginning(piece, split);
      }
      first = still_first;
      std::swap(pieces, split);
    }
    for (const std::string_view piece : pieces.views()) pipeline.model->encode(piece, out);
  }

  // Without the tokens around a text.
  void encode_text(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
    const TextRanges plain(options.plain.begin(), options.plain.end());
    const bool looks_twice = options.parse_special && !plain.empty() && added_normalized.has_special();
    added.split(
        text, options.parse_special, plain,
        [&](std::string_view segment) {
          if (looks_twice) {
            const size_t begin = size_t(segment.data() - text.data());
            TextRanges within;
            add_ranges(within, plain, begin, begin + segment.size(), 0);
            if (!within.empty()) return encode_segment(segment, within, begin == 0, out);
          }
          encode_segment(segment, segment.data() == text.data(), options.parse_special, out);
        },
        [&](TokenId id) { out.push_back(id); });
  }

  // Special tokens that are looked for in normalized text.
  std::vector<TokenId> normalized_specials(std::string_view text) const {
    Segment segment{std::string(text), false};
    for (const Normalizer& normalize : pipeline.normalizers) normalize(segment);
    std::vector<TokenId> found;
    added_normalized.split(
        segment.text, true, {}, [](std::string_view) {},
        [&](TokenId id) {
          if (pipeline.tokens[id].type == TokenType::control) found.push_back(id);
        });
    return found;
  }

  // A segment with plain parts. Normalization moves bytes, so that a special token that is looked for after it cannot
  // be told from plain text by its place: where such tokens are not those of the other parts alone, the segment is
  // encoded part by part.
  void encode_segment(std::string_view text, const TextRanges& plain, bool first, std::vector<TokenId>& out) const {
    const TextRanges others = other_ranges(plain, text.size());
    std::vector<TokenId> own;
    for (const auto& [begin, end] : others) {
      const std::vector<TokenId> found = normalized_specials(text.substr(begin, end - begin));
      own.insert(own.end(), found.begin(), found.end());
    }
    if (normalized_specials(text) == own) return encode_segment(text, first, true, out);
    size_t at = 0;
    const auto encode_to = [&](size_t end, bool special) {
      if (end > at) encode_segment(text.substr(at, end - at), first && at == 0, special, out);
      at = end;
    };
    for (const auto& [begin, end] : plain) {
      encode_to(begin, true);
      encode_to(end, false);
    }
    encode_to(text.size(), true);
  }

  void encode_segment(std::string_view text, bool first, bool special, std::vector<TokenId>& out) const {
    Segment segment;
    if (!pipeline.normalizers.empty()) {
      segment = {std::string(text), first};
      for (const Normalizer& normalize : pipeline.normalizers) normalize(segment);
      text = segment.text;
      first = segment.first;
    }
    if (added_normalized.empty()) return encode_plain(text, first, out);
    added_normalized.split(
        text, special, {},
        [&](std::string_view plain) { encode_plain(plain, first && plain.data() == text.data(), out); },
        [&](TokenId id) { out.push_back(id); });
  }
};

Tokenizer::Tokenizer(Pipeline pipeline) : impl_(std::make_unique<const Impl>(std::move(pipeline))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 8);
  const Pipeline& pipeline = impl_->pipeline;
  if (options.add_special) out.insert(out.end(), pipeline.prefix.begin(), pipeline.prefix.end());
  impl_->encode_text(text, options, out);
  if (options.add_special) out.insert(out.end(), pipeline.suffix.begin(), pipeline.suffix.end());
  return out;
}

EncodedPair Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  using Kind = PairPart::Kind;
  const std::vector<PairPart>& parts = impl_->pipeline.pair;
  const auto has = [&](Kind kind) {
    return std::any_of(parts.begin(), parts.end(), [&](const PairPart& part) { return part.kind == kind; });
  };
  if (!has(Kind::first) || !has(Kind::second))
    throw Error("expected a tokenizer that joins two texts (post_processor.pair), found one without");
  EncodedPair out;
  for (const PairPart& part : parts) {
    if (part.kind == Kind::token)
      out.ids.push_back(part.token);
    else
      impl_->encode_text(part.kind == Kind::first ? first : second, {.parse_special = false}, out.ids);
    out.types.resize(out.ids.size(), part.type);
  }
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool special) const {
  std::string out;
  bool first = true;
  for (const TokenId id : ids) {
    const TokenInfo& token = impl_->token(id);
    if (!special && is_special(id)) continue;
    std::string_view bytes = token.bytes;
    if (first) {
      const auto own = impl_->pipeline.first_bytes.find(id);
      if (own != impl_->pipeline.first_bytes.end())
        bytes = own->second;
      else if (impl_->pipeline.strip_first_space && bytes.starts_with(' '))
        bytes.remove_prefix(1);
    }
    first = false;
    out += bytes;
  }
  return impl_->pipeline.clean_up_spaces ? clean_up_spaces(out) : out;
}

size_t Tokenizer::size() const { return impl_->pipeline.tokens.size(); }
std::string_view Tokenizer::text(TokenId id) const { return impl_->token(id).text; }
std::string_view Tokenizer::bytes(TokenId id) const { return impl_->token(id).bytes; }
bool Tokenizer::is_special(TokenId id) const {
  const TokenType type = impl_->token(id).type;
  return type == TokenType::control || type == TokenType::unknown;
}
std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const auto found = impl_->pipeline.ids.find(std::string(text));
  if (found == impl_->pipeline.ids.end()) return std::nullopt;
  return found->second;
}
std::optional<TokenId> Tokenizer::bos() const { return impl_->pipeline.bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->pipeline.eos; }
const std::vector<TokenId>& Tokenizer::end_tokens() const { return impl_->pipeline.end_tokens; }
const Pipeline& Tokenizer::pipeline() const { return impl_->pipeline; }

std::vector<std::string> Tokenizer::generated_texts(size_t count) const {
  if (impl_->pipeline.clean_up_spaces)
    throw Error("expected a tokenizer with the bytes of every token, found WordPiece: its texts cannot be constrained");
  std::vector<std::string> texts(count);
  for (TokenId id = 0; id < std::min(count, size()); ++id)
    if (!is_special(id) && impl_->pipeline.tokens[id].type != TokenType::unused) texts[id] = bytes(id);
  for (const TokenId id : end_tokens())
    if (id < count) texts[id].clear();
  return texts;
}

std::vector<std::string> default_dry_breakers() { return {"\n", ":", "\"", "*"}; }

std::vector<std::vector<TokenId>> dry_breaker_tokens(const std::vector<std::string>& texts,
                                                     const Tokenizer& tokenizer) {
  std::set<std::vector<TokenId>> found;
  for (const std::string& text : texts) {
    check(!text.empty(), "a breaker is not empty");
    std::vector<std::vector<TokenId>> rest(text.size());  // by the length of the prefix; encoded when needed
    for (TokenId id = 0; id < tokenizer.size(); ++id) {
      const std::string_view token = tokenizer.bytes(id);
      if (token.find(text) != token.npos) {
        found.insert({id});
        continue;
      }
      for (size_t size = std::min(token.size(), text.size() - 1); size > 0; --size) {
        if (!token.ends_with(std::string_view(text).substr(0, size))) continue;
        if (rest[size].empty())
          rest[size] = tokenizer.encode(text.substr(size), {.add_special = false, .parse_special = false});
        std::vector<TokenId> sequence{id};
        sequence.insert(sequence.end(), rest[size].begin(), rest[size].end());
        found.insert(std::move(sequence));
      }
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace heddle::text
