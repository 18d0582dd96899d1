// "a.b.0": the attribute argument of sort, map, groupby and others.
#pragma once
#include <vector>

#include "text/jinja/machine.h"

namespace heddle::text::jinja {

class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);  // missing or none: the item itself
  // `standard` stands for what is undefined on the way, if it is given.
  Value get(Machine& machine, Value item, const Value& standard = {}) const;

 private:
  std::vector<Value> parts_;
};

Value ignore_case(Machine& machine, const Value& value);  // a string in lower case, anything else as it is

}  // namespace heddle::text::jinja
