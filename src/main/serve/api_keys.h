// Keys that clients of a server have to show: from the command line and from a file.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace heddle {

// `given` and those of the file, where there is one: a key in each line, but for empty ones and those that begin with
// #. Throws an Error for a file without a key, and for a key that no client could send. Says on `err` if others can
// read the file.
std::vector<std::string> api_keys(const std::vector<std::string>& given, const std::string& file, std::ostream& err);

}  // namespace heddle
