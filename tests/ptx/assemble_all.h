// Many kernels in one run of ptxas: starting it takes about 10 ms, which is longer than most kernels need.
// Every kernel still gets its own answer, as if it had been assembled alone.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ptxas.h"

namespace heddle::ptx {

inline void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// One printed kernel as the entry number n of a module: its name and the names of its memory end in n.
// `text` must be printed without .loc lines, because the numbers of .file hold for a whole module.
inline std::string module_entry(const std::string& text, size_t n) {
  const std::string_view mark = ".entry ";
  const size_t body = text.find('\n', text.find(".address_size")) + 1;
  const size_t name = text.find(mark) + mark.size();
  std::string entry = text.substr(body, name - body) + fmt::format("entry_{}", n) +
                      text.substr(std::min(text.find('(', name), text.size()));
  for (const std::string memory : {"smem", "constants"}) replace_all(entry, memory, fmt::format("{}_{}", memory, n));
  return entry;
}

// The lines of a -v log by the entry they are about: every line names its function or follows one that does.
inline std::map<std::string, std::string> log_by_entry(const std::string& log) {
  std::map<std::string, std::string> logs;
  std::string current;
  for (size_t at = 0, end; at < log.size(); at = end + 1) {
    end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (const size_t name = line.find("entry_"); name != line.npos)
      current = line.substr(name, line.find_first_not_of("0123456789", name + 6) - name);
    logs[current] += line + "\n";
  }
  return logs;
}

// Which lines of a refused module have errors: line -> the messages.
inline std::map<size_t, std::string> errors_by_line(const std::string& log) {
  std::map<size_t, std::string> errors;
  const std::string_view mark = "kernel.ptx, line ";
  for (size_t at = log.find(mark); at != log.npos; at = log.find(mark, at + 1)) {
    const std::string_view message(log.data() + at, std::min(log.find('\n', at), log.size()) - at);
    size_t line = 0;
    const char* number = message.data() + mark.size();
    const auto [rest, failed] = std::from_chars(number, message.data() + message.size(), line);
    if (failed == std::errc() && message.find("error") != message.npos) errors[line] += std::string(message) + "\n";
  }
  return errors;
}

// What assemble() says of each of `texts`, which are printed without .loc lines for `target`; texts of one PTX version
// share a run. ptxas reports every error with its line, so a refused module names its refused entries; the others run
// again without them, and one by one if ptxas names none.
inline std::vector<Assembled> assemble_all(const std::vector<std::string>& texts, const std::string& target) {
  std::vector<Assembled> results(texts.size());
  std::map<std::string, std::vector<size_t>> modules;  // header -> the texts that share it
  for (size_t n = 0; n < texts.size(); ++n) modules[texts[n].substr(0, texts[n].find(".address_size"))].push_back(n);

  for (auto& [header, members] : modules) {
    while (members.size() > 1) {
      std::string module = header + ".address_size 64\n";
      std::vector<size_t> first_lines;  // of each member's entry
      size_t line = size_t(std::count(module.begin(), module.end(), '\n')) + 1;
      for (size_t n : members) {
        const std::string body = module_entry(texts[n], n);
        first_lines.push_back(line);
        line += size_t(std::count(body.begin(), body.end(), '\n'));
        module += body;
      }
      const Assembled all = assemble(module, target);
      if (all.ok) {
        auto logs = log_by_entry(all.log);
        for (size_t n : members) results[n] = ptxas_result(true, logs[fmt::format("entry_{}", n)]);
        members.clear();
        break;
      }
      std::vector<bool> refused(members.size());
      for (const auto& [at, message] : errors_by_line(all.log)) {
        const auto after = std::upper_bound(first_lines.begin(), first_lines.end(), at);
        if (after == first_lines.begin()) continue;  // the header's own
        const size_t member = size_t(after - first_lines.begin()) - 1;
        refused[member] = true;
        results[members[member]].log += message;
      }
      std::vector<size_t> others;
      for (size_t i = 0; i < members.size(); ++i)
        if (!refused[i]) others.push_back(members[i]);
      if (others.size() == members.size()) break;
      members = others;
    }
    for (size_t n : members) results[n] = assemble(texts[n], target);
  }
  return results;
}

}  // namespace heddle::ptx
