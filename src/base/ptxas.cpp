// Runs ptxas without a shell and reads the numbers out of its -v log.
#include "base/ptxas.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// A new folder, removed with its contents.
struct TemporaryFolder {
  fs::path path;

  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "heddle-ptxas-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error("cannot make a temporary folder {}: {}", name, std::strerror(errno));
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

// "" when ptxas is not on PATH.
std::string find_ptxas() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, colon)) / "ptxas";
    if (access(candidate.c_str(), X_OK) == 0) return candidate.string();
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return "";
}

// Exit status of `argv`, its stdout and stderr together in the file `log`.
int run(std::vector<std::string> argv, const fs::path& log) {
  std::vector<char*> pointers;
  for (std::string& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failure = posix_spawn(&child, argv[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure) throw Error("cannot run {}: {}", argv[0], std::strerror(failure));

  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Error("waiting for {}: {}", argv[0], std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Every number that stands directly before `unit` in `log`: "Used 24 registers" with unit " registers" gives 24.
std::vector<uint32_t> numbers_before(std::string_view log, std::string_view unit) {
  std::vector<uint32_t> numbers;
  for (size_t at = log.find(unit); at != log.npos; at = log.find(unit, at + 1)) {
    size_t start = at;
    while (start > 0 && log[start - 1] >= '0' && log[start - 1] <= '9') --start;
    uint32_t number = 0;
    if (std::from_chars(log.data() + start, log.data() + at, number).ec == std::errc()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

bool ptxas_found() { return !find_ptxas().empty(); }

Assembled ptxas_result(bool ok, std::string log) {
  Assembled result{.ok = ok, .log = std::move(log)};
  while (!result.log.empty() && result.log.back() == '\n') result.log.pop_back();
  for (uint32_t registers : numbers_before(result.log, " registers"))
    result.registers = std::max(result.registers, registers);
  for (const char* unit : {" bytes spill stores", " bytes spill loads"})
    for (uint32_t bytes : numbers_before(result.log, unit)) result.spill_bytes += bytes;
  result.serialized =
      result.log.find("serialized") != result.log.npos || result.log.find("serialization") != result.log.npos;
  return result;
}

Assembled assemble(const std::string& text, const std::string& target) {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) throw Error("ptxas is not on PATH");

  const TemporaryFolder folder;
  const fs::path source = folder.path / "kernel.ptx", log = folder.path / "log";
  if (!(std::ofstream(source, std::ios::binary) << text).flush()) throw Error("cannot write {}", source.string());

  const bool ok = run({ptxas, "-v", "--warn-on-spills", "-arch=" + target, "-o",
                       (folder.path / "kernel.cubin").string(), source.string()},
                      log) == 0;
  std::ifstream in(log, std::ios::binary);
  std::string written(std::istreambuf_iterator<char>(in), {});
  // messages name the file: "kernel.ptx, line 7" is enough, without the temporary folder
  const std::string prefix = folder.path.string() + "/";
  for (size_t at; (at = written.find(prefix)) != written.npos;) written.erase(at, prefix.size());
  return ptxas_result(ok, std::move(written));
}

}  // namespace heddle
