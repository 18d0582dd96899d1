// Ollama's messages have arguments as objects, and results that name the tool, not the call.
#include "server/api/ollama/ollama_messages.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_ollama_messages = 10'000, max_ollama_calls = 1'000;

class MessageReader {
 public:
  MessageReader(Fields& fields, std::string_view body) : fields_(fields), body_(body) {}

  std::string read() {
    const Json* messages = fields_.find("messages");
    if (!messages || (messages->is_array() && messages->empty())) return "";
    Ordered out = Ordered::array();
    for (const Json& message : list_at(*messages, "messages", max_ollama_messages))
      out.push_back(read_message(message, out.size()));
    return out.dump();
  }

 private:
  struct OpenCall {  // without a result so far
    std::string id, name;
  };

  Ordered read_message(const Json& message, size_t index) {
    Fields fields(message, element("messages", index), fields_);
    const std::string role = role_of(fields);
    Ordered out{{"role", role}, {"content", fields.text("content").value_or("")}};
    refuse_unless_empty(fields, "images", "images");
    if (auto thought = fields.text("thinking"); thought && role == "assistant" && !thought->empty())
      out["reasoning_content"] = std::move(*thought);
    if (role == "assistant") read_calls(fields, index, out);
    if (role == "tool") read_result(fields, out);
    fields.finish();
    return out;
  }

  static std::string role_of(Fields& fields) {
    std::string role = text_at(fields.at("role"), fields.place("role"));
    std::ranges::transform(role, role.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      throw unexpected(fields.place("role"), "system, user, assistant or tool", role, "invalid_value");
    return role;
  }

  void read_calls(Fields& fields, size_t index, Ordered& out) {
    const Json* calls = fields.find("tool_calls");
    if (!calls || (calls->is_array() && calls->empty())) return;
    Ordered& list = out["tool_calls"] = Ordered::array();
    const std::string place = fields.place("tool_calls");
    for (const Json& call : list_at(*calls, place, max_ollama_calls))
      list.push_back(read_call(fields, call, index, list.size()));
  }

  Ordered read_call(const Fields& message, const Json& call, size_t index, size_t number) {
    Fields fields(call, element(message.place("tool_calls"), number), message);
    std::string id = fields.text("id").value_or("");
    // nine letters and digits: some templates take no other ids
    if (id.empty()) id = fmt::format("call{:05}", calls_);
    ++calls_;
    fields.find("type");
    Fields function(fields.at("function"), fields.place("function"), fields);
    std::string name = text_at(function.at("name"), function.place("name"));
    Ordered arguments = Ordered::object();
    if (const Json* value = function.find("arguments")) {
      if (!value->is_object()) throw unexpected(function.place("arguments"), "an object", *value);
      arguments = ordered()["messages"][index]["tool_calls"][number]["function"]["arguments"];
    }
    function.find("index");
    function.finish();
    fields.finish();
    open_.push_back({id, name});
    return {{"id", std::move(id)},
            {"type", "function"},
            {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}};
  }

  // It belongs to the call of its id, else to the first open call of its tool, else to the first open one.
  void read_result(Fields& fields, Ordered& out) {
    const std::string id = fields.text("tool_call_id").value_or("");
    std::string name = fields.text("tool_name").value_or("");
    if (auto other = fields.text("name"); other && name.empty()) name = std::move(*other);
    const auto is_its_call = [&](const OpenCall& call) {
      return !id.empty() ? call.id == id : name.empty() || call.name == name;
    };
    const auto found = std::ranges::find_if(open_, is_its_call);
    out["tool_call_id"] = found != open_.end() ? found->id : id;
    if (!name.empty()) out["name"] = std::move(name);
    if (found != open_.end()) open_.erase(found);
  }

  // The body with the keys of its objects in their order: that of arguments is the model's own.
  const Ordered& ordered() {
    if (!ordered_) ordered_ = Ordered::parse(body_);
    return *ordered_;
  }

  Fields& fields_;
  const std::string_view body_;
  std::optional<Ordered> ordered_;
  std::vector<OpenCall> open_;
  size_t calls_ = 0;
};

}  // namespace

std::string read_ollama_messages(Fields& fields, std::string_view body) { return MessageReader(fields, body).read(); }

}  // namespace heddle::server
