// heddle serve: models behind an OpenAI-compatible API, until a signal stops it.
#pragma once
#include <iosfwd>

#include "main/serve/serve_options.h"

namespace heddle {

// Writes events to `err` and a line of JSON for each request to `out`. Returns after SIGINT or SIGTERM: 0 if all
// running requests were finished, 1 if some were cut off.
int serve(const ServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle
