// What a completion must be, by the field names of OpenAI's API, vLLM and llama.cpp. Schemas are read from the body
// once more, because the order of their keys is that of the text to come.
#include <nlohmann/json.hpp>

#include "server/api/openai/openai.h"

namespace heddle::server {
namespace {

using grammar::Source;
using Kind = Source::Kind;

constexpr size_t max_choices = 10'000;

// The value at a path of member names, with the keys of its objects in the order of the body.
std::string ordered_text(std::string_view body, std::initializer_list<std::string_view> path) {
  nlohmann::ordered_json value = nlohmann::ordered_json::parse(body);
  for (const std::string_view name : path) {
    nlohmann::ordered_json inner = std::move(value[std::string(name)]);
    value = std::move(inner);
  }
  return value.dump();
}

class ConstraintReader {
 public:
  ConstraintReader(Fields& fields, std::string_view body) : fields_(fields), body_(body) {}

  std::optional<ConstraintField> read() {
    read_response_format();
    read_guided();
    read_structured_outputs();
    if (const auto text = fields_.text("grammar"); text && !text->empty()) set("grammar", Kind::gbnf_or_lark, *text);
    if (const Json* schema = fields_.find("json_schema"))
      set_json("json_schema", Kind::json_schema, *schema, {"json_schema"});
    return std::move(found_);
  }

 private:
  using Path = std::initializer_list<std::string_view>;

  void set(std::string place, Kind kind, std::string text) {
    if (found_)
      throw ApiError(400, "invalid_value", place, "{}: expected one constraint, found {} as well", place,
                     found_->field);
    found_ = {{kind, std::move(text)}, std::move(place)};
  }

  // Also as a string, as vLLM takes it.
  void set_json(const std::string& place, Kind kind, const Json& value, Path path) {
    if (value.is_string()) return set(place, kind, value.get<std::string>());
    if (!value.is_object() && !value.is_boolean()) throw unexpected(place, "a schema, or its text", value);
    set(place, kind, ordered_text(body_, path));
  }

  void set_choices(const std::string& place, const Json& list) {
    size_t index = 0;
    for (const Json& choice : list_at(list, place, max_choices)) text_at(choice, element(place, index++));
    set(place, Kind::choices, list.dump());
  }

  void read_response_format() {
    const Json* value = fields_.find("response_format");
    if (!value) return;
    Fields format(*value, "response_format", fields_);
    const std::string type = text_at(format.at("type"), format.place("type"));
    if (type == "json_object") {
      if (const Json* schema = format.find("schema"))
        set_json(format.place("schema"), Kind::json_schema, *schema, {"response_format", "schema"});
      else
        set("response_format", Kind::json_schema, R"({"type":"object"})");
    } else if (type == "json_schema") {
      read_named_schema(format);
    } else if (type == "structural_tag") {
      return set("response_format", Kind::structural_tag, ordered_text(body_, {"response_format"}));
    } else if (type != "text") {
      throw unexpected(format.place("type"), "text, json_object, json_schema or structural_tag", type, "invalid_value");
    }
    format.finish();
  }

  // {"json_schema": {"name": ..., "schema": ...}}; llama.cpp takes the schema without a name. It is kept whether or not
  // it is asked for strictly.
  void read_named_schema(Fields& format) {
    if (const Json* schema = format.find("schema"))
      return set_json(format.place("schema"), Kind::json_schema, *schema, {"response_format", "schema"});
    Fields named(format.at("json_schema"), format.place("json_schema"), format);
    named.text("name");
    named.text("description");
    named.flag("strict");
    set_json(named.place("schema"), Kind::json_schema, named.at("schema"),
             {"response_format", "json_schema", "schema"});
    named.finish();
  }

  void read_guided() {
    if (const Json* schema = fields_.find("guided_json"))
      set_json("guided_json", Kind::json_schema, *schema, {"guided_json"});
    if (auto pattern = fields_.text("guided_regex")) set("guided_regex", Kind::regex, std::move(*pattern));
    if (const Json* list = fields_.find("guided_choice")) set_choices("guided_choice", *list);
    if (auto text = fields_.text("guided_grammar")) set("guided_grammar", Kind::gbnf_or_lark, std::move(*text));
    fields_.text("guided_decoding_backend");  // there is one
    refuse_spaces(fields_, "guided_whitespace_pattern");
  }

  void read_structured_outputs() {
    const Json* value = fields_.find("structured_outputs");
    if (!value) return;
    Fields inner(*value, "structured_outputs", fields_);
    if (const Json* schema = inner.find("json"))
      set_json(inner.place("json"), Kind::json_schema, *schema, {"structured_outputs", "json"});
    if (auto pattern = inner.text("regex")) set(inner.place("regex"), Kind::regex, std::move(*pattern));
    if (const Json* list = inner.find("choice")) set_choices(inner.place("choice"), *list);
    if (auto text = inner.text("grammar")) set(inner.place("grammar"), Kind::gbnf_or_lark, std::move(*text));
    if (inner.flag_or("json_object", false)) set(inner.place("json_object"), Kind::json_schema, R"({"type":"object"})");
    if (const Json* tag = inner.find("structural_tag"))
      set_json(inner.place("structural_tag"), Kind::structural_tag, *tag, {"structured_outputs", "structural_tag"});
    inner.text("_backend");
    inner.flag("_backend_was_auto");
    inner.flag("disable_fallback");
    for (const std::string_view name : {"disable_any_whitespace", "disable_additional_properties"})
      if (inner.flag_or(name, false)) throw unexpected(inner.place(name), "false", true, "unsupported_value");
    refuse_spaces(inner, "whitespace_pattern");
    inner.finish();
  }

  static void refuse_spaces(Fields& fields, std::string_view name) {
    if (const Json* pattern = fields.find(name))
      throw unexpected(fields.place(name), "null: white space is as JSON allows it", *pattern, "unsupported_value");
  }

  Fields& fields_;
  std::string_view body_;
  std::optional<ConstraintField> found_;
};

}  // namespace

std::optional<ConstraintField> read_constraint(Fields& fields, std::string_view body) {
  return ConstraintReader(fields, body).read();
}

}  // namespace heddle::server
