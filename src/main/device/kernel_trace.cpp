// Kernels are timed one after the other, so that one row shows all.
#include "main/device/kernel_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace heddle {
namespace {

double gigabytes_per_second(uint64_t bytes, double seconds) { return seconds > 0 ? double(bytes) / seconds / 1e9 : 0; }

}  // namespace

std::string trace_json(std::span<const model::KernelTime> times) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const model::KernelTime& time : times)
    events.push_back({{"name", time.phase.empty() ? time.kernel : time.phase + " " + time.kernel},
                      {"cat", time.phase},
                      {"ph", "X"},
                      {"ts", time.start * 1e6},
                      {"dur", time.seconds * 1e6},
                      {"pid", 0},
                      {"tid", 0},
                      {"args",
                       {{"layer", time.layer},
                        {"phase", time.phase},
                        {"kernel", time.kernel},
                        {"bytes", time.bytes},
                        {"GB/s", gigabytes_per_second(time.bytes, time.seconds)}}}});
  const nlohmann::ordered_json file{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return file.dump(1) + "\n";
}

std::string trace_table(std::span<const model::KernelTime> times) {
  struct Phase {
    std::string name;
    uint64_t calls = 0, bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, Phase> by_name;
  Phase all{"all"};
  for (const model::KernelTime& time : times) {
    Phase& phase = by_name[time.phase];
    phase.name = time.phase;
    for (Phase* to : {&phase, &all}) ++to->calls, to->bytes += time.bytes, to->seconds += time.seconds;
  }
  std::vector<Phase> phases;
  for (auto& [name, phase] : by_name) phases.push_back(phase);
  std::sort(phases.begin(), phases.end(), [](const Phase& a, const Phase& b) { return a.seconds > b.seconds; });
  phases.push_back(all);
  size_t width = 5;
  for (const Phase& phase : phases) width = std::max(width, phase.name.size());
  std::string text = fmt::format("{:{}}  {:>9}  {:>12}  {:>7}  {:>9}  {:>15}  {:>7}\n", "phase", width, "calls", "us",
                                 "share", "us each", "bytes", "GB/s");
  for (const Phase& phase : phases)
    text += fmt::format("{:{}}  {:>9}  {:>12.1f}  {:>6.1f}%  {:>9.2f}  {:>15}  {:>7.0f}\n", phase.name, width,
                        phase.calls, phase.seconds * 1e6, all.seconds > 0 ? 100 * phase.seconds / all.seconds : 0,
                        phase.calls ? phase.seconds * 1e6 / double(phase.calls) : 0, phase.bytes,
                        gigabytes_per_second(phase.bytes, phase.seconds));
  return text;
}

}  // namespace heddle
