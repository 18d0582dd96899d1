#include "server/api/responses/response_items.h"

#include <array>

#include "base/utf8.h"
#include "server/api/openai/openai_tools.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_items = 10'000, max_parts = 10'000;
constexpr std::string_view thought_prefix = "heddle-thought-1:";

bool is_thought_alone(const Ordered& message) {
  return message["role"] == "assistant" && message["content"].is_null() && !message.contains("tool_calls");
}

}  // namespace

Ordered& ItemMessages::reply(bool begins) {
  if (list_.empty() || begins) list_.push_back({{"role", "assistant"}, {"content", nullptr}});
  return list_.back();
}

void ItemMessages::add_text(std::string role, std::string text) {
  if (role == "assistant")
    reply(list_.empty() || !is_thought_alone(list_.back()))["content"] = std::move(text);
  else
    list_.push_back({{"role", std::move(role)}, {"content", std::move(text)}});
}

void ItemMessages::add_thought(std::string text) {
  Ordered& thought = reply(list_.empty() || !is_thought_alone(list_.back()))["reasoning_content"];
  thought = thought.is_null() ? std::move(text) : thought.get<std::string>() + "\n" + text;
}

void ItemMessages::add_call(std::string call_id, std::string name, Ordered arguments) {
  Ordered& message = reply(list_.empty() || list_.back()["role"] != "assistant");
  if (!message.contains("tool_calls")) message["tool_calls"] = Ordered::array();
  message["tool_calls"].push_back({{"id", std::move(call_id)},
                                   {"type", "function"},
                                   {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}});
}

void ItemMessages::add_result(std::string call_id, std::string text) {
  list_.push_back({{"role", "tool"}, {"content", std::move(text)}, {"tool_call_id", std::move(call_id)}});
}

Ordered ItemMessages::take() {
  for (Ordered& message : list_)
    if (is_thought_alone(message)) message["content"] = "";
  return std::exchange(list_, Ordered::array());
}

namespace {

// Of a message, or of the result of a call.
std::string read_item_part(const Fields& item, const Json& part, const std::string& place) {
  Fields fields(part, place, item);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  const bool is_refusal = type == "refusal";
  if (type != "input_text" && type != "output_text" && type != "text" && !is_refusal)
    throw unexpected(fields.place("type"), "input_text, output_text or refusal (heddle reads text alone)", type,
                     "unsupported_value");
  const std::string_view name = is_refusal ? "refusal" : "text";
  std::string text = text_at(fields.at(name), fields.place(name));
  for (const std::string_view known : {"annotations", "logprobs"}) fields.find(known);  // of an answer that comes back
  fields.find("parsed");                                                                // OpenAI's client adds it
  fields.ignore("prompt_cache_breakpoint");
  fields.finish();
  return text;
}

std::string read_item_text(const Fields& item, const Json& value, const std::string& place) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw unexpected(place, "a string or a list of text parts", value);
  std::string text;
  size_t index = 0;
  if (value.empty()) return text;
  for (const Json& part : list_at(value, place, max_parts)) text += read_item_part(item, part, element(place, index++));
  return text;
}

// One item after the other.
class ItemReader {
 public:
  ItemReader(const Fields& body, const ResponseStore& store) : body_(body), store_(store) {}

  void read(const Json& item, Ordered ordered, const std::string& place) {
    Fields fields(item, place, body_);
    const std::string type = item_type(fields, item);
    std::string id_prefix;
    if (type == "item_reference") return read_reference(fields);
    if (type == "message") {
      read_item_message(fields, ordered);
      id_prefix = "msg_";
    } else if (type == "function_call") {
      read_item_call(fields);
      id_prefix = "fc_";
    } else if (type == "function_call_output") {
      read_item_result(fields);
      id_prefix = "fco_";
    } else if (type == "reasoning") {
      read_item_thought(fields);
      id_prefix = "rs_";
    } else {
      throw unexpected(fields.place("type"),
                       "message, function_call, function_call_output, reasoning or item_reference", type,
                       "unsupported_value");
    }
    fields.text("status");
    fields.finish();
    keep(std::move(ordered), type, id_prefix);
  }

  void read_text(const std::string& text) {
    messages_.add_text("user", text);
    keep({{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", text}}}}}, "message", "msg_");
  }

  ResponseInput take() { return {std::move(items_), messages_.take()}; }

 private:
  // Messages may leave their type out, and references too.
  static std::string item_type(Fields& fields, const Json& item) {
    if (auto type = fields.text("type")) return *type;
    if (fields.find("role")) return "message";
    if (item.size() == 1 && fields.find("id")) return "item_reference";
    return text_at(fields.at("type"), fields.place("type"));  // refuses
  }

  void keep(Ordered item, const std::string& type, const std::string& id_prefix) {
    const bool has_id = item.contains("id") && item["id"].is_string();
    std::string id = has_id ? item["id"].get<std::string>() : random_id(id_prefix);
    Ordered kept{{"id", id}, {"type", type}, {"status", "completed"}};
    kept.update(item);
    kept["id"] = id;  // null counts as absent
    items_.push_back({std::move(id), kept.dump(-1, ' ', false, Ordered::error_handler_t::replace)});
  }

  void read_item_message(Fields& fields, Ordered& ordered) {
    std::string role = text_at(fields.at("role"), fields.place("role"));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      throw unexpected(fields.place("role"), "user, assistant, system or developer", role, "invalid_value");
    const Json& content = fields.at("content");
    std::string text = read_item_text(fields, content, fields.place("content"));
    if (content.is_string())
      ordered["content"] = {{{"type", role == "assistant" ? "output_text" : "input_text"}, {"text", text}}};
    fields.text("id");
    fields.text("phase");
    messages_.add_text(role == "developer" ? "system" : role, std::move(text));
  }

  void read_item_call(Fields& fields) {
    std::string call_id = text_at(fields.at("call_id"), fields.place("call_id"));
    std::string name = text_at(fields.at("name"), fields.place("name"));
    Ordered arguments = read_arguments(fields.at("arguments"), fields.place("arguments"));
    fields.text("id");
    fields.find("parsed_arguments");  // OpenAI's client adds it
    for (const std::string_view ignored : {"namespace", "caller", "async"}) fields.ignore(ignored);
    messages_.add_call(std::move(call_id), std::move(name), std::move(arguments));
  }

  void read_item_result(Fields& fields) {
    std::string call_id = text_at(fields.at("call_id"), fields.place("call_id"));
    std::string text = read_item_text(fields, fields.at("output"), fields.place("output"));
    fields.text("id");
    for (const std::string_view ignored : {"name", "namespace", "caller"}) fields.ignore(ignored);
    messages_.add_result(std::move(call_id), std::move(text));
  }

  // Its text, or what was wrapped for the client to keep. Summaries are not the thought.
  void read_item_thought(Fields& fields) {
    fields.text("id");
    std::string text;
    if (const Json* parts = fields.find("content"); parts && !(parts->is_array() && parts->empty())) {
      size_t index = 0;
      for (const Json& one : list_at(*parts, fields.place("content"), max_parts)) {
        Fields part(one, element(fields.place("content"), index++), fields);
        if (const std::string& type = text_at(part.at("type"), part.place("type"));
            type != "reasoning_text" && type != "text")
          throw unexpected(part.place("type"), "reasoning_text", type, "unsupported_value");
        text += text_at(part.at("text"), part.place("text"));
        part.finish();
      }
    }
    if (const Json* summary = fields.find("summary"); summary && !summary->is_array())
      throw unexpected(fields.place("summary"), "a list", *summary);
    else if (summary && !summary->empty())
      fields.ignore("summary");
    if (const auto wrapped = fields.text("encrypted_content"); wrapped && !wrapped->empty()) {
      const auto kept = unwrapped_thought(*wrapped);
      if (!kept) fields.ignore("encrypted_content");
      if (kept && text.empty()) text = *kept;
    }
    if (!text.empty()) messages_.add_thought(std::move(text));
  }

  void read_reference(Fields& fields) {
    const std::string& id = text_at(fields.at("id"), fields.place("id"));
    fields.finish();
    const std::optional<std::string> found = store_.item(id);
    if (!found)
      throw ApiError(400, "item_not_found", fields.place("id"), "{}: there is no stored item {}", fields.place("id"),
                     in_quotes(id, 100));
    const Json item = Json::parse(*found);
    read(item, Ordered::parse(*found), fields.place("id"));
  }

  const Fields& body_;
  const ResponseStore& store_;
  ItemMessages messages_;
  std::vector<ResponseItem> items_;
};

}  // namespace

ResponseInput read_response_input(const Fields& body, const Json& input, const Ordered& ordered,
                                  const ResponseStore& store) {
  ItemReader reader(body, store);
  if (input.is_string()) {
    reader.read_text(input.get<std::string>());
    return reader.take();
  }
  if (!input.is_array()) throw unexpected("input", "a string or a list of items", input);
  if (input.size() > max_items) list_at(input, "input", max_items);  // refuses
  for (size_t i = 0; i < input.size(); ++i) reader.read(input[i], ordered[i], element("input", i));
  return reader.take();
}

std::string wrapped_thought(std::string_view text) { return std::string(thought_prefix) + base64(text); }

std::optional<std::string> unwrapped_thought(std::string_view wrapped) {
  if (!wrapped.starts_with(thought_prefix)) return std::nullopt;
  wrapped.remove_prefix(thought_prefix.size());
  if (wrapped.size() % 4 != 0) return std::nullopt;
  static constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < wrapped.size(); at += 4) {
    const bool last = at + 4 == wrapped.size();
    const size_t padding = !last ? 0 : wrapped.ends_with("==") ? 2 : wrapped.ends_with('=') ? 1 : 0;
    uint32_t group = 0;
    for (size_t i = 0; i < 4; ++i) {
      const size_t digit = i < 4 - padding ? letters.find(wrapped[at + i]) : 0;
      if (digit == letters.npos) return std::nullopt;
      group = group << 6 | uint32_t(digit);
    }
    for (size_t i = 0; i < 3 - padding; ++i) text += char(group >> (16 - 8 * i) & 255);
  }
  if (!is_utf8(text)) return std::nullopt;
  return text;
}

}  // namespace heddle::server
