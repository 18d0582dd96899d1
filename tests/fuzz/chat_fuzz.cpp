// Any bytes as the answer of a model: the first byte says in which format, the second where the rest is cut. Read
// whole, byte by byte and in two pieces, it is the same, and no event comes where it cannot.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "chat/detect.h"
#include "chat/parser.h"
#include "chat/tools.h"
#include "tests/fuzz/target.h"

namespace heddle::chat {
namespace {

std::vector<ChatFormat> all_formats() {
  std::vector<ChatFormat> all;
  for (const char* name : {"hermes", "harmony", "gemma", "lfm2", "llama3", "granite3", "deepseek", "kimi"}) {
    ChatFormat& format = all.emplace_back();
    format.calls = named_call_format(name);
    format.thought = {"<think>", "</think>"};
  }
  ChatFormat tags;
  tags.calls = {.kind = CallFormat::Kind::tags,
                .begin = "<tool_call>\n<function=",
                .end = "\n</tool_call>",
                .arguments_begin = ">\n",
                .arguments_end = "</function>",
                .key_begin = "<parameter=",
                .key_end = ">\n",
                .value_end = "\n</parameter>\n"};
  all.push_back(tags);
  tags.calls.key_begin = "<parameter name=\"";
  tags.calls.key_end = "\"";
  tags.calls.value_begin = " string=\"true\">";
  tags.calls.other_value_begin = " string=\"false\">";
  tags.calls.value_end = "</parameter>\n";
  all.push_back(tags);
  return all;
}

struct Read {
  std::string content, reasoning, calls;
  bool operator==(const Read&) const = default;
};

Read read_answer(const ChatFormat& format, const std::vector<std::string_view>& pieces) {
  static const auto tools = std::make_shared<const Tools>(
      Tools{{"f", nlohmann::ordered_json::parse(R"({"properties":{"s":{"type":"string"},"n":{"type":"integer"}}})")}});
  ChatParser parser(std::make_shared<const ChatFormat>(format), tools);
  Read out;
  bool open = false;
  const auto add = [&](const std::vector<ChatEvent>& events) {
    for (const ChatEvent& event : events) {
      const bool begins = event.kind == ChatEvent::Kind::call_begin;
      const bool of_call = event.kind == ChatEvent::Kind::arguments || event.kind == ChatEvent::Kind::call_end;
      if ((begins && open) || (of_call && !open)) std::abort();
      if (begins) open = true;
      if (event.kind == ChatEvent::Kind::call_end) open = false;
      if (event.kind == ChatEvent::Kind::content) out.content += event.text;
      if (event.kind == ChatEvent::Kind::reasoning) out.reasoning += event.text;
      if (begins || of_call) out.calls += event.text + (event.kind == ChatEvent::Kind::arguments ? "" : "\n");
    }
  };
  for (const std::string_view piece : pieces) add(parser.push(piece));
  add(parser.finish());
  if (open) std::abort();
  return out;
}

}  // namespace

FUZZ_TARGET(chat) {
  static const std::vector<ChatFormat> formats = all_formats();
  if (size < 2 || size > 4096) return 0;
  const ChatFormat& format = formats[data[0] % formats.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Read whole = read_answer(format, {text});
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  if (read_answer(format, bytes) != whole) std::abort();
  const size_t cut = text.empty() ? 0 : data[1] % text.size();
  if (read_answer(format, {text.substr(0, cut), text.substr(cut)}) != whole) std::abort();
  return 0;
}

}  // namespace heddle::chat
