// The catalogue of kernels by name: what `heddle ptx list` shows and `heddle ptx show` prints. An entry follows from
// the spec's own constants and fields().
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/spec/field.h"
#include "ptx/target.h"

namespace heddle::kernels {

struct Entry {
  std::string name, summary;
  std::string spec;  // the spec that this is a preset of; the same as `name` for a spec without presets
  std::vector<std::pair<std::string, std::string>> fields;  // name -> default value as text
  // The fields in `set` take these values, the others their defaults. Throws an Error that names the field and what is
  // allowed if there is no such field or the value is not possible.
  std::function<ptx::Kernel(const std::map<std::string, std::string>& set)> build;
  std::string lowest_target;  // "sm_75"
  std::string file;  // "src/kernels/layer/norm.cpp": where the entry is written, at the end of the kernel's own file
};
const std::vector<Entry>& catalog();

// Whether a kernel with this lowest target runs on `here`: one for an "a" target runs on that architecture alone, any
// other runs on its lowest target and all later ones.
bool runs_on(const std::string& lowest_target, const ptx::Target& here);

template <class Spec>
void set_field(Spec& spec, std::string_view kernel, const std::string& name, const std::string& value) {
  bool found = false;
  std::vector<std::string_view> names;
  each_field<Spec>([&](const auto& field) {
    names.push_back(field.name);
    if (field.name != name) return;
    found = true;
    const auto number = field.allowed.parse(value);
    if (!number)
      throw Error("{}: {} = \"{}\" is not possible; it may be {}", kernel, name, value, field.allowed.text());
    spec.*field.member = *number;
  });
  if (!found) throw Error("{}: there is no field \"{}\"; it has {}", kernel, name, fmt::join(names, ", "));
}

// A spec with chosen field values under a name of its own; its fields can still be set. Its targets are those that
// every field value runs on, unless the preset says another.
template <class Spec>
Entry preset(std::string_view name, std::string_view summary, const Spec& preset,
             std::string_view lowest_target = Spec::lowest_target, const char* file = __builtin_FILE()) {
  Entry e{.name = std::string(name),
          .summary = std::string(summary),
          .spec = std::string(Spec::name),
          .fields = {},
          .build = {},
          .lowest_target = std::string(lowest_target),
          .file = file};
  each_field<Spec>(
      [&](const auto& field) { e.fields.emplace_back(field.name, field.allowed.text(preset.*field.member)); });
  e.build = [preset, kernel = e.name](const std::map<std::string, std::string>& set) {
    Spec spec = preset;
    for (auto& [field, value] : set) set_field(spec, kernel, field, value);
    return spec.build();
  };
  return e;
}
// A kernel under its own name with its defaults.
template <class Spec>
Entry entry(const char* file = __builtin_FILE()) {
  return preset(Spec::name, Spec::summary, Spec{}, Spec::lowest_target, file);
}

}  // namespace heddle::kernels
