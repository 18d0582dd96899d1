// A tokenizer from the metadata of a GGUF file, and the reference texts and ids beside it.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "text/tokenizer.h"

namespace heddle::test {

inline text::Vocabulary gguf_vocabulary(const std::filesystem::path& path) {
  const formats::Checkpoint file = formats::read_gguf(path);
  const formats::Metadata& metadata = file.metadata;
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  const auto id = [&](const char* name) -> std::optional<text::TokenId> {
    const auto found = metadata.find_integer(key(name));
    if (!found) return std::nullopt;
    return text::TokenId(*found);
  };
  text::Vocabulary out;
  out.source = path.filename().string();
  out.model = metadata.string(key("model"));
  out.pre = metadata.find_string(key("pre")).value_or("");
  for (const std::string_view token : metadata.array(key("tokens")).strings()) out.tokens.emplace_back(token);
  if (const auto* scores = metadata.find_array(key("scores")))
    for (const double score : scores->numbers()) out.scores.push_back(float(score));
  if (const auto* types = metadata.find_array(key("token_type")))
    for (const int64_t type : types->integers()) out.types.push_back(text::TokenType(type));
  if (const auto* merges = metadata.find_array(key("merges")))
    for (const std::string_view merge : merges->strings()) out.merges.emplace_back(merge);
  out.bos = id("bos_token_id");
  out.eos = id("eos_token_id");
  out.eot = id("eot_token_id");
  out.unknown = id("unknown_token_id");
  out.add_bos = metadata.find_boolean(key("add_bos_token"));
  out.add_eos = metadata.find_boolean(key("add_eos_token"));
  out.add_space_prefix = metadata.find_boolean(key("add_space_prefix"));
  return out;
}

inline text::Tokenizer gguf_tokenizer(const std::filesystem::path& path) {
  return text::Tokenizer::from_vocabulary(gguf_vocabulary(path));
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct ReferenceText {
  std::string text;
  std::vector<text::TokenId> ids;
};

// PATH.inp has the texts, a line "__ggml_vocab_test__" after each; PATH.out a line of ids for each.
inline std::vector<ReferenceText> reference_texts(const std::filesystem::path& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string texts = file_text(path.string() + ".inp");
  std::istringstream lines(file_text(path.string() + ".out"));
  std::vector<ReferenceText> out;
  size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = texts.find(separator, at);
    ReferenceText one{texts.substr(at, end - at), {}};
    std::istringstream ids(line);
    for (text::TokenId id; ids >> id;) one.ids.push_back(id);
    out.push_back(std::move(one));
    if (end == std::string::npos) break;
    at = end + separator.size();
  }
  return out;
}

}  // namespace heddle::test
