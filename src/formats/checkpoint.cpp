// What every checkpoint can be asked, whichever format it came from.
#include "formats/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace heddle::formats {

uint64_t Tensor::values() const {
  uint64_t product = 1;
  for (const uint64_t n : shape) product *= n;
  return product;
}
uint64_t Tensor::rows() const { return values() / shape.at(0); }
uint64_t Tensor::bytes() const { return rows() * quant::row_bytes(format, shape.at(0)); }

std::span<const uint8_t> Tensor::data(std::vector<uint8_t>& scratch) const {
  if (!produce) {
    check(view.size() == bytes(), "a tensor has a view of its data, or produces them");
    return view;
  }
  scratch.resize(bytes());
  produce(scratch);
  return scratch;
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files) sum += file->bytes().size();
  return sum;
}

std::string_view Checkpoint::architecture() const {
  if (const auto name = metadata.find_string("general.architecture")) return *name;
  if (kind == Kind::gguf) throw Error("{}: expected the key general.architecture, found none", path.string());
  if (unknown_class.empty()) throw Error("{}: expected a config.json beside the weights, found none", path.string());
  throw Error("{}: config.json: heddle does not know the model class {}", path.string(), in_quotes(unknown_class));
}

void Checkpoint::index() {
  places_.clear();
  unreadable_places_.clear();
  const auto twice = [this](const std::string& name) {
    throw Error("{}: tensor {}: there are two of this name", path.string(), in_quotes(name));
  };
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!places_.emplace(tensors[i].name, i).second) twice(tensors[i].name);
  for (size_t i = 0; i < unreadable.size(); ++i)
    if (places_.contains(unreadable[i].name) || !unreadable_places_.emplace(unreadable[i].name, i).second)
      twice(unreadable[i].name);
}

const Tensor* Checkpoint::find(std::string_view name) const {
  if (const auto place = places_.find(name); place != places_.end()) return &tensors[place->second];
  if (const auto place = unreadable_places_.find(name); place != unreadable_places_.end())
    throw Error("{}: tensor {} {}, which heddle does not read", path.string(), name, unreadable[place->second].reason);
  return nullptr;
}

std::string Checkpoint::not_read() const {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(3, unreadable.size()); ++i)
    names += fmt::format("{} {} {}", i ? "," : "; not read:", unreadable[i].name, unreadable[i].reason);
  if (unreadable.size() > 3) names += fmt::format(" and {} more", unreadable.size() - 3);
  return names;
}

const Tensor& Checkpoint::tensor(std::string_view name) const {
  if (const Tensor* found = find(name)) return *found;
  throw Error("{}: tensor {}: expected, but not among the {} that are there{}", path.string(), name, tensors.size(),
              not_read());
}

namespace {

// tokenizer_config.json's chat_template: a text, or a list of {"name": ..., "template": ...}.
std::string template_of_config(const Json& config, std::string_view name, std::string_view where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return name.empty() ? found->get<std::string>() : std::string();
  const auto text = [&](const Json& entry, const char* key) -> const std::string& {
    const auto value = entry.is_object() ? entry.find(key) : entry.end();
    if (value == entry.end() || !value->is_string())
      throw Error("{}: chat_template: expected a string, or a list of objects with a name and a template, found {}",
                  where, in_quotes(entry.dump()));
    return value->get_ref<const std::string&>();
  };
  if (!found->is_array()) text(*found, "name");
  for (const Json& entry : *found)
    if (text(entry, "name") == (name.empty() ? "default" : name)) return text(entry, "template");
  return {};
}

}  // namespace

std::string Checkpoint::chat_template(std::string_view name) const {
  if (name == "default") name = {};
  if (kind == Kind::gguf) {
    const std::string key = name.empty() ? "tokenizer.chat_template" : fmt::format("tokenizer.chat_template.{}", name);
    return std::string(metadata.find_string(key).value_or(""));
  }
  if (name.empty() && !text.chat_template.empty()) return text.chat_template;
  if (text.tokenizer_config.empty()) return {};
  const std::string where = fmt::format("{}: tokenizer_config.json", path.string());
  const Json config = parse_json(text.tokenizer_config, where);
  if (!config.is_object()) throw Error("{}: expected an object, found {}", where, config.type_name());
  return template_of_config(config, name, where);
}

}  // namespace heddle::formats
