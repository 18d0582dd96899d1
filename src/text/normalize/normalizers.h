// Normalizers, which change a text before it is split: those of Hugging Face's tokenizers by their names there, and
// SentencePiece's as GGUF files describe it. Bytes that are not UTF-8 pass through all of them.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalize/unicode.h"
#include "text/pipeline.h"
#include "text/split/regex.h"

namespace heddle::text {

// SentencePiece's "precompiled_charsmap": strings and their replacements in normalization. A Darts double-array trie
// (units of 32 bits) of the strings, then the replacements, each ending with a zero byte.
class Charsmap {
 public:
  // Throws an Error that names `source` if this is not a charsmap.
  Charsmap(std::string_view bytes, const std::string& source);

  struct Match {
    size_t length = 0;  // of the replaced text
    std::string_view replacement;
  };
  // The shortest and the longest string of the map that `text` begins with.
  std::optional<Match> shortest(std::string_view text) const;
  std::optional<Match> longest(std::string_view text) const;

 private:
  template <class Found>  // bool(Match): whether to continue
  void walk(std::string_view text, Found found) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

Normalizer normal_form_normalizer(Form form);
Normalizer lower_case_normalizer();
Normalizer strip_normalizer(bool left, bool right);  // white space at the ends
Normalizer strip_accents_normalizer();               // drops every mark, without decomposing
Normalizer prepend_normalizer(std::string prefix);   // not to an empty text
Normalizer replace_normalizer(std::string pattern, std::string content);
Normalizer replace_normalizer(Regex pattern, std::string content);
Normalizer nmt_normalizer();  // drops control characters, turns every white space into a space
Normalizer byte_level_normalizer();

struct BertOptions {
  bool clean_text = true;            // drops control characters, turns every white space into a space
  bool handle_chinese_chars = true;  // spaces around ideographs
  bool strip_accents = true;
  bool lower_case = true;
  // As llama.cpp does it: all marks are accents, not the nonspacing ones alone, and control characters that are white
  // space (U+0085) are spaces.
  bool gguf = false;
};
Normalizer bert_normalizer(BertOptions options);

// Hugging Face's rule: a grapheme of less than 6 bytes is replaced by the replacement of its shortest prefix in the
// map; the code points of others are looked up one by one.
Normalizer charsmap_normalizer(std::shared_ptr<const Charsmap> map);

struct SentencePieceOptions {
  std::shared_ptr<const Charsmap> map;  // may be null
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;
};
// SentencePiece's own rule, as llama.cpp has it: the longest string of the map, then spaces become U+2581.
Normalizer sentence_piece_normalizer(SentencePieceOptions options);

}  // namespace heddle::text
