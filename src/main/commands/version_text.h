// What a report of a fault should say about the program and the machine.
#pragma once
#include <string>

namespace heddle {

// One line, "heddle 0.1.0"; `verbose`: and a line each for the commit, the compiler, the C library, the instruction
// sets, the driver and the GPUs. Has no line end.
std::string version_text(bool verbose);

// The day of the commit that was built, "2026-11-17"; empty where it is unknown.
std::string version_date();

}  // namespace heddle
