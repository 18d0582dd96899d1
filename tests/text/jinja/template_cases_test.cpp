// Templates and their texts as others rendered them: our own selection judged by jinja2, and the reference data.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/shared_data.h"
#include "text/template.h"

namespace {
using heddle::Error;
using heddle::text::ChatTemplate;
using heddle::text::TemplateRefused;
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
