// The list of kernels: one line each. All else follows from the spec's own constants and fields().
#include "kernels/catalog.h"

#include <charconv>

#include "kernels/gemv.h"
#include "kernels/norm.h"

namespace heddle::kernels {
namespace {

template <class Spec>
void set_field(Spec& spec, const std::string& name, const std::string& value) {
  bool found = false;
  std::vector<std::string_view> names;
  each_field<Spec>([&](const auto& field) {
    names.push_back(field.name);
    if (field.name != name) return;
    found = true;
    uint32_t number = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || !field.allowed.has(number))
      throw Error("{}: {} = \"{}\" is not possible; it may be {}", Spec::name, name, value, field.allowed.text());
    spec.*field.member = number;
  });
  if (!found) throw Error("{}: there is no field \"{}\"; it has {}", Spec::name, name, fmt::join(names, ", "));
}

template <class Spec>
Entry entry() {
  Entry e{.name = std::string(Spec::name),
          .summary = std::string(Spec::summary),
          .fields = {},
          .build = {},
          .lowest_target = std::string(Spec::lowest_target)};
  each_field<Spec>(
      [&](const auto& field) { e.fields.emplace_back(field.name, fmt::format("{}", Spec{}.*field.member)); });
  e.build = [](const std::map<std::string, std::string>& set) {
    Spec spec;
    for (auto& [name, value] : set) set_field(spec, name, value);
    return spec.build();
  };
  return e;
}

}  // namespace

const std::vector<Entry>& catalog() {
  static const std::vector<Entry> all{
      entry<RmsNorm>(),
      entry<Q4KGemv>(),
  };
  return all;
}

}  // namespace heddle::kernels
