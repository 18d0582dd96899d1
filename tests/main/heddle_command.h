// The program as a call.
#pragma once
#include <sstream>
#include <string>
#include <vector>

#include "main/commands/command_line.h"

namespace heddle::test {

inline const std::string weft = HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf";

struct Result {
  int status;
  std::string out, err;
};
inline Result heddle(const std::vector<std::string>& arguments, const std::string& input = {}) {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int status = run_command_line(arguments, in, out, err);
  return {status, out.str(), err.str()};
}

}  // namespace heddle::test
