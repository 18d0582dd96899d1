// The program without its main(), so that tests can call it: arguments and standard input in, both outputs and the exit
// status out.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace heddle {

// The exit status: 0 success, 1 an error (its reason is on `err`), 2 arguments that were not understood.
int run_command_line(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace heddle
