// The least edit distance, within a third of the name.
#include "main/commands/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace heddle {
namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return result;
}

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const std::string wanted = lower_case(name);
  const size_t bare = std::min(wanted.find_first_not_of('-'), wanted.size());  // dashes are nothing to be near by
  std::string best;
  size_t least = wanted.size() - bare < 2 ? 1 : std::max<size_t>(2, (wanted.size() - bare) / 3 + 1);
  for (const std::string& each : known) {
    const std::string other = lower_case(each);
    size_t distance = edit_distance(wanted, other);
    const size_t shorter = std::min(wanted.size(), other.size());
    if (shorter >= bare + 3 && wanted.compare(0, shorter, other, 0, shorter) == 0)
      distance = std::min<size_t>(distance, 1);
    if (distance >= least) continue;
    least = distance;
    best = each;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string meant = nearest(name, known);
  return meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
}

}  // namespace heddle
