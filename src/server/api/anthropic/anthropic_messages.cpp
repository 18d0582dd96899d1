#include "server/api/anthropic/anthropic_messages.h"

#include "base/utf8.h"
#include "server/api/anthropic/anthropic.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_anthropic_messages = 10'000, max_blocks = 10'000;

// Claude Code's first block of the system prompt. It changes from session to session and would keep the rest of the
// prompt out of the prefix cache.
constexpr std::string_view billing_header = "x-anthropic-billing-header:";

constexpr std::string_view signature_prefix = "heddle.";

// Blocks of one message are paragraphs of one text.
void join_text(std::string& out, std::string_view text) {
  if (!out.empty() && !text.empty()) out += "\n";
  out += text;
}
void join_text(Ordered& message, const char* member, std::string_view text) {
  std::string joined = message.contains(member) && message[member].is_string() ? message[member] : "";
  join_text(joined, text);
  message[member] = std::move(joined);
}

std::string block_type(Fields& block) { return text_at(block.at("type"), block.place("type")); }

// A text block, after its type.
std::string read_text_block(Fields& block) {
  std::string text = text_at(block.at("text"), block.place("text"));
  block.find("cache_control");  // prefixes are found without it
  if (const Json* citations = block.find("citations"); citations && !citations->empty()) block.ignore("citations");
  block.finish();
  return text;
}

ApiError unexpected_block(const Fields& block, std::string_view expected, const std::string& type) {
  return unexpected(block.place("type"), expected, type, "unsupported_value");
}

// A string, or blocks of text alone.
std::string read_texts(const Fields& outer, const Json& content, const std::string& place, bool is_system) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw unexpected(place, "a string or a list of text blocks", content);
  std::string text;
  if (content.empty()) return text;
  size_t index = 0;
  for (const Json& one : list_at(content, place, max_blocks)) {
    Fields block(one, element(place, index++), outer);
    if (const std::string type = block_type(block); type != "text") throw unexpected_block(block, "\"text\"", type);
    const std::string part = read_text_block(block);
    if (!(is_system && index == 1 && part.starts_with(billing_header))) join_text(text, part);
  }
  return text;
}

class MessagesReader {
 public:
  MessagesReader(Fields& fields, const Ordered& body, const DeferredTools& deferred)
      : fields_(fields), body_(body), deferred_(deferred) {}

  AnthropicMessages read() {
    out_.messages = Ordered::array();
    if (const Json* system = fields_.find("system"))
      if (std::string text = read_texts(fields_, *system, "system", true); !text.empty())
        out_.messages.push_back({{"role", "system"}, {"content", std::move(text)}});
    const Json& messages = list_at(fields_.at("messages"), "messages", max_anthropic_messages);
    for (size_t i = 0; i < messages.size(); ++i) read_one(messages[i], element("messages", i), body_["messages"][i]);
    return std::move(out_);
  }

 private:
  void read_one(const Json& value, const std::string& place, const Ordered& ordered) {
    Fields message(value, place, fields_);
    const std::string& role = text_at(message.at("role"), message.place("role"));
    const Json& content = message.at("content");
    const std::string content_place = message.place("content");
    if (role == "system")
      out_.messages.push_back({{"role", role}, {"content", read_texts(message, content, content_place, false)}});
    else if (role == "user")
      read_user_message(message, content, content_place);
    else if (role == "assistant")
      read_assistant(message, content, content_place, ordered["content"]);
    else
      throw unexpected(message.place("role"), "user, assistant or system", role, "invalid_value");
    message.finish();
  }

  // The last message if it has this role, otherwise a new one: turns of one role are one turn.
  Ordered& turn(const char* role) {
    if (out_.messages.empty() || out_.messages.back()["role"] != role)
      out_.messages.push_back({{"role", role}, {"content", nullptr}});
    return out_.messages.back();
  }

  // Results come before the text: templates want them right behind their calls.
  void read_user_message(const Fields& message, const Json& content, const std::string& place) {
    if (content.is_string()) return join_text(turn("user"), "content", content.get_ref<const std::string&>());
    if (!content.is_array()) throw unexpected(place, "a string or a list of blocks", content);
    std::string text;
    bool has_results = false;
    size_t index = 0;
    if (!content.empty()) list_at(content, place, max_blocks);
    for (const Json& one : content) {
      Fields block(one, element(place, index++), message);
      const std::string type = block_type(block);
      if (type == "text") {
        join_text(text, read_text_block(block));
      } else if (type == "tool_result") {
        read_result(block);
        has_results = true;
      } else {
        throw unexpected_block(block, "\"text\" or \"tool_result\"", type);
      }
    }
    if (!text.empty() || !has_results) join_text(turn("user"), "content", text);
  }

  void read_result(Fields& block) {
    Ordered result{{"role", "tool"}, {"content", nullptr}};
    result["tool_call_id"] = text_at(block.at("tool_use_id"), block.place("tool_use_id"));
    std::string text;
    if (const Json* content = block.find("content")) text = read_result_content(block, *content);
    result["content"] = block.flag_or("is_error", false) ? "Error: " + text : text;
    block.find("cache_control");
    block.finish();
    out_.messages.push_back(std::move(result));
  }

  std::string read_result_content(const Fields& result, const Json& content) {
    const std::string place = result.place("content");
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) throw unexpected(place, "a string or a list of blocks", content);
    std::string text;
    size_t index = 0;
    if (!content.empty()) list_at(content, place, max_blocks);
    for (const Json& one : content) {
      Fields block(one, element(place, index++), result);
      const std::string type = block_type(block);
      if (type == "text")
        join_text(text, read_text_block(block));
      else if (type == "tool_reference")
        join_text(text, read_reference(block));
      else
        throw unexpected_block(block, "\"text\" or \"tool_reference\"", type);
    }
    return text;
  }

  // The description of the tool stands here, and not among the others: what comes before stays as it was.
  std::string read_reference(Fields& block) {
    std::string name = text_at(block.at("tool_name"), block.place("tool_name"));
    block.find("cache_control");
    block.finish();
    const auto found = deferred_.find(name);
    if (found == deferred_.end()) return name;
    out_.references.insert(name);
    return found->second.tool.dump();
  }

  void read_assistant(const Fields& message, const Json& content, const std::string& place, const Ordered& ordered) {
    Ordered& answer = turn("assistant");
    if (content.is_string()) return join_text(answer, "content", content.get_ref<const std::string&>());
    if (!content.is_array()) throw unexpected(place, "a string or a list of blocks", content);
    if (!content.empty()) list_at(content, place, max_blocks);
    for (size_t i = 0; i < content.size(); ++i) {
      Fields block(content[i], element(place, i), message);
      read_answer_block(answer, block, ordered[i]);
    }
    // an answer that was a thought alone, or was cut off
    if (answer["content"].is_null() && !answer.contains("tool_calls")) answer["content"] = "";
  }

  static void read_answer_block(Ordered& answer, Fields& block, const Ordered& ordered) {
    const std::string type = block_type(block);
    if (type == "text") return join_text(answer, "content", read_text_block(block));
    if (type == "thinking") {
      std::string thought = text_at(block.at("thinking"), block.place("thinking"));
      const std::string signature = block.text("signature").value_or("");
      if (thought.empty()) thought = hidden_thought(signature);
      if (!thought.empty()) join_text(answer, "reasoning_content", thought);
    } else if (type == "redacted_thinking") {
      block.ignore("data");  // another server's thought, which only that server can read
    } else if (type == "tool_use") {
      std::string id = text_at(block.at("id"), block.place("id"));
      std::string name = text_at(block.at("name"), block.place("name"));
      if (const Json& input = block.at("input"); !input.is_object())
        throw unexpected(block.place("input"), "an object", input);
      block.find("caller");
      if (!answer.contains("tool_calls")) answer["tool_calls"] = Ordered::array();
      answer["tool_calls"].push_back({{"id", std::move(id)},
                                      {"type", "function"},
                                      {"function", {{"name", std::move(name)}, {"arguments", ordered["input"]}}}});
    } else {
      throw unexpected_block(block, "\"text\", \"thinking\", \"redacted_thinking\" or \"tool_use\"", type);
    }
    block.find("cache_control");
    block.finish();
  }

  Fields& fields_;
  const Ordered& body_;
  const DeferredTools& deferred_;
  AnthropicMessages out_;
};

// What base64() has written; empty for any other text.
std::string from_base64(std::string_view text) {
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (value(c) < 0) return "";
    bits = bits << 6 | uint32_t(value(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += char(bits >> count & 255);
  }
  return out;
}

}  // namespace

std::string thinking_signature(std::string_view thought) { return std::string(signature_prefix) + base64(thought); }

std::string hidden_thought(std::string_view signature) {
  if (!signature.starts_with(signature_prefix)) return "";
  std::string thought = from_base64(signature.substr(signature_prefix.size()));
  return is_utf8(thought) ? thought : "";
}

AnthropicMessages read_anthropic_messages(Fields& fields, const Ordered& body, const DeferredTools& deferred) {
  return MessagesReader(fields, body, deferred).read();
}

}  // namespace heddle::server
