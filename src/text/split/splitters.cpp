// Every splitter finds ranges that are delimiters or not; Cutter turns them into pieces.
#include "text/split/splitters.h"

#include "text/bpe/bpe.h"
#include "text/normalize/unicode.h"

namespace heddle::text {
namespace {

// Takes the ranges of a text from left to right, and adds pieces.
class Cutter {
 public:
  Cutter(std::string_view text, Delimiters delimiters, Pieces& out) : text_(text), delimiters_(delimiters), out_(out) {}

  void add_range(size_t end, bool delimiter) {
    bool joins = false;  // the piece before, which is still open
    switch (delimiters_) {
      case Delimiters::removed:
      case Delimiters::isolated:
        break;
      case Delimiters::contiguous:
        joins = delimiter == last_delimiter_;
        break;
      case Delimiters::merged_with_previous:
        joins = delimiter && !last_delimiter_;
        break;
      case Delimiters::merged_with_next:
        joins = last_delimiter_ && !delimiter;
        break;
    }
    if (!joins) close();
    drop_ = delimiter && delimiters_ == Delimiters::removed;
    end_ = end;
    last_delimiter_ = delimiter;
  }
  void close() {
    if (!drop_) out_.add(text_.substr(begin_, end_ - begin_));
    begin_ = end_;
  }

 private:
  std::string_view text_;
  Delimiters delimiters_;
  Pieces& out_;
  size_t begin_ = 0, end_ = 0;  // of the open piece
  bool drop_ = false, last_delimiter_ = false;
};

template <class IsDelimiter>  // bool(char32_t)
void cut_at_characters(std::string_view text, Delimiters delimiters, IsDelimiter is_delimiter, Pieces& out) {
  Cutter cutter(text, delimiters, out);
  size_t begin = 0, at = 0;  // of a range that is not a delimiter
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (point.valid && is_delimiter(point.value)) {
      if (begin < at) cutter.add_range(at, false);
      begin = at + point.bytes;
      cutter.add_range(begin, true);
    }
    at += point.bytes;
  }
  if (begin < text.size()) cutter.add_range(text.size(), false);
  cutter.close();
}

template <class IsDelimiter>
Splitter at_characters(Delimiters delimiters, IsDelimiter is_delimiter) {
  return [=](std::string_view piece, bool, Pieces& out) { cut_at_characters(piece, delimiters, is_delimiter, out); };
}

// for_each_match(text, found) calls found(begin, end).
template <class Matches>
void cut_at_matches(std::string_view text, Delimiters delimiters, bool invert, Matches for_each_match, Pieces& out) {
  Cutter cutter(text, delimiters, out);
  size_t at = 0;
  for_each_match(text, [&](size_t begin, size_t end) {
    if (at < begin) cutter.add_range(begin, invert);
    cutter.add_range(end, !invert);
    at = end;
  });
  if (at < text.size()) cutter.add_range(text.size(), invert);
  cutter.close();
}

}  // namespace

Splitter split_splitter(Regex pattern, Delimiters delimiters, bool invert) {
  // shared, because a std::function must be copyable
  auto regex = std::make_shared<const Regex>(std::move(pattern));
  if (delimiters == Delimiters::isolated)
    return [regex](std::string_view text, bool, Pieces& out) {
      regex->for_each_piece(text, [&](std::string_view piece) { out.add(piece); });
    };
  return [=](std::string_view text, bool, Pieces& out) {
    cut_at_matches(
        text, delimiters, invert, [&](std::string_view all, auto found) { regex->for_each_match(all, found); }, out);
  };
}

Splitter split_splitter(std::string pattern, Delimiters delimiters, bool invert) {
  return [=](std::string_view text, bool, Pieces& out) {
    cut_at_matches(
        text, delimiters, invert,
        [&](std::string_view all, auto found) {
          for (size_t at = 0; !pattern.empty() && (at = all.find(pattern, at)) != all.npos; at += pattern.size())
            found(at, at + pattern.size());
        },
        out);
  };
}

Splitter metaspace_splitter(std::string replacement, PrependScheme prepend, bool split) {
  return [=](std::string_view piece, bool first, Pieces& out) {
    std::string text;
    text.reserve(piece.size() + piece.size() / 4 + replacement.size());
    for (const char c : piece) c == ' ' ? void(text.append(replacement)) : text.push_back(c);
    const bool wanted = prepend == PrependScheme::always || (prepend == PrependScheme::first && first);
    if (wanted && text.compare(0, replacement.size(), replacement) != 0) text.insert(0, replacement);
    const std::string_view kept = out.keep(std::move(text));
    if (!split) return out.add(kept);
    cut_at_matches(
        kept, Delimiters::merged_with_next, false,
        [&](std::string_view all, auto found) {
          for (size_t at = 0; (at = all.find(replacement, at)) != all.npos; at += replacement.size())
            found(at, at + replacement.size());
        },
        out);
  };
}

Splitter white_space_splitter() {
  return [](std::string_view text, bool, Pieces& out) {
    enum { space, word, other } last = space;
    size_t begin = 0, at = 0;
    while (at < text.size()) {
      const CodePoint point = code_point_at(text, at);
      const auto kind = point.valid && is_white_space(point.value)      ? space
                        : point.valid && is_word_character(point.value) ? word
                                                                        : other;
      if (kind != last) {
        if (last != space) out.add(text.substr(begin, at - begin));
        begin = at;
        last = kind;
      }
      at += point.bytes;
    }
    if (last != space) out.add(text.substr(begin));
  };
}

Splitter white_space_split_splitter() { return at_characters(Delimiters::removed, is_white_space); }

Splitter punctuation_splitter(Delimiters delimiters) { return at_characters(delimiters, is_punctuation); }

Splitter digits_splitter(bool individual) {
  return at_characters(individual ? Delimiters::isolated : Delimiters::contiguous, is_number);
}

Splitter bert_splitter() {
  return [](std::string_view text, bool, Pieces& out) {
    Pieces words;
    cut_at_characters(text, Delimiters::removed, is_white_space, words);
    for (const std::string_view word : words.views())
      cut_at_characters(word, Delimiters::isolated, is_punctuation, out);
  };
}

Splitter delimiter_splitter(char32_t delimiter) {
  return at_characters(Delimiters::removed, [delimiter](char32_t c) { return c == delimiter; });
}

Splitter fixed_length_splitter(size_t characters) {
  return [characters](std::string_view text, bool, Pieces& out) {
    size_t begin = 0, count = 0;
    for (size_t at = 0; at < text.size();) {
      at += code_point_at(text, at).bytes;
      if (++count < characters) continue;
      out.add(text.substr(begin, at - begin));
      begin = at;
      count = 0;
    }
    out.add(text.substr(begin));
  };
}

Splitter byte_level_splitter() {
  return [](std::string_view piece, bool, Pieces& out) { out.add(out.keep(byte_level_spelling(piece))); };
}

Splitter prefix_space_splitter() {
  return [](std::string_view piece, bool, Pieces& out) {
    if (piece.empty() || piece[0] == ' ') return out.add(piece);
    out.add(out.keep(" " + std::string(piece)));
  };
}

}  // namespace heddle::text
