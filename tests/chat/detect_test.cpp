#include "chat/detect.h"

#include <gtest/gtest.h>

#include "families.h"

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

TEST(OpensThought, WhereThePromptEndsWithItsMark) {
  const ThoughtFormat format{"<think>\n", "\n</think>\n"};
  EXPECT_TRUE(opens_thought(format, "<|assistant|><think>"));
  EXPECT_TRUE(opens_thought(format, "<|assistant|><think>\n\n"));
  EXPECT_FALSE(opens_thought(format, "<|assistant|><think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_thought({}, "text"));
}

}  // namespace
}  // namespace heddle::chat
