// heddle ptx: the kernels of a catalog listed, shown as text, and checked. Throws Error naming what is not known.
#pragma once
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "kernels/spec/catalog.h"

namespace heddle {

void list_kernels(const std::vector<kernels::Entry>& catalog, std::ostream& out);

// {"columns=4096"} -> {{"columns", "4096"}}
std::map<std::string, std::string> parse_settings(const std::vector<std::string>& settings);

// The PTX text of one kernel and nothing else, so that it can be redirected to a file. target "": the lowest.
void show_kernel(const std::vector<kernels::Entry>& catalog, const std::string& name, const std::string& target,
                 const std::map<std::string, std::string>& settings, std::ostream& out);

// Builds and verifies each kernel for each target from its lowest on, assembles it where ptxas is on PATH, and prints a
// table. False when one is refused, does not assemble, spills registers, or has its matrix instructions serialised.
// No names: all kernels. No targets: all targets.
bool check_kernels(const std::vector<kernels::Entry>& catalog, const std::vector<std::string>& names,
                   const std::vector<std::string>& targets, std::ostream& out);

}  // namespace heddle
