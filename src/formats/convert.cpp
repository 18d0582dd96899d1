// The keys in the order in which people read them.
#include "formats/convert.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "formats/quantize.h"

namespace heddle::formats {
namespace {

// The default template, and those with a name ("tool_use") where tokenizer_config.json has a list.
void put_templates(Metadata& to, const Checkpoint& checkpoint) {
  if (const std::string text = checkpoint.chat_template(); !text.empty()) to.set("tokenizer.chat_template", text);
  if (checkpoint.text.tokenizer_config.empty()) return;
  const Json config = parse_json(checkpoint.text.tokenizer_config, checkpoint.path.string() + "/tokenizer_config.json");
  const auto list = config.find("chat_template");
  if (list == config.end() || !list->is_array()) return;
  std::vector<std::string> names;
  for (const Json& entry : *list) {  // chat_template() above has checked that they are objects with a name and a text
    const std::string name = entry.value("name", "");
    if (name == "default") continue;
    names.push_back(name);
    to.set("tokenizer.chat_template." + name, checkpoint.chat_template(name));
  }
  if (!names.empty()) to.set("tokenizer.chat_templates", Array::of(names));
}

}  // namespace

Metadata converted_metadata(const Checkpoint& checkpoint) {
  const std::string source = checkpoint.path.string();
  if (!checkpoint.unknown_class.empty())
    throw Error("{}: config.json: a model of class {}, which heddle does not know", source, checkpoint.unknown_class);
  if (!checkpoint.metadata.find("general.architecture"))
    throw Error("{}: expected a config.json beside the weights, found none", source);

  uint64_t values = 0, expert_values = 0;
  for (const Tensor& tensor : checkpoint.tensors) {
    values += tensor.values();
    if (tensor.name.find("_exps.") != std::string::npos) expert_values += tensor.values();
  }
  const std::string architecture(checkpoint.architecture());
  const uint64_t experts = checkpoint.metadata.find_integer(architecture + ".expert_count").value_or(0);

  Metadata result(source);
  result.set("general.architecture", architecture);
  result.set("general.type", std::string("model"));
  if (const auto name = checkpoint.metadata.find_string("general.name")) result.set("general.name", std::string(*name));
  result.set("general.size_label", size_label(values, expert_values, experts));
  for (const auto& [key, value] : checkpoint.metadata.all())
    if (!result.find(key)) result.set(key, value);
  put_templates(result, checkpoint);
  return result;
}

}  // namespace heddle::formats
