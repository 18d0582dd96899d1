// The slow half of check(): out of line, so that a check costs one branch where it stands.
#include "base/error.h"

namespace heddle {

void check_failed(std::string_view message, const char* file, int line) {
  throw std::logic_error(fmt::format("{}:{}: check failed: {}", file, line, message));
}

}  // namespace heddle
