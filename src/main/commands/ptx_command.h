// heddle ptx: lists the kernels of a catalog, prints one as PTX, and checks them. An unknown name is an Error.
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

// Prints the PTX of one kernel and nothing else, so that it can be redirected. target "": the kernel's lowest.
void show_kernel(const std::vector<kernels::Entry>& catalog, const std::string& name, const std::string& target,
                 const std::map<std::string, std::string>& settings, std::ostream& out);

// Builds and verifies each kernel for each target from its lowest on, assembles it if ptxas is on PATH, and prints a
// table. False if one is refused, does not assemble, spills registers, or has its matrix instructions serialised.
// Empty names: all kernels. Empty targets: all targets. Shows its progress if `err` is the terminal.
bool check_kernels(const std::vector<kernels::Entry>& catalog, const std::vector<std::string>& names,
                   const std::vector<std::string>& targets, std::ostream& out, std::ostream& err);

}  // namespace heddle
