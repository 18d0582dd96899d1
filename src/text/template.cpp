#include "text/template.h"

#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/parser.h"

namespace heddle::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;

Value read_json(std::string_view text, const char* where, const TemplateLimits& limits, Kind kind, const char* what) {
  Value value = jinja::parse_json(text, where, limits.depth);
  if (!value.is(kind)) throw Error("{}: expected {}, found {}", where, what, jinja::type_name(value));
  return value;
}

// Templates write tokens around a role, and some with it: '<|' + role + '|>'. Only these have such tokens.
bool is_usual_role(std::string_view role) {
  constexpr std::string_view roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
  return std::find(std::begin(roles), std::end(roles), role) != std::end(roles);
}

Value with_own_roles(const Value& messages) {
  jinja::List list = messages.list();
  for (Value& message : list.items) {
    const Value* role = message.is(Kind::dict) ? message.dict().find(std::string_view("role")) : nullptr;
    if (!role || !role->is(Kind::string) || !is_usual_role(role->text())) continue;
    Dict changed = message.dict();
    changed.set(jinja::string_value("role"), jinja::own_string(role->text()));
    message = Value(std::make_shared<const Dict>(std::move(changed)));
  }
  return Value(Kind::list, std::make_shared<const jinja::List>(std::move(list)));
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Text render(Dict variables, int64_t now) const {
    return jinja::Machine(ast, limits, std::move(variables), now).run();
  }
  jinja::Ast ast;
  TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::string_view source, TemplateLimits limits)
    : impl_(new Impl{jinja::parse(source, limits.depth), limits}) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

RenderedTemplate ChatTemplate::render_ranges(const TemplateInput& input) const {
  const TemplateLimits& limits = impl_->limits;
  const auto list_or_none = [&](const std::string& text, const char* where) {
    return text.empty() ? Value::none() : read_json(text, where, limits, Kind::list, "a list");
  };
  Dict variables;
  const auto set = [&](const char* name, Value value) { variables.set(jinja::string_value(name), std::move(value)); };
  set("messages", with_own_roles(read_json(input.messages, "messages", limits, Kind::list, "a list")));
  set("tools", list_or_none(input.tools, "tools"));
  set("documents", Value::none());
  set("add_generation_prompt", Value(input.add_generation_prompt));
  set("bos_token", jinja::own_string(input.bos));
  set("eos_token", jinja::own_string(input.eos));
  if (!input.extra.empty()) {
    const Value extra = read_json(input.extra, "template variables", limits, Kind::dict, "an object");
    for (const auto& [name, value] : extra.dict().items) variables.set(name, value);
  }
  jinja::Text text = impl_->render(std::move(variables), input.now);
  TextRanges given = other_ranges(text.own, text.text.size());
  return {std::move(text.text), std::move(given)};
}

std::string ChatTemplate::render_with(std::string_view variables, int64_t now) const {
  const Value parsed = read_json(variables, "template variables", impl_->limits, Kind::dict, "an object");
  return impl_->render(parsed.dict(), now).text;
}

}  // namespace heddle::text
