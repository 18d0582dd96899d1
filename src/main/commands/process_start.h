// How long this process has been there.
#pragma once

namespace heddle {

// Seconds since the process was started, to about 10 ms; 0 where the system does not tell.
double seconds_since_process_start();

}  // namespace heddle
