// The program without its main(): what the user typed and piped in, what he sees out, so that tests can try it by
// value.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace heddle {

// The exit status: 0 done, 1 refused or failed (the reason is on `err`), 2 not understood.
int run_command_line(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace heddle
