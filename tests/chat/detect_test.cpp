#include "chat/detect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "chat/conversation.h"
#include "chat/tools.h"
#include "families.h"
#include "tests/support/shared_data.h"

namespace heddle::chat {
namespace {

TEST(DetectFormat, FindsEveryFamily) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.name);
    EXPECT_EQ(family.format->name, family.known);
    EXPECT_NE(family.format->calls.kind, CallFormat::Kind::none);
    EXPECT_EQ(family.format->tools_in_template,
              !family.name.starts_with("deepseek r1") && family.name != "deepseek v3.1");
    if (family.format->calls.kind != CallFormat::Kind::harmony) {
      EXPECT_EQ(family.format->thought.end.empty(), family.reasoning.empty());
    }
  }
}

ChatFormat detected(std::string_view source) { return detect_format(text::ChatTemplate(source), source); }

TEST(DetectFormat, TemplatesWithoutCallsHaveNone) {
  EXPECT_EQ(detected("{% for m in messages %}{{ m.content }}{% endfor %}").calls.kind, CallFormat::Kind::none);
  EXPECT_EQ(detected("").calls.kind, CallFormat::Kind::none);
  EXPECT_EQ(detected("{{ raise_exception('no') }}").calls.kind, CallFormat::Kind::none);
  EXPECT_EQ(detected("{{ messages[5].content.x }}").calls.kind, CallFormat::Kind::none);
  EXPECT_FALSE(detected("{{ messages }}").tools_in_template);
  EXPECT_TRUE(detected("{{ tools }}").tools_in_template);
}

TEST(DetectFormat, FindsHowArgumentsAreWanted) {
  const std::string before =
      "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}<f={{ c.function.name }}>";
  const std::string behind = "</f>{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_FALSE(detected(before + "{{ c.function.arguments | tojson }}" + behind).arguments_as_text);
  EXPECT_TRUE(detected(before + "{{ c.function.arguments + '' }}" + behind).arguments_as_text);
}

TEST(DetectFormat, FindsTheSwitchOfThoughts) {
  const std::string messages = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(detected(messages).thought_switch, "");
  EXPECT_EQ(detected(messages + "{% if enable_thinking is false %}<think></think>{% endif %}").thought_switch,
            "enable_thinking");
  EXPECT_EQ(detected(messages + "{% if thinking %}<think>{% endif %}{# </think> #}").thought_switch, "thinking");
}

TEST(DetectFormat, FindsWhetherASystemMessageMayComeLate) {
  EXPECT_TRUE(detected("{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}").late_system);
  EXPECT_FALSE(detected("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                        "{{ raise_exception('late') }}{% endif %}{{ m.content }}{% endfor %}")
                   .late_system);
  EXPECT_FALSE(detected("{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.content }}{% endif %}"
                        "{% endfor %}")
                   .late_system)
      << "left out without a word";
  EXPECT_FALSE(detected("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                        "{{ raise_exception('in turn') }}{% endif %}{{ m.content }}{% endfor %}")
                   .late_system);
}

TEST(DetectFormat, FindsTheIdsThatATemplateTakes) {
  for (const Family& family : families()) {
    const auto ids = family.name == "mistral, ids" ? CallFormat::Ids::nine
                     : family.name == "kimi k2"    ? CallFormat::Ids::functions
                                                   : CallFormat::Ids::any;
    EXPECT_EQ(int(family.format->calls.ids), int(ids)) << family.name;
  }
}

using Json = nlohmann::ordered_json;

struct WrittenCall {
  std::string name;
  nlohmann::json arguments;  // in any order: some templates sort them
  bool operator==(const WrittenCall&) const = default;
};
void PrintTo(const WrittenCall& call, std::ostream* out) { *out << call.name << " " << call.arguments; }

const std::vector<WrittenCall>& calls_to_write() {
  static const std::vector<WrittenCall> calls{
      {"get_weather", nlohmann::json::parse(R"({"city": "K\u00f6ln \"am Rhein\"", "days": 2})")},
      {"note", nlohmann::json::parse(
                   R"({"text": "a\nb <x> y [z] {w}", "tags": ["t", "\u4e2d"], "more": {"deep": 1.5, "on": true}})")}};
  return calls;
}

// What the template writes for an answer with these calls, and the format to read it with. Empty: it refuses, or writes
// no calls.
std::pair<std::string, std::shared_ptr<const ChatFormat>> written_calls(const text::ChatTemplate& chat_template,
                                                                        std::shared_ptr<const ChatFormat> format) {
  Json messages = Json::array({{{"role", "user"}, {"content", "zqask"}}}), tools = Json::array();
  for (const Tool& tool : *family_tools())
    tools.push_back({{"type", "function"},
                     {"function", {{"name", tool.name}, {"description", "x"}, {"parameters", tool.parameters}}}});
  const auto rendered = [&](bool prompt) {
    const PreparedConversation ready = prepare(format, {.messages = messages.dump(), .tools = tools.dump()});
    return std::pair(chat_template.render({.messages = ready.messages,
                                           .tools = ready.tools,
                                           .extra = ready.variables,
                                           .bos = "<s>",
                                           .eos = "</s>",
                                           .add_generation_prompt = prompt}),
                     ready.format);
  };
  try {
    const std::string prompt = rendered(true).first;
    Json answer{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}};
    for (const WrittenCall& call : calls_to_write()) {
      if (format->calls.one_call && !answer["tool_calls"].empty()) break;
      answer["tool_calls"].push_back({{"id", call.name == "note" ? "abc123xyz" : "def456uvw"},
                                      {"type", "function"},
                                      {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    messages.push_back(answer);
    const auto [whole, used] = rendered(false);
    size_t begin =
        size_t(std::mismatch(whole.begin(), whole.end(), prompt.begin(), prompt.end()).first - whole.begin());
    // from a whole tag on
    if (const size_t open = whole.rfind('<', begin); open != whole.npos && whole.find('>', open) > begin) begin = open;
    const std::string text = whole.substr(begin);
    if (text.find(calls_to_write()[0].name) != text.npos) return {text, used};
  } catch (const Error&) {
  }
  return {"", format};
}

// What a published template writes for calls is read back by the format that was found from it.
TEST(DetectFormat, ReadsWhatPublishedTemplatesWrite) {
  SHARED_DATA(folder, "templates/llama.cpp-templates");
  std::set<std::string> without, unwritten;
  size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".jinja" || name == "openbmb-MiniCPM5-1B") continue;  // its texts may be CDATA
    SCOPED_TRACE(name);
    std::ifstream file(entry.path());
    const std::string source(std::istreambuf_iterator<char>(file), {});
    const text::ChatTemplate chat_template(source);
    const auto format = std::make_shared<const ChatFormat>(detect_format(chat_template, source));
    if (format->calls.kind == CallFormat::Kind::none) {
      without.insert(name);
      continue;
    }
    const auto [text, used] = written_calls(chat_template, format);
    if (text.empty()) {
      unwritten.insert(name);
      continue;
    }
    ChatParser parser(used, family_tools());
    Answer found;
    found.add(parser.push(text));
    found.add(parser.finish());
    std::vector<WrittenCall> calls, expected = calls_to_write();
    if (format->calls.one_call) expected.pop_back();
    for (size_t i = 0; i < found.names.size(); ++i)
      calls.push_back({found.names[i], nlohmann::json::parse(found.arguments[i], nullptr, false)});
    EXPECT_EQ(calls, expected) << text;
    ++read;
  }
  EXPECT_EQ(read, 52u);
  EXPECT_EQ(without, (std::set<std::string>{"HuggingFaceTB-SmolLM3-3B", "Kimi-K3", "MiniMax-M3",
                                            "fireworks-ai-llama-3-firefunction-v2", "google-gemma-2-2b-it",
                                            "llama-cpp-rwkv-world", "meetkai-functionary-medium-v3.2",
                                            "microsoft-Phi-3.5-mini-instruct", "muse-glimmer"}));
  EXPECT_EQ(unwritten,
            (std::set<std::string>{"Kimi-K2-Instruct", "Kimi-K2-Thinking", "LFM2-8B-A1B", "LFM2.5-Instruct",
                                   "CohereForAI-c4ai-command-r-plus-tool_use", "ibm-granite-granite-3.3-2B-Instruct"}));
}

TEST(OpensThought, WhereThePromptEndsWithItsMark) {
  const ThoughtFormat format{"<think>\n", "\n</think>\n"};
  EXPECT_TRUE(opens_thought(format, "<|assistant|><think>"));
  EXPECT_TRUE(opens_thought(format, "<|assistant|><think>\n\n"));
  EXPECT_FALSE(opens_thought(format, "<|assistant|><think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_thought({}, "text"));
}

}  // namespace
}  // namespace heddle::chat
