// What is wrong with a key is said without saying the key.
#include "main/serve/api_keys.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <ostream>

#include "base/error.h"

namespace heddle {
namespace {

void expect_sendable(const std::string& key, const std::string& where) {
  const bool good = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (!good) throw Error("{}: expected a key of printable ASCII characters without spaces, found another", where);
}

std::vector<std::string> keys_in(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("--api-key-file {}: cannot be read", path);
  std::vector<std::string> keys;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    keys.push_back(line.substr(first, last + 1 - first));
    expect_sendable(keys.back(), path + " line " + std::to_string(number));
  }
  if (keys.empty()) throw Error("--api-key-file {}: expected a key in a line of its own, found none", path);
  return keys;
}

}  // namespace

std::vector<std::string> api_keys(const std::vector<std::string>& given, const std::string& file, std::ostream& err) {
  std::vector<std::string> keys = given;
  for (const std::string& key : given) expect_sendable(key, "--api-key");
  if (file.empty()) return keys;
  for (std::string& key : keys_in(file)) keys.push_back(std::move(key));
  struct stat about {};
  if (::stat(file.c_str(), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH)))
    err << "warning: " << file << " can be read by others: chmod 600 would keep its keys secret" << std::endl;
  return keys;
}

}  // namespace heddle
