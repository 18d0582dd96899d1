#include "text/template.h"

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

}  // namespace

struct ChatTemplate::Impl {
  std::string render(Dict variables, int64_t now) const {
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

std::string ChatTemplate::render(const TemplateInput& input) const {
  const TemplateLimits& limits = impl_->limits;
  const auto list_or_none = [&](const std::string& text, const char* where) {
    return text.empty() ? Value::none() : read_json(text, where, limits, Kind::list, "a list");
  };
  Dict variables;
  const auto set = [&](const char* name, Value value) { variables.set(jinja::string_value(name), std::move(value)); };
  set("messages", read_json(input.messages, "messages", limits, Kind::list, "a list"));
  set("tools", list_or_none(input.tools, "tools"));
  set("documents", Value::none());
  set("add_generation_prompt", Value(input.add_generation_prompt));
  set("bos_token", jinja::string_value(input.bos));
  set("eos_token", jinja::string_value(input.eos));
  if (!input.extra.empty()) {
    const Value extra = read_json(input.extra, "template variables", limits, Kind::dict, "an object");
    for (const auto& [name, value] : extra.dict().items) variables.set(name, value);
  }
  return impl_->render(std::move(variables), input.now);
}

std::string ChatTemplate::render_with(std::string_view variables, int64_t now) const {
  const Value parsed = read_json(variables, "template variables", impl_->limits, Kind::dict, "an object");
  return impl_->render(parsed.dict(), now);
}

}  // namespace heddle::text
