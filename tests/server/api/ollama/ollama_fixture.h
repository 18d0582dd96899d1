// Lines of Ollama's streams, and bodies of its requests.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/ollama/ollama.h"
#include "tests/server/api/request_fixture.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {

// The lines of a stream; each must be a JSON object, and the last must end.
inline std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_NE(end, text.npos) << "a line without an end: " << text.substr(at);
    if (end == text.npos) break;
    lines.push_back(strictly(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

inline OllamaRequest ollama_chat_of(std::string_view fields) {
  return read_ollama_chat(with_message(fields), small_rules());
}
inline OllamaRequest ollama_text_of(std::string_view fields) {
  return read_ollama_generate(with_prompt(fields), small_rules());
}

}  // namespace heddle::server
