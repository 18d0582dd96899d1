// A WordPiece tokenizer as BERT's, of letters: [PAD], [UNK], [CLS], [SEP], then a to z and ##a to ##z, the ids 4 to 55,
// then digits and a dot, to 66: as many as the tiny models have.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace heddle::test {

inline std::string letters_json() {
  Json vocabulary = Json::object();
  uint32_t next = 0;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) vocabulary[token] = next++;
  for (const char* prefix : {"", "##"})
    for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary[prefix + std::string(1, letter)] = next++;
  for (const char other : std::string("0123456789.")) vocabulary[std::string(1, other)] = next++;
  Json added = Json::array();
  for (uint32_t id = 0; id < 4; ++id)
    added.push_back({{"id", id},
                     {"content", std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const Json json = {{"version", "1.0"},
                     {"added_tokens", added},
                     {"normalizer",
                      {{"type", "BertNormalizer"},
                       {"clean_text", true},
                       {"handle_chinese_chars", true},
                       {"strip_accents", nullptr},
                       {"lowercase", true}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
                     {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                     {"model",
                      {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", vocabulary}}}};
  return json.dump();
}
inline text::Tokenizer letters_tokenizer() { return text::Tokenizer::from_json(letters_json(), "", "letters"); }

}  // namespace heddle::test
