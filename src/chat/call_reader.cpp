#include "chat/call_reader.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::chat {

void EventSink::add(ChatEvent::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (events_.empty() || events_.back().kind != kind)
    events_.push_back({kind, kind == ChatEvent::Kind::arguments ? calls_ - 1 : 0});
  events_.back().text += text;
}

bool CallContext::accepts(std::string_view name) const {
  if (name.empty() || name.size() > 128) return false;
  if (find_tool(tools, name)) return true;
  return any_name && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("_-.:/").find(c) != std::string_view::npos;
         });
}

std::unique_ptr<CallReader> make_call_reader(const CallContext& context) {
  switch (context.format.kind) {
    case CallFormat::Kind::json:
      return make_json_reader(context);
    case CallFormat::Kind::object:
      return make_object_reader(context);
    case CallFormat::Kind::tags:
      return make_tag_reader(context);
    case CallFormat::Kind::quoted:
    case CallFormat::Kind::python:
      return make_literal_reader(context);
    default:
      check(false, "a format without calls has no reader");
      return nullptr;
  }
}

}  // namespace heddle::chat
