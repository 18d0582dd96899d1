// The program as a call, and as a process for what a call cannot show: statuses by signal, full disks, terminals.
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "main/commands/command_line.h"
#include "tests/support/program.h"

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

inline std::string shell_quoted(const std::string& text) {  // for a shell
  std::string result = "'";
  for (char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

struct Ran {
  int status;       // of the shell
  std::string out;  // standard output and error
};
inline Ran shell(const std::string& command) {
  FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (!pipe) return {-1, ""};
  std::string out;
  std::array<char, 4096> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) out.append(piece.data(), size);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

inline const std::string program = shell_quoted(program_path());

}  // namespace heddle::test
