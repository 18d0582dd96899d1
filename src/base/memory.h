// The memory that is available to this process, and the memory that it takes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// Bytes that can be allocated without swapping: what the system reports as available, or less where a control group
// sets a limit. 0: unknown.
uint64_t available_memory();

uint64_t peak_memory();     // the peak of this process, in bytes
void forget_peak_memory();  // the peak counts from now on, where the system supports it

// The number after `key` in a text of lines "Key:   123 kB", in bytes; 0 if it is not there.
uint64_t kilobytes_at(std::string_view text, std::string_view key);

std::string bytes_text(double bytes);  // "4.9 GB"
// "8GB", "1.5GiB", "500MB", "64KiB" or "4096" (bytes): units of 1000 or, with an i, of 1024. An Error that begins with
// `what` otherwise.
uint64_t bytes_named(const std::string& text, const std::string& what);

}  // namespace heddle
