#include "chat/format.h"

#include <map>

#include "base/error.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

using Kind = CallFormat::Kind;
using Slot = CallFormat::Slot;
using Ids = CallFormat::Ids;

// The bar and the low line of DeepSeek's marks are U+FF5C and U+2581.
std::map<std::string, CallFormat, std::less<>> make_formats() {
  std::map<std::string, CallFormat, std::less<>> all;
  all["hermes"] = {.kind = Kind::object, .begin = "<tool_call>\n", .end = "\n</tool_call>"};
  all["harmony"] = {.kind = Kind::harmony, .end_tokens = {"<|call|>"}, .one_call = true};
  all["gemma"] = {.kind = Kind::quoted,
                  .begin = "<|tool_call>call:",
                  .end = "<tool_call|>",
                  .quote = "<|\"|>",
                  .end_tokens = {"<|tool_response>"}};
  all["functiongemma"] = {.kind = Kind::quoted,
                          .begin = "<start_function_call>call:",
                          .end = "<end_function_call>",
                          .quote = "<escape>",
                          .end_tokens = {"<start_function_response>"}};
  all["lfm2"] = {.kind = Kind::python,
                 .section_begin = "<|tool_call_start|>[",
                 .section_end = "]<|tool_call_end|>",
                 .between = ", "};
  all["llama3"] = {.kind = Kind::object,
                   .between = "; ",
                   .other_begin = "<|python_tag|>",
                   .arguments_key = "parameters",
                   .end_tokens = {"<|eom_id|>"},
                   .one_call = true};
  all["granite3"] = {.kind = Kind::object, .section_begin = "<|tool_call|>[", .section_end = "]", .between = ", "};
  all["deepseek"] = {.kind = Kind::json,
                     .section_begin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
                     .section_end = "<\uff5ctool\u2581calls\u2581end\uff5c>",
                     .between = "\n",
                     .begin = "<\uff5ctool\u2581call\u2581begin\uff5c>",
                     .end = "\n```<\uff5ctool\u2581call\u2581end\uff5c>",
                     .name_begin = "function<\uff5ctool\u2581sep\uff5c>",
                     .arguments_begin = "\n```json\n"};
  all["kimi"] = {.kind = Kind::json,
                 .section_begin = "<|tool_calls_section_begin|>",
                 .section_end = "<|tool_calls_section_end|>",
                 .begin = "<|tool_call_begin|>",
                 .end = "<|tool_call_end|>",
                 .name_begin = "functions.",
                 .name_end = ":",
                 .after = Slot::index,
                 .arguments_begin = "<|tool_call_argument_begin|>",
                 .ids = Ids::functions};
  return all;
}

const std::map<std::string, CallFormat, std::less<>>& all_formats() {
  static const auto all = make_formats();
  return all;
}

// A mark in the source of a template, and the family that has it.
struct KnownMark {
  std::string_view mark, name;
  bool always;  // the rendering of a call does not show all of the format
};
constexpr KnownMark known_marks[] = {
    {"<|channel|>analysis", "harmony", true},
    {"<|python_tag|>", "llama3", false},
    {"Environment: ipython", "llama3", false},
    {"<|tool_call>call:", "gemma", false},
    {"<start_function_call>", "functiongemma", false},
    {"<|tool_call_start|>", "lfm2", false},
    {"<|tool_list_start|>", "lfm2", false},
    {"\"List of tools: [\"", "lfm2", false},
    {"<|tool_calls_section_begin|>", "kimi", false},
    {"respond only with <|tool_call|>", "granite3", false},
    {"<\uff5ctool\u2581calls\u2581begin\uff5c>", "deepseek", false},
};

}  // namespace

std::vector<std::string> ChatFormat::marks() const {
  if (calls.kind == Kind::harmony)
    return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
  std::vector<std::string> all{thought.begin, thought.end, calls.quote};
  if (calls.kind != Kind::none)
    for (const std::string& mark :
         {calls.section_begin, calls.section_end, calls.between, calls.begin, calls.end, calls.other_begin,
          calls.name_begin, calls.name_end, calls.arguments_begin, calls.arguments_end, calls.key_begin, calls.key_end,
          calls.value_begin, calls.other_value_begin, calls.value_end})
      all.push_back(mark);
  std::erase_if(all, [](const std::string& mark) { return trimmed(mark).empty(); });
  return all;
}

CallFormat named_call_format(std::string_view name) {
  const auto found = all_formats().find(name);
  if (found == all_formats().end()) throw Error("tool call format: no format is called {}", name);
  return found->second;
}

std::optional<CallFormat> call_format_by_name(std::string_view source, std::string& name, bool any) {
  for (const KnownMark& known : known_marks)
    if ((any || known.always) && source.find(known.mark) != source.npos) {
      name = known.name;
      return named_call_format(known.name);
    }
  return std::nullopt;
}

CallFormat generic_call_format() { return named_call_format("hermes"); }

std::string generic_tool_text(std::string_view tools, std::string_view example) {
  return fmt::format(
      "You can call functions. Their signatures, as JSON:\n<tools>\n{}\n</tools>\n"
      "To call one, write its name and arguments like this, once for each call, and nothing after that:\n{}",
      tools, trimmed(example));
}

ThoughtFormat thought_marks(const ChatFormat& format) {
  if (format.calls.kind == Kind::harmony) return {"<|channel|>analysis<|message|>", "<|end|>"};
  return format.thought;
}

bool opens_thought(const ThoughtFormat& format, std::string_view prompt) {
  const std::string_view begin = trimmed(format.begin);
  return !begin.empty() && !format.end.empty() && trimmed(prompt).ends_with(begin);
}

}  // namespace heddle::chat
