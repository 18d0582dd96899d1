// How much memory there is for this process, and how much it has.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// Bytes that can be had without pushing others out: what the system says is available, or less where a control group
// sets a limit. 0 where nothing says so.
uint64_t available_memory();

uint64_t peak_memory();     // the most that this process had, in bytes
void forget_peak_memory();  // counts from now on, where the system lets it

// The number after `key` in a text of lines "Key:   123 kB", in bytes; 0 if it is not there.
uint64_t kilobytes_at(std::string_view text, std::string_view key);

std::string bytes_text(double bytes);  // "4.9 GB"

}  // namespace heddle
