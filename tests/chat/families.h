// The families of models: for each a template in the shape of its own, an answer, and what is in the answer.
#pragma once
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "chat/detect.h"
#include "chat/parser.h"
#include "chat/tools.h"
#include "text/template.h"

namespace heddle::chat {

struct FamilyCall {
  std::string name;
  nlohmann::ordered_json arguments;
  bool operator==(const FamilyCall&) const = default;
};

struct Family {
  std::string name, known, source, text, content, reasoning;
  bool in_thought;
  std::vector<FamilyCall> calls;
  std::shared_ptr<const ChatFormat> format;  // found from the template
};

inline std::vector<Family> read_families() {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/chat/fixtures/families.json");
  std::vector<Family> all;
  for (const auto& json : nlohmann::ordered_json::parse(file)) {
    Family family{json["name"],    json["known"],     json["template"],   json["text"],
                  json["content"], json["reasoning"], json["in_thought"], {},
                  nullptr};
    for (const auto& call : json["calls"]) family.calls.push_back({call["name"], call["arguments"]});
    family.format = std::make_shared<ChatFormat>(detect_format(text::ChatTemplate(family.source), family.source));
    all.push_back(std::move(family));
  }
  return all;
}
inline const std::vector<Family>& families() {
  static const std::vector<Family> all = read_families();
  return all;
}

inline std::shared_ptr<const Tools> family_tools() {
  const auto schema = [](const char* text) { return nlohmann::ordered_json::parse(text); };
  static const auto tools = std::make_shared<const Tools>(
      Tools{{"get_weather",
             schema(R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                                 "required": ["city"], "additionalProperties": false})")},
            {"note", schema(R"({"type": "object", "properties": {"text": {"type": "string"}, "tags": {"type": "array"},
                          "more": {"type": "object"}}, "required": ["text"], "additionalProperties": false})")},
            {"now", schema(R"({"type": "object", "properties": {}, "additionalProperties": false})")}});
  return tools;
}

// Events joined: what a client has at the end.
struct Answer {
  std::string content, reasoning;
  std::vector<std::string> names, arguments;
  uint32_t ended = 0;
  bool operator==(const Answer&) const = default;

  void add(const std::vector<ChatEvent>& events) {
    for (const ChatEvent& event : events) switch (event.kind) {
        case ChatEvent::Kind::content:
          content += event.text;
          break;
        case ChatEvent::Kind::reasoning:
          reasoning += event.text;
          break;
        case ChatEvent::Kind::call_begin:
          names.push_back(event.text);
          arguments.emplace_back();
          break;
        case ChatEvent::Kind::arguments:
          arguments.at(event.call) += event.text;
          break;
        case ChatEvent::Kind::call_end:
          ++ended;
          break;
      }
  }
};

inline void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "content " << in_quotes(answer.content, 500) << " reasoning " << in_quotes(answer.reasoning, 500);
  for (size_t i = 0; i < answer.names.size(); ++i) *out << "\n  " << answer.names[i] << " " << answer.arguments[i];
}

inline Answer answer_of(const Family& family, const std::vector<std::string_view>& pieces) {
  ChatParser parser(family.format, family_tools(), {.in_thought = family.in_thought});
  Answer answer;
  for (const std::string_view piece : pieces) answer.add(parser.push(piece));
  answer.add(parser.finish());
  return answer;
}

}  // namespace heddle::chat
