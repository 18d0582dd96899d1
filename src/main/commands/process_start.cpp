// Field 22 of /proc/self/stat: ticks between the start of the system and that of the process.
#include "main/commands/process_start.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace heddle {

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_end = text.rfind(')');  // the name is field 2 and may hold anything
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  if (name_end == std::string::npos || ticks_per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9 - ticks / double(ticks_per_second);
}

}  // namespace heddle
