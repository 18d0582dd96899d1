// The template language, case by case; then templates and their texts as others rendered them: our own selection judged
// by jinja2, and the reference data.
#include "text/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/shared_data.h"

namespace {

using heddle::Error;
using heddle::text::ChatTemplate;
using heddle::text::TemplateInput;
using heddle::text::TemplateLimits;
using heddle::text::TemplateRefused;

std::string rendered(std::string_view source, std::string_view variables = "{}", TemplateLimits limits = {}) {
  return ChatTemplate(source, limits).render_with(variables, 1767225600);
}
// The message of the Error, or what was rendered instead.
std::string template_error(std::string_view source, std::string_view variables = "{}", TemplateLimits limits = {}) {
  try {
    return "no error, but: " + rendered(source, variables, limits);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Jinja, TextAloneLosesOneLineEnd) {
  EXPECT_EQ(rendered(""), "");
  EXPECT_EQ(rendered("a\n"), "a");
  EXPECT_EQ(rendered("a\n\n"), "a\n");
  EXPECT_EQ(rendered("a\r\nb\rc"), "a\nb\nc");
}

TEST(Jinja, BlocksTakeTheirLineWithThem) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc"), "a\n  b\nc");
  EXPECT_EQ(rendered("a {% if true %} b {% endif %} c"), "a  b  c");
  EXPECT_EQ(rendered("a\n  {%+ if true %}\nb{% endif +%}\nc"), "a\n  b\nc");
  EXPECT_EQ(rendered("a  {{- 1 -}}  b  {{ 2 }}\nc"), "a1b  2\nc");
  EXPECT_EQ(rendered("a  {#- x -#}  b\n  {# y #}\nc"), "ab\nc");
  EXPECT_EQ(rendered(" {%- raw -%} {{ x }} {%- endraw -%} b"), "{{ x }}b");
}

TEST(Jinja, LoopKnowsWhereItIs) {
  EXPECT_EQ(
      rendered("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
               "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}|{% endfor %}"),
      "1032TrueFalse3b|2121FalseFalse3ac|3210FalseTrue3b|");
  EXPECT_EQ(
      rendered(
          "{% for x in [1, 2] recursive %}{{ loop.depth }}{% if x == 1 %}({{ loop([2]) }}){% endif %}{% endfor %}"),
      "1(2)1");
  EXPECT_EQ(rendered("{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }}{% endfor %}"),
            "TrueaFalsebTruea");
  // The condition is asked one item at a time, so it sees what the body did.
  EXPECT_EQ(rendered("{% set n = namespace(stop=false) %}{% for x in [1, 2, 3] if not n.stop %}{{ x }}"
                     "{% set n.stop = x == 2 %}{% endfor %}"),
            "12");
  EXPECT_EQ(rendered("{% for x in [1, 2, 3]|map('string') %}{{ x }}/{{ loop.length }}{{ loop.last }} {% endfor %}"),
            "1/3False 2/3False 3/3True ");
}

TEST(Jinja, ScopesEndWithTheirBlock) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"), "231");
  EXPECT_EQ(rendered("{% if true %}{% set x = 1 %}{% endif %}{{ x }}"), "1");
  EXPECT_EQ(rendered("{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}"), "1False");
  EXPECT_EQ(rendered("{% generation %}{% set a = 1 %}{{ a }}{% endgeneration %}{{ a is defined }}"), "1False");
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}"), "12");
}

TEST(Jinja, MacroOutlivesTheScopeItWasMadeIn) {
  EXPECT_EQ(rendered("{% set n = namespace() %}{% for i in [7] %}{% macro m() %}{{ i }}{% endmacro %}{% set n.m = m %}"
                     "{% endfor %}{{ n.m() }}"),
            "7");
}

TEST(Jinja, RecursiveLoopOutlivesItsScope) {
  EXPECT_EQ(
      rendered("{% set n = namespace() %}{% with q = 5 %}{% for i in [1] recursive %}{{ i }}{{ q }}{% set n.l = loop %}"
               "{% endfor %}{% endwith %}{{ n.l([2, 3]) }}{{ n.l.length }}"),
      "1525352");
}

TEST(Jinja, NamespaceMayHoldItself) {
  EXPECT_EQ(rendered("{% set n = namespace(a=1) %}{% set n.n = n %}{{ n.n.n.a }}"), "1");
  EXPECT_NE(template_error("{% set n = namespace() %}{% set n.n = n %}{{ n }}").find("nested deeper"),
            std::string::npos);
  EXPECT_NE(
      template_error("{% set n = namespace() %}{% set n.n = [[[[[[[[[[n]]]]]]]]]] %}{{ n }}").find("nested deeper"),
      std::string::npos);
}

TEST(Jinja, RaiseExceptionSpeaksForItself) {
  try {
    rendered("a\n{{ raise_exception('Only user and assistant') }}");
    FAIL() << "nothing was thrown";
  } catch (const TemplateRefused& refused) {
    EXPECT_STREQ(refused.what(), "Only user and assistant");
  }
}

TEST(Jinja, ErrorsNameTheirPlace) {
  EXPECT_EQ(template_error("a\n {{ x.y.z }}"), "template line 2, column 6: 'x' is undefined");
  EXPECT_EQ(template_error("{{ 1 + none }}"), "template line 1, column 6: int + NoneType: no such operation");
  EXPECT_EQ(template_error("{% if 1 %}"),
            "template line 1, column 11: expected the tag \"endif\", found the end of the template");
  EXPECT_EQ(template_error("{{ 1 2 }}"), "template line 1, column 6: expected \"}}\", found \"2\"");
  EXPECT_EQ(template_error("{% set a = [1, 2 %}"), "template line 1, column 19: expected \"]\", found \"}\"");
  EXPECT_EQ(template_error("b{% set a = 1"), "template line 1, column 2: the tag that begins here has no end");
  EXPECT_EQ(template_error("{{ (1] }}"), "template line 1, column 6: expected \")\", found \"]\"");
  EXPECT_EQ(template_error("{{ 'abc }}"), "template line 1, column 4: the string that begins here has no end");
  EXPECT_EQ(template_error("{{ a|bogus }}"), "template line 1, column 6: there is no filter \"bogus\"");
  EXPECT_EQ(template_error("{% include 'a' %}"),
            "template line 1, column 4: the tag \"include\" has no place in a chat template, which is one file");
  EXPECT_EQ(template_error("\xff"), "template: no valid UTF-8 at byte 0");
  EXPECT_EQ(template_error("{{ [].append(1) }}"),
            "template line 1, column 13: access to attribute 'append' of 'list' object is unsafe");
  EXPECT_EQ(template_error("x", "[]"), "template variables: expected an object, found list");
  EXPECT_EQ(template_error("x", "{\"a\":}").substr(0, 47), "template variables: no valid JSON at byte 6, ne");
}

TEST(Jinja, UnknownFilterInsideAnIfIsAnErrorOnlyWhenReached) {
  EXPECT_EQ(rendered("{% if false %}{{ 1|bogus }}{% endif %}ok"), "ok");
  EXPECT_EQ(rendered("{{ (1|bogus) if false else 2 }}"), "2");
  EXPECT_EQ(template_error("{% if true %}{{ 1|bogus }}{% endif %}"),
            "template line 1, column 19: there is no filter \"bogus\"");
  EXPECT_EQ(template_error("{% for x in [] %}{{ 1|bogus }}{% endfor %}"),
            "template line 1, column 23: there is no filter \"bogus\"");
}

TEST(Jinja, WhatIsNotReproducibleIsRefused) {
  for (const char* source :
       {"{{ [1]|random }}", "{{ lipsum() }}", "{{ 'a'.upper }}", "{{ [1]|map('abs') }}", "{{ range }}"})
    EXPECT_EQ(template_error(source).substr(0, 13), "template line") << source;
}

TEST(Jinja, IntegersHave64BitsAndDoNotWrap) {
  EXPECT_EQ(rendered("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}"),
            "9223372036854775807 -9223372036854775808");
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 63 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ (-9223372036854775807 - 1)|abs }}", "{{ 9223372036854775808 }}"})
    EXPECT_NE(template_error(source).find("64 bits"), std::string::npos) << source << ": " << template_error(source);
  EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  // Integers of the input beyond that are passed on as they are.
  EXPECT_EQ(rendered("{{ a }} {{ a|tojson }} {{ b }} {{ a == a }}",
                     R"({"a": 18446744073709551616, "b": 18446744073709551615})"),
            "18446744073709551616 18446744073709551616 18446744073709551615 True");
  EXPECT_NE(template_error("{{ a + 1 }}", R"({"a": 18446744073709551616})").find("64 bits"), std::string::npos);
}

TEST(Jinja, DictsKeepTheirOrderAndTheLastOfTwoKeys) {
  EXPECT_EQ(rendered("{{ d }}", R"({"d": {"b": 1, "a": 2, "b": 3}})"), "{'b': 3, 'a': 2}");
  EXPECT_EQ(rendered("{{ d|tojson }}", R"({"d": {"z": 1.0, "y": [], "x": null}})"),
            R"({"z": 1.0, "y": [], "x": null})");
  EXPECT_EQ(rendered("{{ {1: 'a', true: 'b', 1.0: 'c', '1': 'd'} }}"), "{1: 'c', '1': 'd'}");
}

TEST(Jinja, LargeInputIsNotQuadratic) {
  std::string object = "{\"d\": {", list = "{\"l\": [";
  for (int i = 0; i < 100'000; ++i) {
    object += (i ? ",\"key" : "\"key") + std::to_string(i) + "\": 1";
    list += (i ? ",\"" : "\"") + std::to_string(i) + "\"";
  }
  EXPECT_EQ(rendered("{{ d|length }}{{ d.key99999 }}{{ d.nothing is defined }}", object + "}}"), "1000001False");
  EXPECT_EQ(rendered("{% for x in l %}{% set m = l %}{% if loop.last %}{{ x }}{{ m|length }}{% endif %}{% endfor %}",
                     list + "]}"),
            "99999100000");
}

TEST(Jinja, HostileTemplatesMeetTheirLimits) {
  const TemplateLimits small = {.steps = 100'000, .depth = 50, .output = 1 << 20};
  for (const char* source : {
           "{{ 'a' * 1000000000 }}",
           "{{ ['a'] * 1000000000 }}",
           "{{ 'a' * 9223372036854775807 }}",
           "{{ range(1000000000000) }}",
           "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s='a') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}",
           "{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}",
           "{% set n = namespace(s='a') %}{% for i in range(100) %}{% set n.s = n.s.replace('a', 'aa') %}{% endfor %}",
           "{% set n = namespace(s='a') %}{% for i in range(100) %}{% set n.s = n.s|replace('', 'xxxx') %}{% endfor %}",
           "{% set n = namespace(s='a') %}{% for i in range(100) %}{% set n.s = n.s.join('ab') ~ n.s %}{% endfor %}",
           "{% set n = namespace(l=[]) %}{% for i in range(100) %}{% set n.l = [n.l] %}{% endfor %}",
           "{% set n = namespace(l=[]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
           "{% set n = namespace(l=[], m=[]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, "
           "n.m] %}"
           "{% endfor %}{{ n.l == n.m }}",
           "{% set n = namespace(l=[]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l|tojson "
           "}}",
           "{% set n = namespace(l=[1]) %}{% for i in range(90000) %}{% set n.l = n.l|map('abs') %}{% endfor %}{{ "
           "n.l|list }}",
           "{% set n = namespace() %}{% for i in range(100000) %}{% set n.x = namespace(x=n.x) %}{% endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '%.*f' % (1000000000, 1.0) }}",
           "{{ '{:1000000000}'.format(1) }}",
           "{{ 'a'.center(1000000000) }}",
           "{{ 'a'.zfill(9223372036854775807) }}",
           "{{ '\\t'.expandtabs(9223372036854775807) }}",
           "{{ 'a'|indent(9223372036854775807) }}",
           "{{ [1]|tojson(indent=1000000000) }}",
           "{{ [1]|batch(1000000000, 0)|list }}",
           "{{ 2 ** 9223372036854775807 }}",
           "{{ ('a' * 500000 ~ 'b') in 'a' * 1000000 }}",
           "{{ 1.5|round(9223372036854775807) ~ 'a' * 1000000000 }}",
       })
    EXPECT_EQ(template_error(source, "{}", small).substr(0, 13), "template line") << source;
}

TEST(Jinja, DeepSourceMeetsItsLimit) {
  const auto many = [](const char* text) {
    std::string all;
    for (int i = 0; i < 5'000; ++i) all += text;
    return all;
  };
  for (const std::string& source :
       {"{{ " + many("("), "{{ " + many("[") + many("]") + " }}", "{{ " + many("-") + "1 }}",
        "{{ " + many("not ") + "1 }}", "{{ 1" + many(" + 1") + " }}", "{{ 1" + many("|abs") + " }}",
        "{{ x" + many(".x") + " }}", "{{ x" + many("()") + " }}", "{{ x" + many("[0]") + " }}",
        "{{ 1" + many(" if 1 else 1") + " }}", "{{ 1" + many(" and 1") + " }}", "{{ 2" + many(" ** 1") + " }}",
        many("{% if 1 %}") + many("{% endif %}"), many("{% for x in y %}"),
        "{% set " + many("(") + "a" + many(")") + " = 1 %}", "{{ " + many("{1:")})
    EXPECT_NE(template_error(source).find("template line"), std::string::npos) << source.substr(0, 40);
  EXPECT_EQ(template_error("x", "{\"a\":" + many("[") + "}"), "template variables: nested deeper than 200 levels");
  // Length without depth is not limited.
  EXPECT_EQ(rendered("{{ 1" + many(" ~ ''") + " }}"), "1");
  EXPECT_EQ(rendered("{% if 0 %}" + many("{% elif 0 %}") + "{% else %}x{% endif %}"), "x");
}

TEST(Jinja, UsualTemplatesFitTheLimits) {
  // A macro that follows a schema down, as templates for tools have it.
  EXPECT_EQ(rendered("{% macro m(n) %}{% if n > 0 %}{% for x in [n] %}{{ '(' + m(x - 1) + ')' }}{% endfor %}{% endif "
                     "%}{% endmacro %}"
                     "{{ m(60)|length }}"),
            "120");
}

TEST(Jinja, StrftimeIsUtcAndEnglish) {
  const ChatTemplate all(
      "{{ strftime_now('%Y-%m-%d %H:%M:%S|%a %A %b %B %j %p %I %y %e %U %W %V %G %u %w %% %-d %-m %q') }}");
  EXPECT_EQ(all.render_with("{}", 1767225600),
            "2026-01-01 00:00:00|Thu Thursday Jan January 001 AM 12 26  1 00 00 01 2026 4 4 % 1 1 %q");
  EXPECT_EQ(all.render_with("{}", 951827696),
            "2000-02-29 12:34:56|Tue Tuesday Feb February 060 PM 12 00 29 09 09 09 2000 2 2 % 29 2 %q");
  EXPECT_EQ(all.render_with("{}", -1).substr(0, 19), "1969-12-31 23:59:59");
}

TEST(ChatTemplateInput, FillsTheUsualVariables) {
  const ChatTemplate chat(
      "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ tools is none }}{{ tools }}"
      "{{ add_generation_prompt }}{{ enable_thinking }}{{ eos_token }}");
  TemplateInput input{.messages = R"([{"role": "user", "content": "Hi"}])", .bos = "<s>", .eos = "</s>"};
  EXPECT_EQ(chat.render(input), "<s>user:Hi;TrueNoneTrue</s>");
  input.tools = "[1]";
  input.extra = R"({"enable_thinking": false})";
  input.add_generation_prompt = false;
  EXPECT_EQ(chat.render(input), "<s>user:Hi;False[1]FalseFalse</s>");
  input.extra = "[]";
  EXPECT_THROW(chat.render(input), Error);
  input.extra.clear();
  input.messages = "{}";
  EXPECT_THROW(chat.render(input), Error);
}

using Json = nlohmann::ordered_json;  // keeps the order of members, which templates print

constexpr int64_t new_year_2026 = 1767225600;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  bool operator==(const Outcome&) const = default;
  enum class Kind { text, refused, error } kind;
  std::string text;
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << (outcome.kind == Outcome::Kind::text ? "text: " : "error: ") << outcome.text;
}

Outcome render(const std::string& source, const Json& variables) {
  try {
    return {Outcome::Kind::text, ChatTemplate(source).render_with(variables.dump(), new_year_2026)};
  } catch (const TemplateRefused& refused) {
    return {Outcome::Kind::refused, refused.what()};
  } catch (const Error& error) {
    return {Outcome::Kind::error, error.what()};
  }
}

// Rows of [template, text], or [template] alone where jinja2 fails.
TEST(TemplateCases, SmallOnesAsJinja2) {
  const Json file = Json::parse(read(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/text/data/jinja_cases.json"));
  for (const Json& row : file.at("cases")) {
    const Outcome found = render(row[0], file.at("variables"));
    if (row.size() == 1)
      EXPECT_NE(found.kind, Outcome::Kind::text) << row[0] << " gave " << found;
    else
      EXPECT_EQ(found, (Outcome{Outcome::Kind::text, row[1]})) << row[0];
  }
}

TEST(TemplateCases, RealTemplatesAsJinja2) {
  SHARED_DATA(path, "templates/templates-jinja2-refs.json");
  const Json file = Json::parse(read(path));
  std::map<std::string, int> counts;
  for (const Json& row : file.at("refs")) {
    const std::string name = row.at("template");
    Json variables = {{"messages", file.at("convs").at(row.at("conv").get<std::string>())},
                      {"bos_token", file.at("bos_token")},
                      {"eos_token", file.at("eos_token")},
                      {"add_generation_prompt", file.at("add_generation_prompt")}};
    if (row.at("tools").get<bool>()) variables["tools"] = file.at("tools");
    const Outcome found = render(read(path.parent_path() / "llama.cpp-templates" / name), variables);
    const std::string error = row.value("error", "");
    if (row.contains("expected")) {
      EXPECT_EQ(found, (Outcome{Outcome::Kind::text, row.at("expected")})) << name << " " << row.at("conv");
      ++counts["texts"];
    } else if (error.find("unknown tag 'generation'") != error.npos) {
      // The one difference: plain jinja2 does not know the tag, transformers and heddle do.
      EXPECT_EQ(found.kind, Outcome::Kind::text) << name << ": " << found;
      ++counts["generation"];
    } else if (error.starts_with("TemplateError: ")) {
      EXPECT_EQ(found, (Outcome{Outcome::Kind::refused, error.substr(15)})) << name;
      ++counts["refused"];
    } else {
      EXPECT_EQ(found.kind, Outcome::Kind::error) << name << ": " << error << ", found " << found;
      ++counts["errors"];
    }
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"texts", 373}, {"generation", 24}, {"refused", 2}, {"errors", 9}}));
}

std::string fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ uint8_t(byte)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

// Calls, results, thoughts and documents: the fixture has the conversations and a hash of each text, because the texts
// are too long to keep.
TEST(TemplateCases, AgentsInRealTemplatesAsJinja2) {
  SHARED_DATA(folder, "templates/llama.cpp-templates");
  const Json file =
      Json::parse(read(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/text/data/template_renderings.json"));
  std::map<std::string, int> counts;
  for (const auto& [name, outcomes] : file.at("renderings").items()) {
    const std::string source = read(folder / name);
    for (const auto& [conversation, expected] : outcomes.items()) {
      Json variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_generation_prompt", true}};
      variables.update(file.at("conversations").at(conversation));
      const Outcome found = render(source, variables);
      const std::string kind = found.kind == Outcome::Kind::text      ? fnv1a(found.text)
                               : found.kind == Outcome::Kind::refused ? "refused"
                                                                      : "error";
      EXPECT_EQ(kind, expected) << name << ", " << conversation << ": " << found;
      ++counts[expected == "refused" || expected == "error" ? expected.get<std::string>() : "texts"];
    }
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"texts", 818}, {"refused", 25}, {"error", 109}}));
}

void check_all(const std::filesystem::path& path, const char* source, const char* expected,
               const std::function<Json(const Json&)>& variables, size_t count) {
  const Json cases = Json::parse(read(path));
  EXPECT_EQ(cases.size(), count);
  for (const Json& one : cases)
    EXPECT_EQ(render(one.at(source), variables(one)), (Outcome{Outcome::Kind::text, one.at(expected)}))
        << one.at("name");
}

TEST(TemplateCases, AgreedUnits) {
  SHARED_DATA(path, "templates/agreed-jinja-unit.json");
  check_all(
      path, "template", "expected", [](const Json& one) { return one.at("context"); }, 98);
}
TEST(TemplateCases, AgreedConversations) {
  SHARED_DATA(path, "templates/agreed-jinja-e2e.json");
  check_all(
      path, "chat_template", "target", [](const Json& one) { return one.at("data"); }, 50);
}
TEST(TemplateCases, AgreedChats) {
  SHARED_DATA(path, "templates/agreed-llamacpp-chat-template-cases.json");
  const auto variables = [](const Json& one) {
    Json picked;
    for (const char* name : {"messages", "bos_token", "eos_token", "add_generation_prompt"})
      picked[name] = one.at(name);
    return picked;
  };
  check_all(path, "template", "expected", variables, 24);
}

}  // namespace
