// Every kernel heddle can build, by name: what `heddle ptx list` shows and `heddle ptx print` makes.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptx/target.h"

namespace heddle::kernels {

struct Entry {
  std::string name, summary;
  std::string spec;  // the generator this is a preset of; the same as `name` where it has one point only
  std::vector<std::pair<std::string, std::string>> fields;  // name -> default value as text
  // The fields in `set` take these values, the others their defaults. Throws an Error that names the field and what is
  // allowed if there is no such field or the value is not possible.
  std::function<ptx::Kernel(const std::map<std::string, std::string>& set)> build;
  std::string lowest_target;  // "sm_75"
};
const std::vector<Entry>& catalog();

// Whether a kernel with this lowest target runs on `here`: one for an "a" target uses what only that architecture has,
// any other runs from its lowest target on.
bool runs_on(const std::string& lowest_target, const ptx::Target& here);

}  // namespace heddle::kernels
