// How benches say how evenly something went.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace heddle {

// Of values in any order, the smallest that a part q of them is not above; 0 where there are none.
double quantile(std::vector<double>& values, double q);
nlohmann::ordered_json spread_of(std::vector<double>& seconds);                   // p50, p90, p99 and max
std::string spread_text(const nlohmann::ordered_json& spread);                    // "p50 1.0 ms, p90 ..."
std::string ms_text(double seconds);                                              // "1.0 ms"
void print_figure(std::ostream& out, const char* name, const std::string& text);  // a line of a table

}  // namespace heddle
