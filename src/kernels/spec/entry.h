// How a spec becomes a line of the catalog: all of it follows from the spec's own constants and fields().
#pragma once
#include "kernels/spec/catalog.h"
#include "kernels/spec/field.h"

namespace heddle::kernels {

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

// A point of the design space under a name of its own; its fields can still be set. Targets: those that every field
// value runs on, unless the preset says another.
template <class Spec>
Entry preset(std::string_view name, std::string_view summary, const Spec& preset,
             std::string_view lowest_target = Spec::lowest_target) {
  Entry e{.name = std::string(name),
          .summary = std::string(summary),
          .spec = std::string(Spec::name),
          .fields = {},
          .build = {},
          .lowest_target = std::string(lowest_target)};
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
Entry entry() {
  return preset(Spec::name, Spec::summary, Spec{});
}

// One function per family, each in its own file.
void add_layer_kernels(std::vector<Entry>& all);
void add_products(std::vector<Entry>& all);
void add_ring_kernels(std::vector<Entry>& all);
void add_attention(std::vector<Entry>& all);

}  // namespace heddle::kernels
