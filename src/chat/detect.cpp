#include "chat/detect.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/marks.h"
#include "chat/parser.h"
#include "chat/tools.h"
#include "text/template.h"

namespace heddle::chat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view sample_text = "zqtext", sample_thought = "zqthink", sample_end = "<zqeos>";

Json sample_parameters() {
  return Json::parse(R"({"type": "object", "properties": {"zqkeya": {"type": "string", "description": "a"},
                         "zqkeyb": {"type": "integer", "description": "b"}}, "required": ["zqkeya"]})");
}

Json sample_tools() {
  return Json::array(
      {{{"type", "function"},
        {"function", {{"name", SampleCall::name}, {"description", "a tool"}, {"parameters", sample_parameters()}}}}});
}

class Renderer {
 public:
  explicit Renderer(const text::ChatTemplate& chat_template)
      : template_(chat_template), tools_(sample_tools().dump()) {}

  // The conversation with this answer, or without one if it is null. Empty: the template refuses.
  std::string with(const Json& answer, bool tools = true, bool prompt = false) const {
    Json messages = Json::array({{{"role", "user"}, {"content", "zqask"}}});
    if (!answer.is_null()) messages.push_back(answer);
    try {
      return template_.render({.messages = messages.dump(),
                               .tools = tools ? tools_ : "",
                               .extra = "",
                               .bos = "<zqbos>",
                               .eos = std::string(sample_end),
                               .add_generation_prompt = prompt});
    } catch (const Error&) {
      return "";
    }
  }

  // Whether a system message behind the user's is written, at the end and in the middle.
  bool takes_late_system() const {
    Json messages =
        Json::array({{{"role", "user"}, {"content", "zqask"}}, {{"role", "system"}, {"content", sample_text}}});
    const auto is_written = [&] {
      try {
        return template_.render({.messages = messages.dump(), .bos = "<zqbos>", .eos = std::string(sample_end)})
                   .find(sample_text) != std::string::npos;
      } catch (const Error&) {
        return false;
      }
    };
    if (!is_written()) return false;
    messages.push_back({{"role", "assistant"}, {"content", "zqanswer"}});
    messages.push_back({{"role", "user"}, {"content", "zqask"}});
    return is_written();
  }

  // The end of the prompt with a variable that is on or off.
  std::string prompt_with(const std::string& variable, bool on) const {
    try {
      return template_.render({.messages = R"([{"role": "user", "content": "zqask"}])",
                               .tools = "",
                               .extra = Json{{variable, on}}.dump(),
                               .bos = "<zqbos>",
                               .eos = std::string(sample_end)});
    } catch (const Error&) {
      return "";
    }
  }

 private:
  const text::ChatTemplate& template_;
  std::string tools_;
};

Json sample_call(bool second, bool as_text) {
  Json arguments{{SampleCall::key, second ? SampleCall::second_value : SampleCall::value},
                 {SampleCall::other_key, second ? 84026 : 73915}};
  if (as_text) arguments = arguments.dump();
  return {{"id", second ? SampleCall::second_id : SampleCall::id},
          {"type", "function"},
          {"function", {{"name", SampleCall::name}, {"arguments", std::move(arguments)}}}};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// What is different from an answer of plain content.
std::string different_part(std::string_view whole, std::string_view plain) {
  size_t prefix = size_t(
      std::mismatch(whole.begin(), whole.begin() + ptrdiff_t(std::min(whole.size(), plain.size())), plain.begin())
          .first -
      whole.begin());
  // a tag that is cut in two is a whole one
  if (const size_t open = whole.substr(0, prefix).rfind('<'); open != whole.npos && whole.find('>', open) >= prefix)
    prefix = open;
  size_t suffix = 0;
  while (suffix < whole.size() - prefix && suffix < plain.size() - prefix &&
         whole[whole.size() - 1 - suffix] == plain[plain.size() - 1 - suffix])
    ++suffix;
  std::string part(whole.substr(prefix, whole.size() - prefix - suffix));
  const size_t open = part.rfind('<');
  if (open != part.npos && part.find('>', open) == part.npos) {
    const size_t close = whole.find('>', prefix + part.size());
    part += whole.substr(prefix + part.size(), close == whole.npos ? 0 : close + 1 - prefix - part.size());
  }
  if (const size_t end = part.find(sample_end); end != part.npos) part.erase(end);
  return part;
}

bool has_text_between_tags(std::string_view text) {
  bool in_tag = false;
  for (const char c : trimmed(text)) {
    if (c == '<') in_tag = true;
    if (!in_tag && !is_space(c)) return true;
    if (c == '>') in_tag = false;
  }
  return false;
}

// Whether the format reads what the template wrote.
bool reads_samples(const CallFormat& calls, const CallSamples& samples) {
  auto format = std::make_shared<ChatFormat>();
  format->calls = calls;
  const auto tools = std::make_shared<Tools>(Tools{{std::string(SampleCall::name), sample_parameters()}});
  ChatParser parser(format, tools);
  auto events = parser.push(samples.two.empty() ? samples.one : samples.two);
  for (ChatEvent& event : parser.finish()) events.push_back(std::move(event));
  std::vector<std::string> arguments;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::content) {
      if (has_text_between_tags(event.text)) return false;  // tags may end the turn
    }
    if (event.kind == ChatEvent::Kind::call_begin) arguments.emplace_back();
    if (event.kind == ChatEvent::Kind::arguments) arguments.back() += event.text;
  }
  if (arguments.size() != (samples.two.empty() ? 1u : 2u)) return false;
  const Json first = Json::parse(arguments[0], nullptr, false);
  return first == Json{{SampleCall::key, SampleCall::value}, {SampleCall::other_key, 73915}};
}

// A message with a call; templates differ in what they want beside it.
Json answer_with_call(ContentOfCalls content, bool as_text) {
  Json answer{{"role", "assistant"}};
  if (content == ContentOfCalls::empty) answer["content"] = "";
  if (content == ContentOfCalls::null) answer["content"] = nullptr;
  answer["tool_calls"] = Json::array({sample_call(false, as_text)});
  return answer;
}

CallSamples render_samples(const Renderer& renderer, Json answer, bool as_text) {
  const std::string plain = renderer.with({{"role", "assistant"}, {"content", sample_text}});
  CallSamples samples;
  if (const std::string whole = renderer.with(answer); !whole.empty()) samples.one = different_part(whole, plain);
  answer["tool_calls"].push_back(sample_call(true, as_text));
  if (const std::string whole = renderer.with(answer); !whole.empty()) samples.two = different_part(whole, plain);
  // the second call gets the values of the first, so that both are found
  replace_all(samples.two, SampleCall::second_id, SampleCall::id);
  replace_all(samples.two, SampleCall::second_value, SampleCall::value);
  replace_all(samples.two, SampleCall::second_other_value, SampleCall::other_value);
  if (samples.two == samples.one) samples.two.clear();
  return samples;
}

// Sets how arguments are given, and an example, beside what it returns.
std::optional<CallFormat> detect_calls(const Renderer& renderer, ChatFormat& chat) {
  for (const bool text : {false, true})
    for (const ContentOfCalls content : {ContentOfCalls::empty, ContentOfCalls::null, ContentOfCalls::absent}) {
      Json answer = answer_with_call(content, text);
      const CallSamples samples = render_samples(renderer, answer, text);
      auto format = format_of_samples(samples);
      if (!format || !reads_samples(*format, samples)) continue;
      chat.arguments_as_text = text;
      chat.content_of_calls = content;
      chat.example = samples.one;
      replace_all(chat.example, SampleCall::name, "NAME");
      replace_all(chat.example, SampleCall::key, "PARAMETER");
      replace_all(chat.example, SampleCall::value, "VALUE");
      replace_all(chat.example, SampleCall::other_key, "OTHER_PARAMETER");
      replace_all(chat.example, SampleCall::other_value, "2");
      replace_all(chat.example, SampleCall::id, "000000001");
      if (format->after == CallFormat::Slot::index) format->ids = CallFormat::Ids::functions;
      answer["tool_calls"][0]["id"] = "call_with_a_long_id";
      if (renderer.with(answer).empty()) format->ids = CallFormat::Ids::nine;
      return format;
    }
  return std::nullopt;
}

struct ThoughtMarks {
  std::string_view begin, end;
};
constexpr ThoughtMarks known_thoughts[] = {{"<think>", "</think>"},
                                           {"[THINK]", "[/THINK]"},
                                           {"<seed:think>", "</seed:think>"},
                                           {"<|channel>thought\n", "<channel|>"},
                                           {"<|START_THINKING|>", "<|END_THINKING|>"},
                                           {"<|inner_prefix|>", "<|inner_suffix|>"}};

ThoughtFormat detect_thought(const Renderer& renderer, std::string_view source, std::string& field) {
  const std::string plain = renderer.with({{"role", "assistant"}, {"content", sample_text}});
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string whole = renderer.with({{"role", "assistant"}, {"content", sample_text}, {name, sample_thought}});
    const size_t at = whole.find(sample_thought), text = whole.find(sample_text, at == whole.npos ? 0 : at);
    if (at == whole.npos || text == whole.npos) continue;
    field = name;
    const size_t open = std::string_view(whole).substr(0, at).find_last_of("<[");
    ThoughtFormat found{open == whole.npos ? "" : whole.substr(open, at - open),
                        whole.substr(at + sample_thought.size(), text - at - sample_thought.size())};
    if (trimmed(found.end).empty()) continue;
    // of several tags without text between them, the first ends the thought
    if (const size_t close = found.end.find('>');
        close != found.end.npos && found.end.find('<', close) == close + 1 && !has_text_between_tags(found.end))
      found.end.erase(close + 1);
    // no mark begins it where plain content has the same before it: the prompt may end with one
    if (plain.find(found.begin + std::string(sample_text)) != plain.npos) {
      const std::string prompt = renderer.with(nullptr);
      const std::string longer = renderer.with(nullptr, true, true);
      const std::string_view added = trimmed(std::string_view(longer).substr(std::min(prompt.size(), longer.size())));
      const size_t line = added.rfind('\n');
      if (line == added.npos || added.find('<', line) != added.npos) break;
      found.begin = trimmed(added.substr(line));
    }
    return found;
  }
  for (const ThoughtMarks& marks : known_thoughts)
    if (source.find(trimmed(marks.begin)) != source.npos && source.find(marks.end) != source.npos)
      return {std::string(marks.begin), std::string(marks.end)};
  return {};
}

}  // namespace

ChatFormat detect_format(const text::ChatTemplate& chat_template, std::string_view source) {
  const Renderer renderer(chat_template);
  ChatFormat format{.name = "template"};
  const std::string with_tools = renderer.with(nullptr);
  format.tools_in_template = with_tools.find(SampleCall::name) != with_tools.npos;
  const auto is_bare = [](const CallFormat& calls) { return trimmed(calls.section_begin + calls.begin).empty(); };
  if (auto known = call_format_by_name(source, format.name, false)) {
    format.calls = std::move(*known);
  } else if (auto calls = detect_calls(renderer, format); calls && !is_bare(*calls)) {
    format.calls = std::move(*calls);
  } else if (auto fallback = call_format_by_name(source, format.name, true)) {
    format.calls = std::move(*fallback);
    format.arguments_as_text = false;
    format.example.clear();
  } else if (calls) {
    format.calls = std::move(*calls);
  }
  if (format.calls.kind != CallFormat::Kind::harmony)
    format.thought = detect_thought(renderer, source, format.thought_field);
  else
    format.thought_field = "thinking";
  // an empty thought before the calls is no part of their marks
  for (std::string* mark : {&format.calls.section_begin, &format.calls.begin})
    if (const size_t at = mark->find(trimmed(format.thought.end)); !format.thought.end.empty() && at != mark->npos)
      mark->erase(0, at + trimmed(format.thought.end).size());
  for (const std::string variable : {"enable_thinking", "thinking"})
    if (renderer.prompt_with(variable, true) != renderer.prompt_with(variable, false) && format.thought_switch.empty())
      format.thought_switch = variable;
  format.late_system = renderer.takes_late_system();
  return format;
}

}  // namespace heddle::chat
