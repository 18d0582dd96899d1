#include "server/api/unsupported_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace heddle::server {
namespace {

struct Unsupported {
  std::string_view name;
  const char* harmless;  // JSON, a list: values besides null that ask for nothing
  std::string_view what;
};

constexpr std::string_view tools = "tool calls", constraints = "constrained output", text_only = "anything but text",
                           thinking = "a choice of effort", storing = "storing of answers";
constexpr Unsupported table[] = {
    {"tools", "[[]]", tools},
    {"tool_choice", R"(["none", "auto"])", tools},
    {"parallel_tool_calls", "[true, false]", tools},
    {"functions", "[[]]", tools},
    {"function_call", R"(["none", "auto"])", tools},
    {"response_format", R"([{"type": "text"}])", constraints},
    {"json_schema", "[{}]", constraints},
    {"grammar", R"([""])", constraints},
    {"modalities", R"([["text"]])", text_only},
    {"audio", "[]", text_only},
    {"prediction", "[]", "predicted output"},
    {"web_search_options", "[]", "searches"},
    {"reasoning_effort", "[]", thinking},
    {"verbosity", R"(["medium"])", thinking},
    {"store", "[false]", storing},
    {"metadata", "[{}]", storing},
    {"prompt_cache_retention", R"(["in_memory"])", "a choice of how long prompts are kept"},
    {"service_tier", R"(["auto", "default"])", "tiers of service"},
    {"suffix", R"([""])", "filling in before a suffix"},
    {"continue_final_message", "[false]", "going on with a message that was begun"},
};

}  // namespace

void refuse_unsupported(Fields& fields) {
  static const std::vector<Json> harmless = [] {
    std::vector<Json> all;
    for (const Unsupported& field : table) all.push_back(Json::parse(field.harmless));
    return all;
  }();
  for (size_t i = 0; i < std::size(table); ++i) {
    const auto& [name, text, what] = table[i];
    const Json* value = fields.find(name);
    if (!value || std::find(harmless[i].begin(), harmless[i].end(), *value) != harmless[i].end()) continue;
    std::string expected = "null";
    for (const Json& one : harmless[i]) expected += " or " + one.dump();
    throw ApiError(400, "invalid_request_error", "unsupported_parameter", fields.place(name),
                   "{}: heddle does not do {}; expected {}, found {}", fields.place(name), what, expected,
                   shortened(*value));
  }
}

}  // namespace heddle::server
