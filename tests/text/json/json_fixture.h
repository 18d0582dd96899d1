// The small tokenizers in tests/text/data.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace heddle::test {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string fixture_text(const std::string& file) {
  return read_text(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/text/data" / file);
}

inline const std::vector<std::string>& fixture_names() {
  static const std::vector<std::string> names{
      "byte-level-llama3", "byte-level-roberta", "llama2",         "gemma",     "word-suffix",
      "unigram-t5",        "unigram-bytes",      "wordpiece-bert", "word-level"};
  return names;
}

inline text::Tokenizer fixture_tokenizer(const std::string& name) {
  return text::Tokenizer::from_json(fixture_text(name + ".json"), "", name);
}

struct FixtureCase {
  std::string text;
  std::vector<text::TokenId> ids;
  std::string decoded;
};

inline std::vector<FixtureCase> fixture_cases(const std::string& name) {
  std::vector<FixtureCase> cases;
  for (const auto& one : nlohmann::json::parse(fixture_text(name + ".cases.json")))
    cases.push_back({one[0].get<std::string>(), one[1].get<std::vector<text::TokenId>>(), one[2].get<std::string>()});
  return cases;
}

}  // namespace heddle::test
